//! The keys of a step and of what stands within one.

use super::Shape::{
    Bool, Condition, Count, Duration, Either, Env, Integer, Later, List, ListOf, Matrix, NameOrNames, Script, Shell,
    Steps, Table as Sub, Template, Templates, Text, Words,
};
use super::{
    BOX, BUDGET, CONCURRENCY, MAX_SLOTS, ON_CONFLICT, OUTPUT, PERMISSIONS_ABOVE, RETRY, STEP_WORKTREE, Table,
    WORKTREES, key,
};

/// Largest `priority:`, and with a minus the smallest.
pub const MAX_PRIORITY: i16 = 100;
/// The words of `on_timeout:`.
pub const ON_TIMEOUT: &[&str] = &["deny", "approve"];
/// The events that `wait:` knows.
pub const WAIT_EVENTS: &[&str] = &["FlowFinished", "AgentRunCompleted"];
/// Events that it will know.
pub const LATER_EVENTS: &[&str] = &[
    "TicketCreated",
    "TicketAssigned",
    "TicketStatusChanged",
    "TicketCompleted",
    "TicketFailed",
    "TicketCancelled",
    "BudgetThresholdCrossed",
    "IncidentOpened",
    "PullRequestOpened",
    "PulseMissed",
];
/// The keys that say what a step does; a step has exactly one.
pub const STEP_KINDS: &[&str] = &[
    "run",
    "agent",
    "orchestrate",
    "goal",
    "loop",
    "pipeline",
    "repeat",
    "approval",
    "wait",
    "ticket",
    "comment",
    "publish",
];

/// Keys that have a meaning beside some kinds of steps only.
const BESIDE: &[(&str, &[&str])] = &[
    ("shell", &["run"]),
    ("prompt", &["agent"]),
    ("output", &["agent", "run"]),
    ("with", &["pipeline"]),
    ("env", &["run", "agent"]),
    ("retry", &["run", "agent"]),
    ("timeout", &["run", "agent"]),
    ("idempotent", &["run", "agent"]),
    ("worktree", &["run", "agent"]),
    ("box", &["run", "agent"]),
    ("on_conflict", &["run", "agent", "repeat", "pipeline"]),
    ("permissions", &["agent"]),
    ("artifacts", &["run", "agent"]),
    ("budget", &["run", "agent"]),
    ("priority", &["run", "agent", "pipeline"]),
];

/// The kinds beside which `key` has a meaning, when `kind` is not one of them.
pub(crate) fn misplaced(key: &str, kind: &str) -> Option<&'static [&'static str]> {
    let (_, kinds) = BESIDE.iter().find(|(name, _)| *name == key)?;
    (!kinds.contains(&kind)).then_some(kinds)
}

/// A step.
pub static STEP: Table = Table {
    name: "a step",
    keys: &[
        key("run", Script, "A script; its expressions reach it as environment variables."),
        key("shell", Shell, "What reads the script; without it `sh`."),
        key("needs", NameOrNames, "Steps that must be finished before."),
        key("if", Condition, "Whether it runs; without a status function, all needed steps must also have succeeded."),
        key("env", Env, "Environment variables, over those of the pipeline."),
        key("foreach", List, "Runs the step once for each element of a list."),
        key("as", Text, "Name of the element in expressions; without it `item`."),
        key("limit", Count(MAX_SLOTS), "Elements that may be under way at the same time."),
        key("fail_fast", Bool, "The first element that fails cancels the others."),
        key("retry", Sub(&RETRY), "What happens after a failed attempt."),
        key("timeout", Duration, "Longest time of one attempt."),
        key("continue_on_fail", Bool, "Its failure does not fail the flow, and steps that need it go on."),
        key("idempotent", Bool, "`false`: an attempt that was lost in flight is not repeated without a person."),
        key("worktree", Either(&[Words(WORKTREES), Sub(&STEP_WORKTREE)]), "Where it works, instead of the pipeline's."),
        key("agent", Text, "Runs an agent: the name of its profile."),
        key("prompt", Template, "What the agent is asked."),
        key("output", Sub(&OUTPUT), "What the agent must submit; over what its profile says."),
        key("orchestrate", Later, "A lead agent plans and workers carry out."),
        key("goal", Later, "A supervised objective with a budget."),
        key("loop", Later, "A supervised repetition with a budget."),
        key(
            "pipeline",
            Text,
            "Runs another pipeline: a name is the file `NAME.yaml` beside this one, or a path from it.",
        ),
        key("with", Templates, "Inputs of the other pipeline."),
        key("repeat", Sub(&REPEAT), "Runs steps in rounds."),
        key("approval", Either(&[NameOrNames, Sub(&APPROVAL)]), "Asks people: those who may answer, or a map."),
        key("wait", Either(&[Template, Sub(&WAIT)]), "Waits for a while (`10m`), or until a time or an event."),
        key("ticket", Later, "Creates or changes a ticket."),
        key("comment", Later, "Writes a comment."),
        key("publish", Later, "Publishes the result."),
        key("matrix", Matrix, "Runs the step once for each combination of values; expressions read it as `matrix`."),
        key(
            "artifacts",
            Either(&[NameOrNames, Templates]),
            "Files that are kept once it succeeded: paths, or a map of names to paths.",
        ),
        key("permissions", Sub(&PERMISSIONS_ABOVE), "What holds for its agent beside what its profile says."),
        key("budget", Sub(&BUDGET), "What one attempt may use."),
        key("box", Sub(&BOX), "What its box lets through, beside what the pipeline's does."),
        key(
            "on_conflict",
            Sub(&ON_CONFLICT),
            "Who brings together what its parents or elements changed in ways that cannot be merged; without it, it fails.",
        ),
        key(
            "concurrency",
            Either(&[Template, Sub(&CONCURRENCY)]),
            "The group that it is in, of which only so many may be under way at once, over all flows.",
        ),
        key(
            "priority",
            Integer(-MAX_PRIORITY, MAX_PRIORITY),
            "What runs first when slots are short: each point counts as five minutes of waiting.",
        ),
    ],
    required: &[],
    foreign: &[
        ("uses", "there are no prepared actions; write the commands under `run:`"),
        ("runs-on", "steps run on the machine that runs the orchestrator; remove this key"),
        ("timeout-minutes", "write `timeout: 30m`"),
        ("continue-on-error", "write `continue_on_fail: true`"),
        ("strategy", "write `matrix:`, or `foreach:` with a list; `limit:` and `fail_fast:` stand beside it"),
        ("max-parallel", "write `limit:`"),
        ("fail-fast", "write `fail_fast:`"),
        ("working-directory", "begin the script with `cd DIRECTORY`"),
        ("depends_on", "write `needs:`"),
        ("when", "write `if:`"),
        ("name", "the key of the step is its name"),
        ("id", "the key of the step is its name"),
        ("outputs", "a script writes `key=value` lines to the file `$ORC_OUTPUT`"),
        ("script", "write `run:`"),
        ("command", "write `run:`"),
        ("cmd", "write `run:`"),
        ("for_each", "write `foreach:`"),
        ("steps", "steps within a step are the body of a `repeat`; else write them one after another with `needs:`"),
        ("until", "write it within: `repeat: { until: ... }` or `wait: { until: ... }`"),
        ("max", "write it within: `repeat: { max: 3 }`"),
        ("inputs", "write `with:`"),
        ("call", "write `pipeline:`"),
        ("workflow", "write `pipeline:`"),
        ("sleep", "write `wait:`"),
        ("delay", "write a step before it: `wait: 10m`"),
        ("environment", "write `env:` for variables; for people who must agree, a step before it with `approval:`"),
        ("instructions", "write `prompt:`"),
        ("schema", "write `output: { schema: ... }`"),
    ],
};

