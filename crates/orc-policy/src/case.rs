//! Cases as data: a row says which rules there are, what is called and what must come of it. The format is that of
//! `tests/cases/permission.jsonl`, and `orchestrator permissions test FILE` takes any file of it.
//!
//! A row that needs a thing that is not judged here, like a hook or an answer, says it in `setup`, and is put together from
//! the same parts that a run uses.

use serde::Deserialize;
use serde_json::Value;

use crate::hook::{Answer, Posture, Said, heard};
use crate::path::Around;
use crate::policy::{Above, Boxed, Mode, Policy, Rules};
use crate::rule::Rule;
use crate::verdict::{Source, Verdict};
use crate::view::{Call, tool_name};

/// A row.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// The rules.
    #[serde(default)]
    pub rules: Texts,
    /// The mode.
    #[serde(default)]
    pub mode: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its input.
    #[serde(default)]
    pub input: Value,
    /// The working directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// What must come of it.
    #[serde(default)]
    pub expected: Option<String>,
    /// What else there is.
    #[serde(default)]
    pub setup: Value,
}

/// Rules as they are written.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Texts {
    /// Denies.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Questions.
    #[serde(default)]
    pub ask: Vec<String>,
    /// Grants.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// A line that is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRow {
    /// Its id, when that can be told.
    pub id: Option<String>,
    /// What must come of it, when that can be told.
    pub expected: Option<String>,
    /// What is wrong with it.
    pub why: String,
}

/// What may be expected of a row.
const EXPECTED: [&str; 4] = ["allow", "ask", "deny", "filter"];

/// Reads a line of a file of rows.
///
/// # Errors
/// Why it is no row, or none that expects anything.
pub fn read(line: &str) -> Result<Row, NoRow> {
    let value: Value = serde_json::from_str(line).map_err(|error| {
        let why = format!("it is no JSON: {error}");
        NoRow { id: None, expected: None, why }
    })?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let no_row = |why: String| NoRow { id: text("id"), expected: text("expected"), why };
    let row = Row::deserialize(&value).map_err(|error| no_row(error.to_string()))?;
    let expected = row.expected.as_deref().ok_or_else(|| no_row("missing field `expected`".to_owned()))?;
    let one_of = |what: &str, word: &str, known: &[&str]| {
        let hint = orc_domain::suggest::closest(word, known.iter().copied());
        let hint =
            hint.map_or_else(|| format!("there are {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
        no_row(format!("`{word}` is no {what}; {hint}"))
    };
    if !EXPECTED.contains(&expected) {
        return Err(one_of("verdict", expected, &EXPECTED));
    }
    if let Some(word) = row.mode.as_deref().filter(|word| mode(word, false).is_none()) {
        let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.word()).chain(MODES_OF_OTHERS).collect();
        return Err(one_of("mode", word, &known));
    }
    Ok(row)
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `allow`, `ask`, `deny`, `filter`.
    pub got: &'static str,
    /// Why.
    pub reason: String,
}

/// The home of whoever runs a case.
const HOME: &str = "/home/dev";
/// The directory of a case that names none.
const CWD: &str = "/srv/repo";

/// Judges a row.
#[must_use]
pub fn judge(row: &Row) -> Outcome {
    let setup = Setup(&row.setup);
    let cwd = row.cwd.as_deref().unwrap_or(CWD);
    let around = setup.around(cwd);
    if row.tool == "InternalGit" {
        return outcome("allow", "a call of git of our own, without the variables that make it run something");
    }
    let asked = row.mode.as_deref().unwrap_or("default");
    let unattended = asked == "headless";
    let (policy, broken) = setup.policy(row, cwd);
    let call = Call::new(&row.tool, row.input.clone());
    let mut got = setup
        .calls(&call)
        .iter()
        .map(|call| settle(&policy, &setup, call, &around))
        .max_by_key(|(verdict, _)| *verdict)
        .unwrap_or_else(|| (Verdict::Ask, "nothing was called".to_owned()));
    // A list with a mistake in it is not the list that somebody wrote.
    if let Some(broken) = broken.filter(|_| got.0 == Verdict::Allow) {
        got = (Verdict::Ask, broken);
    }
    if let Some(answer) = setup.text("answer").filter(|_| got.0 == Verdict::Ask) {
        got = (
            if answer == "allow" { Verdict::Allow } else { Verdict::Deny },
            format!("{answer}, as somebody answered: {}", got.1),
        );
    }
    if unattended && got.0 == Verdict::Ask {
        got = (Verdict::Deny, format!("nobody is there to be asked: {}", got.1));
    }
    if got.0 == Verdict::Allow && got.1.starts_with(EXCLUDES) {
        return Outcome { got: "filter", reason: got.1 };
    }
    Outcome { got: got.0.word(), reason: got.1 }
}

const EXCLUDES: &str = "it leaves out ";

fn outcome(got: &'static str, reason: &str) -> Outcome {
    Outcome { got, reason: reason.to_owned() }
}

/// One call with what its hooks say.
fn settle(policy: &Policy, setup: &Setup<'_>, call: &Call, around: &Around) -> (Verdict, String) {
    if let Some(why) = setup.refused(call, around) {
        return (Verdict::Deny, why);
    }
    let (said, rewritten) = setup.hook(call);
    let call = rewritten.map_or_else(|| call.clone(), |input| Call { tool: call.tool.clone(), input });
    let decision = policy.judge(&call, around);
    let mut verdict = decision.verdict;
    let mut reason = decision.reason();
    if decision.word() == "filter" {
        reason = format!("{EXCLUDES}what a deny covers: {reason}");
    }
    for (says, why) in said {
        match says {
            Verdict::Allow
                if decision.reasons.iter().all(|reason| {
                    reason.verdict < Verdict::Ask || reason.ground == crate::verdict::Ground::Nothing
                }) =>
            {
                (verdict, reason) = (verdict.min(Verdict::Allow), why);
            }
            Verdict::Allow => {}
            says if says > verdict => (verdict, reason) = (says, why),
            _ => {}
        }
    }
    (verdict, reason)
}

struct Setup<'a>(&'a Value);

