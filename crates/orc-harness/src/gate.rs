//! The gate of a run: each call is judged before anything of it is done.
//!
//! The judgement is that of `orc-policy`; here is what it needs to know of this run (rules, mode, who is above it, where
//! paths lead in its copy), and what the model and people are told. A call that somebody is asked about is not done: the run
//! ends, and goes on with the answer, which is good for exactly that call: once, or for as long as whoever answered said. A
//! no stays for the whole tree of the run.

mod answers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use orc_domain::ids::ContentHash;
use orc_domain::permission::{self, AskedCall, CallAnswer, Lasting, PermissionMode, Permissions, Ruleset};
use orc_domain::profile::Profile;
use orc_policy::path::Around;
use orc_policy::policy::{Above, Boxed, Policy, Rules};
use orc_policy::rule::{Rule, exactly};
use orc_policy::verdict::{Decision, Ground, Obligation, Source, Verdict};
use orc_policy::view::{Call, View, safe};
use serde_json::{Value, json};

use crate::talk::{ToolCall, ToolInput};

pub(crate) use answers::Answers;
use answers::Known;

/// Paths of one call that are followed at most; what is beyond is taken as it is written.
const MOST_PATHS: usize = 64;

/// What is said of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// It is done; a search leaves out what these lines of an ignore file cover.
    Pass {
        /// They.
        without: Vec<String>,
    },
    /// It is not done.
    Refuse {
        /// What the model is told.
        text: String,
    },
    /// Somebody is asked.
    Ask {
        /// What about.
        asked: AskedCall,
        /// For people.
        text: String,
    },
}

/// What calls of one agent are judged by.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    agent: String,
    policy: Policy,
    around: Around,
    answers: Answers,
}

/// Where an agent works, as far as its gate needs to know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grounds {
    /// Its working directory, which is its copy.
    pub(crate) directory: String,
    /// Its home.
    pub(crate) home: String,
    /// Hosts that its box lets through.
    pub(crate) hosts: Vec<String>,
}

/// What holds for an agent beside its own profile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Over {
    /// Who is above it, the nearest last.
    pub(crate) above: Vec<permission::Above>,
    /// Rules that hold for every agent, or for one of this name.
    pub(crate) rules: Vec<Ruleset>,
    /// Whether another agent started it: such a one is granted nothing but by its profile and by people for ever.
    pub(crate) is_below: bool,
}

impl Over {
    /// What everybody below an agent is under beside what is above it.
    pub(crate) fn handed_down(&self, profile: &Profile) -> Self {
        let permissions = Permissions { allow: Vec::new(), ask: Vec::new(), ..profile.permissions.clone() };
        let own = permission::Above { who: format!("the agent `{}`", profile.name), permissions };
        let above = self.above.iter().cloned().chain((!own.permissions.is_empty()).then_some(own)).collect();
        Self { above, rules: self.rules.clone(), is_below: true }
    }
}

impl Gate {
    /// The gate of an agent.
    ///
    /// # Errors
    /// The rule that cannot be read: without it nothing is judged.
    pub(crate) fn of(profile: &Profile, over: &Over, ground: &Grounds, answers: Answers) -> Result<Self, String> {
        let around = Around {
            cwd: ground.directory.clone(),
            home: ground.home.clone(),
            worktree: ground.directory.clone(),
            ..Around::default()
        };
        let mut rules = Rules::default();
        add(&mut rules, &profile.permissions, Source::Profile, &around.worktree)?;
        let mut grants: Vec<String> =
            profile.adapter.workers().iter().map(|worker| format!("Agent({worker})")).collect();
        // Who wrote no mode lets the box be the wall, and what it lets through.
        let (mode, boxed) = match profile.permission_mode {
            Some(mode) => (mode, Boxed::Nothing),
            None => {
                grants.extend(ground.hosts.iter().map(|host| format!("WebFetch(domain:{host})")));
                (PermissionMode::AcceptEdits, Boxed::Files)
            }
        };
        for grant in grants {
            // A host that is no name, like an address with a port, is left to the box.
            rules.allow.extend(Rule::parse(&grant, Verdict::Allow, Source::Profile, &around.worktree));
        }
        let above = over.rules_and_above(&profile.name, &mut rules, &around.worktree)?;
        let (agent, ceiling) = (profile.name.clone(), profile.permissions.ceiling);
        let policy = Policy { agent, rules, mode, boxed, trusted: true, servers: Vec::new(), above, ceiling };
        Ok(Self { agent: profile.name.clone(), policy, around, answers })
    }

