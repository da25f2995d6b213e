//! Typed ids: a prefix, `_`, and 26 characters of Crockford base32 of a UUID (`run_01h455vb4pex5vsknk084sn02q`).
//!
//! Ids of things that come from outside (flows, instances) are UUIDv7 and reach `decide` as inputs. Everything below a
//! flow is *derived*: a UUIDv8 of the parent id and a label, so that a decision that is repeated makes the same ids.
//! A derived id keeps the parent's 48-bit time stamp, so rows of one flow lie together in an index.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Crockford's base32 alphabet in lower case: no `i`, `l`, `o`, `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 128 bits in groups of five.
const TEXT_LEN: usize = 26;

/// Why a text is not an id of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The part before `_` is missing or names another kind of thing.
    #[error("`{text}` is not a {wanted} id: it must begin with `{wanted}_`")]
    Prefix {
        /// What was given.
        text: String,
        /// The prefix of the wanted kind.
        wanted: &'static str,
    },
    /// The part after the prefix is not 26 characters of base32.
    #[error("`{text}` is not an id: after the prefix it needs 26 characters of 0-9 and a-z without i, l, o, u")]
    Body {
        /// What was given.
        text: String,
    },
}

fn encode(value: u128) -> String {
    (0..TEXT_LEN)
        .rev()
        .map(|group| {
            let index = ((value >> (group * 5)) & 31) as usize;
            char::from(ALPHABET[index])
        })
        .collect()
}

fn decode(text: &str) -> Option<u128> {
    if text.len() != TEXT_LEN {
        return None;
    }
    let mut value: u128 = 0;
    for (position, byte) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|candidate| *candidate == byte)? as u128;
        // 26 groups hold 130 bits: the first character may use three bits only.
        if position == 0 && digit > 7 {
            return None;
        }
        value = (value << 5) | digit;
    }
    Some(value)
}

/// UUIDv8 with the parent's time stamp and 74 bits of SHA-256 over parent and label.
fn derive(parent: Uuid, label: &str) -> Uuid {
    let digest = Sha256::new().chain_update(parent.as_bytes()).chain_update(label.as_bytes()).finalize();
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[..6].copy_from_slice(&parent.as_bytes()[..6]);
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Uuid::from_bytes(bytes)
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The text before the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Takes a UUID that the caller made (UUIDv7 for things that come from outside).
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The id of a thing below `parent`; equal arguments give equal ids.
            #[must_use]
            pub fn derived(parent: Uuid, label: &str) -> Self {
                Self(derive(parent, label))
            }

            /// The bare UUID, to derive further ids from.
            #[must_use]
            pub const fn uuid(self) -> Uuid {
                self.0
            }

            /// The form for branch, host and file names: `-` for `_`.
            #[must_use]
            pub fn file_name(self) -> String {
                format!("{}-{}", $prefix, encode(self.0.as_u128()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}_{}", $prefix, encode(self.0.as_u128()))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let body = text
                    .strip_prefix($prefix)
                    .and_then(|rest| rest.strip_prefix('_'))
                    .ok_or_else(|| IdError::Prefix { text: text.to_owned(), wanted: $prefix })?;
                decode(body)
                    .map(|value| Self(Uuid::from_u128(value)))
                    .ok_or_else(|| IdError::Body { text: text.to_owned() })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id_type!(
    /// The tenant: repositories, pipelines, settings.
    WorkspaceId, "ws"
);
id_type!(
    /// One execution of a compiled pipeline.
    FlowId, "flow"
);
id_type!(
    /// One attempt at a step. It is the fence: every write and every external effect of the attempt carries it.
    RunId, "run"
);
id_type!(
    /// An intent in the outbox.
    EffectId, "eff"
);
id_type!(
    /// Something that waits for a person or an automatic answer.
    RequestId, "req"
);
id_type!(
    /// An agent of a workspace, or a pipeline as the author of commits.
    AgentId, "agent"
);
id_type!(
    /// A message in a conversation.
    MessageId, "msg"
);
id_type!(
    /// A reason why work below a scope may not start.
    HoldId, "hold"
);
id_type!(
    /// One call of a model. Ours: what providers name their answers by repeats and is missing.
    CallId, "call"
);
id_type!(
    /// One process of the orchestrator from start to end; never reused, not even by a restart.
    InstanceId, "inst"
);

impl WorkspaceId {
    /// The workspace named `default`, which exists until somebody needs two.
    #[must_use]
    pub fn default_workspace() -> Self {
        Self::derived(Uuid::nil(), "default")
    }
}

/// SHA-256 of a definition in its canonical form, as 64 hexadecimal characters. Names what a flow pinned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentHash(String);

/// Hashes content that comes in pieces.
#[derive(Clone, Debug, Default)]
pub struct ContentHasher(Sha256);

impl ContentHasher {
    /// Takes the next piece in.
    pub fn update(&mut self, bytes: &[u8]) {
        Digest::update(&mut self.0, bytes);
    }

    /// The hash of all pieces.
    #[must_use]
    pub fn finish(self) -> ContentHash {
        ContentHash(self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl ContentHash {
    /// Hashes canonical bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = ContentHasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The 64 hexadecimal characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_what_it_prints() {
        let id = RunId::from_uuid(Uuid::from_u128(0x0188_bac7_4afa_78aa_bc3b_bd1e_ef28_d881));
        assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
        assert_eq!(id.to_string().len(), "run_".len() + TEXT_LEN);
    }

    #[test]
    fn an_id_of_another_kind_is_refused() {
        let flow = FlowId::from_uuid(Uuid::from_u128(7)).to_string();
        assert!(matches!(flow.parse::<RunId>(), Err(IdError::Prefix { wanted: "run", .. })));
        // The first character may carry three bits only: 8 would be the 131st bit.
        assert!("run_8zzzzzzzzzzzzzzzzzzzzzzzzz".parse::<RunId>().is_err());
        assert!("run_7zzzzzzzzzzzzzzzzzzzzzzzzz".parse::<RunId>().is_ok());
    }

    #[test]
    fn derived_ids_are_stable_distinct_and_keep_the_time_stamp() {
        let parent = Uuid::from_u128(0x0188_bac7_4afa_78aa_bc3b_bd1e_ef28_d881);
        let one = RunId::derived(parent, "build#1");
        assert_eq!(one, RunId::derived(parent, "build#1"));
        assert_ne!(one, RunId::derived(parent, "build#2"));
        assert_eq!(one.uuid().as_bytes()[..6], parent.as_bytes()[..6]);
        assert_eq!(one.uuid().get_version_num(), 8);
    }
}
