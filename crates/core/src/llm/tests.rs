//! Requests to an endpoint on loopback, and what is made of its answers.

mod embeddings;
mod endpoint;

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::llm::scripted::{KEY, Reply, Scripted, answer};

/// Time enough for whatever is not about time.
pub(crate) fn later() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Limits that allow as many requests as one likes.
pub(crate) fn amply() -> Within {
    Within { until: later(), requests: u32::MAX }
}
