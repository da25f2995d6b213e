//! The model gateway through the binary: real agent programs, walls, keys, a gateway that runs alone, a death in the middle
//! of a call. What the programs ask is answered by scripted models; nothing leaves this machine.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use self::support::{Running, World, lines, until};

/// Asks the gateway once, for so many tokens of output, and prints the whole answer.
const ASK: &str = r#"ask() {
  exec 3<>/dev/tcp/127.0.0.1/3129
  body="{\"model\":\"$ORC_MODEL\",\"max_tokens\":$1,\"messages\":[{\"role\":\"user\",\"content\":\"$2\"}]}"
  printf 'POST /v1/messages HTTP/1.1\r\nhost: gateway\r\nx-api-key: %s\r\ncontent-type: application/json\r\ncontent-length: %s\r\nconnection: close\r\n\r\n%s' "$ANTHROPIC_API_KEY" "${#body}" "$body" >&3
  cat <&3
  exec 3>&-
}
"#;
/// Answers whoever asks. A million tokens of output of this model cost 25 dollars, of input 5.
const SCRIPT: &str = "\
tracks:
  slow:
    match: { prompt: slow }
    turns: [{ delay: 1h, text: Late. }]
  fast:
    repeat: last
    turns: [{ text: Hello., usage: { input: 1000, output: 4000 } }]
";

/// A repository whose models are scripted, and an agent that is a shell script with `ask`.
fn world(script: &str) -> World {
    let world = World::new();
    world.write("orchestrator.yaml", "providers: { scripted: { script: models/tests.yaml } }\n");
    world.write("models/tests.yaml", SCRIPT);
    agent(&world, "claude-opus-4-5", script);
    world
}

fn agent(world: &World, model: &str, script: &str) {
    let script = format!("{ASK}{script}").replace('\n', "\n    ");
    let text = format!(
        "---\nadapter: command\ncommand:\n  - bash\n  - -uc\n  - |\n    {script}\nmodel: {model}\n---\nYou ask.\n"
    );
    world.write("agents/asker.md", &text);
}

fn pipeline(world: &World, text: &str) {
    world.write("pipelines/p.yaml", &format!("name: p\n{text}"));
    world.commit();
}

fn costs(world: &World, by: &str) -> Vec<Value> {
    world.json(&["costs", "--by", by])["lines"].as_array().unwrap().clone()
}

/// A program of `cargo xtask setup`.
fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/agent-programs/bin").join(name);
    path.canonicalize().unwrap_or_else(|error| panic!("no {name}: {error}; run `cargo xtask setup`"))
}

