//! Traits to the outside world.
