//! What calls used and cost, read: whole days from the maintained sums, parts of days from the entries.

use orc_domain::ids::{CallId, FlowId, RunId};
use orc_domain::ledger::{CostsBy, Day, EntryKind, Settlement, Sum};
use orc_domain::meter::Owner;
use orc_domain::model::Tokens;
use orc_domain::money::UsdMicros;
use orc_domain::time::Timestamp;
use orc_ports::ledger::{CallEnd, CallRecord, CostFilter, CostLine, CostReader};
use orc_ports::store::{StoreError, StoreResult};
use sqlx::query;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::failure::failed;
use crate::ledger::{Terms, account_id, owner_text};
use crate::read::{AFTER_ALL_IDS, Reads};
use crate::row::{self, Place};
use crate::statement::{LEDGER_CALLS, LEDGER_CALLS_OF_OWNER, LEDGER_COSTS, LEDGER_SPENT};
use crate::{SqliteReader, SqliteStore};

const SUMS: &str = "ledger_sums";
const CALLS: &str = "ledger_calls";
/// A day on which nobody reserves anything.
const NO_DAY: i64 = i64::MIN;

/// A filter as the statements take it.
struct Narrowed {
    /// In the order of [`CostsBy::ALL`].
    only: [Option<String>; 8],
    day: Option<i64>,
    since: Timestamp,
    before: Timestamp,
}

impl Narrowed {
    /// `None`: nothing can be meant, because a value is to be two at once, or a day that is none.
    fn by(filter: CostFilter) -> Option<Self> {
        let mut only = [const { None }; 8];
        for (by, value) in filter.only {
            let slot = &mut only[place(by)];
            if slot.as_ref().is_some_and(|other| *other != value) {
                return None;
            }
            *slot = Some(value);
        }
        let day = match only[place(CostsBy::Day)].take() {
            Some(text) => Some(Day::parse(&text)?.number()),
            None => None,
        };
        let since = filter.since.unwrap_or(Timestamp::from_millis(i64::MIN));
        let before = filter.before.unwrap_or(Timestamp::from_millis(i64::MAX));
        Some(Self { only, day, since, before })
    }

    /// The first whole day, the day after the last one, and the days of which only a part is meant.
    fn days(&self) -> [i64; 4] {
        let (first, last) = (Day::of(self.since), Day::of(self.before));
        let (from, edge) =
            if first.begins() == self.since { (first.number(), NO_DAY) } else { (first.number() + 1, first.number()) };
        let other = if last.begins() == self.before { NO_DAY } else { last.number() };
        [from, last.number(), edge, other]
    }

    /// A run or flow whose calls are meant.
    fn owner(&self) -> Option<Owner> {
        let [.., flow, run, _] = &self.only;
        let run = run.as_ref().and_then(|run| run.parse::<RunId>().ok()).map(Owner::Run);
        run.or_else(|| flow.as_ref().and_then(|flow| flow.parse::<FlowId>().ok()).map(Owner::Flow))
    }
}

/// Where a value stands in [`CostsBy::ALL`].
fn place(by: CostsBy) -> usize {
    CostsBy::ALL.iter().position(|other| *other == by).unwrap_or_default()
}

impl Reads {
    async fn spent(&self, owner: Owner) -> Result<Sum, StoreError> {
        let owner = owner_text(owner);
        let found = query(LEDGER_SPENT.text).bind(&owner).fetch_optional(self.pool()).await.map_err(failed("spent"))?;
        found.map_or(Ok(Sum::default()), |found| sum(&found, &owner))
    }

    async fn costs(&self, by: &[CostsBy], filter: CostFilter, limit: u32) -> Result<(Vec<CostLine>, Sum), StoreError> {
        let Some(narrowed) = Narrowed::by(filter) else { return Ok((Vec::new(), Sum::default())) };
        let mut snapshot = self.pool().begin().await.map_err(failed("costs"))?;
        let all = fold(&mut snapshot, &[], &narrowed, 1).await?;
        let mut lines = Vec::new();
        for found in &fold(&mut snapshot, by, &narrowed, limit).await? {
            let values = by.iter().map(|by| value(found, *by)).collect::<Result<_, _>>()?;
            lines.push(CostLine { by: values, sum: sum(found, "?")? });
        }
        let total = all.first().map_or(Ok(Sum::default()), |found| sum(found, "?"))?;
        Ok((lines, total))
    }

