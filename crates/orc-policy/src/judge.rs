//! The judgement of one call: deny, ask, what only looks, allow, mode, in this order, as the maximum over all parts.
//!
//! Denies and questions are looked for in everything that the call could mean. A grant must cover every part of it. What
//! nobody said anything about is asked about, or whatever the mode makes of that.

mod explain;
mod grant;

use std::collections::BTreeSet;

pub use explain::{CommandSaid, Explanation, FileSaid, HostSaid, RuleSaid};

use crate::path::Around;
use crate::policy::{Boxed, Mode, Policy, Rules};
use crate::rule::{Meet, Met, Pattern, Rule};
use crate::verdict::{Class, Decision, Ground, Obligation, Reason, Source, Verdict};
use crate::view::{Arg, Call, Family, View, safe};
use crate::{floor, programs};

impl Policy {
    /// Judges a call.
    #[must_use]
    pub fn judge(&self, call: &Call, around: &Around) -> Decision {
        self.judge_view(&View::of(call, around), around)
    }

    /// Judges a call that was read.
    #[must_use]
    pub fn judge_view(&self, view: &View, around: &Around) -> Decision {
        let judge = Judge { policy: self, view, around, by_rules: false };
        let mut decision = judge.decide();
        for nested in &view.nested {
            let inner = self.judge_view(nested, around);
            if inner.verdict > decision.verdict {
                decision = Decision { class: decision.class, ..inner };
            } else {
                decision.reasons.extend(inner.reasons);
                decision.explicit |= inner.explicit;
            }
        }
        if !view.nested.is_empty() {
            decision.obligations.push(Obligation::RecordNested);
        }
        decision
    }
}

struct Judge<'a> {
    policy: &'a Policy,
    view: &'a View,
    around: &'a Around,
    /// Only what rules say counts as a grant.
    by_rules: bool,
}

