//! What users write, to checked values: pipelines, agent profiles, scripted models, prices, settings; diagnostics.
//!
//! Ring 1: texts come in as arguments, values and [`diagnostic::Diagnostic`]s go out; no file, clock or environment is
//! seen here. Every problem of a file is told at once, with place, cause and suggestion. What a later version builds is
//! refused by name, never ignored.
//!
//! Where to read: [`compile`] and the module behind it for the way of a pipeline, [`keys`] for all that may be written,
//! [`settings`] for layers and origins. The YAML library is seen by one private module only.

mod confine;
pub mod diagnostic;
mod expression;
mod graph_layout;
pub mod graph_svg;
pub mod graph_text;
pub mod keys;
mod permissions;
mod pipeline;
mod prices;
mod profile;
mod read;
pub mod sarif;
pub mod schema;
mod script;
pub mod settings;
mod shell;
pub mod source;
mod yaml;

pub use self::pipeline::{Child, Compiled, InputError, Library, MAX_STEPS, RawInput, check_inputs, compile};
pub use self::prices::{CompiledPrices, compile_prices, shipped_prices};
pub use self::profile::{CompiledProfile, Texts, compile_profile, compile_profiles};
pub use self::script::{CompiledScript, compile_script};
pub use self::source::SourceFile;
