//! The model gateway: every call of a model passes here, is priced and limited before it leaves, and written down.
//!
//! Ring 3. It never decides about a run (it refuses calls and tells notices), never passes a provider's key to anybody, and
//! changes a request in three places only: credentials, the output limit, and `include_usage`.

pub mod provider;
mod scripted;
mod shape;
pub mod wire;

pub use scripted::Scripted;
pub use shape::{Credential, HttpShape, Key, ProviderKind, ProviderShape, RateLimits, Shape, Times, Unpriced};