/// Two programs of the npm registry that write a file and run a command, each by its own protocol.
fn programs(world: &World) {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models");
    for name in ["claude-code.yaml", "codex.yaml"] {
        world.write(&format!("models/{name}"), &std::fs::read_to_string(models.join(name)).unwrap());
    }
    world.write(
        "orchestrator.yaml",
        "providers:\n  claude: { script: models/claude-code.yaml, protocols: [anthropic-messages] }\n  \
         codex: { script: models/codex.yaml, protocols: [openai-responses] }\n",
    );
    let claude = program("claude");
    let profile = json!({
        "adapter": "command",
        "command": [&claude, "-p", "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5"],
        "model": "claude-sonnet-4-5",
        "env": {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        "box": { "read": [&claude] },
    });
    world.write("agents/claude.md", &format!("---\n{profile}\n---\nYou write code.\n"));
    let codex = program("codex");
    let provider = "model_providers.gateway={name=\"gateway\",base_url=\"http://127.0.0.1:3129/v1\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}";
    let profile = json!({
        "adapter": "command",
        "command": [
            &codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
            "-c", "model_provider=\"gateway\"", "-c", provider, "-c", "analytics.enabled=false", "-m", "gpt-5-codex", "-",
        ],
        "model": "gpt-5-codex",
        "box": { "read": [codex.parent().unwrap()] },
    });
    world.write("agents/codex.md", &format!("---\n{profile}\n---\nYou write code.\n"));
}

#[test]
fn real_programs_work_in_boxes_without_network_and_every_token_of_theirs_is_in_the_ledger() {
    let world = World::new();
    programs(&world);
    let step = |agent: &str| {
        format!(
            "  {agent}:\n    agent: {agent}\n    prompt: Write greeting.txt.\n    artifacts: {{ made: greeting.txt }}\n"
        )
    };
    pipeline(&world, &format!("steps:\n{}{}", step("claude"), step("codex")));
    world.run_to(0, &["run", "p"]);
    let flow = world.flow_of("p").unwrap();
    for (_, step) in world.steps(&flow) {
        let made = step["artifacts"]["made"]["file"].as_str().unwrap_or_else(|| panic!("{step}"));
        assert_eq!(lines(made), ["hello"]);
    }
    let told: Vec<(String, u64, Value)> = costs(&world, "agent")
        .iter()
        .map(|line| {
            (line["agent"].as_str().unwrap().to_owned(), line["calls"].as_u64().unwrap(), line["tokens"].clone())
        })
        .collect();
    let tokens = |input: u64, cache_write: u64, cache_read: u64, output: u64, reasoning: u64| {
        json!({ "input": input, "cache_write": cache_write, "cache_write_long": 0, "cache_read": cache_read,
                "output": output, "reasoning": reasoning, "total": input + cache_write + cache_read + output + reasoning })
    };
    // As the scripts have them, turn by turn.
    let claude = ("claude".to_owned(), 3, tokens(1_700, 8_000, 16_300, 112, 8));
    let codex = ("codex".to_owned(), 3, tokens(1_700, 0, 2_300, 97, 15));
    assert_eq!(told, [claude, codex]);
    let runs = world.json(&["runs", "list"]);
    let used: u64 =
        runs["runs"].as_array().unwrap().iter().map(|run| run["agent"]["usage"]["calls"].as_u64().unwrap()).sum();
    assert_eq!(used, 6, "{runs}");
}

#[test]
fn a_program_at_the_wall_of_its_flow_ends_at_once_and_nothing_is_spent_beyond_it() {
    let world = World::new();
    programs(&world);
    // One answer of the first turn fits, with its input at the worst price; a second does not.
    let steps = "steps:\n  claude: { agent: claude, prompt: Write greeting.txt., timeout: 110s }\n";
    pipeline(&world, &format!("budget: {{ usd: 0.80, on_exhausted: fail }}\n{steps}"));
    let said = world.run(&["run", "p"]);
    let flow = world.flow_of("p").unwrap();
    assert_eq!(world.outcome(&flow), "budget_exhausted", "{}\n{}", said.out, said.err);
    let spent: u64 = costs(&world, "flow").iter().map(|line| line["cost_usd_micros"].as_u64().unwrap()).sum();
    assert!(spent <= 800_000, "{spent}");
}

#[test]
fn at_a_wall_that_waits_a_person_raises_it_and_the_step_runs_again() {
    // The file says whether this is the first time.
    let world = world(
        "answer=$(ask 8000 hello); echo \"$answer\" | head -n 1; case $answer in *'200 OK'*) ;; *) exit 1 ;; esac\nanswer=$(ask 8000 again); echo \"$answer\"; case $answer in *'200 OK'*) ;; *) exit 1 ;; esac",
    );
    // The first call costs 0.105 and has 0.22 reserved; a second one is lowered, a third refused until the wall moves.
    pipeline(
        &world,
        "budget: { usd: 0.22, on_exhausted: { wait: 1h } }\nsteps:\n  one: { agent: asker, prompt: Go. }\n  two: { agent: asker, prompt: Go., needs: one }\n",
    );
    let running = world.start(&["run", "p"]);
    until("it has begun", || world.flow_of("p").is_some());
    let request = || {
        let open = world.json(&["approvals", "list"]);
        open["requests"].as_array().and_then(|open| open.first().map(|one| one["id"].as_str().unwrap().to_owned()))
    };
    until("somebody is asked to raise the wall", || request().is_some());
    let flow = world.flow_of("p").unwrap();
    until("the run has ended", || world.ends(&flow).values().any(|state| state == "ready"));
    for _ in 0..20 {
        if let Some(id) = request() {
            world.run_to(0, &["approvals", "approve", &id]);
        }
        let (before, id) = (world.ends(&flow), flow.clone());
        until("it goes on, or asks again", || {
            world.outcome(&id) == "succeeded" || request().is_some() || world.ends(&id) != before
        });
        if world.outcome(&flow) == "succeeded" {
            break;
        }
    }
    let said = running.wait();
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.err);
    let limits = world.json(&["flows", "show", &flow]);
    let spent: u64 = costs(&world, "flow").iter().map(|line| line["cost_usd_micros"].as_u64().unwrap()).sum();
    assert!(spent >= 4 * 105_000, "four answers came: {spent} {limits}");
}

