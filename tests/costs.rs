//! What was spent and what is left, through the binary: with an empty ledger, without and beside whoever carries flows on.
#![expect(clippy::unwrap_used, reason = "a world that cannot be made fails its test")]

mod support;

use std::path::Path;

use orc_domain::ids::{FlowId, RunId};
use orc_domain::ledger::{EntryKind, Reservation, Settlement};
use orc_domain::money::UsdMicros;
use orc_ports::ledger::Ledger as _;
use orc_ports::store::Store as _;
use orc_store_sqlite::SqliteStore;
use orc_testkit::conformance::ledger::calls::{DAY, begin, reservation, settlement};
use orc_testkit::conformance::store::scene::at;
use serde_json::{Value, json};

use self::support::{Gate, World, start_held};

/// Writes calls into the ledger, each with its end if it has one.
fn fill(database: &Path, calls: Vec<(Reservation, Option<Settlement>)>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(database).await.unwrap();
        begin(&store, 1).await;
        for (reserved, settled) in calls {
            store.reserve(reserved).await.unwrap();
            if let Some(settled) = settled {
                store.settle(settled).await.unwrap();
            }
        }
        store.close().await.unwrap();
    });
}

/// A data directory whose ledger has five calls on two days: one is estimated, one has no price, one is in flight.
fn world() -> World {
    let world = World::new();
    std::fs::create_dir_all(world.data()).unwrap();
    let call = |number, agent: &str, day: i64| {
        let mut reserved = reservation(number, number);
        reserved.account.agent = agent.to_owned();
        reserved.at = at(day * DAY);
        reserved
    };
    let mut estimated = settlement(2, 500_000);
    estimated.kind = EntryKind::Estimated;
    let mut unpriced = call(3, "reader, \"fast\"", 1);
    (unpriced.prices, unpriced.account.pipeline) = (None, None);
    let calls = vec![
        (call(1, "writer", 0), Some(settlement(1, 1_250_000))),
        (call(2, "writer", 1), Some(estimated)),
        (unpriced, Some(settlement(3, 0))),
        (call(4, "writer", 1), None),
        (call(5, "tester", 1), Some(settlement(5, 7))),
    ];
    fill(&world.data().join("orchestrator.db"), calls);
    world
}

#[test]
fn costs_are_told_for_people() {
    let world = world();
    let said = world.run_to(0, &["costs"]);
    let lines: Vec<Vec<&str>> = said
        .out
        .lines()
        .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect())
        .collect();
    let wanted = [
        vec!["AGENT", "CALLS", "INPUT", "OUTPUT", "COST", "NOTE"],
        vec!["writer", "2", "20", "22", "$1.75", "$0.50 of it estimated, 1 in flight, $0.001 reserved"],
        vec!["tester", "1", "10", "11", "$0.000007"],
        vec!["reader, \"fast\"", "1", "10", "11", "unpriced"],
        vec![
            "total",
            "4",
            "40",
            "44",
            "$1.750007",
            "1 of 4 calls unpriced, $0.50 of it estimated, 1 in flight, $0.001 reserved",
        ],
    ];
    assert_eq!(lines, wanted, "{}", said.out);
    let days = world.run_to(0, &["costs", "--by", "day", "--by", "model"]).out;
    let days: Vec<&str> = days.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(days, ["DAY", "2023-11-14", "2023-11-15", "total"], "in the order of time, though the first is dearer");
    let cut = world.run_to(0, &["costs", "--limit", "1"]);
    assert!(cut.err.contains("only the 1 dearest lines are shown") && cut.out.contains("writer"), "{}", cut.err);
}

#[test]
fn costs_are_data() {
    let world = world();
    let costs = world.json(&["costs", "--by", "day,agent", "--agent", "writer", "--since", "2023-11-15"]);
    let figures = json!({
        "calls": 1, "cost_usd_micros": 500_000, "estimated_usd_micros": 500_000, "unpriced_calls": 0,
        "in_flight_calls": 1, "reserved_usd_micros": 1_000, "server_tools": 7, "lost_tokens": 0,
        "tokens": {
            "input": 1, "cache_read": 2, "cache_write": 3, "cache_write_long": 4, "output": 5, "reasoning": 6, "total": 21,
        },
    });
    let mut line = figures.clone();
    (line["day"], line["agent"]) = (json!("2023-11-15"), json!("writer"));
    let wanted = json!({
        "schema": "orc/costs/1", "by": ["day", "agent"], "since": "2023-11-15T00:00:00.000Z", "until": null,
        "only": { "agent": "writer" }, "complete": true, "lines": [line], "total": figures,
    });
    assert_eq!(costs, wanted);
    let csv = world.run_to(0, &["costs", "--by", "agent", "--by", "pipeline", "--format", "csv"]).out;
    let wanted = "agent,pipeline,calls,input,cache_read,cache_write,cache_write_long,output,reasoning,server_tools,\
                  lost_tokens,cost_usd,estimated_usd,unpriced_calls,in_flight_calls,reserved_usd\r\n\
                  writer,ship,2,2,4,6,8,10,12,14,0,1.750000,0.500000,0,1,0.001000\r\n\
                  tester,ship,1,1,2,3,4,5,6,7,0,0.000007,0.000000,0,0,0.000000\r\n\
                  \"reader, \"\"fast\"\"\",,1,1,2,3,4,5,6,7,0,0.000000,0.000000,1,0,0.000000\r\n";
    assert_eq!(csv, wanted);
    let lines = world.run_to(0, &["costs", "--by", "run", "--pipeline", "ship", "-o", "jsonl"]).out;
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), &first["cost_usd_micros"]), (4, &json!(1_250_000)));
}

