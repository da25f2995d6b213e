//! The tools of the built-in agent, as they run inside the box.

pub mod offers;
