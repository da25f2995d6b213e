//! `worktrees gc`: copies of flows that are over, and of flows that the store does not know.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::flow::FlowState;
use orc_domain::ids::FlowId;
use orc_ports::reader::Reader as _;
use orc_ports::worktrees::{CopyEntry, CopyState, Freed};
use serde_json::{Value, json};

use super::super::db::lock;
use super::super::status::report::bytes;
use super::{copy_document, of_worktrees};
use crate::args::RemoveArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, unavailable};
use crate::hold::of_store;
use crate::output::{self, Form, say};
use crate::view::columns::Columns;

/// Why the copies of a flow may go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Over,
    Unknown,
}

impl Why {
    const fn word(self) -> &'static str {
        match self {
            Self::Over => "its flow is over",
            Self::Unknown => "nobody knows its flow",
        }
    }
}

/// What may go, and what would if no run had it.
#[derive(Default)]
struct Garbage {
    flows: BTreeMap<FlowId, Why>,
    copies: Vec<CopyEntry>,
    leased: Vec<CopyEntry>,
}

impl Garbage {
    /// A flow with a copy that a run has stays as a whole: what removes copies takes a flow at a time.
    fn of(copies: Vec<CopyEntry>, flows: BTreeMap<FlowId, Why>) -> Self {
        let has_lease = |copy: &&CopyEntry| copy.state == CopyState::Leased;
        let busy: BTreeSet<FlowId> = copies.iter().filter(has_lease).map(|copy| copy.conversation.flow).collect();
        let mut garbage = Self::default();
        for copy in copies.into_iter().filter(|copy| flows.contains_key(&copy.conversation.flow)) {
            let flow = copy.conversation.flow;
            if !busy.contains(&flow) {
                garbage.copies.push(copy);
            } else if copy.state == CopyState::Leased {
                garbage.leased.push(copy);
            }
        }
        garbage.flows = flows.into_iter().filter(|(flow, _)| !busy.contains(flow)).collect();
        garbage
    }

    fn bytes(&self) -> u64 {
        self.copies.iter().map(|copy| copy.bytes).sum()
    }
}

pub(crate) async fn run(context: &Context, args: &RemoveArgs) -> CommandResult {
    let _lock = if args.apply { Some(lock(context, "worktrees gc")?) } else { None };
    let worktrees = context.copies();
    let owners = worktrees.owners().await.map_err(of_worktrees)?;
    let copies = worktrees.list().await.map_err(of_worktrees)?;
    let flows = removable(context, owners.flows).await?;
    let garbage = Garbage::of(copies, flows);
    for path in owners.unknown {
        say(&format!("`{}` is no copy that is known, and stays; look into it, and remove it by hand", path.display()));
    }
    let (mut freed, mut failures) = (Freed::default(), Vec::new());
    if args.apply {
        for flow in garbage.flows.keys() {
            match worktrees.collect(*flow).await {
                Ok(of_flow) => {
                    freed.copies += of_flow.copies;
                    freed.rescued += of_flow.rescued;
                    freed.bytes += of_flow.bytes;
                }
                Err(error) => failures.push(format!("{flow}: {}", of_worktrees(error))),
            }
        }
        match worktrees.tidy().await {
            Ok(bytes) => freed.bytes += bytes,
            Err(error) => failures.push(of_worktrees(error).to_string()),
        }
    }
    print(&garbage, args.apply.then_some(freed), &failures, args.output.output)?;
    if failures.is_empty() {
        return Ok(Exit::Success);
    }
    failures.iter().for_each(|failure| say(failure));
    Err(unavailable("not everything could be removed: see above").hint("what stays is tried again the next time"))
}

/// Those of the flows that will not need their copies any more.
async fn removable(context: &Context, flows: BTreeSet<FlowId>) -> CommandResult<BTreeMap<FlowId, Why>> {
    let mut removable = BTreeMap::new();
    if flows.is_empty() {
        return Ok(removable);
    }
    if !context.data.database().is_file() {
        return Ok(flows.into_iter().map(|flow| (flow, Why::Unknown)).collect());
    }
    let reader = context.reader().await?;
    for flow in flows {
        match reader.flow_head(flow).await.map_err(of_store)? {
            None => drop(removable.insert(flow, Why::Unknown)),
            Some((_, head)) if matches!(head.state, FlowState::Finished { .. }) => {
                removable.insert(flow, Why::Over);
            }
            Some(_) => {}
        }
    }
    Ok(removable)
}

