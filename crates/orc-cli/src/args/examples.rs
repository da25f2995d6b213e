//! What stands below `--help`: what to type, and what one would look for next.

pub(super) const FIRST: &str = "\
To see an agent at work, without a key:
  orchestrator demo

To begin, in a repository:
  orchestrator init
  orchestrator run hello
  orchestrator status

`orchestrator COMMAND --help` has examples.";

pub(super) const INIT: &str = "\
Writes `pipelines/hello.yaml` and `orchestrator.yaml`. What is there already is kept.";

pub(super) const DEMO: &str = "\
Examples:
  orchestrator demo                                  a scripted model: what it says was written beforehand
  orchestrator demo --model claude-sonnet-4-5        a real one, with ANTHROPIC_API_KEY
  orchestrator demo --model gpt-5                    a real one, with OPENAI_API_KEY

The repository is made anew each time, below the data directory; nothing else is touched. Its files are a whole example of
a workspace: a pipeline, an agent, a scripted model, prices.";

pub(super) const RUN: &str = "\
Examples:
  orchestrator run hello
  orchestrator run pipelines/hello.yaml --input greeting=Salut
  orchestrator run hello --dry-run                   what would run, and how long it may take
  orchestrator run hello --logs                      with all that its steps print
  orchestrator run hello --output json > result.json
  orchestrator run hello --output jsonl              events, as they happen

Ctrl-C cancels: runs get TERM, then KILL, and `finally` runs. A second one ends everything at once; a third leaves the
flow for `orchestrator resume`. The exit code is 0 only when the flow succeeded.";

pub(super) const VALIDATE: &str = "\
Examples:
  orchestrator validate
  orchestrator validate pipelines/check.yaml
  orchestrator validate --output json                for editors and pipelines
  orchestrator validate --output sarif > problems.sarif";

pub(super) const GRAPH: &str = "\
Examples:
  orchestrator graph hello
  orchestrator graph hello --output svg > hello.svg
  orchestrator graph 4h7m8a --output svg > flow.svg   a flow, with the states of its steps";

pub(super) const STATUS: &str = "\
Examples:
  orchestrator status                                everything
  orchestrator status 4h7m8a                         one flow or run, by the end of its id
  orchestrator status --watch                        drawn again every second
  orchestrator status 4h7m8a --watch                 the same for one flow, until it is over
  orchestrator status --output json

With `--watch` a terminal is drawn over in place. A pipe or a file gets every section once, then only the sections that say
something new (ages alone are nothing new), below a line with the time; `--output jsonl` gives the whole document each time
something is new. Ctrl-C ends with 130.";

pub(super) const EXPLAIN: &str = "\
Examples:
  orchestrator explain 4h7m8a
  orchestrator explain 4h7m8a --step 'test[3]'";

pub(super) const LOGS: &str = "\
Examples:
  orchestrator logs 4h7m8a                           of a flow: all its runs
  orchestrator logs 4h7m8a --step test               of a fan-out: all its elements
  orchestrator logs 4h7m8a --step 'test[3]'
  orchestrator logs 4h7m8a --follow                  until the flow is over
  orchestrator logs 4h7m8a --events --since 10m      with what happened to its steps
  orchestrator logs 4h7m8a q6f2zd --output jsonl     lines with run, time and stream

What an agent tells as events is put into words; `--raw` prints it as it came. Runs are printed one after another. With `--follow`, `--events` or several ids they are put together in the order of time,
each line with its step before it: `|` stands before output, `--` before remarks, `**` before events. Without `--follow` a
run that goes on is shown as far as it is written. A run that printed nothing may have no log. Ctrl-C ends with 130.";

pub(super) const EXPORT: &str = "\
Examples:
  orchestrator export 4h7m8a > run.json

The document has the run, its flow, its pipeline and profile by their hashes, calls of models with what they used, the
cassette when one was recorded, and the log. Values of secrets that are known are taken out.";

pub(super) const CANCEL: &str = "\
Examples:
  orchestrator cancel 4h7m8a
  orchestrator cancel 4h7m8a --force                 without grace and without `finally`";

pub(super) const RETRY: &str = "\
Starts a new flow by the definition and inputs of the old one. What succeeded is taken over with its outputs; what failed,
was skipped or cancelled runs again, and so does everything that depends on it.

