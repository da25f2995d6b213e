//! All it can hear.
