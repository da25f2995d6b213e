//! The shell around the decisions: it hears, asks `orc-engine` to decide, commits, and delivers effects.
//!
//! Ring 4: knows the engine and the ports, never an implementation of a port. Nothing here decides what a flow does next;
//! a new reaction belongs into `decide`.
//!
//! [`Dispatcher`] is the loop; `flow_loop` owns one flow at a time; `delivery` carries effects out; `recovery` runs at the
//! start and makes the store tell the truth about what a dead instance left; `slots` keeps the queue for slots fair, `groups`
//! the lines for concurrency groups; `parked` are the flows that only wait; `agents` and `ears` start and hear agents;
//! [`retention`] removes what is older than it is kept; `consumers` read the event log by cursor, [`notifications`] is the one that tells people; [`control`] is the socket through which other processes speak to us;
//! [`data_dir`] is where everything lies and who holds it.

mod agents;
mod artifacts;
mod children;
pub mod clock;
mod consumers;
pub mod control;
pub mod data_dir;
mod delivery;
mod dispatcher;
mod ears;
mod endings;
mod flow_loop;
mod follow;
pub mod fresh;
mod groups;
mod leftovers;
mod models;
pub mod notifications;
mod parked;
mod places;
mod recovery;
pub mod retention;
mod router;
mod run_log;
mod shell;
mod slots;
mod tasks;

pub use consumers::{CONSUMERS, ConsumerRow};
pub use dispatcher::{Definition, Definitions, Dispatcher, DispatcherError, Heard, Parts, Reply};
pub use follow::{Follower, Seen};
pub use places::{BoxShape, Ceiling, CoAuthors};
pub use recovery::Recovered;
pub use router::Router;
pub use shell::{Known, Shape, Standings, Trouble};
