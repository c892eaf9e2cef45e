//! `requestState`: what a dialogue has come to, signed, so that we need not remember it.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::wire::Fault;

/// Nobody is kept out by it: it only has to be unknown to a client that tries its luck.
const SECRET: &[u8] = b"the conformance server signs with this";

/// Where a dialogue is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) round: usize,
    pub(crate) answers: Map<String, Value>,
}

impl Progress {
    /// The text for the client, of which it makes nothing.
    pub(crate) fn seal(&self, name: &str) -> String {
        let body = json!({ "for": name, "round": self.round, "answers": self.answers }).to_string();
        format!("{}.{body}", signature(&body))
    }

    /// Reads back what we have sealed for this name; anything else is refused.
    pub(crate) fn open(text: &str, name: &str) -> Result<Self, Fault> {
        let body = text
            .split_once('.')
            .filter(|(signed, body)| *signed == signature(body))
            .and_then(|(_, body)| serde_json::from_str::<Value>(body).ok())
            .filter(|body| body["for"] == name)
            .ok_or_else(|| Fault::invalid_params("`requestState` is not what we have sent"))?;
        let round = body["round"].as_u64().and_then(|round| usize::try_from(round).ok());
        let answers = body["answers"].as_object().cloned().unwrap_or_default();
        Ok(Self { round: round.unwrap_or_default(), answers })
    }
}

fn signature(body: &str) -> String {
    let inner = Sha256::new().chain_update(SECRET).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(SECRET).chain_update(inner).finalize();
    hex(&outer)
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    format!("{:x}", Bytes::copy_from_slice(bytes))
}
