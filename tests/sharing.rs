//! What flows share: places in concurrency groups, slots, and what a flow may use of time and of agents; over the processes
//! that started them.

#![expect(clippy::unwrap_used, reason = "a document without what it must have fails its test")]

mod support;

use rustix::process::Signal;
use support::{Gate, Running, World, lines, until};

/// A world whose pipelines write when they begin and end; each stands at a gate of its own in between.
struct Flows {
    world: World,
    gates: Vec<(String, Gate)>,
}

impl Flows {
    fn new(concurrency: &str, names: &[&str]) -> Self {
        let world = World::new();
        let gates = names.iter().map(|name| {
            let steps = format!(
                "steps: {{ it: {{ run: 'echo {name} begins >> journal; read x < {name}.gate; echo {name} ends >> journal' }} }}\nfinally: {{ last: {{ run: 'echo {name} is over >> journal' }} }}\n"
            );
            world.pipeline(name, &format!("{concurrency}\n{steps}"));
            ((*name).to_owned(), Gate::named(&world, &format!("{name}.gate")))
        });
        let gates = gates.collect();
        Self { world, gates }
    }

    fn journal(&self) -> Vec<String> {
        lines(self.world.repo().join("journal"))
    }

    fn says(&self, what: &str) -> bool {
        self.journal().iter().any(|line| line == what)
    }

    fn open(&mut self, name: &str) {
        let (_, gate) = self.gates.iter_mut().find(|(known, _)| known == name).unwrap();
        gate.open();
    }

    /// Starts one that begins at once.
    fn begin(&self, name: &str, args: &[&str]) -> Running {
        let running = self.world.start(&[&["run", name][..], args].concat());
        until("it begins", || self.says(&format!("{name} begins")));
        running
    }

    /// Starts one that has to wait in the queue of its group.
    fn queue(&self, name: &str) -> Running {
        let running = self.world.start(&["run", name]);
        until("it is queued", || self.world.flow_of(name).is_some_and(|flow| self.world.outcome(&flow) == "queued"));
        running
    }

