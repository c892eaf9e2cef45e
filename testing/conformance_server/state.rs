//! `requestState`: the progress of a dialogue, signed, so that the server stores nothing.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::wire::Fault;

/// Only has to be unknown to the suite's tampering scenario; not a real secret.
const SECRET: &[u8] = b"the conformance server signs with this";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) round: usize,
    pub(crate) answers: Map<String, Value>,
}

impl Progress {
    pub(crate) fn seal(&self, name: &str) -> String {
        let body = json!({ "for": name, "round": self.round, "answers": self.answers }).to_string();
        format!("{}.{body}", signature(&body))
    }

    /// Parses a token made by `seal` for the same `name`; rejects any other text.
    pub(crate) fn open(text: &str, name: &str) -> Result<Self, Fault> {
        let body = text
            .split_once('.')
            .filter(|(signed, body)| *signed == signature(body))
            .and_then(|(_, body)| serde_json::from_str::<Value>(body).ok())
            .filter(|body| body["for"] == name)
            .ok_or_else(|| Fault::invalid_params("`requestState` was not issued by this server"))?;
        let round = body["round"].as_u64().and_then(|round| usize::try_from(round).ok());
        let answers = body["answers"].as_object().cloned().unwrap_or_default();
        Ok(Self { round: round.unwrap_or_default(), answers })
    }
}

fn signature(body: &str) -> String {
    let inner = Sha256::new().chain_update(SECRET).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(SECRET).chain_update(inner).finalize();
    hex::encode(outer)
}
