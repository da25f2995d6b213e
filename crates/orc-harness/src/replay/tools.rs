//! The tools of a recorded run once more, in a place like the one that it began in: each is begun when the loop begins it, and
//! what comes of it is held against what is recorded. The loop hears what is recorded, so that it goes the same way whatever
//! differs; a tool sees what those before it did now. Each call passes the gate again: what may not be done is not done.
//!
//! What cannot be compared is never passed over in silence: a run as a whole is refused, a single call is left out with its
//! reason. See `same` for what counts as equal.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::FuturesUnordered;
use orc_domain::ids::RunId;
use orc_domain::tree;
use orc_ports::executor::Launch;
use orc_ports::harness::Outset;
use tokio_util::sync::CancellationToken;

use super::same::difference;
use super::{Again, ReplayError};
use crate::brain::{Act, Heard};
use crate::drive::room::Room;
use crate::drive::{Lift, lift};
use crate::gate::{Answers, Gate, Grounds, Over};
use crate::place::Place;
use crate::record::{Entry, Line};
use crate::run::{Places, grounds_of};
use crate::talk::{ToolCall, ToolInput};

/// Characters of an input that are shown.
const INPUT_CHARS: usize = 120;
/// Characters of each side of a difference that are shown.
const SIDE_CHARS: usize = 600;

const NETWORK: &str = "not done: what the network answers is not the same again";
const HAPPENS: &str = "done, not compared: how far a shell in the background is by then is chance";
const ENDED: &str = "not compared: it was ended, and when is chance";
const UNKNOWN: &str = "not compared: what came of it then is not recorded";

/// Why the tools of a run cannot be used again.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// It does not even go as it was recorded.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Its conversation was older than it.
    #[error("it went on in an older conversation, in what the runs before it had left, and that is not recorded")]
    GoesOn,
    /// It had others work for it.
    #[error(
        "it started the agent `{agent}`, and what agents do side by side in one copy has no order that is recorded"
    )]
    Agents {
        /// Which.
        agent: String,
    },
    /// Nobody wrote down where it began.
    #[error("its record does not say where it began: it is of an earlier version")]
    NoOutset,
    /// Its gate cannot be made, and without one nothing is done.
    #[error("its calls cannot be judged: {why}")]
    Gate {
        /// Why.
        why: String,
    },
    /// The place of now cannot be used.
    #[error("the place where its tools are used again cannot be used: {why}")]
    Broken {
        /// Why.
        why: String,
    },
}

/// Where a run began.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// What it began with.
    pub outset: Outset,
    /// What it was told.
    pub told: Vec<String>,
}

/// A call of a tool, then and now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The event that tells what came of it, from 1; none: it has none.
    pub event: Option<usize>,
    /// Which tool.
    pub tool: String,
    /// Its input, cut.
    pub input: String,
    /// What came of it.
    pub came: Came,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// The same.
    Same,
    /// Something else.
    Differs {
        /// What is recorded.
        then: Side,
        /// What it is now.
        now: Side,
    },
    /// It was not compared.
    LeftOut {
        /// Why.
        why: &'static str,
    },
}

/// One side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Whether the tool failed.
    pub failed: bool,
    /// What it said, from the first line on that differs, cut.
    pub text: String,
}

/// Where a run began, if its tools can be used again. Replays it without them.
///
/// # Errors
/// [`ToolsError`], for a place that is not there yet.
pub fn start_of(lines: &[Line], run: RunId) -> Result<Start, ToolsError> {
    let mut again = Again::begin(lines, run)?;
    let (mut outset, mut told) = (None, Vec::new());
    for line in lines {
        match &line.entry {
            Entry::Run { run: this, outset: known } if *this == run => outset.clone_from(known),
            Entry::Heard { .. } if again.going.is_none() => return Err(ToolsError::GoesOn),
            Entry::Heard { heard: Heard::Woken { text, .. } } => told.push(text.clone()),
            _ => {}
        }
        let ControlFlow::Continue(acts) = again.hear(line)? else { break };
        for act in acts {
            if let Act::Spawn { agent, .. } = act {
                return Err(ToolsError::Agents { agent });
            }
        }
    }
    again.end()?;
    let outset = outset.ok_or(ToolsError::NoOutset)?;
    Ok(Start { outset: *outset, told })
}

/// Uses the tools of a run again in a place that was laid out as `launch` says, which is closed when this returns.
///
/// # Errors
/// [`ToolsError`].
pub async fn use_again(
    lines: &[Line],
    run: RunId,
    outset: &Outset,
    (launch, places): (Launch, &dyn Places),
) -> Result<Vec<Call>, ToolsError> {
    // It is judged as it was, and what its box let through then was a part of that.
    let hosts = match &outset.place {
        tree::Place::Boxed { rules, .. } => rules.network.iter().cloned().collect(),
        tree::Place::InPlace { .. } => Vec::new(),
    };
    let grounds = Grounds { hosts, ..grounds_of(&launch) };
    let over = Over { above: outset.above.clone(), rules: outset.rules.clone(), is_below: false };
    let gate = Gate::of(&outset.profile, &over, &grounds, Answers::default());
    let gate = Arc::new(gate.map_err(|why| ToolsError::Gate { why })?);
    let place = places.place(launch);
    let done = go(lines, run, Hands::new(Arc::clone(&place), gate)).await;
    place.close(true).await;
    done
}

