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
