//! Calls for which a provider counts more than they could use: whatever they cost was written down, and a wall above them may
//! have been crossed.

use std::collections::BTreeMap;

use orc_domain::ids::{CallId, FlowId};
use orc_domain::ledger::{Reservation, Settlement};
use orc_domain::time::Timestamp;
use orc_ports::ledger::{CallRecord, CostFilter, CostReader as _};
use orc_store_sqlite::SqliteReader;

use super::Incident;
use crate::failure::CommandResult;
use crate::hold::of_store;

/// Calls that are read at once.
const PAGE: u32 = 1_000;

/// Such calls of one flow, provider and model.
#[derive(Clone, Debug)]
struct Billed {
    times: u32,
    /// The last of them.
    reservation: Reservation,
    settlement: Settlement,
}

/// Incidents of calls that began since then; false when there were too many calls to look at all of them.
pub(crate) async fn find(reader: &SqliteReader, since: Timestamp, pages: u32) -> CommandResult<(Vec<Incident>, bool)> {
    let (mut found, mut before) = (BTreeMap::new(), None);
    for _ in 0..pages {
        let filter = CostFilter { since: Some(since), ..CostFilter::default() };
        let calls = reader.calls(filter, before, PAGE).await.map_err(of_store)?;
        before = calls.last().map(|call| call.reservation.call);
        let is_last = calls.len() < PAGE as usize;
        add(&mut found, calls);
        if is_last {
            return Ok((found.into_values().map(Billed::incident).collect(), true));
        }
    }
    let complete = more(reader, since, before).await?;
    Ok((found.into_values().map(Billed::incident).collect(), complete))
}

/// Whether there is nothing more to look at.
async fn more(reader: &SqliteReader, since: Timestamp, before: Option<CallId>) -> CommandResult<bool> {
    let filter = CostFilter { since: Some(since), ..CostFilter::default() };
    Ok(reader.calls(filter, before, 1).await.map_err(of_store)?.is_empty())
}

type Found = BTreeMap<(Option<FlowId>, String, String), Billed>;

/// The newest first.
fn add(found: &mut Found, calls: Vec<CallRecord>) {
    for CallRecord { reservation, end } in calls {
        let Some(settlement) = end.and_then(|end| end.settlement) else { continue };
        if settlement.micros <= reservation.micros && settlement.tokens.total() <= reservation.tokens {
            continue;
        }
        let key = (reservation.account.flow, reservation.provider.clone(), reservation.model.clone());
        found.entry(key).or_insert(Billed { times: 0, reservation, settlement }).times += 1;
    }
}

impl Billed {
    fn incident(self) -> Incident {
        let Self { times, reservation, settlement } = self;
        let calls = if times == 1 { "a call".to_owned() } else { format!("{times} calls, the last time") };
        let what = format!(
            "the provider `{}` counts more for {calls} of `{}` than could be used: {} and {} tokens, of {} and {} tokens at \
             most; a wall above it may be crossed",
            reservation.provider,
            reservation.model,
            settlement.micros,
            settlement.tokens.total(),
            reservation.micros,
            reservation.tokens,
        );
        Incident {
            kind: "billed",
            since: settlement.at,
            flow: reservation.account.flow,
            pipeline: reservation.account.pipeline,
            step: reservation.account.path,
            what,
            who: "whoever looks after the provider",
            command: "orchestrator costs --by provider --by model".to_owned(),
            open: true,
        }
    }
}
