//! The walls inside of a box, each seen from a program behind it. Where no boxes can be made, nothing here can be shown,
//! and the tests say so.

#![expect(clippy::disallowed_methods, reason = "tests start processes of their own and read the clock")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use orc_domain::confine::ViolationKind;
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;
use orc_ports::executor::{BoxLimits, Confinement, Executor, Exit, Launch, Limits, Mount, Report, Secrets, Source};
use orc_process::ProcessExecutor;
use orc_process::sandbox::{BoxUser, BoxedCommand, Sandbox, SandboxSettings, Stdin, Stdout};
use tokio::sync::mpsc;
use uuid::Uuid;

/// The example that is box-enter and box-init for us; built with the tests.
fn sandbox() -> Sandbox {
    let own = std::env::current_exe().unwrap();
    let executable = own.ancestors().nth(2).unwrap().join("examples/boxed");
    assert!(executable.is_file(), "{} is missing: build the examples of this crate", executable.display());
    let user = Some(BoxUser { uid: 65534, gid: 65534 });
    Sandbox::probe(&SandboxSettings { user, executable }).expect("these tests need boxes")
}

const LIMITS: BoxLimits = BoxLimits { processes: 64, memory_bytes: 4 << 30, disk_bytes: 64 << 20, open_files: 200 };

/// A copy that the box user owns, mounted at `/copy`.
struct Copy {
    directory: tempfile::TempDir,
    sandbox: Sandbox,
    confinement: Confinement,
}

impl Copy {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandbox = sandbox();
        let place = directory.path().join("copy");
        std::fs::create_dir(&place).unwrap();
        let copy = Source::Path(place);
        let mounts = vec![Mount { source: copy, at: "/copy".into(), writable: true }];
        let (home, masked, network, doors) = (PathBuf::new(), Vec::new(), BTreeSet::new(), Vec::new());
        let confinement = Confinement { mounts, home, masked, network, doors, limits: LIMITS };
        let copy = Self { directory, sandbox, confinement };
        copy.hand_over(&copy.path(""));
        copy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("copy").join(name)
    }

    fn hand_over(&self, path: &Path) {
        let BoxUser { uid, gid } = self.sandbox.user();
        std::os::unix::fs::lchown(path, Some(uid), Some(gid)).unwrap();
    }

    fn make(&self, name: &str, content: Option<&str>) {
        let path = self.path(name);
        match content {
            Some(content) => std::fs::write(&path, content).unwrap(),
            None => std::fs::create_dir(&path).unwrap(),
        }
        self.hand_over(&path);
    }

    fn try_run(&self, program: &str, script: &str) -> Result<(Exit, String), orc_process::sandbox::BoxError> {
        let argv = [program, "-c", script].map(str::to_owned);
        let finished = self.sandbox.run(BoxedCommand {
            confinement: &self.confinement,
            argv: &argv,
            env: &BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin:/usr/sbin".to_owned())]),
            directory: Path::new("/copy"),
            stdin: Stdin::None,
            stdout: Stdout::Kept { bytes: 1 << 20 },
            wall: Duration::from_secs(60),
        })?;
        let text = String::from_utf8_lossy(&finished.stdout).into_owned() + &finished.stderr_tail;
        Ok((finished.exit, text))
    }

    fn run(&self, script: &str) -> (Exit, String) {
        self.try_run("sh", &format!("exec 2>&1; {script}")).unwrap()
    }
}

#[test]
fn a_masked_path_is_empty_and_stays_so_whatever_is_moved() {
    let mut copy = Copy::new();
    copy.make("kept", None);
    copy.make("kept/file", Some("secret"));
    copy.make("kept/other", Some("other"));
    copy.make("kept/deep", None);
    copy.make("kept/deep/key", Some("secret"));
    copy.confinement.masked = ["/copy/kept/file", "/copy/kept/deep", "/copy/new/place"].map(PathBuf::from).into();
    let script = "cat kept/other; cat kept/file; ls -A kept/deep new/place; echo seen; \
        for to in kept/file kept/deep/x new/place/x; do (echo x > $to) && echo wrote $to; done; \
        mv kept away && echo moved kept; mv new away && echo moved new; rm -rf kept new; \
        rm -f kept/file; mv kept/deep kept/gone && echo moved deep; rmdir new/place && echo removed; \
        mkdir -p new/place; chmod 777 kept/deep kept/file; umount kept/deep; echo more > kept/free; mv kept/free free; cat free";
    let (exit, text) = copy.run(script);
    assert_eq!(exit, Exit::Code(0), "{text}");
    for never in ["secret", "wrote", "moved", "removed"] {
        assert!(!text.contains(never), "{never}: {text}");
    }
    assert!(text.starts_with("other") && text.contains("seen") && text.ends_with("more\n"), "{text}");
    assert_eq!(std::fs::read_to_string(copy.path("kept/file")).unwrap(), "secret");
    assert_eq!(std::fs::read_to_string(copy.path("kept/deep/key")).unwrap(), "secret");
    assert_eq!(std::fs::read_dir(copy.path("new/place")).unwrap().count(), 0, "what is left of a mask is empty");
}

