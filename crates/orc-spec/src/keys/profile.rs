//! The keys of an agent profile.

use super::Shape::{
    Bool, BuiltIn, Command, Count, CountOrZero, Duration, Later, NameOrNames, Schema, Table as Sub, Text, Variables,
    Words,
};
use super::{BOX, Key, MAX_SLOTS, PERMISSION_MODES, PERMISSIONS, Table, key};

/// The words of `adapter:`; those after the second are not available yet.
pub const ADAPTERS: &[&str] = &["built-in", "command", "claude-code", "codex", "acp"];
/// Tools of the built-in agent that `tools:` and `disallowedTools:` may name.
pub const TOOLS: &[&str] = &[
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "Glob",
    "Grep",
    "Bash",
    "BashOutput",
    "KillShell",
    "WebFetch",
    "TodoWrite",
    "Agent",
];
/// The words of `effort:`.
pub const EFFORTS: &[&str] = &["low", "medium", "high"];
/// Largest `maxTurns:`.
pub const MAX_TURNS: u32 = 10_000;
/// The words of `mode:` that are available.
pub const MODES: &[&str] = &["work", "plan", "review", "check"];
/// Largest `max_messages:`.
pub const MAX_MESSAGES: u32 = 10;

const PROGRAM_DECIDES: &str = "the program decides that itself: give it its own option in `command:` or a variable in `env:`, and remove this key";
const PROGRAM_OWNS_TOOLS: &str =
    "the program brings its own tools: limit them with its own options in `command:`, and remove this key";
const PROGRAM_JUDGES: &str = "no call of a program of your own is judged: what bounds it is its box; limit it with its own options in `command:`";
const PROGRAM_OWNS_LOOP: &str =
    "the program runs its own loop: what bounds it from outside is `silence_timeout:` here and `timeout:` on the step";

