//! Doors of boxes, from programs inside to servers outside of them.

#![expect(clippy::disallowed_methods, reason = "tests start processes of their own and read the clock")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use orc_ports::executor::{BoxLimits, Confinement, Door, Exit};
use orc_process::relay;
use orc_process::sandbox::{BoxError, BoxUser, BoxedCommand, Finished, Sandbox, SandboxSettings, Stdin, Stdout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The example that is box-enter and box-init for us; built with the tests.
fn sandbox() -> Sandbox {
    let own = std::env::current_exe().unwrap();
    let executable = own.ancestors().nth(2).unwrap().join("examples/boxed");
    assert!(executable.is_file(), "{} is missing: build the examples of this crate", executable.display());
    let user = Some(BoxUser { uid: 65534, gid: 65534 });
    Sandbox::probe(&SandboxSettings { user, executable }).expect("these tests need boxes")
}

fn door(port: u16, socket: &Path) -> Door {
    Door { socket: socket.to_owned(), port }
}

/// Runs a program of Python in a box that has nothing but these doors.
fn python(doors: Vec<Door>, open_files: u32, script: &str) -> Result<Finished, BoxError> {
    let limits = BoxLimits { processes: 512, memory_bytes: 2 << 30, disk_bytes: 64 << 20, open_files };
    let (mounts, home, masked, network) = (Vec::new(), PathBuf::new(), Vec::new(), BTreeSet::new());
    let confinement = Confinement { mounts, home, masked, network, doors, limits };
    sandbox().run(BoxedCommand {
        confinement: &confinement,
        argv: &["python3", "-c", script].map(str::to_owned),
        env: &BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        directory: Path::new("/"),
        stdin: Stdin::None,
        stdout: Stdout::Kept { bytes: 1 << 20 },
        wall: PATIENCE,
    })
}

/// What a program of Python says that must end well.
fn says(doors: Vec<Door>, script: &str) -> String {
    let finished = python(doors, 1024, script).unwrap();
    assert_eq!(finished.exit, Exit::Code(0), "{}", finished.stderr_tail);
    String::from_utf8(finished.stdout).unwrap()
}

/// Serves one connection after the other, as many as there will be.
fn serve(
    socket: &Path,
    count: usize,
    mut answer: impl FnMut(UnixStream) -> io::Result<()> + Send + 'static,
) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || (0..count).for_each(|_| answer(listener.accept().unwrap().0).unwrap()))
}

/// Says its name and what it heard.
fn named(name: &'static str) -> impl FnMut(UnixStream) -> io::Result<()> {
    move |mut stream| {
        let mut heard = String::new();
        BufReader::new(stream.try_clone()?).read_line(&mut heard)?;
        stream.write_all(format!("{name} heard {heard}").as_bytes())
    }
}

#[test]
fn a_box_with_two_doors_reaches_both_servers_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let servers = [serve(&at("one"), 2, named("one")), serve(&at("two"), 1, named("two"))];
    let said = says(
        vec![door(8080, &at("one")), door(18081, &at("two"))],
        "import os, socket\n\
         def ask(port, what):\n    \
             s = socket.create_connection(('127.0.0.1', port), 30); s.sendall(what + b'\\n'); print(s.makefile().read().strip())\n\
         ask(8080, b'first'); ask(18081, b'second'); ask(8080, b'third')\n\
         for port in [3128, 8081, 80]:\n    \
             print(port, socket.socket().connect_ex(('127.0.0.1', port)))\n\
         print(socket.socket().connect_ex(('192.0.2.1', 8080)))\n\
         print([name for name in os.environ if 'PROXY' in name.upper()], sorted(os.listdir('/orc/doors')))",
    );
    servers.into_iter().for_each(|server| server.join().unwrap());
    let refused = "3128 111\n8081 111\n80 111\n101\n[] ['18081', '8080']\n";
    assert_eq!(said, format!("one heard first\ntwo heard second\none heard third\n{refused}"));
}

/// Each side waits for a byte of the other before it says more.
#[test]
fn bytes_pass_in_both_directions_as_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("server");
    let server = serve(&socket, 1, |mut stream| {
        let mut byte = [0];
        for turn in 0..100 {
            stream.read_exact(&mut byte)?;
            assert_eq!(byte, [turn]);
            stream.write_all(&[turn + 100])?;
        }
        // The program has ended what it says and hears on.
        assert_eq!(stream.read(&mut byte)?, 0);
        stream.write_all(b"the rest")
    });
    let said = says(
        vec![door(8080, &socket)],
        "import socket\n\
         s = socket.create_connection(('127.0.0.1', 8080), 30)\n\
         for turn in range(100):\n    \
             s.sendall(bytes([turn])); assert s.recv(1) == bytes([turn + 100])\n\
         s.shutdown(socket.SHUT_WR); print(s.makefile().read())",
    );
    server.join().unwrap();
    assert_eq!(said, "the rest\n");
}

