//! `notifications:` of the settings as what tells people. Variables of the environment are read here, once, when a command
//! becomes the holder; what is not set is told each time that somebody should have been told.

use std::collections::BTreeSet;

use orc_notify::{Channel, Channels, Way};
use orc_ports::notifier::Moment;
use orc_spec::settings::{self, Address, Notification, Settings, Target};

use crate::args::LimitArgs;
use crate::context::Context;
use crate::failure::CommandResult;
use crate::host;

impl Context {
    /// Whoever is told, by the settings of now.
    pub(crate) fn notifier(&self) -> CommandResult<Channels> {
        let settings = self.settings(&LimitArgs::default())?;
        let channels = settings.notifications.value.iter().map(|notification| self.channel(notification, &settings));
        Ok(Channels::new(channels.collect()))
    }

    fn channel(&self, notification: &Notification, settings: &Settings) -> Channel {
        let (name, way) = match &notification.target {
            Target::Command(argv) => {
                let program = argv.first().cloned().unwrap_or_default();
                let env = host::passed_variables(&settings.pass_env.value);
                (format!("command `{program}`"), Way::Command { argv: argv.clone(), directory: self.root.clone(), env })
            }
            Target::Webhook { url, secret } => webhook(url, secret.as_deref()),
        };
        Channel { name, on: moments(&notification.on), way }
    }
}

fn webhook(url: &Address, secret: Option<&str>) -> (String, Way) {
    let (name, url) = match url {
        // What stands behind the host may be a secret.
        Address::Url(url) => (format!("webhook {}", host_of(url)), Ok(url.clone())),
        Address::Variable(name) => (format!("webhook env:{name}"), host::variable(name).ok_or_else(|| name.clone())),
    };
    let secret = secret.map(|name| host::variable(name).ok_or_else(|| name.to_owned())).transpose();
    let way = match (url, secret) {
        (Ok(url), Ok(secret)) => Way::Webhook { url, secret },
        // Without its secret it would go out unsigned, which nobody asked for.
        (Err(variable), _) | (_, Err(variable)) => Way::Missing { variable },
    };
    (name, way)
}

/// `https://host`, without anything behind it or a password in it.
fn host_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

fn moments(on: &BTreeSet<settings::Moment>) -> BTreeSet<Moment> {
    let moment = |moment: &settings::Moment| match moment {
        settings::Moment::Request => Moment::Request,
        settings::Moment::Incident => Moment::Incident,
        settings::Moment::FlowFailed => Moment::FlowFailed,
    };
    on.iter().map(moment).collect()
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn an_address_is_named_by_its_host_alone() {
        assert_eq!(host_of("https://user:secret@hooks.example.com:8443/T0/key?x=1"), "https://hooks.example.com:8443");
        assert_eq!(host_of("http://example.com"), "http://example.com");
    }
}