/// `repeat:`.
pub static REPEAT: Table = Table {
    name: "`repeat`",
    keys: &[
        key("max", Count(orc_domain::action::MAX_ROUNDS), "Rounds at most."),
        key(
            "until",
            Condition,
            "Ends it when true after a round, where `steps` is that round; without it all are made.",
        ),
        key("steps", Steps, "The steps of a round; `previous` is the round before."),
    ],
    required: &["max", "steps"],
    foreign: &[
        ("while", "write `until:` with the opposite: `!( ... )`"),
        ("times", "write `max:`"),
        ("count", "write `max:`"),
        ("rounds", "write `max:`"),
        (
            "finally",
            "steps that run in any case stand in the body with `if: always()`, or in `finally:` of the pipeline",
        ),
    ],
};

/// `approval:`.
pub static APPROVAL: Table = Table {
    name: "`approval`",
    keys: &[
        key("by", NameOrNames, "People and groups of the settings that may answer; without it the role admin."),
        key("message", Template, "What is asked."),
        key("timeout", Duration, "When it is closed without an answer; without it 7d."),
        key("on_timeout", Words(ON_TIMEOUT), "What that means; without it `deny`."),
        key("remind", Duration, "People are told again each time this has passed."),
        key("tiers", ListOf(&Sub(&TIER)), "Who else may answer after a while."),
        key("four_eyes", Bool, "Whoever started the flow may not answer."),
    ],
    required: &[],
    foreign: &[
        ("approvers", "write `by:`"),
        ("reviewers", "write `by:`"),
        ("users", "write `by:`"),
        ("groups", "write `by:`, which takes people and groups"),
        ("prompt", "write `message:`"),
        ("escalate", "write `tiers: [{ after: 1d, by: [...] }]`"),
        ("default", "write `on_timeout:`"),
    ],
};

/// One of `tiers:`.
pub static TIER: Table = Table {
    name: "a tier",
    keys: &[
        key("after", Duration, "Since the question was asked."),
        key("by", NameOrNames, "People and groups of the settings."),
    ],
    required: &["after", "by"],
    foreign: &[],
};

/// `wait:`.
pub static WAIT: Table = Table {
    name: "`wait`",
    keys: &[
        key("for", Template, "How long, from the moment the step is reached: `10m`."),
        key("until", Template, "Until when: `2026-12-24T18:00:00Z`."),
        key("event", Words(WAIT_EVENTS), "The event that is waited for."),
        key("pipeline", Template, "Beside `event`: only of flows of the pipeline of this name."),
        key("timeout", Duration, "Beside `event`: not longer than this, then the step fails; without it 1d."),
    ],
    required: &[],
    foreign: &[
        ("seconds", "write `for: 30s`"),
        ("minutes", "write `for: 10m`"),
        ("duration", "write `for:`"),
        ("time", "write `until:`"),
    ],
};
