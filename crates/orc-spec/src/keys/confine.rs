//! The keys of `worktree:`, `box:` and `on_conflict:`: where steps work, what they reach, who brings results together.

use super::Shape::{Count, CountOrZero, Either, ListOf, NameOrNames, Table as Sub, Template, Text, Words};
use super::{Table, key};

/// The words of `worktree:`.
pub const WORKTREES: &[&str] = &["parents", "fresh", "none", "in_place"];

/// The words of `sandbox:`.
pub const SANDBOXES: &[&str] = &["required"];
/// The words of `strategy:`.
pub const STRATEGIES: &[&str] = &["auto", "overlay", "btrfs", "clone"];
/// The largest number of a user or group; one more means nobody in system calls.
pub const MAX_ID: u32 = u32::MAX - 1;
/// Linux: `PID_MAX_LIMIT`, the most processes and threads of a machine.
pub const MAX_PROCESSES: u32 = 4_194_304;
/// Linux: the usual `fs.nr_open`.
pub const MAX_OPEN_FILES: u32 = 1_048_576;
/// Mebibytes; 16 TiB.
pub const MAX_MEBIBYTES: u32 = 16_777_216;

const FROM: &str = "What a step starts from: what its parents made (`parents`, the default), the commits that the flow \
                    started with (`fresh`), an empty directory (`none`), or your own checkout, without a copy and without a \
                    box (`in_place`).";

/// `worktree:` of a pipeline.
pub static WORKTREE: Table = Table {
    name: "`worktree`",
    keys: &[
        key("from", Words(WORKTREES), FROM),
        key(
            "repositories",
            ListOf(&Either(&[Text, Sub(&REPOSITORY)])),
            "The repositories that it works in, by path; steps begin in the first. Without it the one that it is started in.",
        ),
    ],
    required: &[],
    foreign: &[
        ("repository", "write `repositories:` with a list"),
        ("path", "write it on a repository: `repositories: [{ path: ., base: main }]`"),
        ("base", "write it on a repository: `repositories: [{ path: ., base: main }]`"),
        ("branch", "write it on a repository: `repositories: [{ path: ., base: main }]`"),
        ("mode", "write `from:`"),
        ("type", "write `from:`"),
        (
            "strategy",
            "it is the machine that says how copies are made: `worktree: { strategy: ... }` in orchestrator.yaml",
        ),
    ],
};

/// `worktree:` of a step.
pub static STEP_WORKTREE: Table = Table {
    name: "`worktree` of a step",
    keys: &[
        key("from", Words(WORKTREES), FROM),
        key("repositories", NameOrNames, "Those of the pipeline's repositories that it gets, by path; without it all."),
    ],
    required: &[],
    foreign: WORKTREE.foreign,
};

/// One of `repositories:`.
pub static REPOSITORY: Table = Table {
    name: "a repository",
    keys: &[
        key("path", Text, "Where it is, from the repository that the pipeline is started in, which is `.`: `../docs`."),
        key("base", Text, "The branch, tag or commit that flows start from; without it what is checked out."),
    ],
    required: &["path"],
    foreign: &[
        ("branch", "write `base:`"),
        ("ref", "write `base:`"),
        ("tag", "write `base:`"),
        ("commit", "write `base:`"),
        ("name", "write `path:`"),
        ("url", "repositories are on this machine already; write `path:`"),
    ],
};

/// `box:`.
pub static BOX: Table = Table {
    name: "`box`",
    keys: &[
        key("read", ListOf(&Text), "Paths of the machine that can be read, absolute or below `~/`."),
        key("write", ListOf(&Text), "Paths of the machine that can be changed too."),
        key(
            "cache",
            ListOf(&Text),
            "Directories of the repository that outlive a run, by name: `/cache/NAME`, in `ORC_CACHE_NAME`.",
        ),
        key(
            "network",
            ListOf(&Text),
            "Hosts that can be reached: `example.com`, `*.example.com`, `example.com:8443`; without it none.",
        ),
        key("env", ListOf(&Text), "Environment variables of the host that are passed on."),
        key("secrets", ListOf(&Text), "Secrets of the settings, as variables of the same name; in `run:` steps only."),
    ],
    required: &[],
    foreign: &[
        ("paths", "write `read:` or `write:`"),
        ("mounts", "write `read:` or `write:`"),
        ("volumes", "write `read:` or `write:`"),
        ("hosts", "write `network:`"),
        ("allow", "write `network:` for hosts, `read:` or `write:` for paths"),
        ("caches", "write `cache:`"),
        ("secret", "write `secrets:`"),
        ("variables", "write `env:`"),
        ("pass_env", "write `env:`"),
        ("limits", "it is the machine that has limits: `box: { limits: ... }` in orchestrator.yaml"),
        ("image", "a box has the programs of this machine; make others readable with `read:`"),
    ],
};

