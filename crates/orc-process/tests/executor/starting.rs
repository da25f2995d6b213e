//! What a process gets, and what is said when there is none.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use orc_ports::executor::{Executor, Exit, Launch, OutputFile, StartError};
use orc_ports::log::LogKind;

use crate::fixture::{Fixture, log_of, run, texts};

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let mut fixture = Fixture::new();
    let cases = [
        ("true", Exit::Code(0)),
        ("exit 3", Exit::Code(3)),
        ("exit 143", Exit::Code(143)),
        ("exit 255", Exit::Code(255)),
        ("kill -TERM $$", Exit::Signal(15)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill -SEGV $$", Exit::Signal(11)),
    ];
    for (script, exit) in cases {
        let (report, lines) = fixture.run(script).await;
        assert_eq!((report.exit, report.escaped), (exit, 0), "{script}");
        let how = match exit {
            Exit::Code(code) => format!("ended with exit code {code}"),
            Exit::Signal(signal) => format!("ended by signal {signal}"),
        };
        let notes = texts(&lines, LogKind::Note);
        if exit == Exit::Code(0) {
            assert!(notes.is_empty(), "a run that did what it should and said nothing leaves no log: {notes:?}");
            continue;
        }
        assert!(notes[0].starts_with("started as process "), "{notes:?}");
        assert_eq!(notes[1..], [how]);
    }
    assert!(fixture.says_no_more().await, "one report each");
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_the_marks() {
    let mut fixture = Fixture::new();
    let mut launch = fixture.launch("");
    launch.argv = vec!["env".to_owned()];
    launch.env = BTreeMap::from([
        ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
        ("TITLE".to_owned(), "a b=c".to_owned()),
        ("ORC_RUN_ID".to_owned(), "forged".to_owned()),
    ]);
    fixture.finish(&launch).await;
    let lines = log_of(&launch);
    let mut seen = texts(&lines, LogKind::Stdout);
    seen.sort_unstable();
    let wanted = [
        format!("ORC_INSTANCE={}", fixture.instance),
        format!("ORC_OUTPUT={}", launch.output.display()),
        format!("ORC_RUN_ID={}", launch.run),
        format!("ORC_TEMP={}", launch.temp.display()),
        "PATH=/usr/bin:/bin".to_owned(),
        "TITLE=a b=c".to_owned(),
    ];
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn directory_input_files_and_limits_are_set() {
    let mut fixture = Fixture::new();
    let launch = fixture.launch(
        "pwd -P; cat; ulimit -c; test ! -e $ORC_OUTPUT; ls $ORC_TEMP; stat -c %a $ORC_TEMP; echo x=1 > $ORC_OUTPUT",
    );
    std::fs::create_dir_all(launch.output.parent().unwrap()).unwrap();
    std::fs::write(&launch.output, "left=1\n").unwrap();
    std::fs::create_dir_all(&launch.temp).unwrap();
    std::fs::write(launch.temp.join("kept"), "").unwrap();
    std::fs::set_permissions(&launch.temp, PermissionsExt::from_mode(0o700)).unwrap();
    let report = fixture.finish(&launch).await;
    assert_eq!((report.exit, report.output), (Exit::Code(0), OutputFile::Bytes(b"x=1\n".to_vec())));
    assert!(!launch.output.exists(), "it is read once");
    let directory = fixture.directory.path().canonicalize().unwrap().display().to_string();
    let lines = log_of(&launch);
    assert_eq!(texts(&lines, LogKind::Stdout)[..4], [directory.as_str(), "0", "kept", "700"]);
}

#[tokio::test]
async fn a_process_is_known_by_number_and_start() {
    let mut fixture = Fixture::new();
    let launch = fixture.launch("echo $$; cut -d ' ' -f 5,22 /proc/$$/stat");
    let process = fixture.start(&launch).await;
    fixture.report().await;
    assert_eq!(process.instance, fixture.instance);
    let wanted = [process.pid.to_string(), format!("{} {}", process.pid, process.start_ticks)];
    assert_eq!(texts(&log_of(&launch), LogKind::Stdout), wanted);
}

#[tokio::test]
async fn asking_twice_for_a_live_run_starts_it_once() {
    let mut fixture = Fixture::new();
    let mut sign = fixture.sign();
    let launch = fixture.launch("echo $$ > $SIGN; sleep 1000");
    let first = fixture.start(&launch).await;
    assert_eq!(sign.pid().await, first.pid);
    assert_eq!(fixture.start(&launch).await, first);
    fixture.executor.stop(launch.run, orc_domain::time::Millis::ZERO);
    assert_eq!(fixture.report().await.exit, Exit::Signal(9));
    assert!(fixture.says_no_more().await);
}

#[tokio::test]
async fn many_at_once_each_get_their_own_report() {
    let mut fixture = Fixture::new();
    let mut wanted = BTreeMap::new();
    for number in 0..200 {
        let launch = fixture.launch(&format!("echo line {number}; exit {}", number % 7));
        fixture.start(&launch).await;
        wanted.insert(launch.run, (Exit::Code(number % 7), format!("line {number}")));
    }
    for _ in 0..200 {
        let report = fixture.report().await;
        assert_eq!(wanted.remove(&report.run), Some((report.exit, report.last_line)));
    }
    assert!(fixture.says_no_more().await);
}

/// Makes a launch impossible.
type Change<'a> = &'a dyn Fn(&mut Launch);

fn kind_of(error: &StartError) -> Option<(&'static str, ErrorKind)> {
    match error {
        StartError::Program { source, .. } => Some(("program", source.kind())),
        StartError::Directory { source, .. } => Some(("directory", source.kind())),
        StartError::File { source, .. } => Some(("file", source.kind())),
        StartError::Box { .. } | StartError::Exhausted { .. } | StartError::Closed => None,
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let fixture = Fixture::new();
    let write = |name: &str, text: &str, mode: u32| {
        std::fs::write(fixture.path(name), text).unwrap();
        std::fs::set_permissions(fixture.path(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    write("plain", "#!/bin/sh\n", 0o644);
    write("lost", "#!/nowhere/interpreter\n", 0o755);
    write("noise", "\u{1}\u{2}", 0o755);
    std::fs::create_dir(fixture.path("folder")).unwrap();
    let own = fixture.directory.path().display().to_string();
    let cases: [(&str, Change<'_>, (&str, ErrorKind)); 12] = [
        ("nothing of that name", &|l| l.argv[0] = "no-such-program".into(), ("program", ErrorKind::NotFound)),
        ("a path to nothing", &|l| l.argv[0] = "./no-such".into(), ("program", ErrorKind::NotFound)),
        ("not executable", &|l| l.argv[0] = "./plain".into(), ("program", ErrorKind::PermissionDenied)),
        (
            "not executable, in PATH",
            &|l| {
                l.argv[0] = "plain".into();
                l.env.insert("PATH".into(), own.clone());
            },
            ("program", ErrorKind::PermissionDenied),
        ),
        (
            "a folder in PATH",
            &|l| {
                l.argv[0] = "folder".into();
                l.env.insert("PATH".into(), own.clone());
            },
            ("program", ErrorKind::NotFound),
        ),
        ("no PATH", &|l| drop(l.env.remove("PATH")), ("program", ErrorKind::NotFound)),
        ("no interpreter", &|l| l.argv[0] = "./lost".into(), ("program", ErrorKind::NotFound)),
        ("no program at all", &|l| l.argv.clear(), ("program", ErrorKind::InvalidInput)),
        ("a zero byte", &|l| l.argv.push("a\0b".into()), ("program", ErrorKind::InvalidInput)),
        ("no directory", &|l| l.directory.push("missing"), ("directory", ErrorKind::NotFound)),
        ("a file for a directory", &|l| l.directory.push("plain"), ("directory", ErrorKind::NotADirectory)),
        (
            "a private folder below a file",
            &|l| {
                l.temp = l.directory.join("plain/temp");
                l.argv.push("$ORC_TEMP".into());
            },
            ("file", ErrorKind::NotADirectory),
        ),
    ];
    for (name, change, wanted) in cases {
        let mut launch = fixture.launch("true");
        change(&mut launch);
        let error = fixture.executor.start(launch).await.unwrap_err();
        assert_eq!(kind_of(&error), Some(wanted), "{name}: {error:?}");
    }
    let mut launch = fixture.launch("true");
    launch.argv[0] = "./noise".to_owned();
    let error = fixture.executor.start(launch.clone()).await.unwrap_err();
    assert!(matches!(&error, StartError::Program { program, .. } if program == "./noise"), "{error:?}");
    assert_eq!(texts(&log_of(&launch), LogKind::Note).len(), 1, "the log says why there is no process");
    assert!(fixture.says_no_more().await, "no report without a process");
}

#[tokio::test]
async fn a_relative_program_counts_from_the_working_directory() {
    let mut fixture = Fixture::new();
    std::fs::create_dir(fixture.path("bin")).unwrap();
    std::fs::write(fixture.path("bin/tool"), "#!/bin/sh\necho \"$0 $1\"\n").unwrap();
    std::fs::set_permissions(fixture.path("bin/tool"), PermissionsExt::from_mode(0o755)).unwrap();
    for (program, path) in [("bin/tool", "/usr/bin"), ("tool", "/usr/bin:bin")] {
        let mut launch = fixture.launch("");
        launch.run = run();
        launch.argv = vec![program.to_owned(), "one two".to_owned()];
        launch.env.insert("PATH".to_owned(), path.to_owned());
        let report = fixture.finish(&launch).await;
        assert!(report.last_line.ends_with("bin/tool one two"), "{}", report.last_line);
    }
}
