//! `permissions`: rules tried out, without a run.

mod test;

pub(crate) use test::run as test;
