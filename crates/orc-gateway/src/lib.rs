//! The model gateway: every call of a model passes here, is priced and limited before it leaves, and written down.
//!
//! Ring 3. It never decides about a run (it refuses calls and tells notices), never passes a provider's key to anybody, and
//! changes a request in three places only: credentials, the output limit, and `include_usage`.

mod beside;
mod call;
pub mod cassette;
mod face;
mod flight;
mod gateway;
mod http;
mod lane;
mod limiter;
pub mod provider;
mod redact;
mod retry_after;
mod scripted;
mod shape;
mod till;
mod token;
mod way;
pub mod wire;

pub use gateway::{BuildError, ModelGateway};
pub use http::{Upstream, UpstreamError};
pub use scripted::Scripted;
pub use shape::{
    Credential, HttpShape, Key, ProviderKind, ProviderShape, RateLimits, Recording, Shape, Times, Unpriced,
};
pub use token::TOKEN_PREFIX;