#[test]
fn what_cannot_have_a_way_to_a_model_says_why_before_anything_starts() {
    let rows = [
        ("worktree: in_place\n", 3, "claude-opus-4-5", "", "a step in your own checkout has no box"),
        (
            "",
            1,
            "gpt-unknown",
            "providers: { scripted: { script: models/tests.yaml, models: ['claude-*'] }, openai: { key: { env: NO_SUCH_KEY } } , anthropic: { models: ['claude-*'] } }\n",
            "`openai` has no key: the variable NO_SUCH_KEY is not set",
        ),
        (
            "",
            1,
            "mistral",
            "providers: { scripted: { script: models/tests.yaml, models: ['claude-*'] }, openai: { models: ['gpt-*'] }, anthropic: { models: ['claude-*'] } }\n",
            "no provider has the model `mistral`",
        ),
    ];
    for (keys, code, model, settings, wanted) in rows {
        let world = world("echo started");
        agent(&world, model, "echo started");
        if !settings.is_empty() {
            world.write("orchestrator.yaml", settings);
        }
        pipeline(&world, &format!("{keys}steps:\n  one: {{ agent: asker, prompt: Go. }}\n"));
        let said = world.run_to(code, &["run", "p"]);
        assert!(
            [&said.out, &said.err].iter().any(|text| text.contains(wanted)),
            "{wanted}\n{}\n{}",
            said.out,
            said.err
        );
        assert!(!said.out.contains("started\n"), "{}", said.out);
    }
}

#[test]
fn the_key_of_a_provider_enters_no_box_and_stands_in_no_file() {
    const KEY: &str = "sk-ant-0123456789-never-to-be-seen";
    let world = world("env; ask 100 hello");
    world.write(
        "orchestrator.yaml",
        "providers: { scripted: { script: models/tests.yaml } }\nsecrets: { MINE: { env: ANTHROPIC_API_KEY } }\n",
    );
    let rows = [("", 0), ("box: { env: [ANTHROPIC_API_KEY] }\n", 1), ("box: { secrets: [MINE] }\n", 1)];
    for (rules, code) in rows {
        let step = if rules.contains("secrets") { "run: env" } else { "agent: asker, prompt: Go." };
        pipeline(&world, &format!("{rules}steps:\n  one: {{ {step} }}\n"));
        let output = world.command(&["run", "p"]).env("ANTHROPIC_API_KEY", KEY).output().unwrap();
        let said = support::said(&output);
        assert_eq!(said.code, Some(code), "{rules}\n{}\n{}", said.out, said.err);
        assert!(code == 0 || said.out.contains("key of a provider"), "{}", said.out);
        assert!(!said.out.contains(KEY) && !said.err.contains(KEY));
    }
    let flow = world.flow_of("p").unwrap();
    let mut logs = String::new();
    for flow in world.json(&["flows", "list"])["flows"].as_array().unwrap() {
        logs.push_str(&world.run(&["logs", flow["id"].as_str().unwrap()]).out);
    }
    assert!(logs.contains("ANTHROPIC_BASE_URL=http://127.0.0.1:3129"), "{flow}: {logs}");
    assert!(logs.contains("ANTHROPIC_API_KEY=***"), "the token of a run is no key, and no log shows it: {logs}");
    let mut seen = 0;
    visit(&world.data(), &mut |bytes| {
        seen += 1;
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()));
    });
    assert!(seen > 3);
}

fn visit(directory: &Path, look: &mut dyn FnMut(&[u8])) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let about = entry.file_type().unwrap();
        if about.is_dir() {
            visit(&entry.path(), look);
        } else if about.is_file() {
            look(&std::fs::read(entry.path()).unwrap_or_default());
        }
    }
}

