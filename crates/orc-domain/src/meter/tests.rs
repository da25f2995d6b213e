use std::collections::BTreeMap;

use uuid::Uuid;

use super::*;
use crate::price::Rates;

/// Numbers that look random and are the same for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn up_to(&mut self, most: u64) -> u64 {
        self.roll() % most.saturating_add(1).max(1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.roll()).unwrap() % all.len()]
    }

    fn percent(&mut self, of: u64) -> bool {
        self.roll() % 100 < of
    }
}

const RUNS: u64 = 3;
const PROGRAMS: usize = 20;

fn gateway() -> Owner {
    Owner::Gateway
}

fn flow() -> Owner {
    Owner::Flow(FlowId::from_uuid(Uuid::from_u128(1)))
}

fn run(at: u64) -> Owner {
    Owner::Run(RunId::from_uuid(Uuid::from_u128(u128::from(at))))
}

fn call(at: u64) -> CallId {
    CallId::from_uuid(Uuid::from_u128(u128::from(at)))
}

fn price(dice: &mut Dice) -> Price {
    let input = dice.one_of(&[0, 100_000, 3_000_000, 15_000_000]);
    let output = input * dice.one_of(&[1, 4, 5]) + dice.up_to(3);
    let rates = Rates {
        input,
        cache_read: input / 10,
        cache_write: input * 5 / 4,
        cache_write_long: input * dice.up_to(2),
        output,
    };
    let twice = Rates {
        input: input * 2,
        cache_read: input / 5,
        cache_write: input * 5 / 2,
        cache_write_long: input * 4,
        output: output * 3 / 2,
    };
    Price {
        rates,
        long: dice.percent(30).then_some((20_000, twice)),
        server_tool: dice.one_of(&[0, 10_000]),
        most_output: dice.one_of(&[None, Some(8_192), Some(64_000)]),
        window: dice.one_of(&[None, Some(200_000)]),
    }
}

fn ask(dice: &mut Dice) -> Ask {
    let output = dice.one_of(&[None, Some(128_000), Some(128_000), Some(32_000), Some(4_096), Some(700), Some(1)]);
    let least = if dice.percent(15) { dice.one_of(&[1_025, 31_999]) } else { 0 };
    Ask {
        bytes: dice.one_of(&[0, 500, 20_000, 300_000]) + dice.up_to(999),
        refers: dice.percent(5),
        output: output.map(|output: u64| output.max(least)),
        least,
        answers: dice.one_of(&[0, 1, 1, 1, 2]),
        server_tools: dice.one_of(&[0, 0, 0, 3]),
        price: (!dice.percent(2)).then(|| price(dice)),
    }
}

fn limits(dice: &mut Dice) -> Limits {
    let usd = dice.one_of(&[0, 50_000, 1_000_000, 5_000_000, 20_000_000]) + dice.up_to(99_999);
    Limits {
        usd: dice.percent(60).then(|| UsdMicros::from_micros(i64::try_from(usd).unwrap())),
        tokens: dice.percent(40).then(|| dice.one_of(&[10_000, 400_000, 5_000_000])),
        calls: dice.percent(30).then(|| dice.up_to(60)),
    }
}

/// Anything that a call may use within what was reserved for it: the worst case often.
fn usage(dice: &mut Dice, ask: &Ask, grant: Grant) -> Amount {
    let answers = ask.answers.max(1);
    let output = grant.output.unwrap_or_else(|| ask.output.unwrap_or_else(|| ask.most())) * answers;
    let mut tokens = Tokens::default();
    let (input, output) = match dice.up_to(9) {
        0 | 1 => (ask.input(), output),
        2 => (ask.input(), 0),
        3 => (0, 0),
        _ => (dice.up_to(ask.input()), dice.up_to(output)),
    };
    let class = [&mut tokens.input, &mut tokens.cache_read, &mut tokens.cache_write, &mut tokens.cache_write_long];
    let mut rest = input;
    for part in class {
        *part = if dice.percent(25) { rest } else { dice.up_to(rest) };
        rest -= *part;
    }
    tokens.input += rest;
    tokens.reasoning = dice.up_to(output);
    tokens.output = output - tokens.reasoning;
    tokens.server_tools = dice.up_to(ask.server_tools);
    Amount::of_call(tokens, ask.price.map_or(UsdMicros::default(), |price| price.cost(tokens)))
}

