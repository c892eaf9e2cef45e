//! The serializable state of a sign-in attempt. Any process can complete an attempt from it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::{LoginRecord, unix_now};

/// How long the user has to complete a sign-in.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(5);

#[derive(Deserialize, Serialize)]
pub(crate) struct AttemptRecord {
    /// The `state` parameter (RFC 6749 §10.12).
    pub(crate) state: String,
    /// The PKCE code verifier. Empty for the device grant.
    pub(crate) verifier: String,
    pub(crate) asked: Vec<String>,
    pub(crate) resource: Option<String>,
    /// The record to store, complete except for the tokens.
    pub(crate) record: LoginRecord,
    /// Epoch of the login when the attempt began. A different epoch means that another sign-in won.
    pub(crate) before: u64,
    /// Expiry, in seconds since the Unix epoch.
    pub(crate) until: u64,
}

impl AttemptRecord {
    pub(crate) fn new(
        (state, verifier): (String, String),
        asked: Vec<String>,
        resource: Option<String>,
        record: LoginRecord,
        before: u64,
    ) -> Self {
        let until = unix_now().saturating_add(TIMEOUT.as_secs());
        Self { state, verifier, asked, resource, record, before, until }
    }

    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    /// Deserializes an attempt. `None` if it has expired.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let attempt = serde_json::from_slice::<Self>(text).ok()?;
        (attempt.record.is_known() && unix_now() < attempt.until).then_some(attempt)
    }
}
