//! `Bash`, `BashOutput` and `KillShell`: output, ends, and what is left behind.

use super::*;

fn sh(command: &str) -> Value {
    json!({ "command": command })
}

#[test]
fn a_command_tells_what_it_printed_and_how_it_ended() {
    let ground = Ground::new();
    ground.put("here", "");
    let rows = [
        ("ls", "here\n", false),
        ("true", "[no output]", false),
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree\n", false),
        ("printf x; exit 3", "x\n[exit code 3]", true),
        ("false", "[exit code 1]", true),
        ("kill -9 $$", "[ended by signal 9]", true),
        ("read answer; echo got $?", "got 1\n", false),
        ("[[ a < b ]] && echo ${BASH_VERSION:+bash}", "bash\n", false),
        ("no-such-program-here 2>/dev/null", "[exit code 127]", true),
        ("echo $GIT_TERMINAL_PROMPT $TERM", "0 dumb\n", false),
        (
            "cd /",
            "[no output]\n[every call starts in the same directory: this has no effect on others; write `cd DIRECTORY && COMMAND`]",
            false,
        ),
        ("cd / && pwd", "/\n", false),
        ("printf 'caf\\351\\n'", "caf?\n", false),
    ];
    for (command, text, failed) in rows {
        let used = ground.lift("Bash", sh(command));
        assert_eq!((used.text.as_str(), used.failed, used.shells), (text, failed, 0), "{command}");
    }
    assert_eq!(ground.good("Bash", sh("pwd")), format!("{}\n", ground.cwd.display()));
}

#[test]
fn what_a_command_leaves_behind_holds_nobody_up() {
    let ground = Ground::new();
    let told = ground.good("Bash", sh("sleep 1000 & echo left"));
    assert_eq!(told, "left\n");
    // One that leaves the group keeps the pipe open.
    let told = ground.good("Bash", sh("setsid sleep 1000 & echo $!"));
    let pid: i32 = told.trim().parse().unwrap();
    let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL);
}

#[test]
fn a_command_that_hangs_is_ended_with_what_it_printed() {
    let ground = Ground::new();
    let begin = Instant::now();
    let told = ground.bad("Bash", json!({ "command": "sleep 1000", "timeout": 200 }));
    assert!(told.starts_with("[ended after 200 ms, which is all the time it had"), "{told}");
    // Deaf to the first word, too.
    let told = ground.bad("Bash", json!({ "command": "trap '' TERM; while :; do sleep 1; done", "timeout": 1_000 }));
    assert!(told.starts_with("[ended after 1000 ms"), "{told}");
    assert!(begin.elapsed() < Duration::from_secs(60));
    // The time of the call ends it too.
    ground.until.set(Instant::now() + Duration::from_secs(1)).unwrap();
    let told = ground.bad("Bash", sh("sleep 1000"));
    assert!(told.contains("which is all the time it had"), "{told}");
}

#[test]
fn a_command_that_is_cancelled_ends() {
    let ground = Ground::new();
    std::thread::scope(|scope| {
        let used = scope.spawn(|| ground.lift("Bash", sh("mkfifo gate; echo begun; cat gate; sleep 1000")));
        // It has begun when it opens the other end.
        while !ground.at("gate").exists() {
            std::thread::yield_now();
        }
        let gate = std::fs::File::options().write(true).open(ground.at("gate")).unwrap();
        drop(gate);
        ground.cancel();
        let used = used.join().unwrap();
        assert!(used.failed && used.text.starts_with("begun\n[cancelled;"), "{}", used.text);
    });
}

#[test]
fn long_output_is_cut_in_the_middle_and_kept_in_a_file() {
    let ground = Ground { bound: Some(3_000), ..Ground::new() };
    let used = ground.lift("Bash", sh("seq 1 100000; echo the end >&2; exit 1"));
    let file = used.file.unwrap();
    assert!(used.text.len() <= 3_000 && used.text.starts_with("1\n2\n"), "{}", used.text);
    assert!(used.text.ends_with("the end\n[exit code 1]"), "{}", used.text);
    assert!(used.text.contains(&format!("all of it is in {}]", file.display())), "{}", used.text);
    let whole = std::fs::read_to_string(&file).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.ends_with("\n100000\nthe end\n") && whole.len() > 500_000);
    assert!(file.ends_with("temp/output-1.txt"), "the same names for the same run");
    // What just fits is whole, and one byte more is not lost.
    for (count, is_cut) in [(2_000, false), (2_001, true)] {
        let used = ground.lift("Bash", sh(&format!("printf %0{count}d 7")));
        assert_eq!(used.file.is_some(), is_cut, "{}", used.text);
        let shown: usize = used.text.split('[').map(|part| part.rsplit(']').next().unwrap().trim().len()).sum();
        assert_eq!(
            (shown, used.text.contains("[1 of 2001 bytes are left out here;")),
            (2_000, is_cut),
            "{}",
            used.text
        );
    }
    let used = ground.lift("Bash", sh("printf 'a\\0b'"));
    assert!(used.text.starts_with("[3 bytes that are no text; all of it is in"), "{}", used.text);
    assert_eq!(std::fs::read(used.file.unwrap()).unwrap(), b"a\0b");
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn two_hundred_megabytes_of_output_need_no_memory() {
    let ground = Ground::new();
    let before = resident();
    let used = ground.lift("Bash", sh("head -c 209715200 /dev/zero | tr '\\0' 'a'; exit 1"));
    let kib = resident() - before;
    assert!(used.text.len() <= 30_000 && used.text.ends_with("[exit code 1]"), "{}", used.text.len());
    assert_eq!(std::fs::metadata(used.file.unwrap()).unwrap().len(), 209_715_200);
    assert!(kib < 32 * 1_024, "{kib} KiB");
}

