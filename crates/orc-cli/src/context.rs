//! What every command starts from: where it is, where the data lies, which settings hold.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use orc_domain::ids::{FlowId, InstanceId, RequestId, RunId};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::time::Timestamp;
use orc_ports::clock::Clock as _;
use orc_ports::reader::{AnyId, FlowFilter, Reader as _};
use orc_ports::worktrees::Worktrees;
use orc_runtime::clock::SystemClock;
use orc_runtime::data_dir::DataDir;
use orc_spec::SourceFile;
use orc_store_sqlite::SqliteReader;

use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, invalid, not_found, unavailable};
use crate::hold::of_store;
use crate::host;

/// Characters of an id that a person must give at least.
const SHORTEST_ID: usize = 6;

/// The start of every command.
pub(crate) struct Context {
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// The repository: the nearest directory above with `orchestrator.yaml`, `pipelines/` or `.git`, else the working
    /// directory.
    pub(crate) root: PathBuf,
    /// Where data lies.
    pub(crate) data: DataDir,
    /// Where `data` was named, for `config show --origin`.
    pub(crate) data_origin: &'static str,
    /// Private copies that were opened before anybody held the data directory, and the instance that they were opened for.
    pub(crate) opened: Mutex<Option<Opened>>,
}

/// An instance that does not hold the data directory yet, with its private copies: to find out how copies can be made takes
/// a box, so that is done once.
pub(crate) type Opened = (InstanceId, Arc<dyn Worktrees>);

impl Context {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks where we are")]
    pub(crate) fn new(data: Option<PathBuf>) -> CommandResult<Self> {
        let cwd = std::env::current_dir();
        let cwd = cwd.map_err(|error| unavailable("the working directory is gone").because(error))?;
        let root = root_of(&cwd).to_owned();
        let (data, data_origin) = match data {
            Some(data) => (cwd.join(data), "--data or ORC_DATA"),
            None => {
                let state = host::state_directory().ok_or_else(|| {
                    unavailable("no place for data is known")
                        .hint("set HOME, or name a directory with --data or ORC_DATA")
                })?;
                (state, "default")
            }
        };
        Ok(Self { cwd, root, data: DataDir::at(data), data_origin, opened: Mutex::default() })
    }

    /// Wall time, for ages.
    pub(crate) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// The local user.
    pub(crate) fn user(&self) -> Principal {
        Principal::Os(host::user())
    }

    /// The store, to read from.
    pub(crate) async fn reader(&self) -> CommandResult<SqliteReader> {
        if !self.data.database().is_file() {
            let what = format!("nothing has run yet: there is no database in `{}`", self.data.root().display());
            return Err(
                not_found(what).hint("`orchestrator run PIPELINE` makes one; --data or ORC_DATA names another place")
            );
        }
        SqliteReader::open(&self.data.database()).await.map_err(of_store)
    }

    /// Private copies as whoever holds the data directory sees them: what its runs have is leased. For looking, and for
    /// whoever took the lock.
    pub(crate) fn copies(&self) -> Arc<dyn Worktrees> {
        let holder = if self.data.is_held() { self.data.holder() } else { None };
        let instance = holder.map_or_else(|| InstanceId::from_uuid(uuid::Uuid::now_v7()), |holder| holder.instance);
        self.worktrees(instance)
    }

    /// Private copies of whoever may come to hold the data directory.
    pub(crate) fn copies_before_holding(&self) -> Arc<dyn Worktrees> {
        let (instance, worktrees) = self.next_instance();
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        *opened = Some((instance, Arc::clone(&worktrees)));
        worktrees
    }

    /// The instance that holds the data directory next, with its private copies: each is given once.
    pub(crate) fn next_instance(&self) -> Opened {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        opened.unwrap_or_else(|| {
            let instance = InstanceId::from_uuid(uuid::Uuid::now_v7());
            (instance, self.worktrees(instance))
        })
    }

    /// The flow or run that an id, or a unique ending of one, means.
    pub(crate) async fn any_of(&self, reader: &SqliteReader, text: &str) -> CommandResult<AnyId> {
        if let Ok(flow) = text.parse::<FlowId>() {
            return Ok(AnyId::Flow(flow));
        }
        if let Ok(run) = text.parse::<RunId>() {
            return Ok(AnyId::Run(run));
        }
        if let Ok(request) = text.parse::<RequestId>() {
            return Ok(AnyId::Request(request));
        }
        if text.len() < SHORTEST_ID {
            let what = format!("`{text}` is too short for an id: it needs its last {SHORTEST_ID} characters or more");
            return Err(Failure::new(Exit::Usage, what));
        }
        let found = reader.ids_ending(text.to_owned(), 5).await.map_err(of_store)?;
        Self::only_one(text, &found)
    }

    /// The one id that was found, or why it is not one.
    fn only_one(text: &str, found: &[AnyId]) -> CommandResult<AnyId> {
        match found {
            [one] => Ok(*one),
            [] => Err(not_found(format!("no flow, run or request has an id that ends with `{text}`"))
                .hint("`orchestrator flows list` shows flows, `orchestrator runs list` shows runs")),
            several => {
                let ids: Vec<String> = several.iter().map(any_text).collect();
                let what = format!("`{text}` is not unique: {}", ids.join(", "));
                Err(Failure::new(Exit::Usage, what).hint("give more of the id"))
            }
        }
    }

