//! A tool host with the tools of the built-in agent: `hands tool-host`, spoken with on standard input and output.
//!
//! `hands use DIRECTORY NAME INPUT` uses one tool once, as nobody's, and says how long it took; to try and to measure.

use std::io::Write;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, bail};
use orc_harness::hands::HANDS;
use orc_process::hands::Use;
use orc_process::protocol::{self, Answer, Call, CallLimits, Request, Tool};

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = orc_process::inside::run(std::env::args_os().nth(1).as_deref(), &HANDS) {
        return Ok(code);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [word, directory, name, input] = words.as_slice() else { bail!("hands use DIRECTORY NAME INPUT") };
    if word != "use" {
        bail!("hands use DIRECTORY NAME INPUT");
    }
    #[expect(clippy::disallowed_methods, reason = "the example is its own host")]
    let mut host = std::process::Command::new(std::env::current_exe()?)
        .arg("tool-host")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut requests, mut answers) =
        (host.stdin.take().context("no input")?, host.stdout.take().context("no output")?);
    let wanted =
        Use { name: name.clone(), input: serde_json::from_str(input)?, seen: Default::default(), without: Vec::new() };
    let cwd = PathBuf::from(directory).canonicalize()?;
    let call = Call { id: 1, tool: Tool::Use(wanted), cwd, deadline: None, limits: CallLimits::default() };
    requests.write_all(&protocol::encode(&Request::Call(call))?)?;
    let mut out = std::io::stdout();
    while let Some(answer) = protocol::read::<Answer>(&mut answers)? {
        writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
        if matches!(answer, Answer::Result { .. }) {
            requests.write_all(&protocol::encode(&Request::Bye)?)?;
        }
    }
    host.wait()?;
    Ok(ExitCode::SUCCESS)
}
