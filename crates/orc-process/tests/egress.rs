//! A program that knows nothing of us, curl, through the relay and the proxy, by the variables that a box sets.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Output;
use std::sync::Arc;

use futures_util::FutureExt;
use orc_domain::confine::network::Rules;
use orc_ports::executor::Door;
use orc_process::egress::{Limits, Proxies, Resolve};
use orc_process::relay;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What curl prints for these arguments.
#[expect(clippy::disallowed_methods, reason = "a program of somebody else that a test looks through, waited for here")]
async fn curl(port: u16, arguments: &[&str]) -> io::Result<Output> {
    tokio::process::Command::new("curl")
        .args(["-q", "-sS", "--max-time", "60"])
        .args(arguments)
        .env_clear()
        .envs(relay::environment(port))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .kill_on_drop(true)
        .output()
        .await
}

/// Answers every request with what it was sent, one after the other.
async fn echo(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len());
        stream.write_all(&[answer.as_bytes(), &head].concat()).await?;
    }
}

/// The same request without curl.
async fn by_hand(port: u16, uri: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(format!("GET {uri} HTTP/1.1\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn curl_finds_the_proxy_and_reaches_what_is_allowed_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let resolve: Resolve = Arc::new(|_| std::future::ready(Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)])).boxed());
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("egress.sock");
    let proxies = Proxies::new(resolve, Limits::default());
    let rules = Rules::compile(&[format!("*.allowed.test:{port}")].into(), true).unwrap();
    let proxy = proxies.open(&socket, rules).unwrap();
    let relay = relay::start(&[Door { socket, port: 0 }], 0).unwrap();
    let through = relay.ports()[0];
    let allowed = format!("http://www.allowed.test:{port}/path");
    let refused = format!("http://allowed.test:{port}/path");

    let ask = async {
        let output = match curl(through, &[&allowed]).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                assert!(by_hand(through, &allowed).await.unwrap().contains("GET /path HTTP/1.1"));
                assert!(by_hand(through, &refused).await.unwrap().contains("no entry of `network` names it"));
                return;
            }
            output => output.unwrap(),
        };
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.starts_with("GET /path HTTP/1.1\r\n"), "{output:?}");
        assert!(told.contains("Connection: close\r\n") && !told.contains("Proxy-Connection"), "{told}");
        // The same through a tunnel.
        let output = curl(through, &["--proxytunnel", &allowed]).await.unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("GET /path HTTP/1.1\r\n"), "{output:?}");
        let output = curl(through, &[&refused]).await.unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("no entry of `network` names it"), "{output:?}");
        let output = curl(through, &["https://elsewhere.test/"]).await.unwrap();
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("403"), "{output:?}");
    };
    tokio::select! {
        ended = echo(listener) => panic!("the origin ended: {ended:?}"),
        () = ask => {}
    }
    let violations = proxy.close().await;
    let apex = violations.iter().find(|violation| violation.what.starts_with(&format!("allowed.test:{port} ")));
    assert_eq!(apex.map(|violation| violation.count), Some(1), "{violations:?}");
}