Examples:
  orchestrator retry 4h7m8a
  orchestrator retry 4h7m8a --from test              with `test` and what needs it, whether it succeeded or not

`--from` names a step as the pipeline does; of a fan-out or a `repeat` all of it runs again.";

pub(super) const GATEWAY: &str = "\
It prints the variables by which programs find it; the key in them is worth nothing elsewhere.

Examples:
  orchestrator gateway --port 8787 --usd 5
  orchestrator costs --by model";

pub(super) const RESUME: &str = "\
Examples:
  orchestrator resume --all                          what a crash left; what is paused stays so
  orchestrator resume 4h7m8a                         also when it was paused
  orchestrator resume 4h7m8a --step 'test[3]'        only this step was paused";

pub(super) const PAUSE: &str = "\
What runs goes on to its end; a pause takes no slot and no deadline away.

Examples:
  orchestrator pause 4h7m8a --reason 'until the release is out'
  orchestrator pause 4h7m8a --for 2h                 it goes on by itself
  orchestrator pause 4h7m8a --step deploy
  orchestrator resume 4h7m8a";

pub(super) const REPLAY: &str = "\
Examples:
  orchestrator replay 4h7m8a
  orchestrator replay 4h7m8a --tools                 its tools again too, in a copy that is removed afterwards

What models, tools and people said is taken from the record of the run's conversation; the loop is the real one. Each question
that it asks must be the recorded one, and each event that it tells. Runs of other programs have no record to replay.

With `--tools` each tool is used again as well, where the run began: a fresh private copy of the same commits, in a box without a
network. Each result that differs is named, and ends the command with 1; times, durations and names of temporary files may differ.
What cannot be compared is said. Nothing of the recorded run changes, and no model is asked.";

pub(super) const ASK: &str = "\
Examples:
  orchestrator ask reviewer 'Which tests are slow, and why?'

It works in a private copy, as a step of a pipeline would; `orchestrator logs` shows how it came to its answer.";

pub(super) const MESSAGE: &str = "\
Examples:
  orchestrator message q6f2zd 'Use the old endpoint.'          the agent of a run
  orchestrator message 4h7m8a --step plan 'Leave the tests.'   the agent of a step
  orchestrator message 8k2n4c 'Yes, both.'                     the agent that asked this question

The built-in agent reads it at its next turn. A program that runs does not hear it: the next run of the step reads it. A step
that is over reads nothing.";

pub(super) const PERMISSIONS_EXPLAIN: &str = "\
Examples:
  orchestrator permissions explain --allow 'Bash(npm test *)' --deny 'Bash(rm *)' -- 'Bash(rm -rf build && npm test)'
  orchestrator permissions explain --mode acceptEdits 'Write(.github/workflows/ci.yml)'
  orchestrator permissions explain --output json 'mcp__git__log({\"repo\": \".\"})'

Nothing is run, and the call need not make sense here. Links of this machine are followed, as they are now.";

pub(super) const PERMISSIONS_LINT: &str = "\
Examples:
  orchestrator permissions lint --allow 'Bash(git diff*)' --deny 'Bash(git push *)'
  orchestrator permissions lint rules.jsonl
  orchestrator permissions lint --programs
  orchestrator permissions lint --floors

The exit code is 3 when a rule can't be read.";

pub(super) const PERMISSIONS_TEST: &str = "\
Examples:
  orchestrator permissions test rules.jsonl
  orchestrator permissions test - --output json < rules.jsonl

