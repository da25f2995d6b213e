//! Tells people outside of this program what needs them: a command that gets the notice as JSON on standard input, or a
//! webhook that gets it as JSON in a POST, signed when a secret is given.
//!
//! Ring 3, behind [`orc_ports::notifier`]. One attempt takes at most [`PATIENCE`]; retries, order and what is said about a
//! notice that did not arrive are the caller's. It never reads the environment and never shows an address or a secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hmac::{Hmac, Mac as _};
use orc_ports::notifier::{Moment, Notice, Notifier, NotifyError, Target};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Longest time of one attempt.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a program's error output that are read.
const ERROR_BYTES: u64 = 16 * 1024;
/// The header with the signature: `sha256=` and the HMAC-SHA256 of the body in hexadecimal.
pub const SIGNATURE: &str = "x-orc-signature-256";

/// How somebody is told.
#[derive(Clone, PartialEq, Eq)]
pub enum Way {
    /// A program.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
        /// Where it runs.
        directory: PathBuf,
        /// All of its environment.
        env: BTreeMap<String, String>,
    },
    /// An address.
    Webhook {
        /// The address.
        url: String,
        /// The secret that signs.
        secret: Option<String>,
    },
    /// A variable that is not set: nobody can be told this way, and it is said each time.
    Missing {
        /// Its name.
        variable: String,
    },
}

/// Somebody who is told.
#[derive(Clone)]
pub struct Channel {
    /// Its name for people.
    pub name: String,
    /// What it is told of.
    pub on: BTreeSet<Moment>,
    /// How.
    pub way: Way,
}

/// All of them.
pub struct Channels {
    targets: Vec<Target>,
    ways: Vec<Way>,
    patience: Duration,
    agent: Arc<ureq::Agent>,
}

impl Channels {
    /// Ready to tell.
    #[must_use]
    pub fn new(channels: Vec<Channel>) -> Self {
        Self::with_patience(channels, PATIENCE)
    }

    /// The same with another limit for one attempt.
    #[must_use]
    pub fn with_patience(channels: Vec<Channel>, patience: Duration) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(patience))
            // A notice goes where the settings say, and nowhere that somebody else says.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent("orchestrator")
            .build();
        let targets = channels.iter().map(|channel| Target { name: channel.name.clone(), on: channel.on.clone() });
        Self {
            targets: targets.collect(),
            ways: channels.into_iter().map(|channel| channel.way).collect(),
            patience,
            agent: Arc::new(agent.into()),
        }
    }
}

impl Notifier for Channels {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn deliver(&self, target: usize, notice: &Notice) -> BoxFuture<'_, Result<(), NotifyError>> {
        let body = serde_json::to_string(notice);
        let (key, way) = (notice.key.clone(), self.ways.get(target));
        async move {
            let body = body.map_err(|error| NotifyError::Reach { source: Box::new(error) })?;
            match way {
                Some(Way::Command { argv, directory, env }) => {
                    let told = tell_program(argv, directory, env, &body);
                    let told = tokio::time::timeout(self.patience, told).await;
                    told.unwrap_or(Err(NotifyError::Silent { seconds: self.patience.as_secs() }))
                }
                Some(Way::Webhook { url, secret }) => {
                    let signature = secret.as_ref().map(|secret| signature(secret, &body));
                    let (agent, url) = (Arc::clone(&self.agent), url.clone());
                    let posted = tokio::task::spawn_blocking(move || post(&agent, &url, &key, signature, &body)).await;
                    posted.unwrap_or_else(|error| Err(NotifyError::Reach { source: Box::new(error) }))
                }
                Some(Way::Missing { variable }) => Err(NotifyError::Variable { name: variable.clone() }),
                None => Ok(()),
            }
        }
        .boxed()
    }
}

/// `sha256=` and the HMAC-SHA256 of the body under the secret (RFC 2104), in hexadecimal.
#[must_use]
pub fn signature(secret: &str, body: &str) -> String {
    #[expect(clippy::expect_used, reason = "invariant of HMAC: a key may have any length")]
    let mut mac = <Hmac<Sha256> as hmac::Mac>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    mac.update(body.as_bytes());
    let digits = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256={digits}")
}

fn post(agent: &ureq::Agent, url: &str, key: &str, signature: Option<String>, body: &str) -> Result<(), NotifyError> {
    let mut request = agent.post(url).header("content-type", "application/json").header("idempotency-key", key);
    if let Some(signature) = signature {
        request = request.header(SIGNATURE, signature);
    }
    let answer = request.send(body).map_err(|error| match error {
        // Its words hold the address, which may be a secret.
        ureq::Error::BadUri(_) => NotifyError::Address,
        error => NotifyError::Reach { source: Box::new(error) },
    })?;
    let status = answer.status();
    if status.is_success() { Ok(()) } else { Err(NotifyError::Status { status: status.as_u16() }) }
}

/// Runs a program with the notice on its standard input. Whoever gives up waiting drops this, and the program with what
/// it started is killed.
async fn tell_program(
    argv: &[String],
    directory: &PathBuf,
    env: &BTreeMap<String, String>,
    body: &str,
) -> Result<(), NotifyError> {
    let [program, args @ ..] = argv else { return Ok(()) };
    let start = |source| NotifyError::Start { program: program.clone(), source };
    #[expect(clippy::disallowed_methods, reason = "no run of a step: bounded, and killed with its group, here")]
    let mut command = tokio::process::Command::new(program);
    command.args(args).current_dir(directory).env_clear().envs(env).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(start)?;
    let _group = Group(child.id());
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(body.as_bytes()).await {
            // One that does not read has its reasons.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written.map_err(start)?,
        }
    }
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(ERROR_BYTES).read_to_end(&mut said).await.map_err(start)?;
    }
    let status = child.wait().await.map_err(start)?;
    if status.success() {
        return Ok(());
    }
    let detail = String::from_utf8_lossy(&said).lines().last().unwrap_or_default().to_owned();
    Err(NotifyError::Exit { program: program.clone(), status: status.to_string(), detail })
}

/// The process group of a program: gone when this is.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let group = self.0.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            // What has ended needs no signal.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}
