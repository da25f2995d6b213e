//! Permissions, as pure functions: what a call would do, what the rules say of it, and who answers when they say ask.

pub mod case;
pub mod floor;
pub mod glob;
pub mod hook;
pub mod judge;
pub mod lint;
pub mod path;
pub mod policy;
pub mod programs;
pub mod rule;
pub mod shell;
pub mod verdict;
pub mod view;