#[test]
fn a_link_at_a_masked_path_makes_no_box() {
    let mut copy = Copy::new();
    std::os::unix::fs::symlink("/usr", copy.path("link")).unwrap();
    for masked in ["/copy/link", "/copy/link/below"] {
        copy.confinement.masked = vec![masked.into()];
        let error = copy.try_run("sh", "echo ran").unwrap_err().to_string();
        assert!(error.contains("cannot be hidden") && error.contains("is a link"), "{error}");
    }
}

#[test]
fn only_what_is_mounted_writable_can_be_written_and_files_move_between_directories() {
    let copy = Copy::new();
    let script = "mkdir a b; echo moved > a/file; mv a/file b/; cat b/file; ln b/file a/again; truncate -s 9 b/file; \
        for to in /usr/x /etc/x /orc/x /x /proc/sys/kernel/core_pattern /proc/self/oom_score_adj; do \
        (echo x > $to) 2>/dev/null && echo wrote $to; done; \
        echo x > /dev/null; echo x > /tmp/x; echo x > $HOME/x; head -c 4 /dev/urandom | wc -c; ls / | wc -l; ls /etc/ssl/private";
    let (exit, text) = copy.run(script);
    assert!(!text.contains("wrote"), "{text}");
    assert!(text.starts_with("moved\n4\n") && !text.contains("denied"), "{exit:?} {text}");
}

#[test]
fn each_process_is_bounded() {
    let copy = Copy::new();
    let (_, text) = copy
        .run("ulimit -n; ulimit -c; ulimit -f; ulimit -n 5000; head -c 80000000 /dev/zero > big; echo $?; wc -c < big");
    let lines: Vec<&str> = text.lines().collect();
    // 64 MiB in blocks of 512 bytes.
    assert_eq!(lines[..3], ["200", "0", "131072"], "{text}");
    assert!(text.contains("67108864") && text.contains("153"), "{text}");
    let (_, text) = copy.run("i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); done; echo all");
    assert!(!text.contains("all"), "{text}");
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span.as_std()))
    }
}

/// As a run of the executor, which tells what was refused.
async fn report_of(copy: &Copy, argv: [&str; 3], network: &[&str]) -> Report {
    let mut executor = BoxExecutor::new(copy);
    let report = executor.report_of(launch_of(copy, argv, network)).await;
    executor.executor.close().await;
    report
}

struct BoxExecutor {
    instance: InstanceId,
    executor: ProcessExecutor,
    reports: mpsc::UnboundedReceiver<Report>,
}

impl BoxExecutor {
    fn new(copy: &Copy) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        let report = Arc::new(move |report| drop(sender.send(report)));
        let instance = InstanceId::from_uuid(Uuid::now_v7());
        let sandbox = Ok(copy.sandbox.clone());
        let executor = ProcessExecutor::with_boxes(instance, Arc::new(SystemClock), report, sandbox).unwrap();
        Self { instance, executor, reports }
    }

    async fn report_of(&mut self, launch: Launch) -> Report {
        self.executor.start(launch).await.unwrap();
        tokio::time::timeout(Duration::from_secs(60), self.reports.recv()).await.unwrap().unwrap()
    }

    /// Numbers of the processes that are copied for its boxes.
    fn porters(&self) -> Vec<i32> {
        let mark = format!("ORC_INSTANCE={}\0", self.instance);
        let is_porter = |pid: &i32| {
            let read = |file| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            read("environ") == mark.as_bytes() && read("cmdline").ends_with(b"\0box-porter\0")
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_porter).collect()
    }
}

fn launch_of(copy: &Copy, argv: [&str; 3], network: &[&str]) -> Launch {
    let path = |name: &str| copy.directory.path().join(name);
    let mut confinement = copy.confinement.clone();
    confinement.home = path("home");
    confinement.network = network.iter().map(|host| (*host).to_owned()).collect();
    Launch {
        run: RunId::from_uuid(Uuid::now_v7()),
        argv: argv.map(str::to_owned).into(),
        directory: "/copy".into(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        log: path("log"),
        output: path("output"),
        temp: path("temp"),
        limits: Limits { log_bytes: 1 << 20, output_bytes: 1024 },
        stdin: None,
        tap: None,
        host: None,
        confinement: Some(Box::new(confinement)),
        secrets: Secrets::default(),
    }
}

#[tokio::test]
async fn boxes_begin_whatever_becomes_of_their_porter() {
    let copy = Copy::new();
    let mut executor = BoxExecutor::new(&copy);
    assert!(executor.porters().is_empty(), "nobody has asked for a box");
    for (round, porters) in [1, 1, 0, 1].into_iter().enumerate() {
        let report = executor.report_of(launch_of(&copy, ["sh", "-c", "exit 3"], &[])).await;
        assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(3), ""), "{round}");
        let found = executor.porters();
        assert_eq!(found.len(), porters, "{round}");
        if round == 1 {
            let killed = std::process::Command::new("kill").args(["-KILL", &found[0].to_string()]).status().unwrap();
            assert!(killed.success());
        }
    }
    executor.executor.close().await;
    assert!(executor.porters().is_empty());
}