    async fn calls(
        &self,
        filter: CostFilter,
        before: Option<CallId>,
        limit: u32,
    ) -> Result<Vec<CallRecord>, StoreError> {
        let Some(narrowed) = Narrowed::by(filter) else { return Ok(Vec::new()) };
        let owner = narrowed.owner();
        let mut asked = query(if owner.is_some() { LEDGER_CALLS_OF_OWNER.text } else { LEDGER_CALLS.text });
        for (by, only) in CostsBy::ALL.into_iter().zip(&narrowed.only) {
            asked = if by == CostsBy::Day { asked.bind(narrowed.day) } else { asked.bind(only) };
        }
        asked = asked.bind(before.map_or_else(|| AFTER_ALL_IDS.to_owned(), |id| id.to_string()));
        asked = asked.bind(narrowed.since.as_millis()).bind(narrowed.before.as_millis()).bind(i64::from(limit));
        if let Some(owner) = owner {
            asked = asked.bind(owner_text(owner));
        }
        let rows = asked.fetch_all(self.pool()).await.map_err(failed("calls"))?;
        rows.iter().map(call).collect()
    }
}

/// Sums by what is asked for, the dearest first.
async fn fold(
    connection: &mut SqliteConnection,
    by: &[CostsBy],
    narrowed: &Narrowed,
    limit: u32,
) -> Result<Vec<SqliteRow>, StoreError> {
    let mut asked = query(LEDGER_COSTS.text);
    for dimension in CostsBy::ALL {
        asked = asked.bind(i64::from(by.contains(&dimension)));
    }
    for (by, only) in CostsBy::ALL.into_iter().zip(&narrowed.only) {
        asked = if by == CostsBy::Day { asked.bind(narrowed.day) } else { asked.bind(only) };
    }
    for day in narrowed.days() {
        asked = asked.bind(day);
    }
    asked = asked.bind(narrowed.since.as_millis()).bind(narrowed.before.as_millis()).bind(i64::from(limit));
    asked.fetch_all(connection).await.map_err(failed("costs"))
}

/// The value of a line by one of what was asked for.
fn value(found: &SqliteRow, by: CostsBy) -> Result<Option<String>, StoreError> {
    let place = Place { table: SUMS, id: "?" };
    if by == CostsBy::Day {
        let day: i64 = place.column(found, by.word())?;
        return Ok(Some(Day::from_number(day).to_string()));
    }
    place.column(found, by.word())
}

/// The figures of a sum.
fn sum(found: &SqliteRow, id: &str) -> Result<Sum, StoreError> {
    let place = Place { table: SUMS, id };
    let money = |column| place.column::<i64>(found, column).map(UsdMicros::from_micros);
    let count = |column| place.count(found, column);
    Ok(Sum {
        calls: count("calls")?,
        tokens: tokens(place, found)?,
        lost_tokens: count("lost_tokens")?,
        micros: money("micros")?,
        unsure: money("unsure")?,
        unpriced: count("unpriced")?,
        reserved: money("reserved")?,
        in_flight: count("in_flight")?,
    })
}

fn tokens(place: Place<'_>, found: &SqliteRow) -> Result<Tokens, StoreError> {
    let count = |column| place.count(found, column);
    Ok(Tokens {
        input: count("input")?,
        cache_read: count("cache_read")?,
        cache_write: count("cache_write")?,
        cache_write_long: count("cache_write_long")?,
        output: count("output")?,
        reasoning: count("reasoning")?,
        server_tools: count("server_tools")?,
    })
}

