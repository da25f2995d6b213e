//! Step paths.