impl Judge<'_> {
    fn decide(&self) -> Decision {
        let mut excluded: BTreeSet<(String, Option<String>)> = BTreeSet::new();
        let mut reasons = Vec::new();
        for rule in &self.policy.rules.deny {
            self.denied(rule, None, &mut reasons, &mut excluded);
        }
        for above in &self.policy.above {
            for rule in &above.deny {
                self.denied(rule, Some(&above.who), &mut reasons, &mut excluded);
            }
        }
        self.ceilings(&mut reasons);
        self.floors(&mut reasons);
        let (granted, missing) = self.granted();
        self.questions(&mut reasons);
        let explicit =
            reasons.iter().any(|reason| reason.verdict == Verdict::Ask && matches!(reason.ground, Ground::Rule { .. }));
        reasons.push(self.base(granted, missing));
        if self.policy.mode == Mode::DontAsk {
            for reason in reasons.iter_mut().filter(|reason| reason.verdict == Verdict::Ask) {
                reason.verdict = Verdict::Deny;
                reason.text = format!("{}; in the mode `dontAsk` nobody is asked", reason.text);
            }
        }
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
        let verdict = reasons.first().map_or(Verdict::Ask, |reason| reason.verdict);
        let (paths, lines): (Vec<_>, Vec<_>) = excluded.into_iter().unzip();
        let lines = lines.into_iter().flatten().collect();
        let obligations = if paths.is_empty() { Vec::new() } else { vec![Obligation::Exclude { paths, lines }] };
        Decision {
            verdict,
            reasons,
            obligations,
            class: self.view.class(),
            explicit: explicit && verdict == Verdict::Ask,
        }
    }

    fn denied(
        &self,
        rule: &Rule,
        who: Option<&String>,
        reasons: &mut Vec<Reason>,
        excluded: &mut BTreeSet<(String, Option<String>)>,
    ) {
        let Some(Met { meet, part, excludes }) = rule.meets(self.view, self.around) else { return };
        if excludes {
            excluded.insert((rule.text.clone(), rule.ignore_line(self.around)));
            return;
        }
        if meet == Meet::No {
            return;
        }
        let ground = match who {
            Some(who) => Ground::Above { rule: rule.text.clone(), who: who.clone() },
            None => Ground::Rule { rule: rule.text.clone(), source: rule.source },
        };
        let whose = who.map_or_else(|| format!("({})", rule.source.word()), |who| format!("of {who}"));
        let (verdict, text) = if meet == Meet::Certain {
            (Verdict::Deny, format!("`{}` {whose} denies {part}", rule.text))
        } else {
            // It is not the rule that asks, but that it cannot be said whether the rule is meant.
            (
                Verdict::Ask,
                format!("what {part} is, is known only when it runs, and `{}` {whose} may deny it", rule.text),
            )
        };
        let ground = if verdict == Verdict::Ask { Ground::Floor { floor: "unreadable" } } else { ground };
        reasons.push(Reason { verdict, ground, part, text });
    }

    fn ceilings(&self, reasons: &mut Vec<Reason>) {
        let class = self.view.class();
        let own = self.policy.ceiling.map(|ceiling| ("its own ceiling".to_owned(), ceiling));
        let above = self
            .policy
            .above
            .iter()
            .filter_map(|above| Some((format!("the ceiling of {}", above.who), above.ceiling?)));
        for (whose, ceiling) in own.into_iter().chain(above) {
            if class > ceiling && self.view.family != Family::Own {
                let text = format!("it is of the class `{}`, and {whose} is `{}`", class.word(), ceiling.word());
                reasons.push(Reason { verdict: Verdict::Deny, ground: Ground::Ceiling, part: self.view.shown(), text });
            }
        }
        for above in &self.policy.above {
            let Some(within) = &above.within else { continue };
            let rules = Rules { allow: within.clone(), ..Rules::default() };
            let policy = Policy {
                rules,
                trusted: self.policy.trusted,
                servers: self.policy.servers.clone(),
                ..Policy::default()
            };
            let (_, missing) = Judge { policy: &policy, by_rules: false, ..*self }.granted();
            if let Some((part, _)) = missing {
                let text = format!("{part} is not among what {} lets those below it do", above.who);
                reasons.push(Reason { verdict: Verdict::Deny, ground: Ground::Ceiling, part, text });
            }
        }
    }

    fn floors(&self, reasons: &mut Vec<Reason>) {
        let mut floor = |verdict: Verdict, floor: &'static str, part: String, text: String| {
            reasons.push(Reason { verdict, ground: Ground::Floor { floor }, part, text });
        };
        for part in &self.view.parts {
            if let Some(what) = &part.removal {
                let shown = safe(&part.shown);
                floor(
                    Verdict::Ask,
                    "removal",
                    shown.clone(),
                    format!("{shown} would remove `{}`, which no rule and no mode lets pass", safe(what)),
                );
            }
        }
        for touch in self.view.all_touches().filter(|touch| touch.access.changes()) {
            let part = format!("{} {}", touch.access.word(), safe(&touch.path.shown()));
            let ends = [&touch.path.place, &touch.path.target];
            let shared =
                self.around.shared.iter().find(|shared| {
                    ends.iter().any(|end| end.text().is_some_and(|end| crate::path::below(&end, shared)))
                });
            if let Some(shared) = shared {
                floor(
                    Verdict::Deny,
                    "shared",
                    part.clone(),
                    format!("{part}: others work in `{}`; this run has a copy of its own", safe(shared)),
                );
            }
            if touch.certain
                && let Some(what) = floor::protected(&touch.path)
            {
                floor(
                    Verdict::Ask,
                    "protected",
                    part.clone(),
                    format!("{part}: it belongs to {what}, and is changed only by somebody who was asked"),
                );
            }
        }
        let denies = self.policy.rules.deny.iter().chain(self.policy.above.iter().flat_map(|above| &above.deny));
        let about_parts = |rule: &Rule| match &rule.pattern {
            Pattern::Tool(tool) => matches!(tool.text().as_deref(), Some("Read" | "Edit" | "Write")),
            Pattern::Agent(_) | Pattern::Value { .. } => false,
            _ => true,
        };
        if denies.into_iter().any(about_parts)
            && let Some((part, why)) = self.unreadable()
        {
            floor(Verdict::Ask, "unreadable", part.clone(), format!("{part}: {why}, so a deny may be meant"));
        }
    }

    /// What in it cannot be known, and why.
    fn unreadable(&self) -> Option<(String, String)> {
        if let Some(why) = &self.view.unread {
            return Some((self.view.shown(), why.clone()));
        }
        if self.view.long {
            return Some((self.view.tool.clone(), format!("it is longer than {} letters", crate::view::MAX_GRANTED)));
        }
        self.view.parts.iter().find_map(|part| {
            let odd = part.words.first().and_then(Arg::exact).is_some_and(|name| programs::is_odd(&name));
            let why = part.opaque.or(odd.then_some("its name has letters that nobody sees"))?;
            Some((safe(&part.shown), why.to_owned()))
        })
    }

    fn questions(&self, reasons: &mut Vec<Reason>) {
        for rule in &self.policy.rules.ask {
            // For a whole tool it says what happens to calls that nothing else is said about.
            if rule.is_whole() && rule.source != Source::Managed && self.is_named(rule.source) {
                continue;
            }
            let Some(Met { part, .. }) = rule.meets(self.view, self.around).filter(|met| met.meet > Meet::No) else {
                continue;
            };
            let text = format!("`{}` ({}) asks about {part}", rule.text, rule.source.word());
            reasons.push(Reason {
                verdict: Verdict::Ask,
                ground: Ground::Rule { rule: rule.text.clone(), source: rule.source },
                part,
                text,
            });
        }
    }

    /// Whether rules that say more than a tool's name grant every part of it, and stand where the question does: what
    /// somebody else wants to be asked about, they do not lift.
    fn is_named(&self, source: Source) -> bool {
        let own = |rule: &&Rule| !rule.is_whole() && rule.source == source;
        self.is_granted_by(self.policy.rules.allow.iter().filter(own).cloned().collect()).is_some()
    }

    /// The rule of these that grants it, if they grant every part.
    fn is_granted_by(&self, allow: Vec<Rule>) -> Option<String> {
        if allow.is_empty() {
            return None;
        }
        let policy = Policy {
            rules: Rules { allow, ..Rules::default() },
            boxed: Boxed::Nothing,
            mode: Mode::Default,
            ..self.policy.clone()
        };
        let (grounds, missing) = Judge { policy: &policy, by_rules: true, ..*self }.granted();
        if missing.is_some() {
            return None;
        }
        grounds.into_iter().find_map(|ground| match ground {
            Ground::Rule { rule, .. } => Some(rule),
            _ => None,
        })
    }

    /// Whoever above answers this question with yes: the nearest first, by its own `delegate:` and nothing else of it.
    fn delegated(&self) -> Option<(String, String)> {
        self.policy.above.iter().rev().find_map(|above| {
            let to_me = above.delegate.iter().filter(|(to, _)| *to == self.policy.agent);
            let rules: Vec<Rule> = to_me.flat_map(|(_, rules)| rules.iter().cloned()).collect();
            Some((self.is_granted_by(rules)?, above.who.clone()))
        })
    }

    /// What is said of a call that no deny and no question meets.
    fn base(&self, granted: Vec<Ground>, missing: Option<(String, String)>) -> Reason {
        let mode = self.policy.mode;
        let shown = self.view.shown();
        let said = |verdict, ground, part: String, text: String| Reason { verdict, ground, part, text };
        let changes = self.view.class() > Class::Read && matches!(self.view.family, Family::Shell | Family::Edits);
        if mode == Mode::Plan && changes {
            let text = format!("in the mode `plan` nothing is changed: {shown}");
            return said(Verdict::Deny, Ground::Mode { mode: mode.word() }, shown, text);
        }
        let Some((part, why)) = missing else {
            let ground = granted.into_iter().find(|ground| *ground != Ground::ReadOnly).unwrap_or(Ground::ReadOnly);
            let text = match &ground {
                Ground::Rule { rule, source } => format!("`{rule}` ({}) allows it", source.word()),
                Ground::Mode { mode } => format!("the mode `{mode}` lets it pass"),
                Ground::Boxed => "its box holds it, and nothing is said against it".to_owned(),
                _ => "it only looks".to_owned(),
            };
            return said(Verdict::Allow, ground, shown, text);
        };
        if mode == Mode::BypassPermissions {
            return said(
                Verdict::Allow,
                Ground::Mode { mode: mode.word() },
                part,
                "the mode `bypassPermissions` lets it pass".to_owned(),
            );
        }
        if mode != Mode::DontAsk
            && let Some((rule, who)) = self.delegated()
        {
            let text = format!("`{rule}` of `delegate` of {who} answers it");
            return said(Verdict::Allow, Ground::Above { rule, who }, part, text);
        }
        let text = format!("nothing allows {part}: {why}");
        said(Verdict::Ask, Ground::Nothing, part, text)
    }
}

fn ground_of(rule: &Rule) -> Ground {
    Ground::Rule { rule: rule.text.clone(), source: rule.source }
}
