//! Lists that hold without any rule: what is known about programs, and what no rule lifts.

use orc_policy::programs::wrappers::{self, WRAPPERS};
use orc_policy::programs::{HARMLESS, INTERPRETERS, NETWORK, OPERANDS, SHELLS, TRUSTED, flags, looks};
use orc_policy::{floor, rule};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::output::{self, Form};

/// A list with what it means.
struct List {
    name: &'static str,
    means: &'static str,
    rows: Vec<String>,
}

fn list<T: AsRef<str>>(name: &'static str, means: &'static str, rows: impl IntoIterator<Item = T>) -> List {
    List { name, means, rows: rows.into_iter().map(|row| row.as_ref().to_owned()).collect() }
}

/// `--programs`.
pub(super) fn programs(form: Form) -> CommandResult {
    let mut lists = vec![
        list("looks", "they only look, and pass in every mode", looks::LOOKS),
        list("looks_at_times", "they only look, with some of their words", looks::LOOKS_AT_TIMES),
        list("git_looks", "words of git that only look", looks::GIT),
        list(
            "turning",
            "flags that make more of a program; a grant of the program does not cover them unless it names them",
            flags::TURNING.iter().map(|(programs, flags)| format!("{}: {}", programs.join(", "), flags.join(" "))),
        ),
    ];
    let words = |harmless: bool| {
        let wrappers = WRAPPERS.iter().chain([&wrappers::SHELL]).filter(move |wrapper| wrapper.harmless == harmless);
        wrappers.map(|wrapper| wrapper.words.join(" "))
    };
    lists.extend([
        list("harmless_wrappers", "they start another command, and a grant of that one is enough", words(true)),
        list("wrappers", "they start another command, and a grant has to name both", words(false)),
        list("shells", "what they are given as text is read as commands", SHELLS),
        list("interpreters", "they run text of other languages, which is not looked into", INTERPRETERS),
        list("network", "what they are given may be an address", NETWORK),
        list("variables", "they change nothing but how a program speaks or what it builds; and `LC_*`", HARMLESS),
        list("directories", "programs that are called from there are what their names say", TRUSTED),
        list(
            "operands",
            "what the words of a program are; the words of any other may be files that it reads",
            OPERANDS.iter().map(|(operands, programs)| format!("{operands:?}: {}", programs.join(" "))),
        ),
        list("effects", "what `Effect(...)` of a deny or a question may name", rule::EFFECTS),
    ]);
    print(form, "orc/programs/1", &lists)
}

/// `--floors`.
pub(super) fn floors(form: Form) -> CommandResult {
    let lists = [
        list("removals", "they are asked about at least, whatever is granted", floor::REMOVALS),
        list(
            "protected",
            "files and directories of these names are changed only by somebody who was asked",
            floor::PROTECTED
                .iter()
                .map(|(name, what)| format!("{name}: {what}"))
                .chain(floor::PROTECTED_PAIRS.iter().map(|(above, below, what)| format!("{above}/{below}: {what}"))),
        ),
        list("system", "so is what lies below these", floor::SYSTEM.iter().map(|name| format!("/{name}"))),
        list("secrets", "what `Effect(secretAccess)` means", floor::SECRETS),
    ];
    print(form, "orc/floors/1", &lists)
}

fn print(form: Form, schema: &str, lists: &[List]) -> CommandResult {
    if form == Form::Table {
        let mut text = String::new();
        for List { name, means, rows } in lists {
            text.push_str(&format!("{name}: {means}\n"));
            rows.iter().for_each(|row| text.push_str(&format!("  {row}\n")));
            text.push('\n');
        }
        output::text_line(text.trim_end_matches('\n'))?;
    } else {
        let mut document = json!({ "schema": schema });
        for List { name, means, rows } in lists {
            document[*name] = json!({ "means": means, "list": Value::from(rows.clone()) });
        }
        output::document(form, &document, None)?;
    }
    Ok(Exit::Success)
}
