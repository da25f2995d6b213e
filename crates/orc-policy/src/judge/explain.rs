//! What is said of each part of a call, for people: the rules that meet it, and what lets it pass or does not.

use serde::Serialize;

use super::Judge;
use crate::path::Around;
use crate::policy::Policy;
use crate::rule::{Meet, Pattern, Rule};
use crate::verdict::{Decision, Ground, Source, Verdict};
use crate::view::{Part, Reach, Touch, View, safe};

/// A call with all its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The call in a line.
    pub call: String,
    /// Why it could not be read to its end.
    pub unread: Option<String>,
    /// Commands, those that are written and those that they start.
    pub commands: Vec<CommandSaid>,
    /// Files that the tool itself touches.
    pub files: Vec<FileSaid>,
    /// Hosts that the tool itself reaches.
    pub hosts: Vec<HostSaid>,
    /// Rules that meet it as a whole.
    pub rules: Vec<RuleSaid>,
    /// Calls inside of it.
    pub nested: Vec<Self>,
    /// The judgement.
    pub decision: Decision,
}

/// A rule that meets a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleSaid {
    /// What it says.
    pub says: Verdict,
    /// As it was written.
    pub rule: String,
    /// Where.
    pub source: Source,
    /// Whose it is, when it is not the run's own.
    pub of: Option<String>,
    /// Whether it means the part, or may, when something is what is known only when it runs.
    pub certain: bool,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandSaid {
    /// As it is written, or as another one starts it.
    pub command: String,
    /// It is written in the call.
    pub written: bool,
    /// Commands that it starts, by their places in the list.
    pub starts: Vec<usize>,
    /// What it starts that cannot be known.
    pub opaque: Option<&'static str>,
    /// It removes what nobody wants removed.
    pub removal: Option<String>,
    /// Files that it touches.
    pub files: Vec<FileSaid>,
    /// Hosts that it reaches.
    pub hosts: Vec<HostSaid>,
    /// Rules that meet it.
    pub rules: Vec<RuleSaid>,
    /// What lets it pass.
    pub granted: Option<Ground>,
    /// Why nothing does.
    pub missing: Option<String>,
}

/// A file that is touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSaid {
    /// What is done with it.
    pub access: &'static str,
    /// Where it stands, and where it leads.
    pub path: String,
    /// Whether it is touched for certain.
    pub certain: bool,
    /// What it belongs to, when it is changed and only somebody who was asked may do that.
    pub protected: Option<&'static str>,
    /// Rules that meet it.
    pub rules: Vec<RuleSaid>,
}

/// A host that is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostSaid {
    /// Its name; none: any.
    pub host: Option<String>,
    /// Rules that meet it.
    pub rules: Vec<RuleSaid>,
}

impl Policy {
    /// Says of each part of a call what the rules say of it.
    #[must_use]
    pub fn explain(&self, view: &View, around: &Around) -> Explanation {
        let judge = Judge { policy: self, view, around, by_rules: false };
        let mut explanation = Explanation {
            call: view.shown(),
            unread: view.unread.clone(),
            commands: (0..view.parts.len()).map(|place| judge.command_said(place)).collect(),
            files: view.touches.iter().map(|touch| judge.file_said(touch)).collect(),
            hosts: view.reaches.iter().map(|reach| judge.host_said(reach)).collect(),
            rules: Vec::new(),
            nested: view.nested.iter().map(|nested| self.explain(nested, around)).collect(),
            decision: self.judge_view(view, around),
        };
        explanation.rules = judge.whole_said(&explanation);
        explanation
    }
}