/// More at once than one door carries, and in a box with few descriptors: those that are too many wait until others end.
#[test]
fn three_hundred_connections_are_all_served() {
    for open_files in [1024, 100] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("server");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let answer = |stream: UnixStream| std::thread::spawn(move || named("it")(stream).unwrap());
            let all: Vec<_> = (0..300).map(|_| answer(listener.accept().unwrap().0)).collect();
            all.into_iter().for_each(|one| one.join().unwrap());
        });
        // Those who connect are several programs, each with as many connections as it may have.
        let finished = python(
            vec![door(8080, &socket)],
            open_files,
            "import os, socket, threading\n\
             def ask(n, said):\n    \
                 with socket.create_connection(('127.0.0.1', 8080), 50) as s:\n        \
                     s.sendall(b'%d\\n' % n); said[n] = s.makefile().read()\n\
             for child in range(6):\n    \
                 if os.fork() == 0:\n        \
                     said = {}\n        \
                     all = [threading.Thread(target=ask, args=(n, said)) for n in range(50)]\n        \
                     for one in all: one.start()\n        \
                     for one in all: one.join()\n        \
                     os._exit(0 if said == {n: 'it heard %d\\n' % n for n in range(50)} else 1)\n\
             print([os.wait()[1] for _ in range(6)])",
        );
        let finished = finished.unwrap();
        assert_eq!(String::from_utf8_lossy(&finished.stdout), "[0, 0, 0, 0, 0, 0]\n", "{}", finished.stderr_tail);
        server.join().unwrap();
    }
}

#[test]
fn a_server_that_goes_away_ends_its_connections_and_one_that_comes_back_is_found_at_another_socket_only() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("server");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn({
        let socket = socket.clone();
        move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(b"half an ans").unwrap();
            drop(listener);
            std::fs::remove_file(&socket).unwrap();
            // The box holds the socket that there was, not its name.
            let other = UnixListener::bind(&socket).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            drop(stream);
            other
        }
    });
    let said = says(
        vec![door(8080, &socket)],
        "import socket\n\
         s = socket.create_connection(('127.0.0.1', 8080), 30)\n\
         print(s.recv(11)); s.sendall(b'x'); print(s.recv(100))\n\
         s = socket.create_connection(('127.0.0.1', 8080), 30); print(s.recv(100))",
    );
    let other = server.join().unwrap();
    assert_eq!(said, "b'half an ans'\nb''\nb''\n");
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// A unix socket takes no more connections than it can queue, and says so at once; programs do not know that.
#[test]
fn a_server_that_accepts_late_loses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("server");
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let relay = relay::start(&[door(0, &socket)], 0).unwrap();
    let connect = |number| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.ports()[0])).unwrap();
        writeln!(stream, "{number}").unwrap();
        stream
    };
    let clients: Vec<TcpStream> = (0..20).map(connect).collect();
    let listener = UnixListener::from(listener);
    let server = std::thread::spawn(move || (0..20).for_each(|_| named("it")(listener.accept().unwrap().0).unwrap()));
    for (number, mut client) in clients.into_iter().enumerate() {
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert_eq!(said, format!("it heard {number}\n"));
    }
    server.join().unwrap();
}

#[test]
fn a_door_that_leads_nowhere_or_twice_is_no_box() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let _listener = UnixListener::bind(at("server")).unwrap();
    std::fs::write(at("file"), "").unwrap();
    std::os::unix::fs::symlink(at("server"), at("link")).unwrap();
    for (doors, wanted) in [
        (vec![door(8080, &at("missing"))], "its door at port 8080 cannot lead to"),
        (vec![door(8080, &at("file"))], "it is no socket"),
        (vec![door(8080, &at("link"))], "it is no socket"),
        (vec![door(8080, &at("server")), door(8080, &at("server"))], "cannot listen at port 8080 of 127.0.0.1"),
    ] {
        let error = python(doors, 1024, "print('began')").unwrap_err();
        assert!(matches!(&error, BoxError::Start(_)) && error.to_string().contains(wanted), "{wanted}: {error}");
    }
}
