//! File format of a stored listing: a header line with version and checksum, then JSON that
//! contains every definition byte for byte as the server sent it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::backend::Era;
use crate::catalog::{Definition, Listing, ServerCapabilities};
use mcp_workbench_wire::json::RawJson;

const MAGIC: &str = "mcp-workbench-listing";
/// Format version. Records of other versions are ignored.
const VERSION: &str = "1";

/// A server's listing, as of its last run.
#[derive(Clone, Debug)]
pub struct ListingRecord {
    /// Name in the configuration that last started it.
    pub server: String,
    pub era: Era,
    /// `true` if the server uses HTTP with SSE, the transport before streamable HTTP.
    pub is_old: bool,
    pub listing: Arc<Listing>,
}

impl ListingRecord {
    pub(crate) fn found(&self) -> ProtocolHint {
        ProtocolHint { era: self.era, uses_sse: self.is_old }
    }
}

/// The protocol and transport that last worked with a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProtocolHint {
    pub(crate) era: Era,
    pub(crate) uses_sse: bool,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ListingRecordError {
    #[error("damaged")]
    Damaged,
    #[error("old format")]
    OtherVersion,
    #[error("too large")]
    TooLarge,
}

#[derive(Serialize, Deserialize)]
struct Body<T> {
    server: String,
    era: String,
    // Absent in records of earlier releases.
    #[serde(default)]
    is_old: bool,
    instructions: Option<String>,
    abilities: ServerCapabilities,
    tools: Vec<T>,
    resources: Vec<T>,
    templates: Vec<T>,
    prompts: Vec<T>,
}

impl ListingRecord {
    pub(crate) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let Listing {
            tools,
            resources,
            templates,
            prompts,
            capabilities: abilities,
            instructions,
            violations: _,
        } = &*self.listing;
        let body = serde_json::to_vec(&Body {
            server: self.server.clone(),
            era: word(self.era).to_owned(),
            is_old: self.is_old,
            instructions: instructions.clone(),
            abilities: abilities.clone(),
            tools: tools.iter().map(|tool| &tool.raw).collect(),
            resources: resources.iter().map(|resource| &resource.raw).collect(),
            templates: templates.iter().map(|template| &template.raw).collect(),
            prompts: prompts.iter().map(|prompt| &prompt.raw).collect(),
        })?;
        let mut text = format!("{MAGIC} {VERSION} {}\n", checksum(&body)).into_bytes();
        text.extend_from_slice(&body);
        Ok(text)
    }

    /// Decodes a record, or fails if any byte of it was changed.
    pub(crate) fn decode(text: &[u8]) -> Result<Self, ListingRecordError> {
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(ListingRecordError::Damaged)?;
        let (head, body) = (&text[..end], &text[end + 1..]);
        let head = str::from_utf8(head).map_err(|_| ListingRecordError::Damaged)?;
        let words: Vec<_> = head.split(' ').collect();
        match *words {
            [MAGIC, VERSION, sum] if sum == checksum(body) => {}
            [MAGIC, version, ..] if version != VERSION => {
                return Err(ListingRecordError::OtherVersion);
            }
            _ => return Err(ListingRecordError::Damaged),
        }
        let body: Body<RawJson> =
            serde_json::from_slice(body).map_err(|_| ListingRecordError::Damaged)?;
        Ok(Self {
            server: body.server,
            era: era(&body.era)?,
            is_old: body.is_old,
            listing: Arc::new(Listing {
                tools: all(body.tools)?,
                resources: all(body.resources)?,
                templates: all(body.templates)?,
                prompts: all(body.prompts)?,
                capabilities: body.abilities,
                instructions: body.instructions,
                violations: BTreeMap::new(),
            }),
        })
    }
}

/// Parses definitions. Unusable ones were dropped before writing, so any is an error.
fn all<T: Definition>(raw: Vec<RawJson>) -> Result<Vec<Arc<T>>, ListingRecordError> {
    let (definitions, bad) = T::read_stored(raw);
    let is_usable = bad.iter().all(|entry| entry.is_repaired);
    if is_usable { Ok(definitions) } else { Err(ListingRecordError::Damaged) }
}

fn word(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn era(word: &str) -> Result<Era, ListingRecordError> {
    match word {
        "legacy" => Ok(Era::Legacy),
        "modern" => Ok(Era::Modern),
        _ => Err(ListingRecordError::Damaged),
    }
}

/// Detects truncation and accidental changes, not tampering.
fn checksum(body: &[u8]) -> String {
    hex::encode(Sha256::digest(body))
}

#[cfg(test)]
mod tests;