/// One request at a gateway that runs alone; the whole answer.
fn ask(port: u16, token: &str, prompt: &str) -> String {
    let body =
        json!({ "model": "claude-opus-4-5", "max_tokens": 5000, "messages": [{ "role": "user", "content": prompt }] });
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Starts a gateway; its port and token.
fn gateway(world: &World, args: &[&str]) -> (Running, u16, String) {
    let file = world.path().join("variables");
    let args: Vec<&str> = ["gateway"].into_iter().chain(args.iter().copied()).collect();
    let running = world.start_into(&file, &args);
    let variable = |name: &str| {
        let prefix = format!("export {name}=");
        lines(&file).iter().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
    };
    until("it listens", || variable("OPENAI_API_KEY").is_some());
    let base = variable("ANTHROPIC_BASE_URL").unwrap();
    let port = base.rsplit_once(':').unwrap().1.parse().unwrap();
    (running, port, variable("ANTHROPIC_API_KEY").unwrap())
}

#[test]
fn a_gateway_alone_meters_any_program_and_keeps_its_wall_over_restarts() {
    let world = world("");
    world.commit();
    let (running, port, token) = gateway(&world, &["--usd", "0.25", "--agent", "editor"]);
    assert!(ask(port, "wrong", "hello").starts_with("HTTP/1.1 401"));
    let answer = ask(port, &token, "hello");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("Hello."), "{answer}");
    // Beside it nobody else writes; flows are carried on by it.
    let said = world.run(&["gateway"]);
    assert!(said.err.contains("is held by"), "{}", said.err);
    running.signal(rustix::process::Signal::INT);
    let said = running.wait();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("1 call") && said.err.contains("$0.105"), "{}", said.err);
    let (running, port, token) = gateway(&world, &["--usd", "0.25", "--agent", "editor"]);
    let mut refused = String::new();
    for _ in 0..5 {
        refused = ask(port, &token, "hello");
        if !refused.starts_with("HTTP/1.1 200") {
            break;
        }
    }
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("permission_error"), "{refused}");
    running.signal(rustix::process::Signal::TERM);
    running.wait();
    let editor = &costs(&world, "agent")[0];
    assert_eq!(
        (editor["agent"].as_str(), editor["cost_usd_micros"].as_u64()),
        (Some("editor"), Some(210_000)),
        "a third answer would cross the wall"
    );
    assert!(world.run(&["gateway", "--usd", "much"]).err.contains("is no amount of dollars"));
}

#[test]
fn a_call_in_flight_when_everything_dies_counts_with_all_that_was_set_aside() {
    let world = world("ask 1000 slow");
    pipeline(&world, "steps:\n  one: { agent: asker, prompt: Go., retry: { attempts: 1 } }\n");
    let running = world.start(&["run", "p"]);
    until("it has begun", || world.flow_of("p").is_some());
    until("a call is in flight", || {
        costs(&world, "agent").first().is_some_and(|line| line["in_flight_calls"].as_u64() == Some(1))
    });
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    agent(&world, "claude-opus-4-5", "ask 1000 hello");
    let flow = world.flow_of("p").unwrap();
    // The flow pinned the slow agent: what is looked at is what the next holder finds.
    let next = world.start(&["resume", "--all"]);
    until("it is lost", || {
        costs(&world, "flow").first().is_some_and(|line| line["lost_tokens"].as_u64().unwrap() > 3_000)
    });
    until("its flow knows", || {
        let runs = world.json(&["runs", "list", "--flow", &flow]);
        runs["runs"].as_array().unwrap().iter().any(|run| run["attempt"] == 1 && run["agent"]["usage"]["calls"] == 1)
    });
    next.signal(rustix::process::Signal::TERM);
    next.signal(rustix::process::Signal::TERM);
    next.wait();
    let line = &costs(&world, "flow")[0];
    assert!(line["estimated_usd_micros"].as_u64().unwrap() > 0, "{line}");
}

