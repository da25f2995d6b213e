//! The ledger as a map of calls: every sum is a fold of them, made anew for each question.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use orc_domain::ids::{CallId, InstanceId};
use orc_domain::ledger::{CostsBy, Day, EntryKind, Reservation, Settlement, Sum};
use orc_domain::meter::Owner;
use orc_domain::money::UsdMicros;
use orc_domain::time::Timestamp;
use orc_ports::ledger::{CallEnd, CallRecord, CostFilter, CostLine};
use orc_ports::store::{Guarded, StoreError};

use super::{Model, broken};

impl Model {
    /// See [`orc_ports::ledger::Ledger::reserve`].
    ///
    /// # Errors
    /// [`StoreError::Contract`] when its instance has not begun or is over.
    pub fn reserve(&mut self, reservation: Reservation) -> Result<Guarded, StoreError> {
        let call = reservation.call;
        if self.calls.contains_key(&call) {
            return Ok(Guarded::Stale);
        }
        if !matches!(self.instances.get(&reservation.instance), Some((_, None))) {
            return Err(broken("reserve", call, "a call belongs to an instance that has begun and is not over"));
        }
        self.calls.insert(call, CallRecord { reservation: reservation.bounded(), end: None });
        Ok(Guarded::Updated)
    }

    /// See [`orc_ports::ledger::Ledger::settle`].
    ///
    /// # Errors
    /// [`StoreError::Contract`] for a kind that no settlement has.
    pub fn settle(&mut self, settlement: Settlement) -> Result<Guarded, StoreError> {
        if !matches!(settlement.kind, EntryKind::Settled | EntryKind::Estimated) {
            return Err(broken("settle", settlement.call, "a call is settled or estimated"));
        }
        Ok(match self.calls.get_mut(&settlement.call) {
            None => Guarded::Missing,
            Some(CallRecord { end: Some(_), .. }) => Guarded::Stale,
            Some(record) => {
                let (kind, at) = (settlement.kind, settlement.at);
                record.end = Some(CallEnd { kind, settlement: Some(settlement.bounded()), at });
                Guarded::Updated
            }
        })
    }

    /// See [`orc_ports::ledger::Ledger::lose`].
    pub fn lose(&mut self, instance: InstanceId, at: Timestamp) -> u64 {
        let of_instance = |record: &&mut CallRecord| record.end.is_none() && record.reservation.instance == instance;
        let mut lost = 0;
        for record in self.calls.values_mut().filter(of_instance) {
            record.end = Some(CallEnd { kind: EntryKind::Lost, settlement: None, at });
            lost += 1;
        }
        lost
    }

    /// See [`orc_ports::ledger::CostReader::spent`].
    #[must_use]
    pub fn spent(&self, owner: Owner) -> Sum {
        let below = self.calls.values().filter(|record| record.reservation.owners().contains(&owner));
        below.map(sum_of).fold(Sum::default(), Sum::plus)
    }

    /// See [`orc_ports::ledger::CostReader::costs`].
    #[must_use]
    pub fn costs(&self, by: &[CostsBy], filter: &CostFilter, limit: u32) -> (Vec<CostLine>, Sum) {
        // Values in the order of `CostsBy::ALL`, by which equal ones are told apart.
        let mut lines: BTreeMap<Vec<Option<String>>, Sum> = BTreeMap::new();
        let mut total = Sum::default();
        for record in self.calls.values().filter(|record| is_meant(record, filter)) {
            let shown = CostsBy::ALL.into_iter().map(|one| value(record, one).filter(|_| by.contains(&one)));
            let line = lines.entry(shown.collect()).or_default();
            *line = line.plus(sum_of(record));
            total = total.plus(sum_of(record));
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_by_key(|(_, sum)| Reverse(sum.micros));
        let place = |one: &CostsBy| CostsBy::ALL.iter().position(|other| other == one).unwrap_or_default();
        let line = |(values, sum): (Vec<Option<String>>, Sum)| CostLine {
            by: by.iter().map(|one| values[place(one)].clone()).collect(),
            sum,
        };
        (lines.into_iter().take(limit as usize).map(line).collect(), total)
    }

    /// See [`orc_ports::ledger::CostReader::calls`].
    #[must_use]
    pub fn calls(&self, filter: &CostFilter, before: Option<CallId>, limit: u32) -> Vec<CallRecord> {
        let newest = self.calls.values().rev();
        let meant = newest
            .filter(|record| before.is_none_or(|before| record.reservation.call < before) && is_meant(record, filter));
        meant.take(limit as usize).cloned().collect()
    }
}

/// What a call adds to a sum.
fn sum_of(record: &CallRecord) -> Sum {
    let CallRecord { reservation, end } = record;
    let Some(end) = end else {
        return Sum { reserved: reservation.micros, in_flight: 1, ..Sum::default() };
    };
    let sum = Sum { calls: 1, unpriced: u64::from(reservation.prices.is_none()), ..Sum::default() };
    match &end.settlement {
        None => {
            let micros = reservation.micros;
            Sum { lost_tokens: reservation.tokens, micros, unsure: micros, ..sum }
        }
        Some(settlement) => {
            let is_sure = end.kind == EntryKind::Settled;
            let unsure = if is_sure { UsdMicros::default() } else { settlement.micros };
            Sum { tokens: settlement.tokens, micros: settlement.micros, unsure, ..sum }
        }
    }
}

fn value(record: &CallRecord, by: CostsBy) -> Option<String> {
    let Reservation { account, provider, model, at, .. } = &record.reservation;
    match by {
        CostsBy::Agent => Some(account.agent.clone()),
        CostsBy::Model => Some(model.clone()),
        CostsBy::Pipeline => account.pipeline.clone(),
        CostsBy::Ticket => account.ticket.clone(),
        CostsBy::Day => Some(Day::of(*at).to_string()),
        CostsBy::Flow => account.flow.map(|flow| flow.to_string()),
        CostsBy::Run => account.run.map(|run| run.to_string()),
        CostsBy::Provider => Some(provider.clone()),
    }
}

fn is_meant(record: &CallRecord, filter: &CostFilter) -> bool {
    let at = record.reservation.at;
    filter.since.is_none_or(|since| at >= since)
        && filter.before.is_none_or(|before| at < before)
        && filter.only.iter().all(|(by, wanted)| value(record, *by).as_ref() == Some(wanted))
}