/// A gateway with its ledger, as far as the meter is concerned.
struct World {
    dice: Dice,
    meter: Meter,
    limits: BTreeMap<Owner, Limits>,
    /// What is over or lost, by wall.
    spent: BTreeMap<Owner, Amount>,
    /// Calls in flight.
    open: BTreeMap<u64, (Ask, [Owner; 3], Grant)>,
    /// What each program wants next; whether it waits.
    wants: Vec<(Ask, [Owner; 3], bool)>,
    /// Refused, with the limits at that time.
    refused: Vec<(Ask, [Owner; 3], Refusal)>,
    calls: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let owners = [gateway(), flow()].into_iter().chain((0..RUNS).map(run));
        let limits: BTreeMap<Owner, Limits> = owners.map(|owner| (owner, limits(&mut dice))).collect();
        let mut world = Self {
            dice,
            meter: Meter::default(),
            limits,
            spent: BTreeMap::new(),
            open: BTreeMap::new(),
            wants: Vec::new(),
            refused: Vec::new(),
            calls: 0,
        };
        world.watch();
        for _ in 0..PROGRAMS {
            let want = world.want();
            world.wants.push(want);
        }
        world
    }

    fn want(&mut self) -> (Ask, [Owner; 3], bool) {
        let run = run(self.dice.up_to(RUNS - 1));
        (ask(&mut self.dice), [run, flow(), gateway()], false)
    }

    fn watch(&mut self) {
        for (owner, limits) in &self.limits {
            self.meter.watch(*owner, *limits, self.spent.get(owner).copied().unwrap_or_default());
        }
    }

    fn step(&mut self) {
        match self.dice.up_to(99) {
            0..50 => {
                let program = self.dice.one_of(&(0..PROGRAMS).collect::<Vec<_>>());
                self.ask(program);
            }
            50..95 => self.settle(),
            95..97 => self.crash(),
            97..99 => self.raise(),
            _ => {
                // Whoever is still in flight keeps its wall; the others are forgotten, and watched again from the ledger.
                let owner = self.dice.one_of(&self.limits.keys().copied().collect::<Vec<_>>());
                let kept = self.open.values().any(|(_, above, _)| above.contains(&owner));
                assert_eq!(self.meter.forget(owner), !kept);
                self.watch();
            }
        }
    }

    fn ask(&mut self, program: usize) {
        let (ask, above, _) = self.wants[program];
        self.calls += 1;
        match self.meter.reserve(call(self.calls), &above, &ask) {
            Verdict::Granted(grant) => {
                self.check_grant(&ask, grant);
                self.open.insert(self.calls, (ask, above, grant));
                self.wants[program] = self.want();
            }
            Verdict::Wait(owner) => {
                assert!(above.contains(&owner));
                let in_flight = self.open.values().any(|(_, above, _)| above.contains(&owner));
                assert!(in_flight, "waits for nothing: {ask:?}");
                self.wants[program].2 = true;
            }
            Verdict::Refused(refusal) => {
                self.refused.push((ask, above, refusal));
                self.wants[program] = self.want();
            }
        }
    }

    fn check_grant(&self, ask: &Ask, grant: Grant) {
        if let Some(output) = grant.output {
            assert!(output >= ask.floor(), "{output} for {ask:?}");
            assert!(ask.output.is_none_or(|asked| output < asked), "{output} for {ask:?}");
        }
        assert!(grant.reserved.calls == 1);
    }

    fn settle(&mut self) {
        let Some(which) = self.any_open() else { return };
        let (ask, above, grant) = self.open.remove(&which).unwrap();
        let used = usage(&mut self.dice, &ask, grant);
        assert!(used.micros <= grant.reserved.micros, "{used:?} of {grant:?} for {ask:?}");
        assert!(used.tokens <= grant.reserved.tokens, "{used:?} of {grant:?} for {ask:?}");
        assert!(self.meter.settle(call(which), used));
        assert!(!self.meter.settle(call(which), used), "settled twice");
        self.add(above, used);
    }

    fn any_open(&mut self) -> Option<u64> {
        let all: Vec<u64> = self.open.keys().copied().collect();
        (!all.is_empty()).then(|| self.dice.one_of(&all))
    }

    fn add(&mut self, above: [Owner; 3], used: Amount) {
        for owner in above {
            let spent = self.spent.entry(owner).or_default();
            *spent = spent.plus(used);
        }
    }

    /// What was in flight is lost: all of it counts. The meter is made anew from the ledger.
    fn crash(&mut self) {
        for (_, (_, above, grant)) in std::mem::take(&mut self.open) {
            self.add(above, grant.reserved);
        }
        self.meter = Meter::default();
        self.watch();
    }

    fn raise(&mut self) {
        // What was refused may be possible afterwards.
        self.check_refused();
        let owner = self.dice.one_of(&self.limits.keys().copied().collect::<Vec<_>>());
        let limits = self.limits.get_mut(&owner).unwrap();
        let more = |limit: u64| limit + limit / 2 + 1;
        limits.usd = limits.usd.map(|usd| UsdMicros::from_micros(usd.as_micros() * 3 / 2 + 1));
        limits.tokens = limits.tokens.map(more);
        limits.calls = limits.calls.map(more);
        self.watch();
    }

    fn check(&self) {
        for (owner, limits) in &self.limits {
            let spent = self.spent.get(owner).copied().unwrap_or_default();
            let below = self.open.values().filter(|(_, above, _)| above.contains(owner));
            let set_aside = below.fold(Amount::default(), |sum, (.., grant)| sum.plus(grant.reserved));
            assert_eq!(self.meter.used(*owner), (spent, set_aside), "{owner:?}");
            let all = spent.plus(set_aside);
            let usd = limits.usd.map_or(u64::MAX, |usd| u64::try_from(usd.as_micros()).unwrap());
            assert!(all.micros <= usd, "{owner:?}: {all:?} beyond {limits:?}");
            assert!(all.tokens <= limits.tokens.unwrap_or(u64::MAX), "{owner:?}: {all:?} beyond {limits:?}");
            assert!(all.calls <= limits.calls.unwrap_or(u64::MAX), "{owner:?}: {all:?} beyond {limits:?}");
        }
        assert_eq!(self.meter.in_flight(), self.open.len());
    }

    /// A refusal is final as long as no limit changes.
    fn check_refused(&mut self) {
        for (ask, above, refusal) in self.refused.drain(..) {
            let now = self.meter.refusal(&above, &ask);
            assert!(now.is_some(), "refused with {refusal:?}, and now it may: {ask:?}");
        }
    }
}