#[test]
fn what_cannot_be_told_is_said() {
    let none = World::new();
    let said = none.run_to(4, &["costs"]);
    assert!(said.err.contains("nothing has run yet"), "{}", said.err);
    std::fs::create_dir_all(none.data()).unwrap();
    fill(&none.data().join("orchestrator.db"), Vec::new());
    let said = none.run_to(0, &["costs"]);
    assert!(
        said.out.is_empty() && said.err.contains("the ledger is empty") && said.err.contains("`model:`"),
        "{}",
        said.err
    );
    let said = none.run_to(0, &["budgets"]);
    assert!(said.out.is_empty() && said.err.contains("no flow that is not over has a budget"), "{}", said.err);
    assert_eq!(none.json(&["costs"])["lines"], json!([]));
    assert_eq!(none.json(&["budgets"]), json!({ "schema": "orc/budgets/1", "budgets": [] }));

    let world = world();
    let said = world.run_to(0, &["costs", "--agent", "nobody"]);
    assert!(said.err.contains("no call of a model fits that"), "{}", said.err);
    let said = world.run_to(2, &["costs", "--since", "yesterday"]);
    assert!(said.err.contains("`--since yesterday` is no time"), "{}", said.err);
    let said = world.run_to(2, &["costs", "--since", "2023-11-15", "--until", "2023-11-15"]);
    assert!(said.err.contains("nothing lies between") && said.err.contains("earlier"), "{}", said.err);
    let said = world.run_to(2, &["costs", "--by", "colour"]);
    assert!(said.err.contains("provider"), "what there is: {}", said.err);
}

#[test]
fn a_ledger_whose_sums_were_changed_is_found() {
    let world = world();
    let finding =
        |doctor: &Value| doctor["findings"].as_array().unwrap().iter().find(|one| one["name"] == "ledger").cloned();
    assert_eq!(finding(&world.json(&["doctor"])).unwrap()["level"], "ok");
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
    let sqlite = rusqlite::Connection::open(world.data().join("orchestrator.db")).unwrap();
    sqlite.execute("UPDATE ledger_sums SET micros = micros + 1 WHERE micros = 7", []).unwrap();
    drop(sqlite);
    let found = finding(&world.json(&["doctor"])).unwrap();
    let what = found["what"].as_str().unwrap();
    assert_eq!(found["level"], "fail");
    assert!(what.contains("agent `tester`") && what.contains("micros 8 instead of 7"), "{what}");
    assert!(world.run_to(8, &["db", "check"]).out.contains(what));
}

const HELD: &str = "budget: { usd: 2.00, tokens: 1000, model_calls: 5 }
steps:
  hold:
    run: echo $$ >> started && read line < gate
";

#[test]
fn budgets_are_told_while_a_flow_runs() {
    let world = World::new();
    let mut gate = Gate::new(&world);
    world.pipeline("ship", HELD);
    let running = start_held(&world, &["run", "ship"]);
    let runs = world.json(&["runs", "list"]);
    let run: RunId = serde_json::from_value(runs["runs"][0]["id"].clone()).unwrap();
    let flow: FlowId = serde_json::from_value(runs["runs"][0]["flow"].clone()).unwrap();
    let call = |number, micros| {
        let mut reserved = reservation(number, 1);
        (reserved.account.run, reserved.account.flow) = (Some(run), Some(flow));
        reserved.micros = UsdMicros::from_micros(micros);
        reserved
    };
    let mut estimated = settlement(2, 100_000);
    estimated.kind = EntryKind::Estimated;
    let calls = vec![
        (call(1, 900_000), Some(settlement(1, 300_000))),
        (call(2, 900_000), Some(estimated)),
        (call(3, 250_000), None),
    ];
    fill(&world.data().join("orchestrator.db"), calls);

    let budgets = world.json(&["budgets"]);
    let budget = &budgets["budgets"][0];
    let wall = |wall: &str, unit: &str, figures: [Value; 4]| {
        let [limit, spent, reserved, left] = figures;
        json!({ "wall": wall, "unit": unit, "limit": limit, "spent": spent, "reserved": reserved, "left": left })
    };
    let walls = [
        wall("usd", "usd_micros", [json!(2_000_000), json!(400_000), json!(250_000), json!(1_350_000)]),
        wall("tokens", "tokens", [json!(1_000), json!(42), Value::Null, json!(958)]),
        wall("model_calls", "model_calls", [json!(5), json!(2), json!(1), json!(2)]),
    ];
    assert_eq!(budget["walls"], json!(walls));
    assert_eq!((&budget["flow"], &budget["estimated_percent"]), (&json!(flow), &json!(25)));
    let shown = world.run_to(0, &["budgets"]).out;
    assert!(shown.lines().nth(1).unwrap().contains("usd          $2.00  $0.40  $0.25     $1.35  25 %"), "{shown}");
    let csv = world.run_to(0, &["budgets", "--output", "csv"]).out;
    assert!(csv.contains(&format!("\r\n{flow},ship,usd,2.000000,0.400000,0.250000,1.350000,25,0\r\n")), "{csv}");

    let cost = "$0.40, 2 calls, 42 tokens; $0.10 of it estimated, 1 in flight, $0.25 reserved";
    for args in [["status", &run.to_string()], ["explain", &run.to_string()], ["explain", &flow.to_string()]] {
        let said = world.run_to(0, &args).out;
        assert!(said.contains(cost), "{args:?}: {said}");
    }
    assert_eq!(world.json(&["runs", "show", &run.to_string()])["ledger"]["cost_usd_micros"], 400_000);

    gate.open();
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(world.json(&["budgets"])["budgets"], json!([]), "it is over");
    assert_eq!(world.json(&["costs", "--by", "flow"])["lines"][0]["flow"], json!(flow));
}