impl Judge<'_> {
    /// Every deny and question, with what it says and whose it is.
    fn against(&self) -> impl Iterator<Item = (Verdict, &Rule, Option<&String>)> {
        let deny = self.policy.rules.deny.iter().map(|rule| (Verdict::Deny, rule, None));
        let above = self
            .policy
            .above
            .iter()
            .flat_map(|above| above.deny.iter().map(|rule| (Verdict::Deny, rule, Some(&above.who))));
        let ask = self.policy.rules.ask.iter().map(|rule| (Verdict::Ask, rule, None));
        deny.chain(above).chain(ask)
    }

    /// Denies and questions that meet what is left of the call, and are about such things.
    fn met(&self, left: &View, about: impl Fn(&Pattern) -> bool) -> Vec<RuleSaid> {
        let rules = self.against().filter(|(_, rule, _)| about(&rule.pattern));
        rules.filter_map(|(says, rule, of)| said(rule, left, self.around, (says, of))).collect()
    }

    fn allows(&self, grants: impl Fn(&Rule) -> bool) -> impl Iterator<Item = RuleSaid> {
        self.policy.rules.allow.iter().filter(move |rule| grants(rule)).map(|rule| RuleSaid {
            says: Verdict::Allow,
            rule: rule.text.clone(),
            source: rule.source,
            of: None,
            certain: true,
        })
    }

    /// The call with nothing in it but these.
    fn left(&self, parts: Vec<Part>, touches: Vec<Touch>, reaches: Vec<Reach>) -> View {
        View { parts, touches, reaches, nested: Vec::new(), unread: None, text: None, ..self.view.clone() }
    }

    fn command_said(&self, place: usize) -> CommandSaid {
        let part = &self.view.parts[place];
        let alone = Part { touches: Vec::new(), reaches: Vec::new(), ..part.clone() };
        let mut rules = self.met(&self.left(vec![alone], Vec::new(), Vec::new()), |pattern| {
            matches!(pattern, Pattern::Command(_) | Pattern::Effect(_))
        });
        let inner = part.inner.iter().all(|inner| self.part_granted(*inner).is_ok());
        rules.extend(self.allows(|rule| rule.grants_command(part, inner)));
        let (granted, missing) = match self.part_granted(place) {
            Ok(ground) => (Some(ground), None),
            Err(why) => (None, Some(why)),
        };
        CommandSaid {
            command: safe(&part.shown),
            written: part.outer,
            starts: part.inner.clone(),
            opaque: part.opaque,
            removal: part.removal.clone(),
            files: part.touches.iter().map(|touch| self.file_said(touch)).collect(),
            hosts: part.reaches.iter().map(|reach| self.host_said(reach)).collect(),
            rules,
            granted,
            missing,
        }
    }

    fn file_said(&self, touch: &Touch) -> FileSaid {
        let mut rules = self.met(&self.left(Vec::new(), vec![touch.clone()], Vec::new()), |pattern| {
            matches!(pattern, Pattern::Reads(_) | Pattern::Edits(_) | Pattern::Outside(_) | Pattern::Effect(_))
        });
        rules.extend(self.allows(|rule| rule.grants_touch(touch, self.around)));
        let changes = touch.access.changes() && touch.certain;
        FileSaid {
            access: touch.access.word(),
            path: safe(&touch.path.shown()),
            certain: touch.certain,
            protected: crate::floor::protected(&touch.path).filter(|_| changes),
            rules,
        }
    }

    fn host_said(&self, reach: &Reach) -> HostSaid {
        let mut rules = self.met(&self.left(Vec::new(), Vec::new(), vec![reach.clone()]), |pattern| {
            matches!(pattern, Pattern::Host(_))
        });
        rules.extend(self.allows(|rule| reach.host.as_ref().is_some_and(|host| rule.grants_host(host))));
        HostSaid { host: reach.host.clone(), rules }
    }

    /// Rules that meet the call, and no part of it more than another.
    fn whole_said(&self, explained: &Explanation) -> Vec<RuleSaid> {
        let files = explained.commands.iter().flat_map(|command| &command.files).chain(&explained.files);
        let hosts = explained.commands.iter().flat_map(|command| &command.hosts).chain(&explained.hosts);
        let known: Vec<&RuleSaid> = files
            .flat_map(|file| &file.rules)
            .chain(hosts.flat_map(|host| &host.rules))
            .chain(explained.commands.iter().flat_map(|command| &command.rules))
            .collect();
        let against = self.against().filter_map(|(says, rule, of)| said(rule, self.view, self.around, (says, of)));
        let mut rules: Vec<RuleSaid> = against.filter(|said| !known.contains(&said)).collect();
        rules.extend(self.allows(|rule| rule.grants_call(self.view, &self.policy.servers)));
        rules
    }
}

fn said(rule: &Rule, view: &View, around: &Around, (says, of): (Verdict, Option<&String>)) -> Option<RuleSaid> {
    let met = rule.meets(view, around).filter(|met| met.meet > Meet::No)?;
    let certain = met.meet == Meet::Certain && !met.excludes;
    Some(RuleSaid { says, rule: rule.text.clone(), source: rule.source, of: of.cloned(), certain })
}
