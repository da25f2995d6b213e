//! The repository's own tool: `cargo xtask COMMAND`.
//!
//! Rules of the house, generated reference documents, and the test suite with what it needs. It starts programs and reads
//! files freely, is never shipped, and no other crate knows it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod bench;
mod command;
mod docs;
mod orchestrator;
mod postgres;
mod programs;
mod sim;
mod suite;
mod tidy;
mod tree;

use std::process::ExitCode;

use clap::Parser;

/// The tool of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Check the rules of the house that no compiler and no lint holds.
    Tidy,
    /// Write the reference documents in docs/reference from the code.
    Docs {
        /// Write nothing; fail when a document differs.
        #[arg(long)]
        check: bool,
        /// Ask the release build of the binary.
        #[arg(long)]
        release: bool,
    },
    /// Run all tests, with a PostgreSQL server of their own.
    Test {
        /// Use this server instead of starting one.
        #[arg(long, env = suite::POSTGRES, value_name = "URL")]
        postgres: Option<String>,
        /// Handed on to `cargo nextest run`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Simulate flows with faults, from random seeds, and check the invariants after every step.
    Sim(sim::SimArgs),
    /// Measure, and print a table of figures and targets.
    Bench {
        /// Only these: machine, cold, fan-out, boxed-cold, boxed-fan-out, boxed-latency, worktrees, latency, expansion, answer, waiting, million, store.
        rows: Vec<String>,
    },
    /// Install what building and testing need and this machine lacks.
    Setup,
    /// Build the binary, get ready what a box needs, and run it: `cargo orchestrator ARGUMENTS`.
    Orchestrator {
        /// Handed on to the binary.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Tidy => tidy::run(),
        Command::Docs { check, release } => {
            let build = if release { docs::Build::Release } else { docs::Build::Dev };
            if check { docs::check(build) } else { docs::write(build) }
        }
        Command::Test { postgres, arguments } => suite::run(postgres, &arguments),
        Command::Sim(args) => sim::run(&args),
        Command::Bench { rows } => bench::bench(&rows),
        Command::Setup => suite::setup(),
        Command::Orchestrator { arguments } => orchestrator::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
