//! The command adapter: any program.

use orc_domain::json_schema::JsonSchema;
use orc_domain::profile;
use orc_ports::adapter::{Adapter, AgentStart, MAX_PROMPT_BYTES, PrepareError, Prepared};

use crate::fold::CommandListener;
use crate::{environment, prompt};

/// Runs profiles with `adapter: command`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandAdapter;

impl Adapter for CommandAdapter {
    fn prepare(&self, start: &AgentStart) -> Result<Prepared, PrepareError> {
        let profile::Adapter::Command { argv } = &start.profile.adapter;
        let schema = start.schema.as_ref().map(JsonSchema::compile).transpose();
        let schema = schema.map_err(|source| PrepareError::Schema { source })?;
        let stdin = prompt::text(start).into_bytes();
        if stdin.len() > MAX_PROMPT_BYTES {
            return Err(PrepareError::PromptTooLong { bytes: stdin.len() });
        }
        let env = environment::variables(start);
        Ok(Prepared { argv: argv.clone(), env, stdin, listener: Box::new(CommandListener::new(schema)) })
    }
}

#[cfg(test)]
pub(crate) mod tests;
