//! All it can do.
