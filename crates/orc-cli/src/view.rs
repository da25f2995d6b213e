//! How a flow looks while it runs and when it is over.

pub(crate) mod agent;
pub(crate) mod canvas;
pub(crate) mod columns;
pub(crate) mod cost;
pub(crate) mod flow;
pub(crate) mod live;
pub(crate) mod made;
pub(crate) mod place;
pub(crate) mod plain;
pub(crate) mod progress;
pub(crate) mod result;
pub(crate) mod run;

use orc_domain::event::Event;
use orc_domain::time::Timestamp;

/// Something that shows a flow while it runs, on standard error.
pub(crate) trait View {
    /// New events.
    fn events(&mut self, events: &[Event], now: Timestamp);
    /// Something to tell the person, whatever the form.
    fn note(&mut self, text: &str);
    /// Whether a person may answer in it what is asked.
    fn takes_answers(&self) -> bool {
        false
    }
    /// A person typed a line, which stands below what is shown.
    fn typed(&mut self) {}
    /// Nothing happened for a moment.
    fn tick(&mut self, now: Timestamp);
    /// The flow is over, or the program ends: leave the terminal in order.
    fn end(&mut self);
}

/// Shows nothing: the data on standard output says everything.
pub(crate) struct Silent;

impl View for Silent {
    fn events(&mut self, _: &[Event], _: Timestamp) {}

    fn note(&mut self, text: &str) {
        crate::output::say(text);
    }

    fn tick(&mut self, _: Timestamp) {}

    fn end(&mut self) {}
}