/// A provider on this machine that answers each call with the figures that its question names, as `INPUT OUTPUT`. Its end
/// waits for those that are connected.
struct Liar {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    fn new() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let serve = move || {
            std::thread::scope(|scope| {
                for stream in listener.incoming().flatten().take_while(|_| !ended.load(Ordering::SeqCst)) {
                    let name = "a connection of a provider".to_owned();
                    std::thread::Builder::new().name(name).spawn_scoped(scope, || lie(stream)).unwrap();
                }
            });
        };
        let thread = std::thread::Builder::new().name("a provider".to_owned()).spawn(serve).unwrap();
        Self { port, ends, thread: Some(thread) }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// One connection; a program that opens one without asking anything closes it itself.
fn lie(mut stream: TcpStream) -> Option<()> {
    let (mut request, mut piece) = (String::new(), [0; 65_536]);
    let body: Value = loop {
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        request.push_str(&String::from_utf8_lossy(&piece[..read]));
        let body = request.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
        if let Some(body) = body {
            break body;
        }
    };
    let (input, output) = body["messages"][0]["content"].as_str()?.split_once(' ')?;
    let usage = format!("{{\"input_tokens\":{input},\"output_tokens\":{output}}}");
    let answer =
        format!("{{\"type\":\"message\",\"id\":\"m\",\"content\":[],\"stop_reason\":\"end_turn\",\"usage\":{usage}}}");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all((head + &answer).as_bytes()).ok()
}

#[test]
fn a_provider_that_counts_more_than_a_call_could_use_is_believed_and_told_of() {
    let world = World::new();
    let liar = Liar::new();
    let port = liar.port;
    world.write(
        "orchestrator.yaml",
        &format!("providers: {{ liar: {{ protocols: [anthropic-messages], base_url: 'http://127.0.0.1:{port}' }} }}\n"),
    );
    world.commit();
    let (running, port, token) = gateway(&world, &["--usd", "1"]);
    assert!(ask(port, &token, "20 8").starts_with("HTTP/1.1 200"));
    // Figures that no call can have are not believed; what was seen counts.
    for absurd in ["-5 -100000", "1000000000000000000 10000000000000000000", "\"many\" 1.5"] {
        assert!(ask(port, &token, absurd).starts_with("HTTP/1.1 200"), "{absurd}");
    }
    let cost = |world: &World| costs(world, "agent")[0]["cost_usd_micros"].as_u64().unwrap();
    until("they are settled", || costs(&world, "agent")[0]["in_flight_calls"] == 0);
    assert!(cost(&world) < 20_000, "{}", cost(&world));
    assert_eq!(world.json(&["incidents"])["incidents"], json!([]));
    // A figure that can be true is a bill, however unlikely: 60,000 tokens where 5,000 were asked for.
    assert!(ask(port, &token, "50 60000").starts_with("HTTP/1.1 200"));
    until("it is settled", || costs(&world, "agent")[0]["in_flight_calls"] == 0);
    assert!(cost(&world) > 1_500_000, "{}", cost(&world));
    let incidents = world.json(&["incidents"]);
    assert_eq!(incidents["incidents"][0]["kind"], "billed", "{incidents}");
    let what = incidents["incidents"][0]["what"].as_str().unwrap();
    assert!(what.contains("the provider `liar`") && what.contains("60050 tokens, of $"), "{what}");
    let refused = ask(port, &token, "20 8");
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("of $1.00 are used"), "{refused}");
    running.signal(rustix::process::Signal::TERM);
    let said = running.wait();
    assert!(said.err.contains("counts more than its call could use"), "{}", said.err);
    assert!(said.err.contains("refused at the wall `usd`: $1.5"), "{}", said.err);
}

#[test]
fn the_token_of_a_gateway_is_no_key_of_a_provider_and_stands_in_no_cassette() {
    let world = world("ask 100 \"hello, my key is $ANTHROPIC_API_KEY\"");
    world.write("orchestrator.yaml", "providers: { scripted: { script: models/tests.yaml, record: tapes } }\n");
    pipeline(&world, "steps:\n  one: { agent: asker, prompt: Go. }\n");
    world.run_to(0, &["run", "p"]);
    let (mut tapes, mut said) = (0, String::new());
    visit(&world.repo().join("tapes"), &mut |bytes| {
        tapes += 1;
        said.push_str(&String::from_utf8_lossy(bytes));
    });
    assert_eq!(tapes, 1);
    assert!(said.contains("my key is ****") && !said.contains("sk-orc-"), "{said}");
    // In a terminal that still has the variables of a gateway.
    world.write("orchestrator.yaml", "slots: 1\n");
    world.commit();
    let token = format!("sk-orc-{}", "0a".repeat(32));
    let output = world.command(&["run", "p"]).env("ANTHROPIC_API_KEY", &token).output().unwrap();
    let said = support::said(&output);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("is the token of a model gateway") && !said.out.contains(&token), "{}", said.out);
}
