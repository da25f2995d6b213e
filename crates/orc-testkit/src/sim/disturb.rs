//! What goes wrong, and when.

use std::fmt;

use orc_domain::effect::{Change, Decision};
use orc_domain::ids::FlowId;
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::transition::Transition;

use super::{Halt, Moved, Sim};

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// The instance dies: its memory and processes are gone, the store stays.
    Crash,
    /// A call of the store fails, before or after it took effect.
    Store,
    /// Another process decides about a flow that is resident here.
    Writer,
    /// The instance believes in slots that are not there.
    Refuse,
    /// An input or an effect comes twice.
    Repeat,
    /// Inputs come in another order than they happened.
    Reorder,
    /// The clock jumps, forwards or back.
    Clock,
    /// Nothing is done for a while.
    Stall,
    /// A flow leaves memory and is loaded again.
    Evict,
    /// Somebody cancels, once or more.
    Cancel,
    /// Somebody pauses a flow or a step, and perhaps lets it go on.
    Hold,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Crash,
        Self::Store,
        Self::Writer,
        Self::Refuse,
        Self::Repeat,
        Self::Reorder,
        Self::Clock,
        Self::Stall,
        Self::Evict,
        Self::Cancel,
        Self::Hold,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Store => "store",
            Self::Writer => "writer",
            Self::Refuse => "refuse",
            Self::Repeat => "repeat",
            Self::Reorder => "reorder",
            Self::Clock => "clock",
            Self::Stall => "stall",
            Self::Evict => "evict",
            Self::Cancel => "cancel",
            Self::Hold => "hold",
        }
    }

    /// The fault of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Kinds of faults that may happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults(u16);

impl Faults {
    /// All kinds.
    pub const ALL: Self = Self(u16::MAX);

    /// Whether this kind may happen.
    #[must_use]
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u16) != 0
    }

    /// The same without one kind.
    #[must_use]
    pub const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u16))
    }

    /// The kinds that may not happen.
    pub fn missing(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| !self.has(*fault))
    }
}

/// How a call of the store goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Works,
    /// It fails, and nothing was written.
    FailsBefore,
    /// It took effect, and its answer is lost.
    FailsAfter,
}

impl Sim<'_> {
    /// Whether a fault of this kind happens now; it is counted when it does.
    pub(super) fn strikes(&mut self, fault: Fault, permille: usize) -> bool {
        let strikes = !self.calm && self.settings.faults.has(fault) && self.dice.permille(permille * self.storm);
        if strikes {
            *self.result.faults.entry(fault).or_default() += 1;
        }
        strikes
    }

    /// A place where the instance may die.
    pub(super) fn may_crash(&mut self, place: &str) -> Moved<()> {
        if self.strikes(Fault::Crash, 4) {
            self.note(|| format!("CRASH {place}"));
            return Err(Halt::Crash);
        }
        Ok(())
    }

    /// A call of the store.
    pub(super) fn call(&mut self) -> Call {
        if !self.strikes(Fault::Store, 20) {
            Call::Works
        } else if self.dice.permille(500) {
            Call::FailsBefore
        } else {
            Call::FailsAfter
        }
    }

    /// What goes wrong between two steps.
    pub(super) fn disturb(&mut self) -> Moved<()> {
        self.may_crash("between steps")?;
        if self.strikes(Fault::Clock, 5) {
            self.skew += self.signed_millis(3_600_000);
            let skew = self.skew;
            self.note(|| format!("the clock is off by {skew} ms"));
        }
        if self.strikes(Fault::Stall, 10) {
            self.now += self.signed_millis(90_000).abs();
            self.note(|| "nothing was done for a while".to_owned());
        }
        let flows: Vec<FlowId> = self.model.flow_ids().collect();
        let Some(flow) = self.dice.pick(&flows) else {
            return Ok(());
        };
        if self.strikes(Fault::Evict, 10) {
            self.host.residents.remove(&flow);
            if let Some(loaded) = self.load(flow) {
                self.host.residents.insert(flow, loaded);
            }
        }
        if self.strikes(Fault::Cancel, 8) {
            let force = self.dice.permille(150);
            self.post(flow, by_person(Input::Cancel { force }));
        }
        if self.strikes(Fault::Hold, 15) {
            self.somebody_pauses(flow);
        }
        if self.strikes(Fault::Repeat, 20)
            && let Some((flow, signed)) = self.pick_heard()
        {
            self.post(flow, signed);
        }
        if self.strikes(Fault::Repeat, 20)
            && let Some((flow, effect)) = self.pick_done()
        {
            self.deliver(flow, &effect)?;
        }
        if self.strikes(Fault::Writer, 10) {
            self.other_writer(flow)?;
        }
        Ok(())
    }

    fn signed_millis(&mut self, bound: u64) -> i64 {
        let span = i64::try_from(self.dice.millis(0, bound)).unwrap_or(0);
        if self.dice.permille(500) { span } else { -span }
    }

    fn pick_heard(&mut self) -> Option<(FlowId, Signed)> {
        let at = self.dice.below(self.heard.len());
        self.heard.get(at).cloned()
    }

    fn pick_done(&mut self) -> Option<(FlowId, orc_domain::effect::Effect)> {
        let at = self.dice.below(self.done.len());
        self.done.get(at).cloned()
    }

    /// Another process loads the flow, decides and commits; the flow that is resident here is stale.
    fn other_writer(&mut self, flow: FlowId) -> Moved<()> {
        let Some(resident) = self.load(flow) else {
            return Ok(());
        };
        if resident.flow().is_finished() {
            return Ok(());
        }
        let cancel = self.settings.faults.has(Fault::Cancel) && self.dice.permille(100);
        let input = if cancel { Input::Cancel { force: false } } else { Input::Alarm };
        self.note(|| format!("another process decides on {input:?}"));
        let expected = resident.flow().head.version;
        let mut head = resident.flow().head.clone();
        let context = self.context(0);
        let (next, decision) = self.decide(resident, &by_person(input), &context)?;
        if !decision.is_empty() {
            let commit = self.commit_of(flow, expected, decision);
            return self.commit(&commit, &next, false).map(|_| ());
        }
        head.version += 1;
        head.wake_at = next.wake_at();
        let bump = Decision {
            changes: vec![Change::Head(head)],
            transitions: Vec::<Transition>::new(),
            ..Decision::default()
        };
        let commit = self.commit_of(flow, expected, bump);
        self.write(&commit, false).map(|_| ())
    }
}

/// An input of the person who uses the system.
pub(super) fn by_person(input: Input) -> Signed {
    Signed { by: Principal::Os(1000), input }
}