#[test]
fn shells_in_the_background_are_looked_at_and_ended() {
    let ground = Ground::new();
    let begin = |command: &str| ground.lift("Bash", json!({ "command": command, "run_in_background": true }));
    let look = |id: &str| ground.lift("BashOutput", json!({ "bash_id": id }));
    let used = begin("mkfifo gate; echo one; cat gate; echo two; exit 4");
    assert!(used.text.starts_with("Runs in the background as `1`."), "{}", used.text);
    assert_eq!(used.shells, 1);
    let until = |id: &str, wanted: &str| {
        let mut all = String::new();
        while !all.contains(wanted) {
            all.push_str(&look(id).text);
            std::thread::yield_now();
        }
        all
    };
    assert!(until("1", "one\n").contains("it runs]"));
    assert_eq!(look("1").text, "[nothing new; it runs]");
    // The call that began it is over; to cancel that is not to end the shell.
    std::fs::write(ground.at("gate"), "through the gate\n").unwrap();
    let rest = until("1", "it has ended");
    assert!(
        rest.contains("through the gate\n") && rest.contains("two\n") && rest.ends_with("it has ended: exit code 4]"),
        "{rest}"
    );
    assert_eq!(look("bash_1").text, "[nothing new; it has ended: exit code 4]");

    let used = begin("seq 1 20000; exec sleep 1000");
    assert_eq!(used.shells, 1);
    let id = "2";
    while !std::fs::read_to_string(ground.directory.path().join("temp/output-2.txt")).unwrap().ends_with("\n20000\n") {
        std::thread::yield_now();
    }
    let used = ground.lift("BashOutput", json!({ "bash_id": id, "filter": "^1?7777$" }));
    assert_eq!(used.text, "7777\n17777\n[it runs]");
    assert!(ground.bad("BashOutput", json!({ "bash_id": id, "filter": "(" })).contains("`filter` cannot be read"));
    assert_eq!(ground.good("KillShell", json!({ "shell_id": id })), "Ended shell `2`.");
    let used = look(id);
    assert_eq!((used.text.as_str(), used.shells), ("[nothing new; it has ended: ended by signal 15]", 0));
    assert_eq!(ground.good("KillShell", json!({ "shell_id": id })), "Shell `2` had ended already.");
    assert!(ground.bad("KillShell", json!({ "shell_id": "7" })).contains("There is no shell `7`"));

    begin("yes | head -c 1000000; exec sleep 1000");
    while std::fs::metadata(ground.directory.path().join("temp/output-3.txt")).unwrap().len() < 1_000_000 {
        std::thread::yield_now();
    }
    let used = look("3");
    assert!(
        used.text.len() <= 30_000 && used.text.contains("bytes before this are left out; all of it is in"),
        "{}",
        used.text
    );
    assert!(used.file.is_some() && used.text.ends_with("y\n[it runs]"));
    ground.good("KillShell", json!({ "shell_id": "3" }));
    // One that hears nothing is killed.
    begin("trap '' TERM; echo deaf; while :; do sleep 1; done");
    until("4", "deaf");
    assert_eq!(ground.good("KillShell", json!({ "shell_id": "4" })), "Ended shell `4`.");
    assert_eq!(look("4").shells, 0);
}

#[test]
fn what_a_shell_cannot_do_is_said() {
    let ground = Ground::new();
    let told = ground.bad("Bash", sh(&format!(": {}", "x".repeat(3 << 20))));
    assert!(told.contains("The command is too long to be run"), "{told}");
    let mut nowhere = Ground::new();
    nowhere.cwd = "/no/such/directory".into();
    assert!(nowhere.bad("Bash", sh("true")).contains("The working directory cannot be entered"));
    let mut bare = Ground::new();
    bare.env.insert("PATH".to_owned(), "/nowhere".to_owned());
    assert!(bare.bad("Bash", sh("true")).contains("No shell can be started"));
    let mut full = Ground::new();
    full.env.insert("ORC_TEMP".to_owned(), "/proc/none".to_owned());
    let used = full.lift("Bash", sh("seq 1 100000"));
    assert!(
        used.text.contains("the rest is lost: no file could be made for it") && used.file.is_none(),
        "{}",
        used.text
    );
    assert!(full.bad("Bash", json!({ "command": "true", "run_in_background": true })).contains("No file can be made"));
}

#[test]
fn a_filter_that_has_no_time_left_goes_on_where_it_was() {
    let ground = Ground::new();
    let command = "printf 'one\\ntwo\\n'; touch done; sleep 300";
    ground.good("Bash", json!({ "command": command, "run_in_background": true }));
    while !ground.at("done").exists() {
        std::thread::yield_now();
    }
    ground.good("KillShell", json!({ "shell_id": "1" }));
    let ask = || ground.good("BashOutput", json!({ "bash_id": "1", "filter": "two" }));
    ground.cancelled.store(true, Ordering::SeqCst);
    let told = ask();
    assert!(told.contains("[nothing new that fits; 8 bytes of it are still to be looked at, ask again; "), "{told}");
    ground.cancelled.store(false, Ordering::SeqCst);
    assert!(ask().starts_with("two\n["));
    assert!(ask().starts_with("[nothing new; it has ended"));
}
