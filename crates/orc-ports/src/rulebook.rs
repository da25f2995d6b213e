//! Rules of permissions that hold beside those of pipelines and profiles: of the machine's owner, of settings, and those that
//! answers left.

use orc_domain::permission::{KeptRule, Ruleset};

/// Where such rules are read, and where those of answers are kept.
pub trait Rulebook: Send + Sync {
    /// Every rule in force, read anew: what was written since holds for what begins now.
    ///
    /// # Errors
    /// [`RulebookError`]: what cannot be read may hold a deny, so nothing begins without it.
    fn rules(&self) -> Result<Vec<Ruleset>, RulebookError>;

    /// Keeps a rule. One of the same request is kept once.
    ///
    /// # Errors
    /// [`RulebookError`]: nothing was kept.
    fn keep(&self, rule: &KeptRule) -> Result<(), RulebookError>;
}

/// Why rules cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub struct RulebookError {
    /// Which file.
    pub file: String,
    /// Why, and where in it.
    pub why: String,
}
