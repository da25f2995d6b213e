//! Rules that hold for all agents: of settings files, of settings files of others, and those that answers left for ever.
//!
//! The last ones are lines of `rules.jsonl` in the data directory, where no agent ever looks: each says who answered, when and
//! about which agent. A line that is removed holds no longer.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use orc_domain::permission::{KeptRule, Permissions, Ruleset, Source};
use orc_ports::rulebook::{Rulebook, RulebookError};
use orc_spec::SourceFile;
use orc_spec::diagnostic::Severity;
use orc_spec::settings::{FileKind, Origin, PartialSettings, RuleFile, RuleSettings, Settings, rules_of_file};

use crate::context::Context;
use crate::host;
use crate::layers::{MANAGED, WORKSPACE};

/// Rules in files.
#[derive(Clone, Debug)]
pub(crate) struct FileRulebook {
    root: PathBuf,
    home: PathBuf,
    kept: PathBuf,
}

impl FileRulebook {
    /// That of a workspace with its data directory.
    pub(crate) fn of(context: &Context) -> Self {
        Self { root: context.root.clone(), home: host::home(), kept: context.data.root().join("rules.jsonl") }
    }

    /// Rules that answers left, in the order of the answers.
    pub(crate) fn kept(&self) -> Result<Vec<KeptRule>, RulebookError> {
        let Some(text) = read(&self.kept)? else { return Ok(Vec::new()) };
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let rule =
                serde_json::from_str(line).map_err(|error| failed(&self.kept, format!("line {}: {error}", at + 1)))?;
            rules.push(rule);
        }
        Ok(rules)
    }

    /// Writes all of them anew.
    pub(crate) fn replace(&self, rules: &[KeptRule]) -> Result<(), RulebookError> {
        let mut text = String::new();
        for rule in rules {
            let line = serde_json::to_string(rule).map_err(|error| failed(&self.kept, error.to_string()))?;
            text.push_str(&line);
            text.push('\n');
        }
        let aside = self.kept.with_extension("jsonl.new");
        let write = || {
            let mut file = fs::File::create(&aside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&aside, &self.kept)
        };
        write().map_err(|error| failed(&self.kept, error.to_string()))
    }

    fn settings(&self) -> Result<RuleSettings, RulebookError> {
        let layer = |path: &Path, name: &str, kind| -> Result<PartialSettings, RulebookError> {
            let Some(text) = read(path)? else { return Ok(PartialSettings::default()) };
            let (partial, problems) = PartialSettings::parse(&SourceFile::new(name, text), kind);
            match problems.iter().find(|problem| problem.severity == Severity::Error) {
                Some(problem) => Err(failed(path, problem.message.clone())),
                None => Ok(partial),
            }
        };
        let managed = layer(Path::new(MANAGED), MANAGED, FileKind::Managed)?;
        let workspace = layer(&self.root.join(WORKSPACE), WORKSPACE, FileKind::Workspace)?;
        Ok(Settings::resolve(&[managed, workspace]).rules)
    }

    fn path(&self, file: RuleFile) -> PathBuf {
        match file {
            RuleFile::Project => self.root.join(".claude/settings.json"),
            RuleFile::Local => self.root.join(".claude/settings.local.json"),
            RuleFile::User => self.home.join(".claude/settings.json"),
        }
    }
}

impl Rulebook for FileRulebook {
    fn rules(&self) -> Result<Vec<Ruleset>, RulebookError> {
        let settings = self.settings()?;
        let mut sets = Vec::new();
        for set in settings.sets {
            let (source, file) = match &set.origin {
                Origin::Managed(file, _) => (Source::Managed, file.clone()),
                origin => (Source::Project, origin.to_string()),
            };
            sets.push(Ruleset { source, file, agent: None, permissions: set.value });
        }
        for file in settings.files.value {
            let path = self.path(file);
            let Some(text) = read(&path)? else { continue };
            // A person's own file is theirs; a file of a repository speaks for whoever wrote there.
            let may_grant = settings.trusted.value || file == RuleFile::User;
            let permissions = rules_of_file(&text, may_grant).map_err(|why| failed(&path, why))?;
            let file_name = path.strip_prefix(&self.root).unwrap_or(&path).display().to_string();
            if !permissions.is_empty() {
                sets.push(Ruleset { source: file.source(), file: file_name, agent: None, permissions });
            }
        }
        for KeptRule { agent, rule, granted, by, request, .. } in self.kept()? {
            let (mut allow, mut deny) = (Vec::new(), Vec::new());
            if granted { &mut allow } else { &mut deny }.push(rule);
            let permissions = Permissions { allow, deny, ..Permissions::default() };
            let file = format!("the answer of {by} to {request}");
            sets.push(Ruleset { source: Source::Answers, file, agent: Some(agent), permissions });
        }
        Ok(sets)
    }

    fn keep(&self, rule: &KeptRule) -> Result<(), RulebookError> {
        let mut rules = self.kept()?;
        if rules.iter().any(|kept| kept.request == rule.request) {
            return Ok(());
        }
        rules.push(rule.clone());
        self.replace(&rules)
    }
}

/// What is in a file; none where there is none.
fn read(path: &Path) -> Result<Option<String>, RulebookError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(failed(path, error.to_string())),
    }
}

fn failed(path: &Path, why: String) -> RulebookError {
    RulebookError { file: path.display().to_string(), why }
}
