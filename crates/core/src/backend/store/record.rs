//! The form of a stored listing: one line that describes the rest, and the rest as JSON, in which
//! every definition is the bytes that the server sent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::backend::Era;
use crate::backend::store::fingerprint::hex;
use crate::catalog::{Abilities, Definition, Listing};
use crate::raw::Raw;

/// How the first line begins.
const MAGIC: &str = "mcp-workbench-listing";
/// Which form the rest has; what has another is not read.
const VERSION: &str = "1";

/// The knowledge of a server from the last time that it ran.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its name in the configuration it was last started by.
    pub server: String,
    /// The era that worked.
    pub era: Era,
    /// `true` if it was spoken to by HTTP with SSE, the transport before streamable HTTP.
    pub is_old: bool,
    /// Its listing.
    pub listing: Arc<Listing>,
}

impl Record {
    /// The way in which it was spoken to.
    pub(crate) fn found(&self) -> Found {
        Found { era: self.era, is_old: self.is_old }
    }
}

/// The way in which a server was last spoken to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) era: Era,
    /// `true` if that was by HTTP with SSE.
    pub(crate) is_old: bool,
}

/// Why a stored listing is not used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// It is not what was once written.
    #[error("damaged")]
    Damaged,
    /// Another release of the workbench has written it.
    #[error("of another version")]
    OtherVersion,
    /// It is larger than anything that is written.
    #[error("too large")]
    TooLarge,
}

/// A record as JSON, definitions as raw text.
#[derive(Serialize, Deserialize)]
struct Body<T> {
    server: String,
    era: String,
    // Earlier releases have not written it.
    #[serde(default)]
    is_old: bool,
    instructions: Option<String>,
    abilities: Abilities,
    tools: Vec<T>,
    resources: Vec<T>,
    templates: Vec<T>,
    prompts: Vec<T>,
}

impl Record {
    /// The text of the file.
    pub(crate) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let Listing { tools, resources, templates, prompts, abilities, instructions } =
            &*self.listing;
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

    /// Reads the text of a file: whole and as it was written, or not at all.
    pub(crate) fn decode(text: &[u8]) -> Result<Self, Unusable> {
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(Unusable::Damaged)?;
        let (head, body) = (&text[..end], &text[end + 1..]);
        let head = str::from_utf8(head).map_err(|_| Unusable::Damaged)?;
        let words: Vec<_> = head.split(' ').collect();
        match *words {
            [MAGIC, VERSION, sum] if sum == checksum(body) => {}
            [MAGIC, version, ..] if version != VERSION => return Err(Unusable::OtherVersion),
            _ => return Err(Unusable::Damaged),
        }
        let body: Body<Raw> = serde_json::from_slice(body).map_err(|_| Unusable::Damaged)?;
        Ok(Self {
            server: body.server,
            era: era(&body.era)?,
            is_old: body.is_old,
            listing: Arc::new(Listing {
                tools: all(body.tools)?,
                resources: all(body.resources)?,
                templates: all(body.templates)?,
                prompts: all(body.prompts)?,
                abilities: body.abilities,
                instructions: body.instructions,
            }),
        })
    }
}

/// Reads definitions, of which none is malformed: those that are were left out before.
fn all<T: Definition>(raw: Vec<Raw>) -> Result<Vec<Arc<T>>, Unusable> {
    let (definitions, bad) = T::read_all(raw);
    if bad.is_empty() { Ok(definitions) } else { Err(Unusable::Damaged) }
}

fn word(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn era(word: &str) -> Result<Era, Unusable> {
    match word {
        "legacy" => Ok(Era::Legacy),
        "modern" => Ok(Era::Modern),
        _ => Err(Unusable::Damaged),
    }
}

/// It tells what was cut or changed by accident from what was written.
fn checksum(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}

#[cfg(test)]
mod tests;
