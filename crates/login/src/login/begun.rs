//! Attempts to sign in that have begun: all that is needed to end one, here or in another process.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::login::record::{Record, now};

/// How long somebody may take to agree.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// One attempt to sign in.
#[derive(Deserialize, Serialize)]
pub(crate) struct Attempt {
    /// The `state` of the answer (RFC 6749 §10.12).
    pub(crate) state: String,
    /// The proof that who brings the code has asked for it.
    pub(crate) verifier: String,
    /// The scopes that are asked for.
    pub(crate) asked: Vec<String>,
    /// The resource that the token is to be for.
    pub(crate) resource: Option<String>,
    /// The record that will be kept, but for the token.
    pub(crate) record: Record,
    /// The login that there was when it began; any other puts an end to it.
    pub(crate) before: u64,
    /// Until when an answer is taken, in seconds since 1970.
    pub(crate) until: u64,
}

impl Attempt {
    /// An attempt that begins now.
    pub(crate) fn new(
        (state, verifier): (String, String),
        asked: Vec<String>,
        resource: Option<String>,
        record: Record,
        before: u64,
    ) -> Self {
        let until = now().saturating_add(PATIENCE.as_secs());
        Self { state, verifier, asked, resource, record, before, until }
    }

    /// Its text, with all of its secrets.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    /// Reads an attempt whose time is not over.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let attempt = serde_json::from_slice::<Self>(text).ok()?;
        (attempt.record.is_known() && now() < attempt.until).then_some(attempt)
    }
}
