//! Scripts with expressions: no text of a value ever becomes text of a script.
//!
//! Each expression becomes an environment variable, `ORC_EXPR_1` and so on, and the script gets a reference to it with
//! the quotes that its place needs: `"${ORC_EXPR_1}"` outside of quotes, `${ORC_EXPR_1}` within double quotes and
//! here-documents. Where the shell reads no variables (single quotes, quoted here-documents) or reads their text as code
//! (arithmetic), the expression is refused.
//!
//! The scanner below knows quotes, comments, here-documents and nesting, not the whole grammar. Where it judges a place
//! wrongly, for example after `)` of a `case` within `$( )`, a value may be split at blanks; it never becomes code,
//! because only the reference stands in the script. A script that evaluates text itself (`eval`, `sh -c`) can still do so;
//! that is warned about.

mod scan;

use orc_domain::expr::Expr;

use self::scan::{Place, Scanner};
use crate::diagnostic::{Code, Report};
use crate::expression::Piece;
use crate::read::{excerpt, wrong_type};
use crate::source::Span;
use crate::yaml::{Kind, Node};

/// Bytes of a script: one argument of a command takes 128 KiB on Linux (`MAX_ARG_STRLEN`), its end included.
pub(crate) const MAX_SCRIPT_BYTES: usize = 128 * 1024 - 1;
/// Prefix of the variables that are ours.
pub(crate) const RESERVED_PREFIX: &str = "ORC_";

/// The program that reads a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shell {
    /// Program and arguments before the script.
    pub(crate) argv: Vec<String>,
    /// Reads `${NAME}` as `sh` does, so that expressions can stand in its scripts.
    expands: bool,
}

impl Shell {
    /// `sh -eu -c`: stops at the first command that fails and at variables that are not set.
    pub(crate) fn sh() -> Self {
        Self { argv: ["sh", "-eu", "-c"].map(str::to_owned).to_vec(), expands: true }
    }

    fn named(word: &str) -> Option<Self> {
        let (argv, expands): (&[&str], bool) = match word {
            "sh" => return Some(Self::sh()),
            "bash" => (&["bash", "-euo", "pipefail", "-c"], true),
            "python" => (&["python3", "-c"], false),
            _ => return None,
        };
        Some(Self { argv: argv.iter().map(|&part| part.to_owned()).collect(), expands })
    }

    /// `shell:`.
    pub(crate) fn read(node: &Node, report: &mut Report) -> Option<Self> {
        const WANTED: &str = "`sh`, `bash`, `python`, or a program and its arguments as a list";
        match &node.kind {
            Kind::Scalar(scalar) if !scalar.is_null() => {
                let found = Self::named(&scalar.text);
                if found.is_none() {
                    let word = excerpt(&scalar.text);
                    let message = format!("`shell` needs {WANTED}, not `{word}`");
                    let help = match scalar.text.as_str() {
                        "node" | "deno" => "write `shell: [node, -e]`; the script is its last argument".to_owned(),
                        "ruby" | "perl" => format!("write `shell: [{word}, -e]`; the script is its last argument"),
                        "python3" => "did you mean `python`?".to_owned(),
                        text => format!(
                            "a program stands in a list, the script becomes its last argument: `shell: [{}]`",
                            text.split_whitespace().collect::<Vec<_>>().join(", ")
                        ),
                    };
                    report.error(Code::BadValue, node.span, message).help(help);
                }
                found
            }
            Kind::List(items) if !items.is_empty() => {
                let argv = items.iter().map(|item| crate::read::text(item, "`shell`", report));
                let argv = argv.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()?;
                Some(Self { argv, expands: false })
            }
            _ => {
                wrong_type(node, "`shell`", WANTED, report);
                None
            }
        }
    }
}

/// A script whose expressions are references to variables.
#[derive(Debug, PartialEq)]
pub(crate) struct Script {
    pub(crate) text: String,
    pub(crate) bindings: Vec<(String, Expr)>,
}

/// Replaces the expressions of a script; `None` when one stands where it cannot.
pub(crate) fn bind(pieces: Vec<Piece<'_>>, shell: &Shell, whole: Span, report: &mut Report) -> Option<Script> {
    let mut script = Script { text: String::new(), bindings: Vec::new() };
    let mut scanner = Scanner::new();
    let mut sound = true;
    for piece in pieces {
        let (checked, place) = match piece {
            Piece::Text(text) => {
                scanner.feed(text);
                script.text.push_str(text);
                continue;
            }
            Piece::Expr { checked, place } => (checked, place),
        };
        if checked.tainted {
            report
                .warning(Code::Tainted, place, "text from outside reaches this command")
                .help("it arrives as a variable and cannot become code; check what the command does with it");
        }
        let name = format!("{RESERVED_PREFIX}EXPR_{}", script.bindings.len() + 1);
        match reference(&scanner, shell, &name) {
            Ok(reference) => script.text.push_str(&reference),
            Err((message, help)) => {
                sound = false;
                report.error(Code::Quoting, place, message).help(help);
            }
        }
        if let Some(program) = scanner.reevaluates() {
            let message =
                format!("`{program}` runs its text again, so the value of this expression would be read as code");
            let help = "hand it over as an argument: `sh -c 'use \"$1\"' _ VALUE`, or through `env:`";
            report.warning(Code::Reevaluated, place, message).help(help);
        }
        scanner.feed_reference();
        script.bindings.push((name, checked.expr));
    }
    if script.text.len() > MAX_SCRIPT_BYTES {
        let message = format!("this script has {} bytes, a command takes {MAX_SCRIPT_BYTES}", script.text.len());
        report.error(Code::Limit, whole, message).help("put it into a file of the repository and run that");
        return None;
    }
    if script.text.contains('\0') {
        report.error(Code::BadValue, whole, "a NUL character stands in this script, which no command can take");
        return None;
    }
    sound.then_some(script)
}

/// The reference to the variable `name` at the scanner's place, or why none can stand there.
fn reference(scanner: &Scanner, shell: &Shell, name: &str) -> Result<String, (&'static str, String)> {
    const IN_ENV: &str = "give it a name under `env:` and read that variable in the script";
    if !shell.expands {
        let message = "an expression can stand in scripts for `sh` and `bash` only";
        return Err((message, IN_ENV.to_owned()));
    }
    match scanner.place() {
        Place::Unquoted => Ok(format!("\"${{{name}}}\"")),
        Place::Quoted | Place::Comment => Ok(format!("${{{name}}}")),
        Place::SingleQuoted => Err((
            "an expression within single quotes would stay as it is, because the shell reads no variables there",
            "use double quotes, or no quotes at all".to_owned(),
        )),
        Place::RawHeredoc => Err((
            "an expression in a here-document whose delimiter is quoted would stay as it is",
            format!("remove the quotes of the delimiter, or {IN_ENV}"),
        )),
        Place::Arithmetic => Err((
            "the shell reads values within `(( ))` as code",
            "compare with `[ ... -gt ... ]`, or compute it in the expression".to_owned(),
        )),
        Place::Escaped => Err((
            "the character before this expression changes what it means to the shell",
            "leave a blank between them, or remove the `\\` or `$`".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests;