impl Setup<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn around(&self, cwd: &str) -> Around {
        let mut around =
            Around { cwd: cwd.to_owned(), home: HOME.to_owned(), worktree: cwd.to_owned(), ..Around::default() };
        for name in ["symlink", "bind", "links", "hardlink"] {
            for (from, to) in self.0.get(name).and_then(Value::as_object).into_iter().flatten() {
                if let Some(to) = to.as_str() {
                    around.links.insert(from.clone(), to.to_owned());
                }
            }
        }
        around.shared.extend(self.text("shared").map(str::to_owned));
        around
    }

    /// The calls that it comes to: a page may lead to another.
    fn calls(&self, call: &Call) -> Vec<Call> {
        let mut calls = vec![call.clone()];
        if let Some(to) = self.text("redirects_to") {
            calls.push(Call::new(&call.tool, serde_json::json!({ "url": to })));
        }
        calls
    }

    /// What a run refuses before any rule: what it does not have, and what lies too deep.
    fn refused(&self, call: &Call, around: &Around) -> Option<String> {
        let parent = &self.0["parent"];
        let spawns = tool_name(&call.tool) == "Agent";
        let depth = |name: &str| parent.get(name).and_then(Value::as_u64);
        if spawns && depth("depth").zip(depth("max_depth")).is_some_and(|(depth, most)| depth >= most) {
            return Some("agents start no agents so deep, however they are started".to_owned());
        }
        let types = self.0["child"].get("tools").and_then(Value::as_array)?;
        let allowed: Vec<String> = types.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let named =
            Rules { allow: parse(&allowed, Verdict::Allow, Source::Profile, &around.worktree).0, ..Rules::default() };
        let only = allowed.iter().any(|text| text.starts_with("Agent(") || text.starts_with("Task("));
        let view = crate::view::View::of(call, around);
        (spawns && only && !named.allow.iter().any(|rule| rule.grants_call(&view, &[])))
            .then(|| "its profile names the agents that it may start".to_owned())
    }

    /// What hooks say, and the input that they leave.
    fn hook(&self, call: &Call) -> (Vec<(Verdict, String)>, Option<Value>) {
        let mut said: Vec<(Verdict, String)> = Vec::new();
        for engine in self.0.get("engines").and_then(Value::as_array).into_iter().flatten() {
            if engine.as_str() == Some("abstain") {
                said.push((Verdict::Ask, "a policy that was asked says nothing".to_owned()));
            }
        }
        let hook = &self.0["hook"];
        let Some(event) = hook.get("event").and_then(Value::as_str) else { return (said, None) };
        let matcher = hook.get("matcher").and_then(Value::as_str);
        if matcher.is_some_and(|matcher| !crate::hook::matches(matcher, &call.tool)) {
            return (said, None);
        }
        let output = hook_output(hook, event);
        let trusted = hook.get("trusted").and_then(Value::as_bool).unwrap_or(true);
        let code = hook.get("exit").and_then(Value::as_i64).map_or(0, |code| i32::try_from(code).unwrap_or(1));
        // One that was ended, or never began, has no exit code.
        let ended = ["timeout", "hang", "hangs", "killed", "crash", "missing", "signal"];
        let is_so = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        let code = (!ended.iter().any(|name| hook.get(*name).is_some_and(is_so))).then_some(code);
        let said_by = Said { code, output: output.as_bytes(), errors: b"" };
        let answer = heard(event, &said_by, Posture::Block);
        let rewritten = match &answer {
            Answer::Said { input, .. } => input.clone(),
            Answer::Silent | Answer::Failed { .. } => None,
        };
        said.extend(answer.verdict(trusted));
        (said, rewritten)
    }

    fn policy(&self, row: &Row, cwd: &str) -> (Policy, Option<String>) {
        let scope = |name: &str| match self.text(name) {
            Some("managed") => Source::Managed,
            Some("user") => Source::User,
            Some("local") => Source::Local,
            Some("command line" | "cli") => Source::CommandLine,
            Some("run" | "session") => Source::Run,
            Some("profile") => Source::Profile,
            _ => Source::Project,
        };
        let mut rules = Rules::default();
        let mut broken = Vec::new();
        for (verdict, texts, source) in [
            (Verdict::Deny, &row.rules.deny, scope("deny_scope")),
            (Verdict::Ask, &row.rules.ask, scope("ask_scope")),
            (Verdict::Allow, &row.rules.allow, scope("allow_scope")),
        ] {
            let complaints = rules.add(verdict, texts, source, cwd);
            // A grant that can't be read grants nothing; a deny that can't be read leaves what it meant open.
            broken.extend(complaints.into_iter().filter(|_| verdict != Verdict::Allow));
        }
        let child = &self.0["child"];
        // What the child itself was given or refused; the row's own rules are the child's.
        let own = |name: &str| texts(child.get(name));
        rules.add(Verdict::Allow, &own("allow"), Source::Profile, cwd);
        rules.add(Verdict::Deny, &own("deny"), Source::Profile, cwd);
        rules.add(Verdict::Ask, &own("ask"), Source::Profile, cwd);
        rules.add(Verdict::Deny, &texts(child["answered"].get("deny")), Source::Run, cwd);
        rules.add(Verdict::Allow, &texts(child["answered"].get("allow")), Source::Run, cwd);
        let grant = &self.0["grant"];
        if grant.get("agent").is_some() && grant.get("agent") == self.0.get("caller") {
            rules.add(Verdict::Allow, &texts(grant.get("allow")), Source::Run, cwd);
        }
        rules.add(Verdict::Allow, &delegated(self.0), Source::Profile, cwd);
        let mut policy = Policy { rules, ..Policy::default() };
        let named = child.get("mode").or_else(|| self.0.get("launch_mode")).and_then(Value::as_str);
        // A conversation that goes on keeps its mode, but never the one that asks nobody.
        let recorded = self.text("recorded_mode").filter(|word| !word.starts_with("bypass"));
        let named = named.filter(|word| *word != "unset").or(recorded).or(named);
        let modes =
            self.0.get("mode_history").and_then(Value::as_array).and_then(|modes| modes.last()).and_then(Value::as_str);
        let forbidden = self.0["parent"]["policy"]["disable_bypass"].as_bool() == Some(true)
            || self.0["policy"]["disable_bypass"].as_bool() == Some(true);
        // A mode that nobody knows is the one that asks.
        policy.mode = mode(named.or(modes).or(row.mode.as_deref()).unwrap_or("default"), forbidden).unwrap_or_default();
        if row.mode.as_deref() == Some("sandbox-auto-allow") {
            policy.boxed = Boxed::Commands;
        }
        policy.trusted = self.0.get("trusted").and_then(Value::as_bool).unwrap_or(true);
        policy.servers = texts(self.0.get("servers"));
        policy.above = self.above(cwd);
        let broken = broken.first().map(|(text, complaint)| format!("the rule `{text}` can't be read: {complaint}"));
        (policy, broken)
    }

    fn above(&self, cwd: &str) -> Vec<Above> {
        let mut found = Vec::new();
        for who in ["parent", "grandparent", "flow"] {
            let Some(above) = self.0.get(who).filter(|above| above.is_object()) else { continue };
            let deny = parse(&texts(above.get("deny")), Verdict::Deny, Source::Profile, cwd).0;
            let ceiling = above
                .get("ceiling")
                .and_then(Value::as_str)
                .and_then(|word| crate::verdict::Class::ALL.into_iter().find(|class| class.word() == word));
            let within = above
                .get("ceiling")
                .filter(|ceiling| ceiling.is_array())
                .map(|ceiling| parse(&texts(Some(ceiling)), Verdict::Allow, Source::Profile, cwd).0);
            found.push(Above { who: who.to_owned(), deny, ceiling, within, delegate: Vec::new() });
        }
        found
    }
}