#[tokio::test]
async fn refused_system_calls_fail_and_are_told_with_their_number() {
    let copy = Copy::new();
    // Numbers of x86_64: unshare, keyctl, bpf, add_key, mount, ptrace, setns; then an event loop's question, untold.
    let script = "import ctypes, socket, errno\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        seen = []\n\
        for number in (272, 250, 321, 248, 165, 101, 308, 425, 435):\n\
        \x20   answer = libc.syscall(number, 0x10000000, 0, 0, 0, 0, 0)\n\
        \x20   seen.append(errno.errorcode[ctypes.get_errno()] if answer < 0 else 'passed')\n\
        for _ in range(500): libc.syscall(250, 0, 0, 0, 0, 0, 0)\n\
        for family in (40, 38):\n\
        \x20   try: socket.socket(family, 1); seen.append('passed')\n\
        \x20   except OSError as error: seen.append(errno.errorcode[error.errno])\n\
        socket.socketpair(); socket.socket(16, 3, 0)\n\
        print(*seen)";
    let report = report_of(&copy, ["python3", "-c", script], &[]).await;
    let wanted = "EPERM EPERM EPERM EPERM EPERM EPERM EPERM ENOSYS ENOSYS EAFNOSUPPORT EAFNOSUPPORT";
    assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(0), wanted));
    // The disk of the machine may be full at the same time.
    let calls = report.violations.iter().filter(|one| one.kind == ViolationKind::Syscall);
    let told: Vec<(&str, u32)> = calls.map(|one| (one.what.as_str(), one.count)).collect();
    let names = [
        ("add_key", 1),
        ("bpf", 1),
        ("keyctl", 501),
        ("mount", 1),
        ("ptrace", 1),
        ("setns", 1),
        ("socket: AF_ALG", 1),
        ("socket: AF_VSOCK", 1),
        ("unshare: a new namespace", 1),
    ];
    assert_eq!(told, names);
}

#[tokio::test]
async fn a_program_of_32_bits_is_killed_at_its_first_call() {
    let copy = Copy::new();
    // mov eax, 20 (getpid of 32 bits); int 0x80; ret
    let script = "import ctypes, mmap\n\
        m = mmap.mmap(-1, 4096, prot=7)\n\
        m.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))\n\
        call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n\
        print('began', flush=True)\n\
        call(); print('passed', flush=True)";
    let report = report_of(&copy, ["python3", "-c", script], &[]).await;
    assert_eq!((report.exit, report.last_line.as_str()), (Exit::Signal(31), "began"));
}

#[tokio::test]
async fn a_program_speaks_to_its_proxy_through_the_relay() {
    let copy = Copy::new();
    let script = "import os, socket, urllib.parse\n\
        proxy = urllib.parse.urlparse(os.environ['HTTPS_PROXY'])\n\
        s = socket.create_connection((proxy.hostname, proxy.port), 20)\n\
        s.sendall(b'CONNECT elsewhere.example:443 HTTP/1.1\\r\\nHost: elsewhere.example:443\\r\\n\\r\\n')\n\
        print(s.recv(12).decode())";
    let report = report_of(&copy, ["python3", "-c", script], &["allowed.example"]).await;
    assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(0), "HTTP/1.1 403"));
    let hosts = report.violations.iter().filter(|one| one.kind == ViolationKind::Network);
    let told: Vec<&str> = hosts.map(|one| one.what.as_str()).collect();
    assert!(told.len() == 1 && told[0].starts_with("elsewhere.example:443"), "{told:?}");
}

#[tokio::test]
async fn whoever_waits_for_a_refusal_does_not_hold_the_end_up() {
    let copy = Copy::new();
    // Many that are refused all the time, in the background, while the first program ends.
    let script = "for i in 1 2 3 4; do python3 -c 'import ctypes; c = ctypes.CDLL(None)\nwhile True: c.syscall(250, 0)' & done; \
        head -c 1 /dev/zero > /dev/null; exit 3";
    let report = report_of(&copy, ["sh", "-c", script], &[]).await;
    assert_eq!(report.exit, Exit::Code(3));
}
