//! Who commits: agents in their own name, never in a person's; and how whoever asked is named beside them.

use crate::ids::WorkspaceId;

/// The domain of agents' addresses unless the settings name one.
pub const DEFAULT_DOMAIN: &str = "agents.orchestrator.local";

/// Name and address of an agent: `coder (agent)`, `agent-01h4...@agents.orchestrator.local`. The address holds the agent's
/// id, which stays the same when somebody renames nothing but its title.
#[must_use]
pub fn agent_author(name: &str, workspace: WorkspaceId, domain: &str) -> (String, String) {
    author("agent", name, workspace, domain)
}

/// The same of a pipeline, whose `run:` steps commit.
#[must_use]
pub fn pipeline_author(name: &str, workspace: WorkspaceId, domain: &str) -> (String, String) {
    author("pipeline", name, workspace, domain)
}

fn author(kind: &str, name: &str, workspace: WorkspaceId, domain: &str) -> (String, String) {
    let id = crate::ids::AgentId::derived(workspace.uuid(), &format!("{kind} {name}")).file_name();
    let id = id.split_once('-').map_or(id.as_str(), |(_, digits)| digits);
    (format!("{} ({kind})", one_line(name)), format!("{kind}-{id}@{domain}"))
}

/// A text that git takes as a name: nothing that would end it or begin another line.
fn one_line(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() && !matches!(letter, '<' | '>')).collect()
}