    /// The flow that an id means; a run means its flow.
    pub(crate) async fn flow_of(&self, reader: &SqliteReader, text: &str) -> CommandResult<FlowId> {
        match self.any_of(reader, text).await? {
            AnyId::Flow(flow) => {
                let known = reader.flow(flow).await.map_err(of_store)?;
                known.map(|flow| flow.spec.id).ok_or_else(|| not_found(format!("there is no flow {flow}")))
            }
            AnyId::Run(run) => {
                let known = reader.run(run).await.map_err(of_store)?;
                known.map(|record| record.run.flow).ok_or_else(|| not_found(format!("there is no run {run}")))
            }
            AnyId::Request(request) => {
                let known = reader.request(request).await.map_err(of_store)?;
                let known = known.map(|record| record.request.flow);
                known.ok_or_else(|| not_found(format!("there is no request {request}")))
            }
        }
    }

    /// The flow that an id means, and the step if it is that of a run or of a request.
    pub(crate) async fn step_of(&self, reader: &SqliteReader, text: &str) -> CommandResult<(FlowId, Option<StepPath>)> {
        Ok(match self.any_of(reader, text).await? {
            AnyId::Flow(flow) => (flow, None),
            AnyId::Run(run) => {
                let record = reader.run(run).await.map_err(of_store)?;
                let run = record.ok_or_else(|| not_found(format!("there is no run {run}")))?.run;
                (run.flow, Some(run.path))
            }
            AnyId::Request(request) => {
                let record = reader.request(request).await.map_err(of_store)?;
                let request = record.ok_or_else(|| not_found(format!("there is no request {request}")))?.request;
                (request.flow, request.step.map(|(_, path)| path))
            }
        })
    }

    /// Flows that are not finished, oldest first.
    pub(crate) async fn unfinished_flows(&self, reader: &SqliteReader, page: u32) -> CommandResult<Vec<FlowId>> {
        let (mut flows, mut before) = (Vec::new(), None);
        loop {
            let lines = reader.flows(FlowFilter::Live, before, page).await.map_err(of_store)?;
            let Some(last) = lines.last() else { break };
            before = Some(last.spec.id);
            flows.extend(lines.iter().map(|line| line.spec.id));
        }
        flows.reverse();
        Ok(flows)
    }

    /// The text of a file, under the name by which the user knows it.
    pub(crate) fn source(&self, file: &Path) -> CommandResult<SourceFile> {
        let path = self.cwd.join(file);
        let shown = path.strip_prefix(&self.cwd).unwrap_or(&path).display().to_string();
        let bytes = std::fs::read(&path).map_err(|error| {
            let failure = not_found(format!("cannot read `{shown}`")).because(error);
            if path.is_dir() { failure.hint(format!("name the files in it: {shown}/*")) } else { failure }
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            invalid(format!("`{shown}` is not UTF-8 text: byte {at} begins no character"))
        })?;
        Ok(SourceFile::new(shown, text))
    }

    /// The files in `pipelines/`, in order.
    pub(crate) fn pipeline_files(&self) -> Vec<PathBuf> {
        yaml_files(&self.root.join("pipelines"))
    }

    /// The file that a pipeline's name means: a path, or the name of a file in `pipelines/`.
    pub(crate) fn pipeline_file(&self, name: &str) -> CommandResult<PathBuf> {
        let direct = self.cwd.join(name);
        if direct.is_file() {
            return Ok(direct);
        }
        let folder = self.root.join("pipelines");
        let candidates = ["yaml", "yml"].map(|extension| folder.join(format!("{name}.{extension}")));
        if let Some(found) = candidates.iter().find(|file| file.is_file()) {
            return Ok(found.clone());
        }
        let known = pipeline_names(&folder);
        let failure =
            not_found(format!("there is no pipeline `{name}`: no such file, and none of that name in pipelines/"));
        let close = orc_domain::suggest::closest(name, known.iter().map(String::as_str));
        Err(match close {
            Some(close) => failure.hint(format!("did you mean `{close}`?")),
            None if known.is_empty() => failure.hint("`orchestrator init` writes an example"),
            None => failure.hint(format!("there are: {}", known.join(", "))),
        })
    }
}

fn any_text(id: &AnyId) -> String {
    match id {
        AnyId::Flow(flow) => flow.to_string(),
        AnyId::Run(run) => run.to_string(),
        AnyId::Request(request) => request.to_string(),
    }
}

/// Names of the pipelines in a folder, in order.
fn pipeline_names(folder: &Path) -> Vec<String> {
    let names = yaml_files(folder).into_iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()));
    names.collect()
}

/// Pipelines in a folder, in order of their names.
fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let is_yaml = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    let mut files: Vec<PathBuf> = files.filter(is_yaml).collect();
    files.sort();
    files
}

fn root_of(cwd: &Path) -> &Path {
    let marks = ["orchestrator.yaml", "pipelines", ".git"];
    cwd.ancestors().find(|directory| marks.iter().any(|mark| directory.join(mark).exists())).unwrap_or(cwd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn an_ending_that_fits_several_ids_names_them() {
        let flow = AnyId::Flow(FlowId::from_uuid(Uuid::from_u128(7)));
        let run = AnyId::Run(RunId::from_uuid(Uuid::from_u128(7)));
        assert_eq!(Context::only_one("000007", &[run]).unwrap(), run);
        let failure = Context::only_one("000007", &[flow, run]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        let text = failure.to_string();
        assert!(text.contains("`000007` is not unique: flow_0") && text.contains("run_0"), "{text}");
        assert!(text.ends_with("hint: give more of the id"), "{text}");
        assert_eq!(Context::only_one("000007", &[]).unwrap_err().exit, Exit::NotFound);
    }
}