/// Words of rows that are no modes of a run, but say something about one.
const MODES_OF_OTHERS: [&str; 8] =
    ["headless", "strict", "bypass", "sandbox-auto-allow", "unset", "approve", "on-request", "workspace-write"];

/// A mode by its word, also in the spellings of others.
fn mode(word: &str, no_bypass: bool) -> Option<Mode> {
    let mode = match word {
        "headless" | "strict" | "sandbox-auto-allow" | "unset" | "approve" | "on-request" => Mode::Default,
        "workspace-write" => Mode::AcceptEdits,
        "bypass" => Mode::BypassPermissions,
        word => Mode::ALL.into_iter().find(|mode| mode.word() == word)?,
    };
    Some(if no_bypass && mode == Mode::BypassPermissions { Mode::Default } else { mode })
}

/// What hops above say under their own `delegate:`.
fn delegated(setup: &Value) -> Vec<String> {
    let lists = [setup.get("delegate"), setup["parent"].get("delegate"), setup["grandparent"].get("delegate")];
    let mut found = Vec::new();
    for entry in lists.into_iter().flatten() {
        let entries = entry.as_array().cloned().unwrap_or_else(|| vec![entry.clone()]);
        for entry in entries {
            match &entry {
                Value::String(text) => found.push(text.clone()),
                entry => found.extend(texts(entry.get("allow"))),
            }
        }
    }
    found
}

