//! What a command agent finds in its environment: why it was woken, and the ids that belong to it.

use std::collections::BTreeMap;

use orc_ports::adapter::AgentStart;

/// Every variable that an agent may find, with its meaning, for the reference.
pub const VARIABLES: [(&str, &str); 14] = [
    ("ORC_WAKE_REASON", "why it was woken: `pipelineStep`, `recovery`, `userMessage` ..."),
    ("ORC_RUN_ID", "id of the run"),
    ("ORC_ATTEMPT", "1 for the first attempt"),
    ("ORC_FLOW_ID", "id of the flow"),
    ("ORC_STEP", "path of the step"),
    ("ORC_AGENT_ID", "id of the agent"),
    ("ORC_AGENT", "name of the agent"),
    ("ORC_MODE", "`mode:` of its profile"),
    ("ORC_ROLE", "`role:` of its profile, if it has one"),
    ("ORC_WORKSPACE_ID", "id of the workspace"),
    ("ORC_CONVERSATION_ID", "the history that it continues, if it has one"),
    ("ORC_SPACE_ID", "the thread that people see, if there is one"),
    ("ORC_MESSAGE_ID", "the message that woke it, if one did"),
    ("ORC_TICKET_ID", "the ticket, if there is one"),
];

/// The variables of a run: those of the profile, and ours over them.
#[must_use]
pub fn variables(start: &AgentStart) -> BTreeMap<String, String> {
    let AgentStart { profile, names, wake, .. } = start;
    let reason = wake.reasons.first().map(|(word, _)| (*word).to_owned());
    let ours = [
        ("ORC_WAKE_REASON", reason),
        ("ORC_RUN_ID", Some(names.run.to_string())),
        ("ORC_ATTEMPT", Some(names.attempt.to_string())),
        ("ORC_FLOW_ID", Some(names.flow.to_string())),
        ("ORC_STEP", Some(names.step.to_string())),
        ("ORC_AGENT_ID", Some(names.agent.clone())),
        ("ORC_AGENT", Some(profile.name.clone())),
        ("ORC_MODE", Some(profile.mode.word().to_owned())),
        ("ORC_ROLE", profile.role.clone()),
        ("ORC_WORKSPACE_ID", Some(names.workspace.to_string())),
        ("ORC_CONVERSATION_ID", names.conversation.clone()),
        ("ORC_SPACE_ID", names.space.clone()),
        ("ORC_MESSAGE_ID", names.message.clone()),
        ("ORC_TICKET_ID", names.ticket.clone()),
    ];
    let mut env = profile.env.clone();
    env.extend(ours.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    env
}