/// Both entries of a call.
pub(crate) fn call(found: &SqliteRow) -> Result<CallRecord, StoreError> {
    let place = Place { table: CALLS, id: row::id_of(found, CALLS, "call")? };
    let terms: Terms = place.json(found, "data")?;
    let at: i64 = place.column(found, "at")?;
    let id: CallId = place.parsed(found, "call")?;
    let micros: i64 = place.column(found, "micros")?;
    let mut reservation = terms.reservation(id, Timestamp::from_millis(at));
    (reservation.micros, reservation.tokens) = (UsdMicros::from_micros(micros), place.count(found, "tokens")?);
    let kind: Option<&str> = place.column(found, "kind")?;
    let Some(word) = kind else { return Ok(CallRecord { reservation, end: None }) };
    let place = Place { table: "ledger_ends", ..place };
    let kind = EntryKind::parse(word).filter(|kind| *kind != EntryKind::Reserved);
    let kind = kind.ok_or_else(|| place.corrupt("kind", &format_args!("`{word}` ends no call")))?;
    let ended_at: i64 = place.column(found, "ended_at")?;
    let at = Timestamp::from_millis(ended_at);
    if kind == EntryKind::Lost {
        return Ok(CallRecord { reservation, end: Some(CallEnd { kind, settlement: None, at }) });
    }
    let micros: i64 = place.column(found, "used_micros")?;
    let status = place.count(found, "status")?;
    let settlement = Settlement {
        call: id,
        kind,
        tokens: tokens(place, found)?,
        micros: UsdMicros::from_micros(micros),
        message: place.column(found, "message")?,
        status: u16::try_from(status).map_err(|error| place.corrupt("status", &error))?,
        at,
    };
    Ok(CallRecord { reservation, end: Some(CallEnd { kind, settlement: Some(settlement), at }) })
}

/// `id, data, owners` of an account: whether it can be read, and says what its id and its rows beside it say.
pub(crate) fn account(found: &SqliteRow) -> Result<(), StoreError> {
    let place = Place { table: "ledger_accounts", id: row::id_of(found, "ledger_accounts", "id")? };
    let terms: Terms = place.json(found, "data")?;
    if account_id(place.column(found, "data")?) != place.id {
        return Err(place.corrupt("data", &"it was changed: its hash is another one than its id"));
    }
    // Of any call on these terms.
    let any = CallId::from_uuid(terms.instance.uuid());
    let owners = terms.reservation(any, Timestamp::from_millis(0)).owners().len() as u64;
    let listed = place.count(found, "owners")?;
    if listed != owners {
        return Err(place.corrupt("data", &format_args!("it counts below {owners} walls, and {listed} are listed")));
    }
    Ok(())
}

impl CostReader for SqliteStore {
    fn spent(&self, owner: Owner) -> StoreResult<'_, Sum> {
        Box::pin(async move { self.reads()?.spent(owner).await })
    }

    fn costs(&self, by: Vec<CostsBy>, filter: CostFilter, limit: u32) -> StoreResult<'_, (Vec<CostLine>, Sum)> {
        Box::pin(async move { self.reads()?.costs(&by, filter, limit).await })
    }

    fn calls(&self, filter: CostFilter, before: Option<CallId>, limit: u32) -> StoreResult<'_, Vec<CallRecord>> {
        Box::pin(async move { self.reads()?.calls(filter, before, limit).await })
    }
}

impl CostReader for SqliteReader {
    fn spent(&self, owner: Owner) -> StoreResult<'_, Sum> {
        Box::pin(self.reads().spent(owner))
    }

    fn costs(&self, by: Vec<CostsBy>, filter: CostFilter, limit: u32) -> StoreResult<'_, (Vec<CostLine>, Sum)> {
        Box::pin(async move { self.reads().costs(&by, filter, limit).await })
    }

    fn calls(&self, filter: CostFilter, before: Option<CallId>, limit: u32) -> StoreResult<'_, Vec<CallRecord>> {
        Box::pin(self.reads().calls(filter, before, limit))
    }
}