#[test]
fn spend_never_crosses_a_wall_whatever_happens() {
    for seed in 0..10_000 {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..80 {
                world.step();
                world.check();
            }
            // Everybody comes to an end: those who wait are served or refused once nothing is in flight.
            while !world.open.is_empty() {
                world.settle();
            }
            for program in 0..PROGRAMS {
                world.ask(program);
                while !world.open.is_empty() {
                    world.settle();
                }
            }
            world.check();
            world.check_refused();
        });
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

/// Twenty programs ask for 128,000 tokens again and again; answers are as long as they like. Before the first of them is
/// refused, all but one small answer of the money is spent.
#[test]
fn with_demand_the_money_is_spent_before_anybody_is_refused() {
    for seed in 0..1_000 {
        let mut dice = Dice(seed);
        let mut price = price(&mut dice);
        price.rates.output = price.rates.output.max(1_000_000);
        let limit = 200_000 + dice.up_to(20_000_000);
        let ask =
            Ask { bytes: dice.up_to(20_000), output: Some(128_000), answers: 1, price: Some(price), ..Ask::default() };
        let mut meter = Meter::default();
        let money = Limits { usd: Some(UsdMicros::from_micros(i64::try_from(limit).unwrap())), ..Limits::default() };
        meter.watch(flow(), money, Amount::default());
        let small = ask.worst(LEAST_OUTPUT).micros;
        let (mut open, mut next, mut spent) = (BTreeMap::new(), 0, 0);
        let refusal = loop {
            next += 1;
            assert!(next < 100_000, "seed {seed}: no end");
            let verdict =
                if open.len() < PROGRAMS { meter.reserve(call(next), &[flow()], &ask) } else { Verdict::Wait(flow()) };
            match verdict {
                Verdict::Granted(grant) => {
                    open.insert(next, grant);
                }
                Verdict::Wait(_) => {
                    let which = dice.one_of(&open.keys().copied().collect::<Vec<_>>());
                    let grant = open.remove(&which).unwrap();
                    let mut used = usage(&mut dice, &ask, grant);
                    used.micros = used.micros.max(grant.reserved.micros / 50);
                    meter.settle(call(which), used);
                    spent += used.micros;
                }
                Verdict::Refused(refusal) => break refusal,
            }
        };
        let Refusal::Wall { owner, wall: Wall::Usd, short } = refusal else { panic!("{refusal:?}") };
        assert_eq!((owner, short.spent, short.limit), (flow(), spent, limit));
        assert!(short.spent + short.needed > short.limit, "seed {seed}: {short:?} is none");
        assert!(spent + small > limit, "seed {seed}: refused at {spent} of {limit}, a small answer costs {small}");
        for (which, grant) in open {
            let used = usage(&mut dice, &ask, grant);
            meter.settle(call(which), used);
            spent += used.micros;
        }
        assert!(spent <= limit, "seed {seed}");
    }
}

