//! What can be typed after `costs` and `budgets`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use orc_domain::ledger::CostsBy;

/// Forms of figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FigureForm {
    /// For people.
    #[default]
    Table,
    /// One JSON document with a `schema`.
    Json,
    /// One JSON document per line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
    /// RFC 4180 with a line of titles; money in dollars with six decimals.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct FigureArgs {
    /// Form of the data on standard output
    #[arg(long, short = 'o', visible_alias = "format", value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: FigureForm,
}

#[derive(Debug, Args)]
pub(crate) struct CostsArgs {
    /// By what; may be given several times
    #[arg(long, value_parser = by(), value_name = "WHAT", value_delimiter = ',', default_value = "agent")]
    pub(crate) by: Vec<CostsBy>,
    /// Only calls that began then or later: `7d`, `2026-03-01`, `2026-03-01T12:30:00Z` [default: since ever]
    #[arg(long, value_name = "DURATION|TIME")]
    pub(crate) since: Option<String>,
    /// Only calls that began before: as `--since` [default: now]
    #[arg(long, value_name = "DURATION|TIME")]
    pub(crate) until: Option<String>,
    /// Only of this pipeline
    #[arg(long, value_name = "NAME")]
    pub(crate) pipeline: Option<String>,
    /// Only of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only of this model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Only of this ticket
    #[arg(long, value_name = "ID")]
    pub(crate) ticket: Option<String>,
    /// At most so many lines, the dearest
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: FigureArgs,
}

/// By what costs are told, by its word.
fn by() -> impl TypedValueParser<Value = CostsBy> {
    let words = CostsBy::ALL.map(CostsBy::word);
    PossibleValuesParser::new(words)
        .try_map(|word| CostsBy::ALL.into_iter().find(|by| by.word() == word).ok_or("one of the words"))
}
