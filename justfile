# Short names for what one types often. `just` alone lists them.

_list:
    @just --list

# What must hold before a commit: format, lints, rules of the house, generated documents.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask tidy
    cargo xtask docs --check

# All tests, with a PostgreSQL server of their own; arguments go to nextest.
test *ARGUMENTS:
    cargo xtask test {{ARGUMENTS}}

# Write the reference documents from the code.
docs:
    cargo xtask docs

# Licences, banned crates, sources and advisories. Needs `cargo install --locked cargo-deny`.
deny:
    cargo deny check

# Everything that the machine that checks the main branch does.
ci:
    .ci/run
