//! The command adapter: any program. The built-in agent, which is no program, is told and heard in the same way: only what
//! it is told by its own system text is not said again.

use orc_domain::json_schema::JsonSchema;
use orc_domain::profile;
use orc_ports::adapter::{Adapter, AgentStart, MAX_PROMPT_BYTES, PrepareError, Prepared};

use crate::fold::CommandListener;
use crate::{environment, prompt};

/// Prepares runs of programs, and of the built-in agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandAdapter;

impl Adapter for CommandAdapter {
    fn prepare(&self, start: &AgentStart) -> Result<Prepared, PrepareError> {
        let schema = start.schema.as_ref().map(JsonSchema::compile).transpose();
        let schema = schema.map_err(|source| PrepareError::Schema { source })?;
        let (argv, text) = match &start.profile.adapter {
            profile::Adapter::Command { argv } => (argv.clone(), prompt::text(start)),
            profile::Adapter::BuiltIn(_) => (Vec::new(), prompt::what_it_is_asked(start)),
        };
        let stdin = text.into_bytes();
        if stdin.len() > MAX_PROMPT_BYTES {
            return Err(PrepareError::PromptTooLong { bytes: stdin.len() });
        }
        let env = environment::variables(start);
        Ok(Prepared { argv, env, stdin, listener: Box::new(CommandListener::new(schema)) })
    }
}

#[cfg(test)]
pub(crate) mod tests;
