//! The gate of a run: each call is judged before anything of it is done.
//!
//! The judgement is that of `orc-policy`; here is what it needs to know of this run (rules, mode, who is above it, where
//! paths lead in its copy), and what the model and people are told. A call that somebody is asked about is not done: the run
//! ends, and goes on with the answer, which is good for exactly that call, once. A no stays for the whole tree of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use orc_domain::ids::ContentHash;
use orc_domain::permission::{self, AskedCall, CallAnswer, PermissionMode, Permissions};
use orc_domain::profile::Profile;
use orc_policy::path::Around;
use orc_policy::policy::{Above, Boxed, Policy, Rules};
use orc_policy::rule::Rule;
use orc_policy::verdict::{Decision, Ground, Obligation, Source, Verdict};
use orc_policy::view::{Call, View, safe};
use serde_json::{Value, json};

use crate::talk::{ToolCall, ToolInput};

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

/// Subjects to which somebody said no, in the whole tree of a run.
pub(crate) type Refused = Arc<Mutex<BTreeSet<ContentHash>>>;

/// What calls of one agent are judged by.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    agent: String,
    policy: Policy,
    around: Around,
    refused: Refused,
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

impl Gate {
    /// The gate of an agent.
    ///
    /// # Errors
    /// The rule that cannot be read: without it nothing is judged.
    pub(crate) fn of(
        profile: &Profile,
        above: &[permission::Above],
        ground: &Grounds,
        refused: Refused,
    ) -> Result<Self, String> {
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
        let mut over = Vec::new();
        for permission::Above { who, permissions } in above {
            let mut said = Rules::default();
            add(&mut said, permissions, Source::Pipeline, &around.worktree)?;
            rules.ask.extend(said.ask);
            over.push(Above { who: who.clone(), deny: said.deny, ceiling: permissions.ceiling, within: None });
        }
        let ceiling = profile.permissions.ceiling;
        let policy = Policy { rules, mode, boxed, trusted: true, servers: Vec::new(), above: over, ceiling };
        Ok(Self { agent: profile.name.clone(), policy, around, refused })
    }

    /// What everybody below this agent is under beside what is above it.
    pub(crate) fn handed_down(profile: &Profile, above: &[permission::Above]) -> Vec<permission::Above> {
        let Permissions { deny, ceiling, .. } = profile.permissions.clone();
        let permissions = Permissions { deny, ceiling, ..Permissions::default() };
        let own = permission::Above { who: format!("the agent `{}`", profile.name), permissions };
        above.iter().cloned().chain((!own.permissions.is_empty()).then_some(own)).collect()
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
        match decision.verdict {
            Verdict::Deny => Says::Refuse { text: refusal(&decision) },
            Verdict::Allow => Says::Pass { without: without(&decision) },
            Verdict::Ask if answer.is_some_and(|answer| answer.granted && answer.call.subject == subject) => {
                Says::Pass { without: without(&decision) }
            }
            Verdict::Ask if self.said_no().contains(&subject) => Says::Refuse {
                text: "Permission denied: somebody said no to exactly this before. Do it another way, or go on without it.".to_owned(),
            },
            Verdict::Ask => {
                let text = format!("`{}` wants to run {}: {}", self.agent, view.shown(), decision.reason());
                Says::Ask { asked: AskedCall { id: call.id.clone(), tool: call.name.clone(), subject }, text }
            }
        }
    }

    /// What was refused in the tree of its run, for those below.
    pub(crate) fn refused(&self) -> Refused {
        Arc::clone(&self.refused)
    }

    /// Somebody said no.
    pub(crate) fn refuse(&self, subject: ContentHash) {
        self.said_no().insert(subject);
    }

    fn said_no(&self) -> std::sync::MutexGuard<'_, BTreeSet<ContentHash>> {
        // A panic elsewhere leaves it as it was: nothing in it is ever half done.
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an answer is about: who, which tool, what exactly, and where its paths lead. Maps are ordered.
    fn subject(&self, call: &ToolCall, view: &View) -> ContentHash {
        let paths: BTreeSet<Option<String>> = view.all_touches().map(|touch| touch.path.target.text()).collect();
        let input = as_called(call).input;
        let whole =
            json!({ "agent": self.agent, "tool": call.name, "input": input, "cwd": self.around.cwd, "paths": paths });
        ContentHash::of(whole.to_string().as_bytes())
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
    use orc_domain::permission::Class;
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
        Permissions { allow: texts(allow), ask: texts(ask), deny: texts(deny), ceiling: None }
    }

    fn gate(permissions: Permissions, mode: Option<PermissionMode>, above: &[permission::Above]) -> Gate {
        let grounds = Grounds { directory: "/w".into(), home: "/home/dev".into(), hosts: vec!["docs.rs".to_owned()] };
        Gate::of(&profile("coder", permissions, mode), above, &grounds, Refused::default()).unwrap()
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
        let yes = CallAnswer { call: asked.clone(), granted: true };
        assert_eq!(word(&gate.judge(&publish, BTreeMap::new(), Some(&yes))), "pass");
        let other = call("Bash", json!({ "command": "npm publish --tag x" }));
        assert_eq!(
            word(&gate.judge(&other, BTreeMap::new(), Some(&yes))),
            "ask",
            "changed parameters are another question"
        );
        gate.refuse(asked.subject);
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
        let above = Gate::handed_down(&lead, &[flow]);
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
    fn a_rule_that_cannot_be_read_judges_nothing() {
        let broken = profile("coder", rules(&[], &[], &["Bash("]), None);
        assert!(Gate::of(&broken, &[], &Grounds::default(), Refused::default()).is_err());
    }
}