/// A profile: the front matter of `agents/NAME.md`.
pub static PROFILE: Table = Table {
    name: "a profile",
    keys: &[
        key("name", Text, "The agent's name, which is the name of the file."),
        key("description", Text, "What it is for, in a sentence."),
        key(
            "adapter",
            Words(&["built-in", "command"]),
            "What runs it: `built-in`, which is meant without it, is the agent that comes with the orchestrator, `command` a program of \
             your choice.",
        ),
        key("command", Command, "The program with its arguments as a list, or a script that `sh -eu -c` reads."),
        key("role", Text, "Its role in the team, one line; told to it."),
        key("mode", Words(MODES), "What it is there for; without it `work`, the others mostly read."),
        key(
            "silence_timeout",
            Duration,
            "A run that says nothing for so long is stopped: 1m to 240m; without it 15m, 10m in modes that read.",
        ),
        key("max_concurrent", Count(MAX_SLOTS), "Runs of this agent at the same time; without it no limit of its own."),
        key(
            "max_messages",
            CountOrZero(MAX_MESSAGES),
            "How often it is told what is missing before its run ends without a deliverable; without it 2.",
        ),
        key(
            "model",
            Text,
            "The model that it asks for: with it, and only with it, it has a way to the model gateway. The built-in agent needs one.",
        ),
        key("env", Variables, "Environment variables, over those of pipeline and step."),
        key("output", Sub(&OUTPUT), "What it must submit, when the step does not say it."),
        key(
            "tools",
            BuiltIn(&NameOrNames, PROGRAM_OWNS_TOOLS),
            "Tools that it has, `Bash(npm test *)` with a grant for such calls; without it all that its mode allows.",
        ),
        key(
            "disallowedTools",
            BuiltIn(&NameOrNames, PROGRAM_OWNS_TOOLS),
            "Tools that it has not, whatever `tools` says; `Bash(rm *)` leaves the tool and denies such calls.",
        ),
        key(
            "maxTurns",
            BuiltIn(&Count(MAX_TURNS), PROGRAM_OWNS_LOOP),
            "Answers of the model in one run at most; without it no bound.",
        ),
        key(
            "fallback_models",
            BuiltIn(&NameOrNames, PROGRAM_DECIDES),
            "Models that take the place of one that does not answer, in order.",
        ),
        key(
            "effort",
            BuiltIn(&Words(EFFORTS), PROGRAM_DECIDES),
            "How hard the model is to think; without it as it does by itself.",
        ),
        key(
            "memory",
            BuiltIn(&Bool, PROGRAM_DECIDES),
            "Whether it reads `AGENTS.md` and `CLAUDE.md` of the repository; without it yes.",
        ),
        key("git", BuiltIn(&Bool, PROGRAM_DECIDES), "Whether it is told the state of the repository; without it yes."),
        key(
            "workers",
            BuiltIn(&NameOrNames, PROGRAM_OWNS_LOOP),
            "Agents that it may start itself, each under its own profile.",
        ),
        key("thinking", Later, "Whether the model thinks aloud."),
        key(
            "permissionMode",
            BuiltIn(&Words(PERMISSION_MODES), PROGRAM_JUDGES),
            "What happens to calls that no rule names; without it its box is what holds it.",
        ),
        key("mcpServers", Later, "Servers with further tools."),
        key("skills", Later, "Instructions that it can look up."),
        key("hooks", Later, "Programs that look on."),
        key(
            "permissions",
            BuiltIn(&Sub(&PERMISSIONS), PROGRAM_JUDGES),
            "Which calls of tools run, and which are asked about.",
        ),
        key("box", Sub(&BOX), "What its box lets through, beside what pipeline and step let through."),
        key("worktree", Later, "Where it works."),
        key("capabilities", Later, "What it may do outside: push, GitHub."),
        key("budget", Later, "What it may spend."),
        key("team", Later, "A brief that several agents share."),
        key("schedule", Later, "When it wakes by itself."),
    ],
    required: &[],
    foreign: &[
        ("prompt", "the system prompt is the text below the front matter; a step's own prompt stands in the pipeline"),
        ("system_prompt", "the system prompt is the text below the front matter"),
        ("instructions", "the system prompt is the text below the front matter"),
        ("run", "write `command:`"),
        ("cmd", "write `command:`"),
        ("program", "write `command:`"),
        ("script", "write `command:`"),
        ("entrypoint", "write `command:`"),
        ("args", "write the arguments into the list: `command: [program, argument]`"),
        ("arguments", "write the arguments into the list: `command: [program, argument]`"),
        ("type", "write `adapter:`"),
        ("backend", "write `adapter:`"),
        ("timeout", "write `silence_timeout:` for silence; the longest time of a run is `timeout:` of the step"),
        ("idle_timeout", "write `silence_timeout:`"),
        ("concurrency", "write `max_concurrent:`"),
        ("environment", "write `env:`"),
        ("schema", "write `output: { schema: schemas/NAME.json }`"),
        ("allowed_tools", "write `tools:`"),
        ("disallowed_tools", "write `disallowedTools:`"),
        ("max_turns", "write `maxTurns:`"),
        ("color", "it has no meaning here; remove this key"),
        ("background", "every agent runs by itself; remove this key"),
        ("isolation", "it is the step that says where it works: `worktree:` in the pipeline"),
    ],
};

/// `output:`.
pub static OUTPUT: Table = Table {
    name: "`output`",
    keys: &[key(
        "schema",
        Schema,
        "A JSON Schema: the schema itself, or the path of a JSON file from the repository's root.",
    )],
    required: &["schema"],
    foreign: &[("type", "write `schema: { type: object }`"), ("file", "write `schema: schemas/NAME.json`")],
};

/// What to do instead of a key that only the built-in agent understands.
pub(crate) fn unhonoured(key: &Key) -> Option<&'static str> {
    match key.shape {
        BuiltIn(_, advice) => Some(advice),
        _ => None,
    }
}