fn dollars(text: &str) -> Limits {
    Limits { usd: UsdMicros::parse(text), ..Limits::default() }
}

fn sonnet() -> Price {
    let rates = Rates {
        input: 3_000_000,
        cache_read: 300_000,
        cache_write: 3_750_000,
        cache_write_long: 6_000_000,
        output: 15_000_000,
    };
    Price { rates, most_output: Some(64_000), window: Some(200_000), ..Price::default() }
}

/// A request of 8,000 bytes: 10,000 tokens of input, $0.06 at their dearest.
fn sonnet_ask(output: Option<u64>) -> Ask {
    Ask { bytes: 8_000, output, answers: 1, price: Some(sonnet()), ..Ask::default() }
}

fn decide(limits: Limits, ask: &Ask) -> Verdict {
    let mut meter = Meter::default();
    meter.watch(flow(), limits, Amount::default());
    meter.reserve(call(1), &[flow()], ask)
}

/// The output that is granted, `None` within: as it was asked for; or no grant at all.
fn granted(limits: Limits, ask: &Ask) -> Option<Option<u64>> {
    match decide(limits, ask) {
        Verdict::Granted(grant) => Some(grant.output),
        Verdict::Wait(_) => panic!("nothing is in flight"),
        Verdict::Refused(_) => None,
    }
}

