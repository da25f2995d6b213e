//! Runs through the binary: what a person sees, signals, a second process, and everything that goes wrong.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a document without what it must have fails its test")]

mod support;

use rustix::process::Signal;
use support::{Said, World, lines, runs, until};

fn flow_of(said: &Said) -> String {
    let at = said.out.find("flow_").unwrap_or_else(|| panic!("no flow in {}", said.out));
    said.out[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

#[test]
fn a_run_passes_outputs_on_retries_and_tells_the_result() {
    let world = World::new();
    world.pipeline(
        "hello",
        concat!(
            "inputs: { name: { type: string } }\n",
            "steps:\n",
            "  list:\n    run: echo 'parts=[\"a\", \"b c\"]' >> \"$ORC_OUTPUT\"\n",
            "  greet:\n    needs: [list]\n    foreach: ${{ steps.list.output.parts }}\n    as: part\n",
            "    run: echo \"text=hello ${{ part }} from ${{ inputs.name }}\" >> \"$ORC_OUTPUT\"\n",
            "  flaky:\n    needs: [greet]\n    retry: { attempts: 2, backoff: 10ms }\n",
            "    run: test -e \"$ORC_TEMP/once\" || { touch \"$ORC_TEMP/once\"; echo not yet >&2; exit 3; }\n",
            "finally:\n  report: { run: 'echo ${{ flow.outcome }} > report' }\n",
        ),
    );
    let said = world.run_to(0, &["run", "hello", "--input", "name=$(touch pwned); \"x\""]);
    assert!(said.out.starts_with("hello succeeded in "), "{}", said.out);
    assert!(said.out.contains("text = hello b c from $(touch pwned); \"x\""), "{}", said.out);
    assert!(said.out.contains("attempt 2"), "{}", said.out);
    assert!(said.err.contains("flaky: attempt 1 failed: exit code 3: not yet"), "{}", said.err);
    assert!(!said.err.contains('\x1b'), "no terminal, no escape sequences");
    assert_eq!(lines(world.repo().join("report")), ["succeeded"]);
    assert!(!world.repo().join("pwned").exists(), "an input is never code");
    let temp = world.data().join("temp");
    let left: Vec<_> = std::fs::read_dir(temp).unwrap().collect();
    assert!(left.is_empty(), "private files go with the flow: {left:?}");
}

#[test]
fn a_failure_names_the_step_the_reason_and_the_next_command() {
    let world = World::new();
    world.pipeline(
        "broken",
        "steps:\n  build: { run: 'echo out of cheese >&2; exit 7' }\n  test: { needs: [build], run: 'true' }\n",
    );
    let said = world.run_to(1, &["run", "broken"]);
    assert!(said.out.contains("build") && said.out.contains("failed: exit code 7: out of cheese"), "{}", said.out);
    assert!(said.out.contains("skipped: `build` failed"), "{}", said.out);
    assert!(
        said.out.contains("orchestrator logs run_") && said.out.contains("orchestrator retry flow_"),
        "{}",
        said.out
    );
    let flow = flow_of(&said);
    world.write("pipelines/broken.yaml", "not: a pipeline");
    let again = world.run_to(1, &["retry", &flow]);
    assert!(again.err.contains(&format!("carries {flow} on")), "a retry keeps the definition: {}", again.err);
}

#[test]
fn a_retry_takes_over_what_succeeded() {
    let world = World::new();
    world.pipeline(
        "twice",
        concat!(
            "steps:\n",
            "  good: { run: 'echo good >> done; echo \"x=1\" >> \"$ORC_OUTPUT\"' }\n",
            "  each: { foreach: [1, 2, 3], run: 'echo \"each ${{ item }}\" >> done; test -e fixed || test ${{ item }} != 2' }\n",
            "  last: { needs: [good, each], run: 'echo \"last ${{ steps.good.output.x }}\" >> done' }\n",
        ),
    );
    let said = world.run_to(1, &["run", "twice", "--slots", "1"]);
    assert_eq!(lines(world.repo().join("done")), ["good", "each 1", "each 2", "each 3"]);
    world.write("fixed", "");
    world.run_to(0, &["retry", &flow_of(&said), "--slots", "1"]);
    assert_eq!(lines(world.repo().join("done"))[4..], ["each 2", "last 1"]);
    let refused =
        world.run_to(5, &["retry", &world.json(&["flows", "list"])["flows"][0]["id"].as_str().unwrap()[20..]]);
    assert!(refused.err.contains("nothing to retry"), "{}", refused.err);
}

const SLOW: &str = concat!(
    "steps:\n",
    "  slow: { run: 'echo $$ > pid; sleep 986' }\n",
    "  after: { needs: [slow], run: 'echo after > after' }\n",
    "finally:\n  tidy: { run: 'echo tidy > tidy' }\n",
);

#[test]
fn ctrl_c_ends_runs_and_still_does_finally() {
    let world = World::new();
    world.pipeline("slow", SLOW);
    let running = world.start(&["run", "slow"]);
    until("the step runs", || !lines(world.repo().join("pid")).is_empty());
    running.signal(Signal::INT);
    let said = running.wait();
    assert_eq!(said.code, Some(130), "{}", said.err);
    assert!(said.err.contains("stopping: TERM, grace, KILL"), "{}", said.err);
    assert!(said.out.starts_with("slow cancelled"), "{}", said.out);
    assert_eq!(lines(world.repo().join("tidy")), ["tidy"]);
    assert!(!world.repo().join("after").exists());
}

#[test]
fn ctrl_c_twice_ends_everything_even_what_ignores_term() {
    let world = World::new();
    world.pipeline(
        "deaf",
        "steps:\n  deaf: { run: 'trap \"\" TERM; echo $$ > pid; while true; do sleep 1; done' }\nfinally:\n  tidy: { run: 'echo tidy > tidy' }\n",
    );
    let running = world.start(&["run", "deaf", "--cancel-grace", "1h"]);
    until("the step runs", || !lines(world.repo().join("pid")).is_empty());
    let pid = lines(world.repo().join("pid"))[0].clone();
    running.signal(Signal::INT);
    let id = world.json(&["flows", "list"])["flows"][0]["id"].as_str().unwrap().to_owned();
    let events = || world.run(&["status", &id]).out;
    until("the cancel is recorded", || events().contains("being cancelled"));
    assert!(runs(&pid), "it ignores TERM");
    running.signal(Signal::INT);
    let said = running.wait();
    assert_eq!(said.code, Some(130), "{}", said.err);
    assert!(said.err.contains("ending everything at once"), "{}", said.err);
    assert!(!runs(&pid));
    assert!(!world.repo().join("tidy").exists(), "a second cancel ends `finally` too");
}

#[test]
fn a_second_run_says_who_holds_the_directory_and_follows() {
    let world = World::new();
    world.pipeline("first", "steps:\n  wait: { run: 'echo up > up; until test -e go; do sleep 0.05; done' }\n");
    world.pipeline("second", "steps:\n  quick: { run: 'echo x=2 >> \"$ORC_OUTPUT\"' }\n");
    let first = world.start(&["run", "first"]);
    until("the first runs", || world.repo().join("up").exists());
    let said = world.run_to(0, &["run", "second"]);
    assert!(said.err.contains(&format!("held by process {}", first.pid())), "{}", said.err);
    assert!(said.err.contains("quick: succeeded"), "it follows: {}", said.err);
    assert!(said.out.starts_with("second succeeded") && said.out.contains("x = 2"), "{}", said.out);
    let status = world.run_to(0, &["status"]);
    assert!(status.out.contains("first"), "{}", status.out);
    let id = world.json(&["flows", "list", "--live"])["flows"][0]["id"].as_str().unwrap().to_owned();
    world.run_to(0, &["cancel", &id]);
    let said = first.wait();
    assert_eq!(said.code, Some(130), "{}", said.err);
    let twice = world.run_to(5, &["cancel", &id]);
    assert!(twice.err.contains("is over already: cancelled"), "{}", twice.err);
}

#[test]
fn cancel_without_a_holder_carries_the_flow_to_its_end() {
    let world = World::new();
    world.pipeline("slow", SLOW);
    let running = world.start(&["run", "slow"]);
    until("the step runs", || !lines(world.repo().join("pid")).is_empty());
    running.signal(Signal::KILL);
    running.wait();
    let id = world.json(&["flows", "list"])["flows"][0]["id"].as_str().unwrap().to_owned();
    world.run_to(0, &["cancel", &id]);
    assert_eq!(lines(world.repo().join("tidy")), ["tidy"]);
    assert!(!world.repo().join("after").exists());
    assert_eq!(world.json(&["flows", "show", &id])["outcome"], "cancelled");
    let runs = world.json(&["runs", "list", "--flow", &id]);
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "the lost run is not begun again to be cancelled: {runs}");
}

#[test]
fn a_holder_that_was_stopped_is_named_and_nobody_waits_for_it_for_ever() {
    let world = World::new();
    world.pipeline("first", "steps:\n  wait: { run: 'echo up > up; until test -e go; do sleep 0.05; done' }\n");
    let first = world.start(&["run", "first"]);
    until("the first runs", || world.repo().join("up").exists());
    let id = world.json(&["flows", "list", "--live"])["flows"][0]["id"].as_str().unwrap().to_owned();
    first.signal(Signal::STOP);
    let commands = [world.start(&["run", "first"]), world.start(&["cancel", &id])];
    let [second, cancel] = commands.map(support::Running::wait);
    first.signal(Signal::CONT);
    world.write("go", "");
    assert_eq!((second.code, cancel.code), (Some(8), Some(8)), "{}{}", second.err, cancel.err);
    let named = format!("is held by process {}", first.pid());
    assert!(second.err.contains(&named) && second.err.contains("does not answer"), "{}", second.err);
    assert!(cancel.err.contains("has not answered"), "{}", cancel.err);
    first.wait();
}

#[test]
fn many_runs_over_one_directory_take_turns_and_each_hears_its_end() {
    let world = World::new();
    world.pipeline("quick", "steps:\n  it: { run: 'echo x >> done' }\n");
    let runs: Vec<_> = (0..12).map(|_| world.start(&["run", "quick", "--slots", "1"])).collect();
    for said in runs.into_iter().map(support::Running::wait) {
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        assert!(said.out.starts_with("quick succeeded"), "{}{}", said.out, said.err);
    }
    assert_eq!(lines(world.repo().join("done")).len(), 12, "each ran once");
}

#[test]
fn a_database_file_that_was_cut_ends_a_run_instead_of_being_tried_for_ever() {
    let world = World::new();
    world.pipeline("quick", "steps:\n  it: { run: 'true' }\n");
    world.run_to(0, &["run", "quick"]);
    let database = std::fs::File::options().write(true).open(world.data().join("orchestrator.db")).unwrap();
    database.set_len(5000).unwrap();
    for args in [&["run", "quick"][..], &["db", "check"]] {
        let said = world.start(args).wait();
        assert_eq!(said.code, Some(8), "{args:?}: {}", said.err);
        assert!(said.err.contains("damaged") && said.err.contains("put a backup"), "{args:?}: {}", said.err);
    }
}

#[test]
fn what_a_step_printed_never_steers_the_terminal() {
    let world = World::new();
    world.pipeline(
        "evil",
        concat!(
            "steps:\n",
            "  says: { run: 'printf \"x=\\033]0;owned\\007\" >> \"$ORC_OUTPUT\"' }\n",
            "  dies: { run: 'printf \"\\033[2Jboom\\n\" >&2; exit 3' }\n",
        ),
    );
    let said = world.run_to(1, &["run", "evil"]);
    for text in [&said.out, &said.err] {
        assert!(text.contains(r"exit code 3: \u{1b}[2Jboom"), "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
    assert!(said.out.contains(r"x = \u{1b}]0;owned"), "{}", said.out);
}

#[test]
fn what_a_program_can_do_wrong_is_told_for_what_it_is() {
    let cases = [
        ("signal", "run: kill -SEGV $$", "ended by signal 11"),
        ("no-shell", "run: 'true'\n    shell: [no-such-shell, -c]", "cannot start `no-such-shell`"),
        ("no-command", "run: no-such-command-here", "exit code 127"),
        ("timeout", "run: sleep 985\n    timeout: 100ms", "took longer than its timeout of 100ms"),
        ("bad-output", "run: echo nonsense >> \"$ORC_OUTPUT\"", "its outputs cannot be read: line 1"),
        ("missing", "run: 'echo ${{ inputs.none }}'", ""),
    ];
    for (name, step, wanted) in &cases[..5] {
        let world = World::new();
        world.pipeline(name, &format!("steps:\n  it:\n    {step}\n"));
        let said = world.run_to(1, &["run", name]);
        assert!(said.out.contains(wanted), "{name}: {}", said.out);
    }
    let world = World::new();
    let (name, step, _) = cases[5];
    world.pipeline(name, &format!("steps:\n  it:\n    {step}\n"));
    let said = world.run_to(3, &["run", name]);
    assert!(said.err.contains("inputs"), "{}", said.err);
}

#[test]
fn a_step_that_leaves_a_daemon_is_over_when_it_is_over() {
    let world = World::new();
    world.pipeline("daemon", "steps:\n  it: { run: 'setsid sh -c \"echo \\$\\$ > pid; exec sleep 984\" & until test -s pid; do sleep 0.01; done' }\n");
    world.run_to(0, &["run", "daemon"]);
    let pid = lines(world.repo().join("pid"))[0].clone();
    assert!(!runs(&pid), "what it left is gone");
}

#[test]
fn a_step_that_prints_a_gigabyte_neither_fills_the_disk_nor_the_memory() {
    let world = World::new();
    world
        .pipeline("loud", "steps:\n  it: { run: 'head -c 1000000000 /dev/zero | tr \"\\0\" x; echo; echo the end' }\n");
    world.write("orchestrator.yaml", "log_limit: 1MiB\n");
    let said = world.run_to(0, &["run", "loud", "--output", "json"]);
    let flow: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let log = world.run_to(0, &["logs", flow["id"].as_str().unwrap()]);
    assert!(log.out.len() < 4 << 20, "{}", log.out.len());
    assert!(log.out.contains("bytes of output dropped"), "what is missing is said");
    assert!(log.out.contains("\nthe end\n"), "the last lines are kept");
}

/// Runs a script as root of a mount namespace of its own, so that it may mount.
#[expect(clippy::disallowed_methods, reason = "the program is started in a namespace of its own")]
fn in_namespace(world: &World, script: &str) -> Said {
    let program = env!("CARGO_BIN_EXE_orchestrator");
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-euc", script]).current_dir(world.repo()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("ORC", program).env("ORC_DATA", world.data());
    support::said(
        &command
            .output()
            .unwrap_or_else(|error| panic!("this test needs `unshare` (apt-get install util-linux): {error}")),
    )
}

#[test]
fn a_full_disk_is_said_and_nothing_recorded_is_lost() {
    let world = World::new();
    world.pipeline(
        "fill",
        "steps:\n  one: { run: 'echo one >> ran' }\n  two: { needs: [one], run: 'echo two >> ran' }\n",
    );
    std::fs::create_dir_all(world.data()).unwrap();
    let said = in_namespace(
        &world,
        concat!(
            "mount -t tmpfs -o size=1m none \"$ORC_DATA\"\n",
            "dd if=/dev/zero of=\"$ORC_DATA/ballast\" bs=4k count=255 2>/dev/null || true\n",
            "code=0; \"$ORC\" run fill || code=$?; echo \"code $code\"\n",
            "rm \"$ORC_DATA/ballast\"\n",
            "\"$ORC\" run fill\n",
        ),
    );
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.err);
    assert!(said.out.contains("code 8"), "{}\n{}", said.out, said.err);
    assert!(said.err.to_lowercase().contains("no space left"), "{}", said.err);
    assert!(said.out.contains("fill succeeded"), "{}", said.out);
}

#[test]
fn a_read_only_data_directory_is_said() {
    let world = World::new();
    world.pipeline("ro", "steps:\n  one: { run: 'true' }\n");
    world.run_to(0, &["run", "ro"]);
    let said = in_namespace(
        &world,
        "mount --bind \"$ORC_DATA\" \"$ORC_DATA\"; mount -o remount,bind,ro \"$ORC_DATA\"\n\"$ORC\" flows list; code=0; \"$ORC\" run ro || code=$?; echo \"code $code\"",
    );
    assert!(said.out.contains("code 8") && said.err.to_lowercase().contains("read-only"), "{}\n{}", said.out, said.err);
    assert!(said.out.contains("succeeded"), "reading still works: {}", said.out);
}

#[test]
fn what_cannot_be_kept_fails_its_step_and_holds_nobody_up() {
    let world = World::new();
    world.pipeline(
        "kept",
        concat!(
            "steps:\n",
            "  link: { run: 'ln -s /etc/passwd out', artifacts: [out] }\n",
            "  pipe: { run: 'mkfifo queue', artifacts: [queue] }\n",
            "  folder: { run: 'mkdir many', artifacts: [many] }\n",
            "  nothing: { run: 'true', artifacts: [gone] }\n",
        ),
    );
    let said = world.run_to(1, &["run", "kept"]);
    for why in
        ["`out`: it leads out of the place", "`queue`: it is no file", "`many`: it is no file", "`gone`: No such file"]
    {
        assert!(said.out.contains(why), "{why}: {}", said.out);
    }
}
