use std::collections::BTreeMap;

use orc_domain::agent::AgentOutcome;
use orc_domain::ids::{FlowId, RunId, WorkspaceId};
use orc_domain::profile::{DEFAULT_MAX_MESSAGES, DEFAULT_SILENCE, Mode, Profile};
use orc_domain::time::Timestamp;
use orc_domain::value::Text;
use orc_ports::adapter::{End, Letter, Names, Wake};
use orc_ports::executor::{Exit, Stream};
use uuid::Uuid;

use super::*;

pub(crate) fn start() -> AgentStart {
    let profile = Profile {
        name: "coder".to_owned(),
        description: None,
        adapter: profile::Adapter::Command { argv: vec!["agent".to_owned(), "--stdin".to_owned()] },
        role: None,
        mode: Mode::Work,
        silence_timeout: DEFAULT_SILENCE,
        max_concurrent: None,
        max_messages: DEFAULT_MAX_MESSAGES,
        model: None,
        env: BTreeMap::from([("LEVEL".to_owned(), "3".to_owned()), ("ORC_RUN_ID".to_owned(), "forged".to_owned())]),
        rules: orc_domain::confine::BoxRules::default(),
        permissions: orc_domain::permission::Permissions::default(),
        permission_mode: None,
        output: None,
        system_prompt: "You write code.".to_owned(),
    };
    let flow = FlowId::from_uuid(Uuid::from_u128(7));
    let letter = Letter {
        answer: None,
        id: "msg_1".to_owned(),
        from: "person:ada".to_owned(),
        at: Timestamp::from_millis(7000),
        text: Text::tainted("Use main."),
    };
    AgentStart {
        profile,
        schema: None,
        prompt: vec![Text::trusted("Fix the build.")],
        wake: Wake {
            reasons: vec![("userMessage", vec![("message", "msg_1".to_owned())]), ("pipelineStep", Vec::new())],
            messages: vec![letter],
            missing: None,
            continuation: None,
        },
        names: Names {
            run: RunId::derived(flow.uuid(), "build#2"),
            attempt: 2,
            flow,
            step: "build".parse().unwrap(),
            agent: "agent_1".to_owned(),
            workspace: WorkspaceId::default_workspace(),
            conversation: None,
            space: None,
            message: Some("msg_1".to_owned()),
            ticket: None,
        },
    }
}

#[test]
fn a_program_gets_its_prompt_and_its_ids() {
    let start = start();
    let Prepared { argv, env, stdin, .. } = CommandAdapter.prepare(&start).unwrap();
    assert_eq!(argv, ["agent", "--stdin"]);
    assert!(String::from_utf8(stdin).unwrap().ends_with("# What you are asked\nFix the build.\n"));
    let (run, flow, workspace) =
        (start.names.run.to_string(), start.names.flow.to_string(), start.names.workspace.to_string());
    let wanted = [
        ("LEVEL", "3"),
        ("ORC_AGENT", "coder"),
        ("ORC_AGENT_ID", "agent_1"),
        ("ORC_ATTEMPT", "2"),
        ("ORC_FLOW_ID", &flow),
        ("ORC_MESSAGE_ID", "msg_1"),
        ("ORC_MODE", "work"),
        ("ORC_RUN_ID", &run),
        ("ORC_STEP", "build"),
        ("ORC_WAKE_REASON", "userMessage"),
        ("ORC_WORKSPACE_ID", &workspace),
    ];
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(env, wanted);
    assert!(
        wanted
            .iter()
            .all(|(name, _)| *name == "LEVEL" || environment::VARIABLES.iter().any(|(known, _)| known == name))
    );
}

#[test]
fn the_listener_checks_against_the_schema() {
    let mut start = start();
    start.schema = Some(serde_json::json!({ "required": ["verdict"] }));
    let mut prepared = CommandAdapter.prepare(&start).unwrap();
    prepared.listener.hear(Stream::Stdout, b"{\"type\":\"output\",\"value\":{}}\n", Timestamp::from_millis(1));
    let result = prepared.listener.finish(End { exit: Exit::Code(0), stopped: None });
    let missing = "its output does not fit the schema: `verdict`: is missing".to_owned();
    assert_eq!(result.outcome, AgentOutcome::NoDeliverable { missing });
}

#[test]
fn what_cannot_be_started_says_why() {
    let mut start = start();
    start.schema = Some(serde_json::json!({ "type": "objekt" }));
    assert!(matches!(CommandAdapter.prepare(&start), Err(PrepareError::Schema { .. })));
    start.schema = None;
    start.prompt = vec![Text::trusted("x".repeat(MAX_PROMPT_BYTES))];
    let error = CommandAdapter.prepare(&start).unwrap_err();
    assert!(matches!(error, PrepareError::PromptTooLong { bytes } if bytes > MAX_PROMPT_BYTES), "{error}");
}
