//! What the program takes from the machine it runs on: environment, user, terminal. Read here and nowhere else.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use orc_domain::time::Millis;
use orc_ports::clock::Clock;
use orc_runtime::clock::{FastClock, SystemClock};
use orc_spec::settings::ALWAYS_PASSED;
use tracing_subscriber::EnvFilter;

const CLOCK_RATE: &str = "ORC_CLOCK_RATE";
const CLOCK_AHEAD: &str = "ORC_CLOCK_AHEAD";

/// Variables that the program itself reads, for the reference.
pub(crate) const READ: &[(&str, &str)] = &[
    ("ORC_DATA", "the data directory, as `--data`"),
    ("ORC_SLOTS", "the setting `slots`"),
    ("ORC_PASS_ENV", "the setting `pass_env`"),
    ("ORC_CANCEL_GRACE", "the setting `cancel_grace`"),
    ("ORC_LOG_LIMIT", "the setting `log_limit`"),
    ("ORC_LOG", "what is said on standard error about the inside, as a filter of `tracing` (`orc_runtime=debug`)"),
    (CLOCK_RATE, "for tests: whoever carries flows on counts so many seconds in each"),
    (CLOCK_AHEAD, "for tests: whoever carries flows on lives so many seconds later"),
    ("NO_COLOR", "no colour, whatever the terminal can do"),
    ("XDG_STATE_HOME", "where the data directory lies unless it is named: `$XDG_STATE_HOME/orchestrator`"),
    ("HOME", "the same without XDG_STATE_HOME: `$HOME/.local/state/orchestrator`"),
];

/// Variables that every step gets from us, for the reference.
pub(crate) const GIVEN: &[(&str, &str)] = &[
    ("ORC_FLOW_ID", "id of the flow"),
    ("ORC_RUN_ID", "id of the attempt"),
    ("ORC_STEP", "path of the step: `build`, `build[3]`"),
    ("ORC_ATTEMPT", "1 for the first attempt"),
    ("ORC_WAKE_REASON", "`pipelineStep`, or `recovery` after a lost run"),
    ("ORC_WORKSPACE_ID", "id of the workspace"),
    ("ORC_OUTPUT", "a file for outputs: `key=value` lines, values JSON where they parse"),
    (
        "ORC_TEMP",
        "a directory of the step's own that lives as long as the flow; made if the script names it, else `mkdir -p` it",
    ),
    ("ORC_INSTANCE", "id of the process that started it"),
    ("ORC_EXPR_1 ...", "values of the `${{ }}` in `run:`"),
];

/// A variable of the environment. Empty counts as not set.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The host's variables as steps see them: those that are always passed, and `more` by name.
pub(crate) fn passed_variables(more: &[String]) -> BTreeMap<String, String> {
    let names = ALWAYS_PASSED.into_iter().chain(more.iter().map(String::as_str));
    names.filter_map(|name| Some((name.to_owned(), variable(name)?))).collect()
}

/// All variables, for boxes: rules name those that go in.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn variables() -> BTreeMap<String, String> {
    // One that is not UTF-8 cannot be named in a rule.
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The home of the user; `/` when they have none.
pub(crate) fn home() -> PathBuf {
    variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute()).unwrap_or_else(|| PathBuf::from("/"))
}

/// Our own program.
pub(crate) fn executable() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

/// The platform's state directory for this program.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let state = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state.or_else(home).map(|state| state.join("orchestrator"))
}

/// Cores that this program may use.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// The clock of whoever carries flows on.
pub(crate) fn clock() -> Arc<dyn Clock> {
    let rate = variable(CLOCK_RATE).and_then(|rate| rate.parse().ok());
    let ahead = variable(CLOCK_AHEAD).and_then(|ahead| ahead.parse().ok()).map(Millis::from_secs);
    match (rate, ahead) {
        (None, None) => Arc::new(SystemClock),
        (rate, ahead) => Arc::new(FastClock::new(rate.unwrap_or(NonZeroU32::MIN), ahead.unwrap_or(Millis::ZERO))),
    }
}

/// The number of the local user.
pub(crate) fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Whether to use colour on a stream.
pub(crate) fn colour(is_terminal: bool) -> bool {
    is_terminal && variable("NO_COLOR").is_none() && variable("TERM").is_none_or(|term| term != "dumb")
}

/// Sends the program's own log to standard error; quiet unless asked.
pub(crate) fn log_to_stderr(verbose: u8) {
    let default = match verbose {
        0 => "error",
        1 => "info",
        _ => "debug",
    };
    let filter = variable("ORC_LOG").and_then(|text| EnvFilter::try_new(text).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(default));
    let ansi = colour(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
}
