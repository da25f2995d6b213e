//! The ledger: entries, and with each, in the same transaction, the sums that it changes.
//!
//! What many calls have in common (who for, which model, which prices) is an account, stored once under the hash of what it
//! says; an entry of a call is small. Sums are kept by account and day. Never here: a change of an entry. Where to go next:
//! [`crate::costs`], which reads.

use orc_domain::ids::{CallId, ContentHash, InstanceId};
use orc_domain::ledger::{Account, Day, EntryKind, Reservation, Settlement};
use orc_domain::meter::Owner;
use orc_domain::model::{Protocol, Tokens};
use orc_domain::time::Timestamp;
use orc_ports::ledger::Ledger;
use orc_ports::store::{Guarded, StoreError, StoreResult};
use serde::{Deserialize, Serialize};

use crate::statement::{
    LEDGER_ACCOUNT_INSERT, LEDGER_CALL_EXISTS, LEDGER_CALL_INSERT, LEDGER_END_INSERT, LEDGER_ENDS_LOSE,
    LEDGER_OPEN_DELETE, LEDGER_OPEN_INSERT, LEDGER_OPEN_LOSE, LEDGER_OWNER_INSERT, LEDGER_SUM_RESERVE,
    LEDGER_SUM_SETTLE, LEDGER_SUMS_LOSE, Script,
};
use crate::work::{Outcome, Work, signed};
use crate::{SqliteStore, guarded};

/// Characters of the hash of an account: 128 bits.
const HASH: usize = 32;

/// What calls have in common: `ledger_accounts.data`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Terms {
    account: Account,
    above: Vec<Owner>,
    provider: String,
    protocol: Protocol,
    model: String,
    prices: Option<String>,
    pub(crate) instance: InstanceId,
}

impl Terms {
    fn of(reservation: &Reservation) -> Self {
        let Reservation { account, above, provider, protocol, model, prices, instance, .. } = reservation.clone();
        Self { account, above, provider, protocol, model, prices, instance }
    }

    /// The reservation of a call on these terms, without its figures.
    pub(crate) fn reservation(self, call: CallId, at: Timestamp) -> Reservation {
        let Self { account, above, provider, protocol, model, prices, instance } = self;
        let (micros, tokens) = Default::default();
        Reservation { call, account, above, provider, protocol, model, prices, micros, tokens, instance, at }
    }
}

/// The id of an account that says this.
pub(crate) fn account_id(data: &str) -> String {
    ContentHash::of(data.as_bytes()).as_str().chars().take(HASH).collect()
}

/// What `ledger_owners.owner` says.
pub(crate) fn owner_text(owner: Owner) -> String {
    match owner {
        Owner::Gateway => "gateway".to_owned(),
        Owner::Flow(flow) => flow.to_string(),
        Owner::Run(run) => run.to_string(),
    }
}

impl Work {
    /// See [`Ledger::reserve`]. It survives the end of the process. A loss of power takes with it what was not on the disk
    /// yet, of the flow as of its calls: a sync takes longer than all else that a call costs here.
    pub(crate) fn reserve(reservation: Reservation) -> Result<Self, StoreError> {
        let mut work = Self::new("reserve", reservation.call);
        let reservation = reservation.bounded();
        let data = work.json(&Terms::of(&reservation))?;
        let (id, day) = (account_id(&data), Day::of(reservation.at).number());
        let account = &reservation.account;
        work.script
            .push(LEDGER_ACCOUNT_INSERT)
            .bind(id.clone())
            .bind(account.agent.clone())
            .bind(reservation.model.clone())
            .bind(reservation.provider.clone())
            .bind(account.pipeline.clone())
            .bind(account.ticket.clone())
            .bind(account.flow.map(|flow| flow.to_string()))
            .bind(account.run.map(|run| run.to_string()))
            .bind(reservation.prices.clone())
            .bind(data);
        for owner in reservation.owners() {
            work.script.push(LEDGER_OWNER_INSERT).bind(owner_text(owner)).bind(id.clone());
        }
        let (call, micros) = (reservation.call.to_string(), reservation.micros.as_micros());
        work.script
            .push(LEDGER_CALL_INSERT)
            .bind(call.clone())
            .bind(id.clone())
            .bind(day)
            .bind(reservation.at.as_millis())
            .bind(micros)
            .bind(signed(reservation.tokens));
        work.script.push(LEDGER_OPEN_INSERT).bind(call).bind(reservation.instance.to_string());
        work.script.push(LEDGER_SUM_RESERVE).bind(day).bind(id).bind(micros);
        Ok(work)
    }

    /// See [`Ledger::settle`].
    pub(crate) fn settle(settlement: Settlement) -> Result<Self, StoreError> {
        let mut work = Self::new("settle", settlement.call);
        let unsure = match settlement.kind {
            EntryKind::Settled => false,
            EntryKind::Estimated => true,
            EntryKind::Reserved | EntryKind::Lost => return Err(work.broken("a call is settled or estimated")),
        };
        let settlement = settlement.bounded();
        let (call, micros) = (settlement.call.to_string(), settlement.micros.as_micros());
        let classes = classes(&settlement.tokens);
        let mut end = work.script.push(LEDGER_END_INSERT).bind(call.clone());
        end = end.bind(settlement.kind.word().to_owned()).bind(settlement.at.as_millis()).bind(micros);
        for tokens in classes {
            end = end.bind(tokens);
        }
        end.bind(i64::from(settlement.status)).bind(settlement.message);
        work.script.push(LEDGER_CALL_EXISTS).bind(call.clone());
        let mut sum = work.script.push(LEDGER_SUM_SETTLE).bind(call.clone());
        sum = sum.bind(micros).bind(if unsure { micros } else { 0 });
        for tokens in classes {
            sum = sum.bind(tokens);
        }
        work.script.push(LEDGER_OPEN_DELETE).bind(call);
        Ok(work)
    }

    /// See [`Ledger::lose`].
    pub(crate) fn lose(instance: InstanceId, at: Timestamp) -> Self {
        let mut work = Self::new("lose", instance);
        push_losses(&mut work.script, instance, at);
        work
    }
}

/// Ends all that is in flight of an instance as lost.
pub(crate) fn push_losses(script: &mut Script, instance: InstanceId, at: Timestamp) {
    let instance = instance.to_string();
    script.push(LEDGER_ENDS_LOSE).bind(instance.clone()).bind(at.as_millis());
    script.push(LEDGER_SUMS_LOSE).bind(instance.clone());
    script.push(LEDGER_OPEN_LOSE).bind(instance);
}

/// In the order of the columns.
fn classes(tokens: &Tokens) -> [i64; 7] {
    let Tokens { input, cache_read, cache_write, cache_write_long, output, reasoning, server_tools } = *tokens;
    [input, cache_read, cache_write, cache_write_long, output, reasoning, server_tools].map(signed)
}

impl Ledger for SqliteStore {
    fn reserve(&self, reservation: Reservation) -> StoreResult<'_, Guarded> {
        Box::pin(async move { self.write(Work::reserve(reservation)?).await.map(guarded) })
    }

    fn settle(&self, settlement: Settlement) -> StoreResult<'_, Guarded> {
        Box::pin(async move { self.write(Work::settle(settlement)?).await.map(guarded) })
    }

    fn lose(&self, instance: InstanceId, at: Timestamp) -> StoreResult<'_, u64> {
        Box::pin(async move {
            Ok(match self.write(Work::lose(instance, at)).await? {
                Outcome::Lost(calls) => calls,
                Outcome::Done | Outcome::Stale | Outcome::Refused(_) | Outcome::Each(_) => 0,
            })
        })
    }
}
