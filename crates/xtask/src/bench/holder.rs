//! A process that holds a data directory, and what it is asked through its control socket.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use orc_domain::flow::FlowSpec;
use orc_domain::graph::Pipeline;
use orc_domain::ids::{FlowId, WorkspaceId};
use orc_domain::principal::Principal;
use orc_domain::time::Timestamp;
use orc_spec::{Library, SourceFile};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::command::command;

/// How long anything may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Ended with `kill -9` when it is dropped.
pub(super) struct Holder {
    child: Child,
    data: PathBuf,
}

impl Holder {
    /// Starts a command that carries flows on.
    pub(super) fn start(program: &Path, data: &Path, arguments: &[&str]) -> Result<Self> {
        Self::start_in(program, (data, Path::new(".")), arguments)
    }

    /// The same in a directory.
    pub(super) fn start_in(program: &Path, (data, place): (&Path, &Path), arguments: &[&str]) -> Result<Self> {
        let mut orchestrator = command(program);
        orchestrator.current_dir(place).args(arguments).env("ORC_DATA", data).env("ORC_LOG", "off");
        let said = fs::File::create(data.with_extension("err"))?;
        orchestrator.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let child = orchestrator.spawn().context("cannot start a holder")?;
        Ok(Self { child, data: data.to_owned() })
    }

    /// One request, one answer.
    pub(super) fn ask(&self, request: &Value) -> Result<Value> {
        let mut stream = UnixStream::connect(self.data.join("control.sock"))?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("the holder gave no answer")?;
        match answer.get("error") {
            Some(error) => bail!("the holder refused: {error}"),
            None => Ok(answer),
        }
    }

    /// Waits until it answers and carries on at least so many flows.
    pub(super) fn wait_for(&self, flows: usize) -> Result<()> {
        until("the holder carries on what it should", || {
            let status = self.ask(&json!("status"));
            status.is_ok_and(|status| status["status"]["flows"].as_array().is_some_and(|list| list.len() >= flows))
        })
        .with_context(|| fs::read_to_string(self.data.with_extension("err")).unwrap_or_default())
    }

    /// Starts a flow.
    pub(super) fn submit(&self, definition: &Definition) -> Result<()> {
        self.ask(&definition.request()?).map(drop)
    }

    /// Memory that it has, in KiB (`VmRSS` of proc(5)), once that no longer changes much.
    #[expect(clippy::disallowed_methods, reason = "what becomes quiet gives no sign of it")]
    pub(super) fn memory(&self) -> Result<u64> {
        let mut before = self.resident()?;
        loop {
            std::thread::sleep(Duration::from_millis(700));
            let now = self.resident()?;
            if now.abs_diff(before) < 64 {
                return Ok(now);
            }
            before = now;
        }
    }

    fn resident(&self) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("/proc tells no VmRSS")?.parse()?)
    }

    /// Ends it as a crash would.
    pub(super) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is submitted again and again.
pub(super) struct Definition {
    pipeline: Pipeline,
    source: String,
    directory: String,
}

impl Definition {
    pub(super) fn compile(source: &str, directory: &Path) -> Result<Self> {
        let compiled = orc_spec::compile(&SourceFile::new("bench.yaml", source), &Library::empty());
        let pipeline = compiled.pipeline.with_context(|| format!("it does not compile: {:?}", compiled.diagnostics))?;
        Ok(Self { pipeline, source: source.to_owned(), directory: directory.display().to_string() })
    }

    fn request(&self) -> Result<Value> {
        let spec = FlowSpec {
            repositories: Vec::new(),
            from: Vec::new(),
            id: FlowId::from_uuid(Uuid::now_v7()),
            workspace: WorkspaceId::default_workspace(),
            pipeline: self.pipeline.content_hash()?,
            name: self.pipeline.name.clone(),
            inputs: BTreeMap::new(),
            directory: self.directory.clone(),
            requested_by: Principal::System,
            created_at: Timestamp::from_millis(i64::try_from(super::nanoseconds()? / 1_000_000)?),
            retry_of: None,
            taken_over: BTreeMap::new(),
            carried: BTreeMap::new(),
            parent: None,
            groups_above: BTreeSet::new(),
            priority: 0,
            walls_above: Vec::new(),
            above: Vec::new(),
        };
        let submit = json!({ "spec": spec, "pipeline": self.pipeline, "source": self.source, "children": [] });
        Ok(json!({ "submit": submit }))
    }
}

/// Looks until something is so.
#[expect(clippy::disallowed_methods, reason = "measuring is what this module is for")]
pub(super) fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let began = std::time::Instant::now();
    while !is_so() {
        if began.elapsed() > PATIENCE {
            bail!("did not happen in {PATIENCE:?}: {what}");
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
