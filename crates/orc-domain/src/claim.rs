//! What spans flows.