    /// Paths of a call, of which somebody inside has to say where they lead.
    pub(crate) fn paths(&self, call: &ToolCall) -> Vec<String> {
        let view = View::of(&as_called(call), &self.around);
        let paths: BTreeSet<String> = view.all_touches().filter_map(|touch| touch.path.place.text()).collect();
        paths.into_iter().take(MOST_PATHS).collect()
    }

    /// Judges a call, now that it is known where its paths lead.
    pub(crate) fn judge(&self, call: &ToolCall, links: BTreeMap<String, String>, answer: Option<&CallAnswer>) -> Says {
        let around = Around { links, ..self.around.clone() };
        let view = View::of(&as_called(call), &around);
        let decision = self.policy.judge_view(&view, &around);
        let subject = self.subject(call, &view);
        let refuse = |text: String| Says::Refuse { text };
        match decision.verdict {
            Verdict::Deny => refuse(refusal(&decision)),
            Verdict::Allow => Says::Pass { without: without(&decision) },
            Verdict::Ask if answer.is_some_and(|answer| answer.granted && answer.call.subject == subject) => {
                Says::Pass { without: without(&decision) }
            }
            Verdict::Ask => match self.answers.to(&subject) {
                Known::Granted if !decision.explicit => Says::Pass { without: without(&decision) },
                Known::Refused => refuse(
                    "Permission denied: somebody said no to exactly this before. Do it another way, or go on without it."
                        .to_owned(),
                ),
                Known::Unanswered => refuse(format!(
                    "Permission denied: {} times nobody answered whether exactly this may run. Do it another way, or go on without it.",
                    answers::MOST_UNANSWERED
                )),
                Known::Granted | Known::Nothing => {
                    let lasting = self.lasting(&view, &around, &decision);
                    let text = format!("`{}` wants to run {}: {}", self.agent, view.shown(), decision.reason());
                    let text = text + &lasting_text(&lasting);
                    let asked = AskedCall { id: call.id.clone(), tool: call.name.clone(), subject, lasting };
                    Says::Ask { asked, text }
                }
            },
        }
    }

    /// For how long an answer may hold: where a rule asks, once; for ever, only where a rule does exactly what is asked.
    fn lasting(&self, view: &View, around: &Around, decision: &Decision) -> Lasting {
        if decision.explicit {
            return Lasting::Once;
        }
        let Some(text) = exactly(view, around) else { return Lasting::Run };
        let Ok(rule) = Rule::parse(&text, Verdict::Allow, Source::Answers, &self.around.worktree) else {
            return Lasting::Run;
        };
        let mut policy = self.policy.clone();
        policy.rules.allow.push(rule);
        match policy.judge_view(view, around).verdict {
            Verdict::Allow => Lasting::Rule { agent: self.agent.clone(), rule: text },
            Verdict::Ask | Verdict::Deny => Lasting::Run,
        }
    }

    /// What was answered in the tree of its run, for those below.
    pub(crate) fn answers(&self) -> Answers {
        self.answers.clone()
    }

    /// What an answer is about: who, which tool, what exactly, and where its paths lead. Maps are ordered. What only says
    /// what a call is for is not part of it: the same in other words is the same.
    fn subject(&self, call: &ToolCall, view: &View) -> ContentHash {
        let paths: BTreeSet<Option<String>> = view.all_touches().map(|touch| touch.path.target.text()).collect();
        let mut input = as_called(call).input;
        if let Some(fields) = input.as_object_mut().filter(|_| !call.name.starts_with("mcp__")) {
            fields.retain(|name, _| !matches!(name.as_str(), "description" | "timeout"));
        }
        let whole =
            json!({ "agent": self.agent, "tool": call.name, "input": input, "cwd": self.around.cwd, "paths": paths });
        ContentHash::of(whole.to_string().as_bytes())
    }
}