    fn assert_sound(&self) {
        assert_eq!(self.world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
        assert_eq!(self.world.run_to(0, &["flows", "list", "--live"]).err, "no flow is unfinished\n");
    }
}

const ONE: &str = "concurrency: { group: house, limit: 1 }";

#[test]
fn a_group_lets_one_in_after_the_other_in_the_order_they_came() {
    let mut flows = Flows::new(ONE, &["a", "b", "c"]);
    let a = flows.begin("a", &[]);
    let b = flows.queue("b");
    let c = flows.queue("c");
    let explained = flows.world.run_to(0, &["explain", &flows.world.flow_of("b").unwrap()]).out;
    let holder = flows.world.flow_of("a").unwrap();
    assert!(explained.contains("`house` is full") && explained.contains(&holder), "{explained}");
    flows.open("c");
    flows.open("b");
    flows.open("a");
    for running in [b, c, a] {
        let said = running.wait();
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
    let wanted = ["a", "b", "c"].map(|name| ["begins", "ends", "is over"].map(|what| format!("{name} {what}")));
    assert_eq!(flows.journal(), wanted.concat());
    flows.assert_sound();
}

#[test]
fn a_group_of_two_lets_two_in() {
    let mut flows = Flows::new("concurrency: { group: house, limit: 2 }", &["a", "b", "c"]);
    let a = flows.begin("a", &[]);
    let b = flows.begin("b", &[]);
    let c = flows.queue("c");
    flows.open("b");
    until("the third begins", || flows.says("c begins"));
    assert!(!flows.says("a ends"));
    flows.open("a");
    flows.open("c");
    for running in [a, b, c] {
        assert_eq!(running.wait().code, Some(0));
    }
    flows.assert_sound();
}

#[test]
fn one_that_skips_does_not_run_and_says_why() {
    let mut flows = Flows::new("concurrency: { group: house, limit: 1, on_limit: skip }", &["a", "b"]);
    let a = flows.begin("a", &[]);
    let b = flows.world.run(&["run", "b"]);
    assert_eq!(b.code, Some(130), "{}", b.err);
    let skipped = flows.world.flow_of("b").unwrap();
    assert_eq!(flows.world.outcome(&skipped), "cancelled");
    let explained = flows.world.run_to(0, &["explain", &skipped]).out;
    assert!(explained.contains("skipped: the concurrency group `house` was full"), "{explained}");
    assert!(flows.world.ends(&skipped).values().all(|word| word == "cancelled"));
    flows.open("a");
    assert_eq!(a.wait().code, Some(0));
    assert_eq!(flows.journal(), ["a begins", "a ends", "a is over"], "also its `finally` did not run");
    flows.open("b");
    flows.world.run_to(0, &["run", "b"]);
    flows.assert_sound();
}

#[test]
fn one_that_cancels_those_that_run_waits_until_they_are_over() {
    let mut flows = Flows::new("concurrency: { group: house, limit: 1, on_limit: cancel_running }", &["a", "b"]);
    let a = flows.begin("a", &[]);
    flows.open("b");
    let b = flows.world.run(&["run", "b"]);
    assert_eq!((a.wait().code, b.code), (Some(130), Some(0)), "{}", b.err);
    assert_eq!(flows.journal(), ["a begins", "a is over", "b begins", "b ends", "b is over"]);
    flows.assert_sound();
}

#[test]
fn a_queue_survives_whoever_held_it() {
    let mut flows = Flows::new(ONE, &["a", "b"]);
    let a = flows.begin("a", &[]);
    let b = flows.queue("b");
    a.signal(Signal::KILL);
    a.wait();
    assert_eq!(b.wait().code, Some(8));
    let resumed = flows.world.start(&["resume", "--all"]);
    until("the first is done again", || flows.journal() == ["a begins", "a begins"]);
    flows.open("b");
    flows.open("a");
    assert_eq!(resumed.wait().code, Some(0));
    let wanted = ["a begins", "a begins", "a ends", "a is over", "b begins", "b ends", "b is over"];
    assert_eq!(flows.journal(), wanted);
    flows.assert_sound();
}

#[test]
fn a_cancelled_flow_in_the_queue_is_not_waited_for() {
    let mut flows = Flows::new(ONE, &["a", "b", "c"]);
    let a = flows.begin("a", &[]);
    let b = flows.queue("b");
    let c = flows.queue("c");
    flows.world.run_to(0, &["cancel", &flows.world.flow_of("b").unwrap()]);
    assert_eq!(b.wait().code, Some(130));
    flows.open("c");
    flows.open("a");
    assert_eq!((a.wait().code, c.wait().code), (Some(0), Some(0)));
    assert!(flows.says("c ends") && !flows.says("b begins") && !flows.says("b is over"));
    flows.assert_sound();
}

#[test]
fn steps_of_several_flows_share_the_places_of_a_group() {
    let world = World::new();
    let step = |name: &str| {
        format!(
            "steps: {{ it: {{ concurrency: {{ group: 'house-${{{{ flow.pipeline == \"z\" }}}}', limit: 1 }}, run: 'echo {name} in >> journal; read x < gate; echo {name} out >> journal' }}, free: {{ run: 'echo {name} free >> free' }} }}\n"
        )
    };
    for name in ["a", "b"] {
        world.pipeline(name, &step(name));
    }
    let mut gate = Gate::new(&world);
    let a = world.start(&["run", "a", "--slots", "4"]);
    until("the first is in", || lines(world.repo().join("journal")) == ["a in"]);
    let b = world.start(&["run", "b"]);
    until("a step without a group is not held", || lines(world.repo().join("free")).contains(&"b free".to_owned()));
    let flow = world.flow_of("b").unwrap();
    let explained = world.run_to(0, &["explain", &flow, "--step", "it"]).out;
    assert!(explained.contains("`house-false` is full"), "{explained}");
    gate.open();
    until("the second is in", || lines(world.repo().join("journal")).len() == 3);
    gate.open();
    assert_eq!((a.wait().code, b.wait().code), (Some(0), Some(0)));
    assert_eq!(lines(world.repo().join("journal")), ["a in", "a out", "b in", "b out"]);
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
}

#[test]
fn an_empty_name_of_a_group_makes_nobody_wait_for_all() {
    let world = World::new();
    world.pipeline(
        "a",
        "inputs: { key: { type: string } }\nconcurrency: { group: '${{ inputs.key }}' }\nsteps: { it: { run: 'true' } }\n",
    );
    let said = world.run_to(1, &["run", "a", "--input", "key="]);
    let flow = world.flow_of("a").unwrap();
    let explained = world.run_to(0, &["explain", &flow]).out;
    assert!(explained.contains("a group's name is one line of 1 to 200 bytes"), "{explained}\n{}", said.out);
    world.run_to(0, &["run", "a", "--input", "key=x"]);
}

#[test]
fn what_is_more_urgent_goes_first_when_slots_are_short() {
    let mut flows = Flows::new("", &["first"]);
    let mark = |name: &str, priority: &str| {
        flows.world.pipeline(name, &format!("steps: {{ it: {{ {priority}run: 'echo {name} >> journal' }} }}\n"));
    };
    mark("low", "priority: -5, ");
    mark("plain", "");
    mark("high", "priority: 5, ");
    let first = flows.begin("first", &["--slots", "1"]);
    let waits = |name: &str, args: &[&str]| {
        let running = flows.world.start(&[&["run", name][..], args].concat());
        until("it waits for the slot", || {
            let flow = flows.world.flow_of(name);
            flow.is_some_and(|flow| flows.world.ends(&flow)["it"] == "ready")
        });
        running
    };
    // `plain` twice: the command line can make one of them the most urgent of all.
    let running = [waits("low", &[]), waits("plain", &[]), waits("high", &[]), waits("low", &["--priority", "50"])];
    flows.open("first");
    assert_eq!(first.wait().code, Some(0));
    for running in running {
        assert_eq!(running.wait().code, Some(0));
    }
    let order: Vec<String> = flows.journal().into_iter().filter(|line| !line.starts_with("first")).collect();
    assert_eq!(order, ["low", "high", "plain", "low"]);
}

#[test]
fn a_flow_that_took_its_time_ends_out_of_budget() {
    let world = World::new();
    world.pipeline(
        "slow",
        concat!(
            "budget: { time: 200ms }\n",
            "steps:\n  a: { run: 'echo $$ > pid; read x < gate' }\n  b: { needs: a, run: 'echo b >> journal' }\n",
            "finally: { end: { run: 'echo ${{ flow.outcome }} >> journal' } }\n",
        ),
    );
    let _gate = Gate::new(&world);
    let said = world.run_to(6, &["run", "slow"]);
    let flow = world.flow_of("slow").unwrap();
    assert_eq!(world.outcome(&flow), "budget_exhausted");
    let ends = world.ends(&flow);
    assert_eq!((ends["a"].as_str(), ends["b"].as_str(), ends["end"].as_str()), ("cancelled", "cancelled", "succeeded"));
    assert_eq!(lines(world.repo().join("journal")), ["budget_exhausted"]);
    assert!(said.out.contains("slow budget_exhausted"), "{}", said.out);
    let explained = world.run_to(0, &["explain", &flow]).out;
    assert!(explained.contains("its budget of `time` was reached"), "{explained}");
}

/// A flow that may call models twice, whose agent calls three times; then the flow waits for somebody.
fn at_the_wall(wait: &str) -> World {
    let world = World::new();
    world.write("agents/caller.md", "---\nadapter: command\ncommand: [sh, agent.sh]\n---\nWork.\n");
    let script = "cat > /dev/null; echo \"$ORC_STEP\" >> journal; echo '{\"type\":\"usage\",\"calls\":3,\"input\":5}'; echo done\n";
    world.write("agent.sh", script);
    world.pipeline(
        "costly",
        &format!(
            "budget: {{ model_calls: 2, on_exhausted: {{ wait: {wait} }} }}\nsteps:\n  a: {{ agent: caller, prompt: Go. }}\n  b: {{ needs: a, run: 'echo b >> journal' }}\nfinally: {{ end: {{ run: 'echo ${{{{ flow.outcome }}}} >> journal' }} }}\n"
        ),
    );
    world
}

fn asked(world: &World) -> String {
    let mut request = String::new();
    until("somebody is asked", || {
        let said = world.run(&["approvals", "list", "--output", "json"]);
        let open: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_default();
        request = open["requests"][0]["id"].as_str().unwrap_or_default().to_owned();
        !request.is_empty()
    });
    request
}

#[test]
fn a_wall_that_is_raised_lets_the_flow_go_on() {
    let world = at_the_wall("1h");
    let running = world.start(&["run", "costly"]);
    let request = asked(&world);
    let shown = world.run_to(0, &["approvals", "show", &request]).out;
    assert!(shown.contains("The budget of `model_calls` is reached: 3 of 2 calls of models are used"), "{shown}");
    let flow = world.flow_of("costly").unwrap();
    let explained = world.run_to(0, &["explain", &flow]).out;
    assert!(
        explained.contains("its budget of `model_calls` was reached") && explained.contains("3 of 2"),
        "{explained}"
    );
    let status = world.json(&["status"]);
    assert!(status["needs_you"].to_string().contains(&request), "{status}");
    assert_eq!(lines(world.repo().join("journal")), ["a"], "nothing starts meanwhile");
    world.run_to(0, &["approvals", "approve", &request]);
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(lines(world.repo().join("journal")), ["a", "b", "succeeded"]);
}

#[test]
fn a_wall_that_is_kept_ends_the_flow() {
    for denied in [true, false] {
        // Without an answer it is kept too.
        let world = at_the_wall(if denied { "1h" } else { "50ms" });
        let running = world.start(&["run", "costly"]);
        if denied {
            world.run_to(0, &["approvals", "deny", &asked(&world)]);
        }
        assert_eq!(running.wait().code, Some(6));
        assert_eq!(lines(world.repo().join("journal")), ["a", "budget_exhausted"]);
        let ends = world.ends(&world.flow_of("costly").unwrap());
        assert_eq!((ends["a"].as_str(), ends["b"].as_str()), ("succeeded", "cancelled"), "what it delivered is kept");
        assert_eq!(world.json(&["approvals", "list"])["requests"], serde_json::json!([]));
    }
}

#[test]
fn a_wall_survives_whoever_carried_the_flow_on() {
    let world = at_the_wall("1h");
    let running = world.start(&["run", "costly"]);
    let request = asked(&world);
    running.signal(Signal::KILL);
    running.wait();
    let resumed = world.start(&["resume", "--all"]);
    until("somebody carries it on", || world.json(&["status"])["holder"]["pid"] == resumed.pid());
    world.run_to(0, &["approvals", "approve", &request]);
    assert_eq!(resumed.wait().code, Some(0));
    assert_eq!(lines(world.repo().join("journal")), ["a", "b", "succeeded"]);
}

#[test]
fn an_approval_that_nobody_answers_closes_at_its_deadline() {
    for (word, code, ends) in [("deny", 1, ["failed", "skipped"]), ("approve", 0, ["succeeded", "succeeded"])] {
        let world = World::new();
        world.pipeline(
            "asks",
            &format!(
                "steps:\n  ask: {{ approval: {{ timeout: 100ms, on_timeout: {word}, remind: 20ms }} }}\n  go: {{ needs: ask, run: 'true' }}\n"
            ),
        );
        let said = world.run_to(code, &["run", "asks"]);
        let flow = world.flow_of("asks").unwrap();
        let steps = world.ends(&flow);
        assert_eq!([steps["ask"].as_str(), steps["go"].as_str()], ends, "{}", said.out);
        let resolved = world.json(&["approvals", "list", "--resolved"]);
        let request = &resolved["requests"][0];
        assert_eq!(request["by"], "system", "{request}");
        assert_eq!(request["reason"], "nobody answered within 100ms");
        let late = world.run_to(5, &["approvals", "approve", request["id"].as_str().unwrap()]);
        assert!(late.err.contains("already, at its deadline"), "{}", late.err);
    }
}

#[test]
fn events_of_other_flows_are_heard_and_those_before_the_wait_are_not() {
    let world = World::new();
    world.pipeline("bell", "steps: { ring: { run: 'true' } }\n");
    world.pipeline("other", "steps: { ring: { run: 'true' } }\n");
    world.pipeline(
        "waits",
        "steps:\n  rest: { wait: { event: FlowFinished, pipeline: bell, timeout: 1h } }\n  go: { needs: rest, run: 'echo \"${{ steps.rest.output.pipeline }} ${{ steps.rest.output.outcome }}\" > heard' }\n",
    );
    world.run_to(0, &["run", "bell"]);
    let running = world.start(&["run", "waits"]);
    until("it waits", || world.flow_of("waits").is_some_and(|flow| world.ends(&flow)["rest"] == "waiting"));
    let flow = world.flow_of("waits").unwrap();
    world.run_to(0, &["run", "other"]);
    assert_eq!(world.ends(&flow)["rest"], "waiting", "neither an earlier one nor that of another pipeline");
    world.run_to(0, &["run", "bell"]);
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(lines(world.repo().join("heard")), ["bell succeeded"]);
}

#[test]
fn an_answer_counts_while_nobody_carries_the_flow_on() {
    let world = World::new();
    world.pipeline(
        "asks",
        "steps:\n  ask: { approval: { message: Well? } }\n  go: { needs: ask, run: 'echo go >> journal' }\n",
    );
    let running = world.start(&["run", "asks"]);
    let request = asked(&world);
    running.signal(Signal::KILL);
    running.wait();
    world.run_to(0, &["approvals", "approve", &request]);
    let again = world.run_to(5, &["approvals", "deny", &request]);
    assert!(again.err.contains("is approved already"), "{}", again.err);
    let flow = world.flow_of("asks").unwrap();
    if world.outcome(&flow) == "live" {
        world.run_to(0, &["resume", &flow]);
    }
    assert_eq!(world.outcome(&flow), "succeeded");
    assert_eq!(lines(world.repo().join("journal")), ["go"]);
}

#[test]
fn many_questions_are_answered_one_by_one_and_withdrawn_together() {
    for fail_fast in [false, true] {
        let world = World::new();
        world.pipeline(
            "asks",
            &format!(
                "steps:\n  each:\n    foreach: [red, green, blue]\n    fail_fast: {fail_fast}\n    approval: {{ message: 'Is ${{{{ item }}}} good?' }}\n  go: {{ needs: each, run: 'echo go >> journal' }}\n"
            ),
        );
        let running = world.start(&["run", "asks"]);
        let mut open = serde_json::Value::Null;
        until("all are asked", || {
            let said = world.run(&["approvals", "list", "--output", "json"]);
            open = serde_json::from_str(&said.out).unwrap_or_default();
            open["requests"].as_array().is_some_and(|requests| requests.len() == 3)
        });
        let id = |colour: &str| {
            let requests = open["requests"].as_array().unwrap().iter();
            let mut of = requests.filter(|request| request["message"] == format!("Is {colour} good?"));
            of.next().unwrap()["id"].as_str().unwrap().to_owned()
        };
        world.run_to(0, &["approvals", "approve", &id("green")]);
        world.run_to(0, &["approvals", "deny", &id("red"), "--reason", "too loud"]);
        let blue = world.run(&["approvals", "approve", &id("blue")]).code;
        assert_eq!(running.wait().code, Some(1));
        let ends = world.ends(&world.flow_of("asks").unwrap());
        assert_eq!(
            (ends["each[0]"].as_str(), ends["each[1]"].as_str(), ends["go"].as_str()),
            ("failed", "succeeded", "skipped")
        );
        let (answered, last) = if fail_fast { (5, "cancelled") } else { (0, "succeeded") };
        assert_eq!((blue, ends["each[2]"].as_str()), (Some(answered), last));
        assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
    }
}

#[test]
fn everything_that_waits_can_stand_in_a_round() {
    let world = World::new();
    world.pipeline("part", "steps: { a: { run: 'echo part >> journal' } }\n");
    world.pipeline(
        "rounds",
        concat!(
            "steps:\n  again:\n    repeat:\n      max: 2\n      steps:\n",
            "        ask: { approval: { timeout: 20ms, on_timeout: approve } }\n",
            "        nap: { needs: ask, wait: 20ms }\n",
            "        below: { needs: nap, pipeline: part }\n",
            "        cells: { needs: below, matrix: { n: [1, 2] }, run: 'echo cell >> journal' }\n",
            "        never: { needs: cells, wait: { event: FlowFinished, pipeline: nobody, timeout: 20ms }, continue_on_fail: true }\n",
            "  after: { needs: again, run: 'echo after >> journal' }\n",
        ),
    );
    world.run_to(0, &["run", "rounds"]);
    let journal = lines(world.repo().join("journal"));
    assert_eq!(journal, ["part", "cell", "cell", "part", "cell", "cell", "after"]);
    let flow = world.flow_of("rounds").unwrap();
    let error = world.steps(&flow)["again~2/never"]["error"]["message"].as_str().unwrap().to_owned();
    assert!(error.contains("the event did not come within 20ms"), "{error}");
}
