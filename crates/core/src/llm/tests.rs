//! Tests against a fake endpoint on loopback.

mod embeddings;
mod endpoint;

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::llm::fake_endpoint::{FakeEndpoint, KEY, Reply, http_response};

/// A deadline that no test reaches.
pub(crate) fn later() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Limits that no test reaches.
pub(crate) fn amply() -> RequestLimits {
    RequestLimits { deadline: later(), requests: u32::MAX }
}