impl Over {
    /// Adds the rules that hold for an agent of this name; whoever is above it comes back.
    fn rules_and_above(&self, agent: &str, rules: &mut Rules, base: &str) -> Result<Vec<Above>, String> {
        let mut over = Vec::new();
        for set in self.rules.iter().filter(|set| set.agent.as_ref().is_none_or(|only| only == agent)) {
            let named = |why| format!("{}: {why}", set.file);
            let grants = !self.is_below || set.source == Source::Answers;
            let allow = if grants { set.permissions.allow.clone() } else { Vec::new() };
            let said = Permissions { allow, ..set.permissions.clone() };
            add(rules, &said, set.source, base).map_err(named)?;
            let (who, ceiling) = (format!("`{}`", set.file), set.permissions.ceiling);
            let delegate = delegates(&set.permissions, set.source, base).map_err(named)?;
            if ceiling.is_some() || !delegate.is_empty() {
                over.push(Above { who, ceiling, delegate, ..Above::default() });
            }
        }
        for permission::Above { who, permissions } in &self.above {
            let typed = who == permission::Above::COMMAND_LINE;
            let source = if typed { Source::CommandLine } else { Source::Pipeline };
            let mut said = Rules::default();
            add(&mut said, permissions, source, base)?;
            rules.ask.extend(said.ask);
            rules.allow.extend(said.allow);
            let delegate = delegates(permissions, source, base)?;
            over.push(Above {
                who: who.clone(),
                deny: said.deny,
                ceiling: permissions.ceiling,
                within: None,
                delegate,
            });
        }
        Ok(over)
    }
}

fn delegates(said: &Permissions, source: Source, base: &str) -> Result<Vec<(String, Vec<Rule>)>, String> {
    let mut delegates = Vec::new();
    for permission::Delegate { to, allow } in &said.delegate {
        let mut rules = Rules::default();
        add(&mut rules, &Permissions { allow: allow.clone(), ..Permissions::default() }, source, base)?;
        delegates.push((to.clone(), rules.allow));
    }
    Ok(delegates)
}

/// How long an answer may hold, for people.
fn lasting_text(lasting: &Lasting) -> String {
    match lasting {
        Lasting::Once => String::new(),
        Lasting::Run => " (an answer may hold for the run)".to_owned(),
        Lasting::Rule { rule, .. } => format!(" (an answer may hold for the run, or for ever as `{}`)", safe(rule)),
    }
}

fn add(rules: &mut Rules, said: &Permissions, source: Source, base: &str) -> Result<(), String> {
    for (verdict, texts) in [(Verdict::Deny, &said.deny), (Verdict::Ask, &said.ask), (Verdict::Allow, &said.allow)] {
        if let Some((text, complaint)) = rules.add(verdict, texts, source, base).into_iter().next() {
            return Err(format!("the rule `{text}` cannot be read: {complaint}"));
        }
    }
    Ok(())
}

fn as_called(call: &ToolCall) -> Call {
    let input = match &call.input {
        ToolInput::Json(input) => input.clone(),
        ToolInput::Broken(text) => Value::String(text.clone()),
    };
    Call { tool: call.name.clone(), input }
}

fn without(decision: &Decision) -> Vec<String> {
    let lines = decision.obligations.iter().filter_map(|obligation| match obligation {
        Obligation::Exclude { lines, .. } => Some(lines.clone()),
        Obligation::RecordNested => None,
    });
    lines.flatten().collect()
}

/// What a model is told: why, and what it may do instead.
fn refusal(decision: &Decision) -> String {
    let instead = match decision.reasons.first().map(|reason| &reason.ground) {
        Some(Ground::Mode { mode: "plan" }) => "Say what you would do instead.",
        Some(Ground::Ceiling) => "Nothing of this class is done here; say what somebody else has to do.",
        _ => "Do it another way, or go on without it.",
    };
    format!("Permission denied: {}. {instead}", safe(&decision.reason()))
}

/// Where paths lead, from what the hands say: those that lead elsewhere.
pub(crate) fn links(said: &str) -> BTreeMap<String, String> {
    let led: BTreeMap<String, String> = serde_json::from_str(said).unwrap_or_default();
    led.into_iter().filter(|(from, to)| from != to && Path::new(to).is_absolute()).collect()
}

#[cfg(test)]
mod tests {
    use orc_domain::permission::{Class, Delegate, Scope};
    use orc_domain::profile::{Adapter, BuiltIn, Mode};

    use super::*;

    fn profile(name: &str, permissions: Permissions, permission_mode: Option<PermissionMode>) -> Profile {
        Profile {
            name: name.to_owned(),
            description: None,
            adapter: Adapter::BuiltIn(BuiltIn { workers: vec!["helper".to_owned()], ..BuiltIn::default() }),
            role: None,
            mode: Mode::Work,
            silence_timeout: orc_domain::profile::DEFAULT_SILENCE,
            max_concurrent: None,
            max_messages: 2,
            model: None,
            env: BTreeMap::new(),
            rules: orc_domain::confine::BoxRules::default(),
            permissions,
            permission_mode,
            output: None,
            system_prompt: String::new(),
        }
    }

    fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Permissions {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Permissions { allow: texts(allow), ask: texts(ask), deny: texts(deny), ..Permissions::default() }
    }

    fn gate(permissions: Permissions, mode: Option<PermissionMode>, above: &[permission::Above]) -> Gate {
        let grounds = Grounds { directory: "/w".into(), home: "/home/dev".into(), hosts: vec!["docs.rs".to_owned()] };
        let over = Over { above: above.to_vec(), ..Over::default() };
        Gate::of(&profile("coder", permissions, mode), &over, &grounds, Answers::default()).unwrap()
    }

    fn call(tool: &str, input: Value) -> ToolCall {
        ToolCall { id: "c".to_owned(), name: tool.to_owned(), input: ToolInput::Json(input) }
    }

    fn word(says: &Says) -> &'static str {
        match says {
            Says::Pass { .. } => "pass",
            Says::Refuse { .. } => "refuse",
            Says::Ask { .. } => "ask",
        }
    }

    #[test]
    fn a_run_without_a_mode_relies_on_its_box_and_still_obeys() {
        let said = rules(&[], &["Bash(git push *)"], &["Bash(rm *)", "Read(.env)"]);
        let gate = gate(said, None, &[]);
        for (tool, input, expected) in [
            ("Bash", json!({ "command": "cargo test" }), "pass"),
            ("Bash", json!({ "command": "cargo test && rm x" }), "refuse"),
            ("Bash", json!({ "command": "git push" }), "ask"),
            ("Bash", json!({ "command": "cat .env" }), "refuse"),
            ("Bash", json!({ "command": "rmdir ~" }), "ask"),
            ("Edit", json!({ "file_path": "src/a.rs" }), "pass"),
            ("Edit", json!({ "file_path": "/tmp/a" }), "pass"),
            ("Edit", json!({ "file_path": ".git/config" }), "ask"),
            ("Read", json!({ "file_path": "a/.env" }), "refuse"),
            ("WebFetch", json!({ "url": "https://docs.rs/x" }), "pass"),
            ("WebFetch", json!({ "url": "https://evil.test/x" }), "ask"),
            ("Agent", json!({ "subagent_type": "helper" }), "pass"),
            ("Agent", json!({ "subagent_type": "other" }), "ask"),
            ("TodoWrite", json!({}), "pass"),
        ] {
            let says = gate.judge(&call(tool, input.clone()), BTreeMap::new(), None);
            assert_eq!(word(&says), expected, "{tool} {input}: {says:?}");
        }
    }

    #[test]
    fn links_are_followed_and_searches_leave_out_what_is_denied() {
        let gate = gate(rules(&[], &[], &["Read(./secrets/**)"]), None, &[]);
        let read = call("Read", json!({ "file_path": "link" }));
        assert_eq!(gate.paths(&read), ["/w/link"]);
        let led = links(r#"{"/w/link": "/w/secrets/key", "/w/a": "/w/a"}"#);
        assert_eq!(led.len(), 1);
        assert_eq!(word(&gate.judge(&read, led, None)), "refuse");
        let says = gate.judge(&call("Grep", json!({ "pattern": "x" })), BTreeMap::new(), None);
        assert_eq!(says, Says::Pass { without: vec!["/secrets".to_owned()] });
    }

    #[test]
    fn an_answer_is_good_for_exactly_what_was_asked_and_a_no_stays() {
        let gate = gate(rules(&[], &["Bash(npm publish *)"], &[]), Some(PermissionMode::Default), &[]);
        let publish = call("Bash", json!({ "command": "npm publish" }));
        let Says::Ask { asked, text } = gate.judge(&publish, BTreeMap::new(), None) else { panic!() };
        assert!(text.starts_with("`coder` wants to run Bash(npm publish): "), "{text}");
        let yes = CallAnswer { call: asked.clone(), granted: true, scope: Scope::Call };
        assert_eq!(word(&gate.judge(&publish, BTreeMap::new(), Some(&yes))), "pass");
        let other = call("Bash", json!({ "command": "npm publish --tag x" }));
        assert_eq!(
            word(&gate.judge(&other, BTreeMap::new(), Some(&yes))),
            "ask",
            "changed parameters are another question"
        );
        gate.answers().hear(&CallAnswer { call: asked, granted: false, scope: Scope::Run });
        assert_eq!(word(&gate.judge(&publish, BTreeMap::new(), None)), "refuse");
        assert_eq!(word(&gate.judge(&other, BTreeMap::new(), None)), "ask");
    }

    #[test]
    fn nothing_is_inherited_but_denies_and_ceilings() {
        let lead = rules(&["Bash(npm test *)"], &["Bash(make *)"], &["Bash(git push *)"]);
        let lead = profile("lead", Permissions { ceiling: Some(Class::Run), ..lead }, None);
        let flow = permission::Above {
            who: "the pipeline `ship`".to_owned(),
            permissions: rules(&[], &["Bash(cargo *)"], &[]),
        };
        let above = Over { above: vec![flow], ..Over::default() }.handed_down(&lead).above;
        let child =
            gate(rules(&["Bash(git push *)", "Bash(cargo *)"], &[], &[]), Some(PermissionMode::Default), &above);
        for (command, expected) in [
            ("npm test", "ask"),
            ("git push", "refuse"),
            ("curl https://example.com", "refuse"),
            ("cargo test", "ask"),
            ("ls", "pass"),
        ] {
            let says = child.judge(&call("Bash", json!({ "command": command })), BTreeMap::new(), None);
            assert_eq!(word(&says), expected, "{command}: {says:?}");
        }
        let Says::Refuse { text } = child.judge(&call("Bash", json!({ "command": "git push" })), BTreeMap::new(), None)
        else {
            panic!()
        };
        assert!(text.contains("of the agent `lead`"), "{text}");
    }

    #[test]
    fn an_answer_holds_as_long_as_it_was_given_for() {
        let publish =
            |word: &str| call("Bash", json!({ "command": "npm publish", "description": word, "timeout": word.len() }));
        let fetch = call("WebFetch", json!({ "url": "https://evil.test/x", "prompt": "sum up" }));
        let asks = |gate: &Gate, call: &ToolCall| match gate.judge(call, BTreeMap::new(), None) {
            Says::Ask { asked, text } => (asked, text),
            says => panic!("{says:?}"),
        };
        // What a rule asks about is asked about each time.
        let gate_that_asks = gate(rules(&[], &["Bash(npm publish *)"], &[]), None, &[]);
        assert_eq!(asks(&gate_that_asks, &publish("a")).0.lasting, Lasting::Once);
        // What nothing was said about may be answered for longer, in any words.
        let gate = gate(rules(&[], &[], &[]), Some(PermissionMode::Default), &[]);
        let (asked, text) = asks(&gate, &publish("publish it"));
        let lasting = Lasting::Rule { agent: "coder".to_owned(), rule: "Bash(npm publish)".to_owned() };
        assert_eq!(asked.lasting, lasting);
        assert!(text.ends_with("or for ever as `Bash(npm publish)`)"), "{text}");
        assert_eq!(
            asks(&gate, &fetch).0.lasting,
            Lasting::Rule { agent: "coder".to_owned(), rule: "WebFetch(domain:evil.test)".to_owned() }
        );
        let odd = call("Bash", json!({ "command": "make && npm publish" }));
        assert_eq!(asks(&gate, &odd).0.lasting, Lasting::Run);
        gate.answers().hear(&CallAnswer { call: asked.clone(), granted: true, scope: Scope::Run });
        assert_eq!(word(&gate.judge(&publish("in other words"), BTreeMap::new(), None)), "pass");
        gate.answers().hear(&CallAnswer { call: asked, granted: false, scope: Scope::Run });
        assert_eq!(word(&gate.judge(&publish("and others"), BTreeMap::new(), None)), "refuse", "a no beats a yes");
        // Nobody was there: it may be asked about again, three times.
        let (asked, _) = asks(&gate, &fetch);
        for _ in 0..3 {
            assert_eq!(word(&gate.judge(&fetch, BTreeMap::new(), None)), "ask");
            gate.answers().hear(&CallAnswer { call: asked.clone(), granted: false, scope: Scope::Call });
        }
        let Says::Refuse { text } = gate.judge(&fetch, BTreeMap::new(), None) else { panic!() };
        assert!(text.contains("3 times nobody answered"), "{text}");
    }

    #[test]
    fn whoever_is_above_answers_what_it_delegates_and_nothing_else() {
        let delegate = vec![Delegate { to: "coder".to_owned(), allow: vec!["Bash(npm test *)".to_owned()] }];
        let lead = rules(&["Bash(npm publish *)"], &[], &["Bash(npm test --deny)"]);
        let lead = profile("lead", Permissions { delegate, ..lead }, None);
        let over = Over::default().handed_down(&lead);
        let default = Some(PermissionMode::Default);
        let grounds = Grounds { directory: "/w".into(), home: "/home/dev".into(), hosts: Vec::new() };
        let says = |gate: &Gate, command: &str| {
            word(&gate.judge(&call("Bash", json!({ "command": command })), BTreeMap::new(), None))
        };
        let gate_of = |name: &str, permissions: Permissions, mode| {
            Gate::of(&profile(name, permissions, mode), &over, &grounds, Answers::default()).unwrap()
        };
        let child = gate_of("coder", rules(&[], &[], &[]), default);
        assert_eq!(says(&child, "npm test --all"), "pass");
        assert_eq!(says(&child, "npm test --deny"), "refuse", "its own deny holds for its answers, too");
        assert_eq!(says(&child, "npm publish"), "ask", "what it may do itself, nobody below inherits");
        assert_eq!(says(&child, "npm test && npm publish"), "ask");
        let asked = gate_of("coder", rules(&[], &["Bash(npm *)"], &[]), default);
        assert_eq!(says(&asked, "npm test"), "ask", "what a rule asks about goes to people");
        let quiet = gate_of("coder", rules(&[], &[], &[]), Some(PermissionMode::DontAsk));
        assert_eq!(says(&quiet, "npm test"), "refuse", "nobody is asked, so nobody answers");
        assert_eq!(says(&gate_of("other", rules(&[], &[], &[]), default), "npm test"), "ask");
    }

    #[test]
    fn rules_of_settings_hold_for_all_and_grant_only_to_agents_that_nobody_started() {
        let set = |source, agent: Option<&str>, permissions| Ruleset {
            source,
            file: "rules".to_owned(),
            agent: agent.map(str::to_owned),
            permissions,
        };
        let sets = vec![
            set(Source::Project, None, rules(&["Bash(make *)"], &["Bash(git *)"], &["Bash(curl *)"])),
            set(Source::Answers, Some("coder"), rules(&["Bash(npm run x)"], &[], &[])),
            set(Source::Managed, None, Permissions { ceiling: Some(Class::Run), ..rules(&[], &[], &[]) }),
        ];
        let grounds = Grounds { directory: "/w".into(), home: "/home/dev".into(), hosts: Vec::new() };
        for (is_below, name, command, expected) in [
            (false, "coder", "make all", "pass"),
            (true, "coder", "make all", "ask"),
            (false, "coder", "npm run x", "pass"),
            (true, "coder", "npm run x", "pass"),
            (false, "other", "npm run x", "ask"),
            (true, "other", "curl x", "refuse"),
            (true, "other", "git status", "ask"),
            (false, "coder", "git push", "refuse"),
        ] {
            let over = Over { rules: sets.clone(), is_below, ..Over::default() };
            let profile = profile(name, rules(&[], &[], &[]), Some(PermissionMode::Default));
            let gate = Gate::of(&profile, &over, &grounds, Answers::default()).unwrap();
            let says = gate.judge(&call("Bash", json!({ "command": command })), BTreeMap::new(), None);
            assert_eq!(word(&says), expected, "{name} {command} {is_below}: {says:?}");
        }
    }

    #[test]
    fn a_bare_question_of_somebody_else_is_not_lifted_by_a_narrow_grant() {
        let flow = permission::Above { who: "the step `a`".to_owned(), permissions: rules(&[], &["Bash"], &[]) };
        let said = rules(&["Bash(npm test *)"], &["Bash"], &[]);
        let test = call("Bash", json!({ "command": "npm test" }));
        let own = gate(said.clone(), Some(PermissionMode::Default), &[]);
        assert_eq!(word(&own.judge(&test, BTreeMap::new(), None)), "pass", "in one list it says what is left");
        let both = gate(said, Some(PermissionMode::Default), &[flow]);
        assert_eq!(word(&both.judge(&test, BTreeMap::new(), None)), "ask");
    }

    #[test]
    fn a_rule_that_cannot_be_read_judges_nothing() {
        let broken = profile("coder", rules(&[], &[], &["Bash("]), None);
        assert!(Gate::of(&broken, &Over::default(), &Grounds::default(), Answers::default()).is_err());
    }
}
