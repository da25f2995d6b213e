//! Who would answer calls of models, and where each key is found; never its value. Nothing is sent anywhere.

use orc_domain::ids::InstanceId;
use orc_gateway::{Credential, ProviderKind as Made};
use orc_spec::settings::{ProviderKind, SecretSource, Settings};

use super::Finding;
use crate::context::Context;

const NAME: &str = "models";

/// Scripts, cassettes and prices are read as a start reads them.
pub(super) fn look(context: &Context, settings: &Settings) -> Finding {
    let instance = InstanceId::from_uuid(uuid::Uuid::now_v7());
    let shape = match context.gateway_shape(&settings.models, instance) {
        Ok(shape) => shape,
        Err(failure) => return Finding::fail(NAME, failure.line(), "`orchestrator run` would not begin either"),
    };
    let providers = settings.models.providers.value.iter().zip(&shape.providers).map(|(said, made)| {
        let how = match (&said.kind, &made.kind) {
            (ProviderKind::Script { file } | ProviderKind::Cassette { file, .. }, _) => file.clone(),
            (ProviderKind::Http { key: Some(source), .. }, Made::Http(http)) => {
                let place = match source {
                    SecretSource::Variable(name) | SecretSource::File(name) => name,
                };
                let found = !matches!(http.credential, Credential::Missing { .. });
                if found { format!("key in {place}") } else { format!("no key in {place}") }
            }
            (ProviderKind::Http { .. }, _) => "without a key".to_owned(),
        };
        format!("{} ({how})", said.name)
    });
    let providers = providers.collect::<Vec<_>>().join(", ");
    Finding::ok(NAME, format!("{providers}; prices of {} models", shape.prices.rows.len()))
}