async fn go(lines: &[Line], run: RunId, mut hands: Hands) -> Result<Vec<Call>, ToolsError> {
    let mut again = Again::begin(lines, run)?;
    for line in lines {
        match &line.entry {
            Entry::Heard { heard } => hands.compare(heard).await?,
            Entry::Asked { .. } => hands.room = Room::default(),
            _ => {}
        }
        let ControlFlow::Continue(acts) = again.hear(line)? else { break };
        acts.into_iter().for_each(|act| hands.act(act));
    }
    let events = again.going.as_ref().map(|going| going.done.clone()).unwrap_or_default();
    again.end()?;
    Ok(hands.end(&events))
}

/// What the tools do now.
struct Hands {
    place: Arc<dyn Place>,
    gate: Arc<Gate>,
    /// Stamps of the files that were seen now.
    seen: BTreeMap<String, String>,
    /// For the results of this turn, in the order in which they came then.
    room: Room,
    doing: FuturesUnordered<BoxFuture<'static, Heard>>,
    done: BTreeMap<String, (String, bool)>,
    cancels: BTreeMap<String, CancellationToken>,
    calls: Vec<(String, Call)>,
}

impl Hands {
    fn new(place: Arc<dyn Place>, gate: Arc<Gate>) -> Self {
        let (seen, done, cancels) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            place,
            gate,
            seen,
            room: Room::default(),
            doing: FuturesUnordered::new(),
            done,
            cancels,
            calls: Vec::new(),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Use { call, seen, answer, .. } => {
                // Whoever changes files knows those that were seen: now, and not then.
                let seen = if seen.is_empty() { seen } else { self.seen.clone() };
                self.begin(Lift { call, seen, answer });
            }
            Act::Cancel { call } => {
                self.cancels.get(&call).into_iter().for_each(CancellationToken::cancel);
                self.set(&call, Came::LeftOut { why: ENDED });
            }
            // Nobody is asked, and a run that started agents did not come as far as here.
            Act::Ask(_) | Act::HangUp | Act::Tell(_) | Act::End(_) | Act::Spawn { .. } => {}
        }
    }

    fn begin(&mut self, wanted: Lift) {
        let call = &wanted.call;
        let why = match call.name.as_str() {
            "WebFetch" => NETWORK,
            "BashOutput" | "KillShell" => HAPPENS,
            _ => UNKNOWN,
        };
        let (input, came) = (cut(&input_of(call), INPUT_CHARS), Came::LeftOut { why });
        self.calls.push((call.id.clone(), Call { event: None, tool: call.name.clone(), input, came }));
        if why == NETWORK {
            return;
        }
        let cancel = self.cancels.entry(call.id.clone()).or_default().clone();
        let (place, gate) = (Arc::clone(&self.place), Arc::clone(&self.gate));
        self.doing.push(async move { lift(&*place, &gate, wanted, Arc::new(|_| {}), cancel).await }.boxed());
    }

    /// Holds what comes of a call against what is recorded.
    async fn compare(&mut self, recorded: &Heard) -> Result<(), ToolsError> {
        let Some((id, then, then_failed)) = said(recorded) else { return Ok(()) };
        if !self.cancels.contains_key(&id) {
            return Ok(());
        }
        let Some((now, now_failed)) = self.result_of(&id).await? else { return Ok(()) };
        let now = self.room.fit(&*self.place, now).await;
        let Some((_, call)) = self.calls.iter().find(|(known, _)| *known == id) else { return Ok(()) };
        if call.came != (Came::LeftOut { why: UNKNOWN }) {
            return Ok(());
        }
        let differs = difference(&call.tool, &then, &now);
        let came = if differs.is_none() && then_failed == now_failed {
            Came::Same
        } else {
            let (then, now) = differs.unwrap_or((then, now));
            let side = |failed, text: &str| Side { failed, text: cut(text, SIDE_CHARS) };
            Came::Differs { then: side(then_failed, &then), now: side(now_failed, &now) }
        };
        self.set(&id, came);
        Ok(())
    }

    /// Waits for a call that was begun; what it says now.
    async fn result_of(&mut self, id: &str) -> Result<Option<(String, bool)>, ToolsError> {
        loop {
            if let Some(done) = self.done.remove(id) {
                return Ok(Some(done));
            }
            let heard = match self.doing.next().await {
                Some(Heard::Broke { why, .. }) => return Err(ToolsError::Broken { why }),
                Some(heard) => heard,
                None => return Ok(None),
            };
            if let Some((call, text, failed)) = said(&heard) {
                self.done.insert(call, (text, failed));
            }
            if let Heard::Result { seen, .. } = heard {
                self.seen.extend(seen);
            }
        }
    }

    fn set(&mut self, id: &str, came: Came) {
        if let Some((_, call)) = self.calls.iter_mut().find(|(known, _)| known == id) {
            call.came = came;
        }
    }

    /// All calls, in the order in which they began.
    fn end(self, events: &BTreeMap<String, usize>) -> Vec<Call> {
        self.calls.into_iter().map(|(id, call)| Call { event: events.get(&id).copied(), ..call }).collect()
    }
}

/// What came of a call: which, what is said of it, whether it failed.
fn said(heard: &Heard) -> Option<(String, String, bool)> {
    match heard {
        Heard::Result { call, text, failed, .. } => Some((call.clone(), text.clone(), *failed)),
        Heard::Asked { call, text, .. } => Some((call.clone(), format!("[somebody is asked: {text}]"), true)),
        _ => None,
    }
}

fn input_of(call: &ToolCall) -> String {
    match &call.input {
        ToolInput::Json(input) => input.to_string(),
        ToolInput::Broken(text) => text.clone(),
    }
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}[... {} bytes more]", &text[..end], text.len() - end),
    }
}

#[cfg(test)]
mod tests;