#[test]
fn outputs_are_left_lowered_inserted_or_refused() {
    let tokens = |tokens| Limits { tokens: Some(tokens), ..Limits::default() };
    for (limits, output, wanted) in [
        (Limits::default(), Some(128_000), Some(None)),
        (Limits::default(), None, Some(None)),
        // $0.06 of input and $1.92 of output.
        (dollars("1.98"), Some(128_000), Some(None)),
        (dollars("1.979999"), Some(128_000), Some(Some(127_999))),
        (dollars("1.00"), Some(128_000), Some(Some(62_666))),
        (dollars("1.00"), Some(62_666), Some(None)),
        // Without a limit the model's own counts: 64,000 tokens, $0.96.
        (dollars("1.02"), None, Some(None)),
        (dollars("1.00"), None, Some(Some(62_666))),
        // 4,096 tokens cost $0.06144.
        (dollars("0.12144"), Some(128_000), Some(Some(4_096))),
        (dollars("0.121439"), Some(128_000), None),
        (dollars("0.121439"), None, None),
        // A short answer that was asked for stays possible.
        (dollars("0.0615"), Some(100), Some(None)),
        (dollars("0.061499"), Some(100), None),
        (dollars("0.06"), Some(0), Some(None)),
        (tokens(138_000), Some(128_000), Some(None)),
        (tokens(100_000), Some(128_000), Some(Some(90_000))),
        (tokens(14_096), None, Some(Some(4_096))),
        (tokens(14_095), None, None),
    ] {
        assert_eq!(granted(limits, &sonnet_ask(output)), wanted, "{limits:?} {output:?}");
    }
}

#[test]
fn the_lowest_of_several_walls_counts_and_the_first_that_is_met_refuses() {
    let mut meter = Meter::default();
    meter.watch(gateway(), dollars("10"), Amount::default());
    meter.watch(flow(), dollars("1"), Amount::default());
    meter.watch(run(0), Limits { calls: Some(1), ..Limits::default() }, Amount::default());
    let above = [run(0), flow(), gateway()];
    let Verdict::Granted(grant) = meter.reserve(call(1), &above, &sonnet_ask(Some(128_000))) else { panic!() };
    assert_eq!(grant.output, Some(62_666));
    assert_eq!(meter.reserve(call(1), &above, &sonnet_ask(Some(1))), Verdict::Granted(grant), "asked again");
    assert_eq!(meter.reserve(call(2), &above, &sonnet_ask(Some(1))), Verdict::Wait(run(0)));
    assert_eq!(meter.reserve(call(2), &[flow(), gateway()], &sonnet_ask(Some(1))), Verdict::Wait(flow()));
    meter.settle(call(1), Amount { micros: 500_000, tokens: 9, calls: 1 });
    let refusal = Refusal::Wall {
        owner: run(0),
        wall: Wall::ModelCalls,
        short: Shortfall { limit: 1, spent: 1, held: 0, needed: 1, output: 1 },
    };
    assert_eq!(meter.reserve(call(2), &above, &sonnet_ask(Some(1))), Verdict::Refused(refusal));
    assert!(matches!(meter.reserve(call(3), &[flow(), gateway()], &sonnet_ask(Some(1))), Verdict::Granted(_)));
}

#[test]
fn thinking_has_a_floor_of_its_own() {
    let ask = |least| Ask { least, ..sonnet_ask(Some(40_000)) };
    // $0.06 of input; 32,000 tokens cost $0.48.
    assert_eq!(granted(dollars("0.54"), &ask(32_000)), Some(Some(32_000)));
    assert_eq!(granted(dollars("0.539999"), &ask(32_000)), None);
    assert_eq!(granted(dollars("0.539999"), &ask(1_025)), Some(Some(31_999)));
    // A floor below the usual one does not lower it.
    assert_eq!(granted(dollars("0.121439"), &ask(1_025)), None);
}

#[test]
fn long_contexts_are_reserved_at_their_own_prices() {
    let twice = Rates {
        input: 6_000_000,
        cache_read: 600_000,
        cache_write: 7_500_000,
        cache_write_long: 12_000_000,
        output: 22_500_000,
    };
    let price = |above| Price { long: Some((above, twice)), ..sonnet() };
    let ask = |above| Ask { price: Some(price(above)), ..sonnet_ask(Some(10_000)) };
    let reserved = |ask: &Ask| match decide(Limits::default(), ask) {
        Verdict::Granted(grant) => grant.reserved.micros,
        verdict => panic!("{verdict:?}"),
    };
    // 10,000 tokens of input at most.
    assert_eq!(reserved(&ask(10_000)), 60_000 + 150_000);
    assert_eq!(reserved(&ask(9_999)), 120_000 + 225_000);
}