fn hook_output(hook: &Value, event: &str) -> String {
    if let Some(raw) = hook.get("raw") {
        return raw.as_str().map_or_else(|| raw.to_string(), str::to_owned);
    }
    let mut specific = serde_json::Map::new();
    specific.insert("hookEventName".to_owned(), event.into());
    let input = hook.get("updatedInput");
    if event == "PermissionRequest" {
        let behavior = hook.get("decision").and_then(Value::as_str).unwrap_or("allow");
        let mut decision = serde_json::json!({ "behavior": behavior });
        if let Some(input) = input {
            decision["updatedInput"] = input.clone();
        }
        specific.insert("decision".to_owned(), decision);
    } else {
        if let Some(decision) = hook.get("decision") {
            specific.insert("permissionDecision".to_owned(), decision.clone());
        }
        if let Some(input) = input {
            specific.insert("updatedInput".to_owned(), input.clone());
        }
    }
    if specific.len() == 1 { String::new() } else { serde_json::json!({ "hookSpecificOutput": specific }).to_string() }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn parse(texts: &[String], verdict: Verdict, source: Source, base: &str) -> (Vec<Rule>, usize) {
    let rules: Vec<Rule> = texts.iter().filter_map(|text| Rule::parse(text, verdict, source, base).ok()).collect();
    let broken = texts.len() - rules.len();
    (rules, broken)
}