/// `on_conflict:`.
pub static ON_CONFLICT: Table = Table {
    name: "`on_conflict`",
    keys: &[
        key("agent", Text, "Who brings together what cannot be merged: the name of its profile."),
        key("prompt", Template, "What it is asked; without it, to keep what each side wanted, and to run the tests."),
    ],
    required: &["agent"],
    foreign: &[
        ("instructions", "write `prompt:`"),
        ("by", "write `agent:`"),
        ("strategy", "write `agent:`, who decides"),
    ],
};

/// `box:` of the settings: who works in boxes, what pipelines may ask for at most, and bounds.
pub static BOX_SETTINGS: Table = Table {
    name: "`box` of the settings",
    keys: &[
        key("uid", Count(MAX_ID), "Number of the user that works in boxes; `doctor --fix` makes one."),
        key("gid", Count(MAX_ID), "Number of its group; without it that of the user."),
        key(
            "read",
            ListOf(&Text),
            "Paths that pipelines and agents may ask to read; without it all that is not hidden.",
        ),
        key("write", ListOf(&Text), "Paths that they may ask to change; without it all that is not hidden."),
        key("network", ListOf(&Text), "Hosts that they may ask for; without it all."),
        key("env", ListOf(&Text), "Variables of the host that they may ask for; without it all."),
        key("limits", Sub(&BOX_LIMITS), "Bounds of every box."),
    ],
    required: &[],
    foreign: &[
        ("user", "write `uid:` with the number of the user; `id -u NAME` shows it"),
        ("group", "write `gid:` with the number of the group"),
        ("cache", "caches need no leave; each is of one repository"),
        ("secrets", "write `secrets:` beside `box:`: what stands there is what pipelines may ask for"),
        ("processes", "write it within: `limits: { processes: 512 }`"),
        ("memory_mb", "write it within: `limits: { memory_mb: 8192 }`"),
        ("disk_mb", "write it within: `limits: { disk_mb: 10240 }`"),
        ("open_files", "write it within: `limits: { open_files: 4096 }`"),
    ],
};

/// `box.limits:` of the settings.
pub static BOX_LIMITS: Table = Table {
    name: "`limits`",
    keys: &[
        key("processes", Count(MAX_PROCESSES), "Processes and threads of one box at once; without it 512."),
        key("memory_mb", CountOrZero(MAX_MEBIBYTES), "MiB of memory of one box; without it 8192, 0 is no bound."),
        key("disk_mb", CountOrZero(MAX_MEBIBYTES), "MiB that one box may write; without it 10240, 0 is no bound."),
        key("open_files", Count(MAX_OPEN_FILES), "Files that one process may have open; without it 4096."),
    ],
    required: &[],
    foreign: &[
        ("pids", "write `processes:`"),
        ("memory", "write `memory_mb:` with a number of MiB"),
        ("disk", "write `disk_mb:` with a number of MiB"),
        ("nofile", "write `open_files:`"),
        ("time", "the longest time of a step is its `timeout:`"),
    ],
};

/// `worktree:` of the settings.
pub static WORKTREE_SETTINGS: Table = Table {
    name: "`worktree` of the settings",
    keys: &[
        key(
            "strategy",
            Words(STRATEGIES),
            "How private copies are made; without it `auto`, which is the best that this machine can do.",
        ),
        key(
            "max_file_mb",
            CountOrZero(MAX_MEBIBYTES),
            "MiB of the largest file that goes from step to step, without it 1024; 0 is no bound. A larger one is told in the \
             log of its run.",
        ),
    ],
    required: &[],
    foreign: &[
        ("from", "it is a pipeline that says what steps start from: `worktree:` there"),
        ("repositories", "it is a pipeline that says in which repositories it works: `worktree:` there"),
    ],
};

/// One of `secrets:`.
pub static SECRET: Table = Table {
    name: "a secret",
    keys: &[
        key("env", Text, "The variable of the host that holds it."),
        key("file", Text, "The file that holds it, absolute or below `~/`; a line end at its end is left out."),
    ],
    required: &[],
    foreign: &[
        ("value", "a secret does not stand in a file of settings; write `{ env: NAME }` or `{ file: PATH }`"),
        ("path", "write `file:`"),
        ("variable", "write `env:`"),
        ("from", "write `env:` or `file:`"),
    ],
};