fn print(garbage: &Garbage, freed: Option<Freed>, failures: &[String], form: Form) -> CommandResult<()> {
    if form != Form::Table {
        let copies: Vec<Value> = garbage.copies.iter().map(copy_document).collect();
        let leased: Vec<Value> = garbage.leased.iter().map(copy_document).collect();
        let freed =
            freed.map(|freed| json!({ "copies": freed.copies, "rescued": freed.rescued, "bytes": freed.bytes }));
        let document = json!({
            "schema": "orc/worktrees-gc/1", "removed": freed.is_some(), "failures": failures, "worktrees": copies,
            "leased": leased, "freed": freed,
        });
        return output::document(form, &document, Some("worktrees"));
    }
    output::text(&text(garbage, freed))
}

fn text(garbage: &Garbage, freed: Option<Freed>) -> String {
    let mut text = String::new();
    let mut table = Columns::titled(&["FLOW", "STEP", "STATE", "SIZE", "WHY"]);
    for copy in garbage.copies.iter().chain(&garbage.leased) {
        let flow = copy.conversation.flow;
        let why = match (garbage.flows.get(&flow), copy.run) {
            (Some(why), _) => why.word().to_owned(),
            (None, Some(run)) => format!("stays: {run} has it"),
            (None, None) => "stays: a run has it".to_owned(),
        };
        let path = copy.conversation.path.as_str();
        table.row([&flow.to_string(), path, copy.state.word(), &bytes(copy.bytes), &why]);
    }
    if !garbage.copies.is_empty() || !garbage.leased.is_empty() {
        text.push_str(&table.text(""));
    }
    match freed {
        None if garbage.copies.is_empty() => text.push_str("nothing to remove\n"),
        Some(freed) if garbage.copies.is_empty() && freed == Freed::default() => text.push_str("nothing to remove\n"),
        Some(Freed { copies, rescued, bytes: freed }) => {
            text.push_str(&format!(
                "removed {copies} copies, {rescued} of them rescued before: {} freed\n",
                bytes(freed)
            ));
        }
        None => {
            let (count, size) = (garbage.copies.len(), bytes(garbage.bytes()));
            text.push_str(&format!("{count} copies with {size} would be removed; `--apply` does it\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use orc_domain::ids::RunId;
    use orc_domain::path::StepPath;
    use orc_domain::time::Timestamp;
    use orc_domain::tree::Tree;
    use orc_ports::worktrees::Conversation;
    use uuid::Uuid;

    use super::*;

    fn flow(number: u128) -> FlowId {
        FlowId::from_uuid(Uuid::from_u128(number))
    }

    fn copy(of: u128, step: &str, state: CopyState) -> CopyEntry {
        CopyEntry {
            conversation: Conversation { flow: flow(of), path: StepPath::root(step) },
            state,
            run: Some(RunId::from_uuid(Uuid::from_u128(9))),
            since: Timestamp::from_millis(0),
            start: Tree::default(),
            strategy: "overlay",
            bytes: 2048,
            references: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_a_run_has_keeps_all_of_its_flow() {
        let copies = vec![
            copy(1, "a", CopyState::Unsaved),
            copy(2, "a", CopyState::Saved),
            copy(2, "b", CopyState::Leased),
            copy(3, "a", CopyState::Saved),
            copy(4, "a", CopyState::Saved),
        ];
        let flows = BTreeMap::from([(flow(1), Why::Over), (flow(2), Why::Over), (flow(4), Why::Unknown)]);
        let garbage = Garbage::of(copies, flows);
        assert_eq!(garbage.flows.keys().copied().collect::<Vec<_>>(), [flow(1), flow(4)]);
        assert_eq!((garbage.copies.len(), garbage.leased.len(), garbage.bytes()), (2, 1, 4096));
        let said = text(&garbage, None);
        assert!(said.contains("stays: run_") && said.contains("nobody knows its flow"), "{said}");
        assert!(said.ends_with("2 copies with 4.0 KiB would be removed; `--apply` does it\n"), "{said}");
        let freed = Freed { copies: 2, rescued: 1, bytes: 4096 };
        assert!(text(&garbage, Some(freed)).ends_with("removed 2 copies, 1 of them rescued before: 4.0 KiB freed\n"));
        assert_eq!(text(&Garbage::default(), None), "nothing to remove\n");
    }
}
