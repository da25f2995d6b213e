//! Which tools a run has, from its profile: those of the hands, and those that the loop does itself.

use std::collections::BTreeSet;

use orc_domain::profile::{BuiltIn, Mode};
use serde_json::{Value, json};

use crate::brain::{Kind, Tool};
use crate::hands::offers::{HandTool, tools as hand_tools};
use crate::place::Bounds;
use crate::talk::Offer;

/// The tool that submits the output.
pub const SUBMIT: &str = "submit_output";
/// The tool that says that it cannot go on.
pub const BLOCKED: &str = "report_blocked";
/// The tool that starts another agent.
pub const AGENT: &str = "Agent";
/// The tool that keeps the list.
pub const TODO: &str = "TodoWrite";

/// Tools in their order. What a profile disallows is not there, whoever allows it; the way to deliver, and the way to say
/// that one cannot, are always there.
#[must_use]
pub fn of(built_in: &BuiltIn, mode: Mode, schema: Option<&Value>, workers: &[String]) -> Vec<Tool> {
    let wanted = |name: &str| {
        let allowed: Option<&BTreeSet<String>> = built_in.tools.as_ref();
        allowed.is_none_or(|tools| tools.contains(name)) && !built_in.disallowed_tools.contains(name)
    };
    let mut tools: Vec<Tool> = hand_tools()
        .into_iter()
        .map(|tool| Tool { kind: kind(&tool), offer: offer(&tool) })
        .filter(|tool| wanted(&tool.offer.name) && (mode == Mode::Work || tool.kind != Kind::Changes))
        .collect();
    if wanted(TODO) {
        tools.push(todo());
    }
    if wanted(AGENT) && !workers.is_empty() {
        tools.push(agent(workers));
    }
    if let Some(schema) = schema {
        tools.push(submit(schema));
        tools.push(blocked());
    }
    tools
}

/// Bounds of a tool of the hands.
#[must_use]
pub fn bounds(name: &str) -> Bounds {
    let found = hand_tools().into_iter().find(|tool| tool.name == name);
    found.map_or(Bounds { bytes: 30_000, millis: 60_000 }, |tool| Bounds { bytes: tool.bytes, millis: tool.millis })
}

fn kind(tool: &HandTool) -> Kind {
    match tool.name {
        "Bash" => Kind::Shell,
        _ if tool.reads_only => Kind::Reads,
        // It ends what `Bash` began, and touches no file.
        "KillShell" => Kind::Reads,
        _ => Kind::Changes,
    }
}

fn offer(tool: &HandTool) -> Offer {
    Offer { name: tool.name.to_owned(), description: tool.description.to_owned(), schema: tool.schema.clone() }
}

fn todo() -> Tool {
    let description = "Keeps the list of what is to be done, which people see. Use it for work of three parts or more: write the \
                       parts down first, keep exactly one `in_progress`, and mark each `completed` as soon as it is. Not for a \
                       single small step. The list that you send replaces the one before.";
    let schema = json!({
        "type": "object",
        "properties": { "todos": { "type": "array", "items": {
            "type": "object",
            "properties": {
                "content": { "type": "string", "description": "What is to be done, as an order" },
                "activeForm": { "type": "string", "description": "The same while it is being done" },
                "status": { "enum": ["pending", "in_progress", "completed"] },
            },
            "required": ["content", "status"],
        } } },
        "required": ["todos"],
    });
    Tool { kind: Kind::Todo, offer: Offer { name: TODO.to_owned(), description: description.to_owned(), schema } }
}

fn agent(workers: &[String]) -> Tool {
    let description = "Starts another agent on a part of the work and waits for its last answer. Use it for parts that stand for \
                       themselves: a search through much code, a review, changes that do not touch yours. It knows nothing of this \
                       conversation: say what it is to do, what it needs to know, and what it is to tell you. Several calls in one \
                       answer run at the same time. Not for what one or two calls of your own would do.";
    let schema = json!({
        "type": "object",
        "properties": {
            "description": { "type": "string", "description": "What it does, in a few words" },
            "prompt": { "type": "string", "description": "All that it is told" },
            "subagent_type": { "enum": workers, "description": "Which agent" },
        },
        "required": ["prompt", "subagent_type"],
    });
    Tool { kind: Kind::Agent, offer: Offer { name: AGENT.to_owned(), description: description.to_owned(), schema } }
}

/// Providers take only objects as inputs, a schema may ask for anything.
fn submit(schema: &Value) -> Tool {
    let description = "Submits the output of this run and ends it. The input is checked; when it does not fit you are told what \
                       is wrong and can call it again.";
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    let schema = if is_object {
        schema.clone()
    } else {
        json!({ "type": "object", "properties": { "output": schema }, "required": ["output"] })
    };
    let offer = Offer { name: SUBMIT.to_owned(), description: description.to_owned(), schema };
    Tool { kind: Kind::Submit { wrapped: !is_object }, offer }
}

fn blocked() -> Tool {
    let description = "Says that you cannot go on, or that there is nothing to deliver, and ends the run. Use it instead of an \
                       output that you would have to make up.";
    let schema = json!({
        "type": "object",
        "properties": { "why": { "type": "string", "minLength": 1, "description": "What is missing, and who could help" } },
        "required": ["why"],
    });
    Tool { kind: Kind::Blocked, offer: Offer { name: BLOCKED.to_owned(), description: description.to_owned(), schema } }
}