#[test]
fn what_a_request_does_not_hold_is_bounded_by_the_window() {
    let refers = |price: Option<Price>| Ask { refers: true, price, ..sonnet_ask(Some(100)) };
    let tokens = |ask: &Ask| match decide(Limits::default(), ask) {
        Verdict::Granted(grant) => grant.reserved.tokens,
        verdict => panic!("{verdict:?}"),
    };
    assert_eq!(tokens(&sonnet_ask(Some(100))), 10_100);
    assert_eq!(tokens(&refers(Some(sonnet()))), 200_100);
    assert_eq!(tokens(&refers(Some(Price { window: None, ..sonnet() }))), UNKNOWN_WINDOW + 100);
    assert_eq!(tokens(&refers(None)), UNKNOWN_WINDOW + 100);
    // A request that is larger than the window counts by its bytes.
    assert_eq!(tokens(&refers(Some(Price { window: Some(5), ..sonnet() }))), 10_100);
}

#[test]
fn several_answers_and_tools_of_the_provider_are_reserved() {
    let price = Price { server_tool: 10_000, ..sonnet() };
    let ask = Ask { answers: 3, server_tools: 2, price: Some(price), ..sonnet_ask(Some(1_000)) };
    let Verdict::Granted(grant) = decide(Limits::default(), &ask) else { panic!() };
    assert_eq!(grant.reserved, Amount { micros: 60_000 + 45_000 + 20_000, tokens: 13_000, calls: 1 });
    let ask = Ask { output: Some(128_000), ..ask };
    // $1 less $0.06 and $0.02, for three.
    assert_eq!(granted(dollars("1"), &ask), Some(Some(20_444)));
}

#[test]
fn a_model_without_a_price_cannot_be_asked_below_a_wall_in_money() {
    let ask = Ask { price: None, ..sonnet_ask(Some(5_000)) };
    assert_eq!(decide(dollars("9"), &ask), Verdict::Refused(Refusal::Unpriced { owner: flow() }));
    let tokens = Limits { tokens: Some(14_500), ..Limits::default() };
    assert_eq!(granted(tokens, &ask), Some(Some(4_500)));
}

#[test]
fn a_wall_that_is_watched_late_knows_what_is_in_flight() {
    let mut meter = Meter::default();
    let Verdict::Granted(first) = meter.reserve(call(1), &[flow()], &sonnet_ask(Some(1_000))) else { panic!() };
    meter.watch(flow(), dollars("1"), Amount::default());
    assert_eq!(meter.used(flow()), (Amount::default(), first.reserved));
    let Verdict::Granted(second) = meter.reserve(call(2), &[flow()], &sonnet_ask(Some(2_000))) else { panic!() };
    let used = Amount { micros: 5, tokens: 6, calls: 1 };
    meter.settle(call(1), used);
    assert_eq!(meter.used(flow()), (used, second.reserved));
}

#[test]
fn what_a_provider_bills_beyond_a_reservation_counts() {
    let mut meter = Meter::default();
    meter.watch(flow(), dollars("0.50"), Amount::default());
    let Verdict::Granted(_) = meter.reserve(call(1), &[flow()], &sonnet_ask(Some(1_000))) else { panic!() };
    meter.settle(call(1), Amount { micros: 700_000, tokens: 1, calls: 1 });
    let Verdict::Refused(Refusal::Wall { wall: Wall::Usd, short, .. }) =
        meter.reserve(call(2), &[flow()], &sonnet_ask(Some(0)))
    else {
        panic!("more than its limit is spent")
    };
    assert_eq!((short.spent, short.limit), (700_000, 500_000));
}
