//! Problems of files in the form that forges and editors show beside the lines of a change: SARIF 2.1.0 (OASIS standard
//! "Static Analysis Results Interchange Format", 2020).
//!
//! One run of one tool. Every kind of problem is a rule; a problem is a result with its region, further places are related
//! locations, and a word that was probably meant is a fix. Columns count characters, ends are exclusive, as the standard
//! has it.

use serde_json::{Value, json};

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::source::{SourceFile, Span};

/// Where the form is described, for editors.
const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The problems of several files as one log. `version` is this program's.
#[must_use]
pub fn document<'a>(files: impl IntoIterator<Item = (&'a SourceFile, &'a [Diagnostic])>, version: &str) -> Value {
    let rules: Vec<Value> = Code::ALL
        .iter()
        .map(|(code, what)| json!({ "id": code.word(), "shortDescription": { "text": what.trim() } }))
        .collect();
    let files: Vec<(&SourceFile, &[Diagnostic])> = files.into_iter().collect();
    let results = files.iter().flat_map(|(source, found)| found.iter().map(move |problem| result(source, problem)));
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "orchestrator", "semanticVersion": version, "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "artifacts": files.iter().map(|(source, _)| json!({ "location": { "uri": uri(&source.name) } })).collect::<Vec<_>>(),
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn result(source: &SourceFile, problem: &Diagnostic) -> Value {
    let rule = Code::ALL.iter().position(|(code, _)| *code == problem.code);
    let message = match &problem.help {
        Some(help) => format!("{}\nhelp: {help}", problem.message),
        None => problem.message.clone(),
    };
    let mut result = json!({
        "ruleId": problem.code.word(),
        "ruleIndex": rule,
        "level": match problem.severity { Severity::Error => "error", Severity::Warning => "warning" },
        "message": { "text": message },
        "locations": [{ "physicalLocation": place(source, problem.span) }],
    });
    if !problem.labels.is_empty() {
        let related = problem
            .labels
            .iter()
            .map(|label| json!({ "physicalLocation": place(source, label.span), "message": { "text": label.text } }));
        result["relatedLocations"] = related.collect();
    }
    if let Some((_, with)) = problem.meant.as_ref().filter(|(word, _)| stands_at(source, problem.span, word)) {
        let replacement = json!({
            "deletedRegion": region(source, problem.span), "insertedContent": { "text": with },
        });
        let change = json!({ "artifactLocation": { "uri": uri(&source.name) }, "replacements": [replacement] });
        result["fixes"] =
            json!([{ "description": { "text": format!("write `{with}`") }, "artifactChanges": [change] }]);
    }
    result
}

/// A quoted word is not replaced: the place has its quotes as well.
fn stands_at(source: &SourceFile, span: Span, word: &str) -> bool {
    source.text.get(span.range()) == Some(word)
}

fn place(source: &SourceFile, span: Span) -> Value {
    json!({ "artifactLocation": { "uri": uri(&source.name) }, "region": region(source, span) })
}

fn region(source: &SourceFile, span: Span) -> Value {
    let (start, end) = (source.position(span.start), source.position(span.end));
    json!({ "startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column })
}

/// A path as a URI reference (RFC 3986): relative to where the program was started, or a `file:` URI.
fn uri(path: &str) -> String {
    let mut uri = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~') {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;

    /// What the schema of the standard requires of the objects that occur here; `place` names the one that is wrong.
    fn require(value: &Value, names: &[&str], place: &str) {
        for name in names {
            assert!(!value[*name].is_null(), "{place} has no `{name}`: {value}");
        }
    }

    fn of(name: &str, text: &str) -> Value {
        let source = SourceFile::new(name, text);
        let diagnostics = compile(&source, &crate::Library::empty()).diagnostics;
        document([(&source, diagnostics.as_slice())], "1.2.3")
    }

    #[test]
    fn a_log_has_what_the_standard_requires() {
        let log =
            of("pipelines/a b.yaml", "steps:\n  ä: { run: 'true' }\n  b: { needz: c, run: 'x ${{ inputs.nope }}' }\n");
        require(&log, &["version", "runs"], "the log");
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        require(run, &["tool"], "the run");
        require(&run["tool"], &["driver"], "the tool");
        require(&run["tool"]["driver"], &["name"], "the driver");
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        assert_eq!(rules.len(), Code::ALL.len());
        for rule in rules {
            require(rule, &["id"], "a rule");
            require(&rule["shortDescription"], &["text"], "the description of a rule");
        }
        let results = run["results"].as_array().unwrap();
        assert!(results.len() >= 3, "{log}");
        for result in results {
            require(result, &["message", "ruleId", "ruleIndex"], "a result");
            require(&result["message"], &["text"], "a message");
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()), "{result}");
            let place = &result["locations"][0]["physicalLocation"];
            assert_eq!(place["artifactLocation"]["uri"], "pipelines/a%20b.yaml");
            let region = &place["region"];
            for name in ["startLine", "startColumn", "endLine", "endColumn"] {
                assert!(region[name].as_u64().unwrap() >= 1, "{result}");
            }
            for fix in result["fixes"].as_array().into_iter().flatten() {
                require(fix, &["artifactChanges"], "a fix");
                require(&fix["artifactChanges"][0], &["artifactLocation", "replacements"], "a change");
                require(&fix["artifactChanges"][0]["replacements"][0], &["deletedRegion"], "a replacement");
            }
        }
    }

    #[test]
    fn a_word_that_was_meant_is_a_fix_where_it_stands() {
        let log = of("p.yaml", "worktree: in_place\nsteps:\n  a: { rum: 'true' }\n");
        let results = log["runs"][0]["results"].as_array().unwrap();
        let fix = results.iter().find_map(|result| result.get("fixes")).unwrap();
        let replacement = &fix[0]["artifactChanges"][0]["replacements"][0];
        assert_eq!(replacement["insertedContent"]["text"], "run");
        let region = json!({ "startLine": 3, "startColumn": 8, "endLine": 3, "endColumn": 11 });
        assert_eq!(replacement["deletedRegion"], region);
        // The place of a quoted word has its quotes.
        let log = of("p.yaml", "worktree: in_place\nsteps:\n  a: { \"rum\": 'true' }\n");
        assert!(log["runs"][0]["results"].as_array().unwrap().iter().all(|result| result.get("fixes").is_none()));
    }

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("pipelines/ä b.yaml"), "pipelines/%C3%A4%20b.yaml");
        assert_eq!(uri("/abs/#1.yaml"), "file:///abs/%231.yaml");
    }
}
