//! Grants: whether something says of every part of a call that it may run.

use super::{Judge, ground_of};
use crate::policy::{Boxed, Mode};
use crate::programs::{self, looks};
use crate::rule::is_nothing;
use crate::verdict::Ground;
use crate::view::{Access, Arg, Family, Part, Shape, Touch, safe};

impl Judge<'_> {
    /// What grants every part, or the first part that nothing does, and why.
    pub(super) fn granted(&self) -> (Vec<Ground>, Option<(String, String)>) {
        let view = self.view;
        let mut grounds = Vec::new();
        if let Some((part, why)) = self.unreadable() {
            // Even the box is not asked about what cannot be read while there are denies; that is a floor.
            return if self.boxed() { (vec![Ground::Boxed], None) } else { (grounds, Some((part, why))) };
        }
        if matches!(view.family, Family::Looks | Family::Edits) && self.boxed() {
            return (vec![Ground::Boxed], None);
        }
        if matches!(view.family, Family::Own | Family::Internal | Family::Nested) {
            return (vec![Ground::ReadOnly], None);
        }
        if let Some(rule) = self.policy.rules.allow.iter().find(|rule| rule.grants_call(view, &self.policy.servers)) {
            return (vec![ground_of(rule)], None);
        }
        let plain = || (view.shown(), "no rule says anything about it".to_owned());
        match view.family {
            Family::Shell => {
                for place in (0..view.parts.len()).filter(|place| view.parts[*place].outer) {
                    match self.part_granted(place) {
                        Ok(ground) => grounds.push(ground),
                        Err(why) => return (grounds, Some((safe(&view.parts[place].shown), why))),
                    }
                }
                (grounds, None)
            }
            Family::Looks | Family::Edits => {
                for touch in &view.touches {
                    match self.touch_granted(touch) {
                        Ok(ground) => grounds.push(ground),
                        Err(why) => {
                            return (
                                grounds,
                                Some((format!("{} {}", touch.access.word(), safe(&touch.path.shown())), why)),
                            );
                        }
                    }
                }
                (grounds, None)
            }
            Family::Web => {
                let hosts: Option<Vec<&String>> = view.reaches.iter().map(|reach| reach.host.as_ref()).collect();
                for host in hosts.unwrap_or_default() {
                    match self.policy.rules.allow.iter().find(|rule| rule.grants_host(host)) {
                        Some(rule) => grounds.push(ground_of(rule)),
                        None => {
                            return (
                                grounds,
                                Some((format!("reach {host}"), "no rule says anything about this host".to_owned())),
                            );
                        }
                    }
                }
                if grounds.is_empty() { (grounds, Some(plain())) } else { (grounds, None) }
            }
            _ => (grounds, Some(plain())),
        }
    }

    fn boxed(&self) -> bool {
        let held = match self.view.family {
            Family::Shell => self.policy.boxed >= Boxed::Commands,
            Family::Looks | Family::Edits => self.policy.boxed >= Boxed::Files,
            _ => false,
        };
        held && self.policy.mode != Mode::Plan
    }

    fn touch_granted(&self, touch: &Touch) -> Result<Ground, String> {
        if is_nothing(&touch.path) {
            return Ok(Ground::ReadOnly);
        }
        let inside = |end: &crate::glob::Glob| {
            let copy = self.around.resolve(&self.around.worktree);
            touch.path.exact
                && end.text().is_some_and(|end| {
                    crate::path::below(&end, &self.around.worktree) || crate::path::below(&end, &copy)
                })
        };
        let free = !self.by_rules && (!touch.access.changes() || self.policy.mode == Mode::AcceptEdits);
        let mut ground =
            if touch.access.changes() { Ground::Mode { mode: self.policy.mode.word() } } else { Ground::ReadOnly };
        for end in [&touch.path.place, &touch.path.target] {
            if free && inside(end) {
                continue;
            }
            match self.policy.rules.allow.iter().find(|rule| rule.grants_end(touch, end, self.around)) {
                Some(rule) => ground = ground_of(rule),
                None if !touch.path.exact => return Err("which file it is is known only when it runs".to_owned()),
                None if inside(end) => return Err("no rule says anything about this file".to_owned()),
                None => return Err("it lies outside of the copy".to_owned()),
            }
        }
        Ok(ground)
    }

    pub(super) fn part_granted(&self, place: usize) -> Result<Ground, String> {
        let part = &self.view.parts[place];
        if self.boxed() {
            return Ok(Ground::Boxed);
        }
        for touch in part.touches.iter().filter(|touch| touch.redirect) {
            let named =
                |why| format!("the redirect would {} {}: {why}", touch.access.word(), safe(&touch.path.shown()));
            self.touch_granted(touch).map_err(named)?;
        }
        if let Some((name, _)) = part
            .assigns
            .iter()
            .find(|(name, _)| !if part.words.is_empty() { programs::is_own(name) } else { programs::is_harmless(name) })
        {
            return Err(format!("`{}` may change what runs", safe(name)));
        }
        if part.words.is_empty() || part.function {
            return Ok(Ground::ReadOnly);
        }
        let inner = part.inner.iter().map(|inner| self.part_granted(*inner)).collect::<Result<Vec<_>, _>>();
        if part.harmless {
            let grounds = inner?;
            return Ok(grounds.into_iter().find(|ground| *ground != Ground::ReadOnly).unwrap_or(Ground::ReadOnly));
        }
        if part.inner.is_empty() && !self.by_rules && self.only_looks(part) {
            return Ok(Ground::ReadOnly);
        }
        let name = part.program().unwrap_or_default();
        if name == "git" && part.elsewhere {
            return Err("it runs in another directory, whose settings may name programs".to_owned());
        }
        if let Some(rule) = self.policy.rules.allow.iter().find(|rule| rule.grants_command(part, inner.is_ok())) {
            return Ok(ground_of(rule));
        }
        if self.policy.mode == Mode::AcceptEdits && self.only_edits(&name, part) {
            return Ok(Ground::Mode { mode: self.policy.mode.word() });
        }
        Err(if part.is_by_name() {
            "no rule says anything about it".to_owned()
        } else {
            "it is called by a path, and may be any program".to_owned()
        })
    }

    fn only_looks(&self, part: &Part) -> bool {
        let Some(name) = part.program().filter(|_| part.is_by_name()) else { return false };
        let shape = Shape::of(&name, &part.words[1..]);
        let texts: Option<Vec<String>> = shape
            .operands
            .iter()
            .map(|(word, _)| word.exact().or_else(|| (!word.may_be_flag()).then(|| word.shown())))
            .collect();
        let turns = !programs::flags::turning(&name).is_empty();
        let flags: Option<Vec<String>> = shape.flags.iter().map(Arg::exact).collect();
        let unknown = part.words[1..].iter().any(|word| word.exact().is_none() && word.may_be_flag());
        let (Some(flags), false) = (flags, unknown && turns) else { return false };
        let texts = texts.unwrap_or_default();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        if !looks::only_looks(&name, &texts, &flags) {
            return false;
        }
        if name == "git"
            && (part.elsewhere || !self.policy.trusted || shape.values.iter().any(|(flag, _)| flag == "-C"))
        {
            return false;
        }
        let inside =
            |touch: &Touch| is_nothing(&touch.path) || self.around.is_inside(&touch.path) || self.wild_inside(touch);
        part.touches.iter().filter(|touch| !touch.redirect && (touch.certain || touch.path.exact)).all(inside)
            && part.touches.iter().all(|touch| !touch.access.changes() || touch.redirect)
    }

    /// Names that the shell finds below the copy, and goes nowhere else for.
    fn wild_inside(&self, touch: &Touch) -> bool {
        let start = touch.path.place.start();
        !touch.path.unknown
            && !touch.path.exact
            && !start.is_empty()
            && touch.access != Access::Write
            && crate::path::below(&start, &self.around.worktree)
            && start.len() > self.around.worktree.len()
    }

    /// `mkdir`, `touch`, `mv` and the like, on nothing but files of the copy.
    fn only_edits(&self, name: &str, part: &Part) -> bool {
        let shape = Shape::of(name, &part.words[1..]);
        let edits =
            matches!(name, "mkdir" | "rmdir" | "touch" | "mv" | "cp" | "rm") || (name == "sed" && plain_sed(&shape));
        let known = part.words[1..].iter().all(|word| word.exact().is_some());
        edits
            && part.is_by_name()
            && known
            && !part.touches.is_empty()
            && part.touches.iter().all(|touch| self.around.is_inside(&touch.path))
    }
}

/// A script of `sed` that starts nothing and writes nothing else: only `s` with plain flags.
fn plain_sed(shape: &Shape) -> bool {
    let scripts: Vec<String> = match shape
        .values
        .iter()
        .filter(|(flag, _)| flag == "-e" || flag == "--expression")
        .map(|(_, value)| value.exact())
        .collect::<Option<Vec<_>>>()
    {
        Some(scripts) if !scripts.is_empty() => scripts,
        Some(_) => shape.operands.first().and_then(|(word, _)| word.exact()).into_iter().collect(),
        None => return false,
    };
    let plain = |script: &String| {
        let mut letters = script.chars();
        let Some(between) = letters.next().filter(|letter| *letter == 's').and_then(|_| letters.next()) else {
            return false;
        };
        let rest: String = letters.collect();
        let end = rest.rsplit(between).next().unwrap_or_default();
        !rest.contains('\n') && end.chars().all(|letter| matches!(letter, 'g' | 'i' | 'I' | '0'..='9'))
    };
    !scripts.is_empty() && scripts.iter().all(plain)
}
