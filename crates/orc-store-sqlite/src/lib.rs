//! SQL, private rows, one writer with group commit.