A row is a call, the rules that it is judged by, and what must come of it:
  {\"id\": \"1\", \"rules\": {\"allow\": [\"Bash(npm test *)\"], \"deny\": [\"Read(.env)\"]}, \"tool\": \"Bash\",
   \"input\": {\"command\": \"npm test\"}, \"expected\": \"allow\"}
`expected` is allow, ask, deny, or filter: a search that leaves something out. `mode`, `cwd`, `why` and `setup` may be there.
The exit code is 1 when a row comes out otherwise, or is none.";

pub(super) const INCIDENTS: &str = "\
Examples:
  orchestrator incidents
  orchestrator incidents --open --since 24h

Steps whose process is lost each time or that were lost and must not run twice, agents that fell silent or went in circles,
budgets that were used up, requests that nobody answered in time, flows that could not be carried out, a holder that cannot
go on, notices that did not arrive. One is open until its flow was retried.";

pub(super) const COSTS: &str = "\
Examples:
  orchestrator costs
  orchestrator costs --by model --since 7d
  orchestrator costs --by day,agent --pipeline release
  orchestrator costs --by ticket --since 2026-03-01 --until 2026-04-01
  orchestrator costs --by agent --by model --output csv > costs.csv

Every call through the model gateway counts, when it began, also of flows that were removed since. `estimated` is what
providers did not tell themselves: streams that broke, calls that were lost with the orchestrator. A call without a price
counts with its tokens and no money.

Columns of `csv`: what was asked for with `--by`, then calls, input, cache_read, cache_write, cache_write_long, output,
reasoning, server_tools, lost_tokens, cost_usd, estimated_usd, unpriced_calls, in_flight_calls, reserved_usd. JSON has the
same with money in millionths of a dollar (`orc/costs/1`).";

pub(super) const BUDGETS: &str = "\
Examples:
  orchestrator budgets
  orchestrator budgets --output json

For each flow with a `budget:` of money, tokens or calls: its limit, what was spent below it (by its children too), what is
reserved for calls in flight, and how much of the money is estimated. There are no budgets of periods yet, and so no
forecasts.

Columns of `csv`: flow, pipeline, wall, limit, spent, reserved, left, estimated_percent, unpriced_calls; money in dollars.
JSON has millionths of a dollar (`orc/budgets/1`).";

pub(super) const RETENTION: &str = "\
What is kept is said in `orchestrator.yaml`, for flows of that workspace, or in the file of the machine's owner, for all:
  retention: { runs: 30d, logs: 14d, events: 30d }

Never removed: flows that are not over, flows that such a flow was made from by `retry`, events that are not read yet.
Events go from the oldest on, up to the first that must stay.";

pub(super) const MAN: &str = "\
Examples:
  orchestrator man | man -l -
  orchestrator man --dir ~/.local/share/man/man1";

pub(super) const COMPLETIONS: &str = "\
Examples:
  orchestrator completions bash > ~/.local/share/bash-completion/completions/orchestrator
  orchestrator completions fish > ~/.config/fish/completions/orchestrator.fish
  orchestrator completions zsh > \"${fpath[1]}/_orchestrator\"";

pub(super) const WORKTREES_LIST: &str = "\
Examples:
  orchestrator worktrees list
  orchestrator worktrees list 4h7m8a                 only of one flow

`leased`: a run has it. `saved`: references hold what is in it. `unsaved`: something in it is held by nothing else, or that
is not known; `worktrees rescue` saves it, and nothing removes it before that is done.";

pub(super) const WORKTREES_SHOW: &str = "\
Examples:
  orchestrator worktrees show 4h7m8a
  orchestrator worktrees show 4h7m8a --step 'fix[3]'

With the commands that take a result over: fetch its reference from our own repository, then merge it or pick its commits.";

pub(super) const WORKTREES_DIFF: &str = "\
Examples:
  orchestrator worktrees diff 4h7m8a --step fix
  orchestrator worktrees diff q6f2zd > fix.patch     of the step of a run

The patch is against what the step started from, with what is not committed.";

pub(super) const WORKTREES_RESCUE: &str = "\
Examples:
  orchestrator worktrees rescue 4h7m8a               all copies of a flow
  orchestrator worktrees rescue 4h7m8a --step fix

A copy that a run has is left alone. The copy stays as it is.";

pub(super) const WORKTREES_GC: &str = "\
Whoever carries flows on removes copies by itself when their flow is over. This is for what stayed: a machine that went
down, a database that was put aside. References of results stay.

Examples:
  orchestrator worktrees gc                          what would go
  orchestrator worktrees gc --apply";

pub(super) const DOCTOR: &str = "\
Examples:
  orchestrator doctor
  sudo orchestrator doctor --fix                     also makes the user that boxes run as
  orchestrator doctor --fix --quiet                  for a script that sets a machine up

Nothing is installed: where a program is missing, the command that installs it is said.";
