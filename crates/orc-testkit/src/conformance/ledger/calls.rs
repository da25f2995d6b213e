//! Hand-made calls for the suite, and for tests that fill a ledger: numbered, each a thousandth of a dollar set aside.

use orc_domain::ids::{CallId, FlowId, RunId};
use orc_domain::ledger::{Account, EntryKind, Reservation, Settlement};
use orc_domain::model::{Protocol, Tokens};
use orc_domain::money::UsdMicros;
use orc_domain::path::StepPath;
use orc_domain::time::Timestamp;
use orc_ports::ledger::CallEnd;
use orc_ports::store::{Instance, Store};
use uuid::Uuid;

use crate::conformance::store::scene::{at, flow_id, instance_id, path, run_id};

/// Milliseconds of a day.
pub const DAY: i64 = 86_400_000;

/// The call with this number; numbers and ids have the same order.
pub fn call_id(number: u32) -> CallId {
    CallId::from_uuid(Uuid::from_u128(0x018b_cfe5_6800_7000_a000_0000_0000_0000 + u128::from(number)))
}

/// The flow of the run with this number.
pub fn flow(number: u32) -> FlowId {
    flow_id(number)
}

/// The run with this number: of a flow with the same one.
pub fn run(number: u32) -> RunId {
    run_id(flow(number), &path(0), 1)
}

/// Begins the instance with this number.
pub async fn begin(store: &dyn Store, number: u32) {
    let instance =
        Instance { id: instance_id(number), pid: 7, command: "run".to_owned(), began_at: at(i64::from(number)) };
    store.instance_begin(instance).await.expect("an instance begins");
}

/// Call `number` of run `of`, by instance 1.
pub fn reservation(number: u32, of: u32) -> Reservation {
    let account = Account {
        run: Some(run(of)),
        flow: Some(flow(of)),
        path: Some(StepPath::root("write")),
        pipeline: Some("ship".to_owned()),
        agent: "writer".to_owned(),
        ticket: None,
    };
    Reservation {
        call: call_id(number),
        account,
        above: Vec::new(),
        provider: "main".to_owned(),
        protocol: Protocol::AnthropicMessages,
        model: "large-1".to_owned(),
        prices: Some("5f".to_owned()),
        micros: UsdMicros::from_micros(1_000),
        tokens: 700,
        instance: instance_id(1),
        at: at(i64::from(number)),
    }
}

/// Call `number` used so much.
pub fn settlement(number: u32, micros: i64) -> Settlement {
    Settlement {
        call: call_id(number),
        kind: EntryKind::Settled,
        tokens: Tokens {
            input: 1,
            cache_read: 2,
            cache_write: 3,
            cache_write_long: 4,
            output: 5,
            reasoning: 6,
            server_tools: 7,
        },
        micros: UsdMicros::from_micros(micros),
        message: Some(format!("msg_{number}")),
        status: 200,
        at: at(i64::from(number) + 40),
    }
}

/// The end that this settlement is.
pub fn ended(settlement: Settlement) -> CallEnd {
    CallEnd { kind: settlement.kind, at: settlement.at, settlement: Some(settlement) }
}

/// The end of a call that was lost then.
pub const fn lost(at: Timestamp) -> CallEnd {
    CallEnd { kind: EntryKind::Lost, settlement: None, at }
}
