//! Eras on the agent's side: a property of each request, read from its `_meta`.

use rmcp::model::ProtocolVersion;
use serde_json::json;

use crate::exposure::Surface;
use crate::raw::Raw;
use crate::wire::agent::error_object;

/// JSON-RPC: the parameters are not what the method takes.
const INVALID_PARAMS: i64 = -32602;
/// MCP 2026-07-28: the request speaks a revision that is not served.
const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

const PREFIX: &str = "io.modelcontextprotocol/";
/// What a request says of its client; never passed on, for the next hop says its own.
const RESERVED: [&str; 5] =
    ["protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "subscriptionId"];

/// The `_meta` of a request, sorted by who it is for.
#[derive(Debug)]
pub(crate) struct RequestMeta {
    /// Whether the request is of the modern form (2026-07-28).
    pub(crate) is_modern: bool,
    /// The token that the agent wants progress under.
    pub(crate) progress_token: Option<Raw>,
    /// What goes on to the server.
    pub(crate) passed_on: Vec<(String, Raw)>,
}

impl RequestMeta {
    /// Reads a request's `_meta`; an error is the error object to answer with.
    pub(crate) fn read(meta: Option<&Raw>) -> Result<Self, Raw> {
        let mut read = Self { is_modern: false, progress_token: None, passed_on: Vec::new() };
        let mut says_capabilities = false;
        let members = meta.map(|meta| {
            meta.members()
                .ok_or_else(|| error_object(INVALID_PARAMS, "`_meta` is not an object", None))
        });
        for (key, value) in members.transpose()?.unwrap_or_default() {
            let reserved = key.strip_prefix(PREFIX).filter(|key| RESERVED.contains(key));
            match (reserved, key.as_str()) {
                (Some("protocolVersion"), _) => read.is_modern = is_modern(&value)?,
                (Some("clientCapabilities"), _) => says_capabilities = true,
                (Some(_), _) => {}
                (None, "progressToken") => read.progress_token = Some(value),
                (None, _) => read.passed_on.push((key, value)),
            }
        }
        if read.is_modern && !says_capabilities {
            let message = format!("request _meta is missing `{PREFIX}clientCapabilities`");
            return Err(error_object(INVALID_PARAMS, &message, None));
        }
        Ok(read)
    }

    /// What the request's form allows of tool lists.
    pub(crate) fn surface(&self) -> Surface {
        if self.is_modern { Surface::Constant } else { Surface::Changing }
    }
}

fn is_modern(version: &Raw) -> Result<bool, Raw> {
    let known = ProtocolVersion::KNOWN_VERSIONS;
    match version.parse::<ProtocolVersion>() {
        Ok(version) if known.contains(&version) => Ok(!version.has_initialize()),
        _ => {
            let data =
                json!({"supported": known, "requested": version.parse::<serde_json::Value>().ok()});
            Err(error_object(
                UNSUPPORTED_PROTOCOL_VERSION,
                "unsupported protocol version",
                Some(&Raw::encode(&data)),
            ))
        }
    }
}

/// Gives a server's result the form of the agent's era: the modern one says in every result
/// whether it is complete, the older ones do not know that member.
pub(crate) fn fit_result(result: Raw, is_modern: bool) -> Raw {
    const MEMBER: &str = "resultType";
    let mentions = memchr::memmem::find(result.as_bytes(), MEMBER.as_bytes()).is_some();
    let fitted = if is_modern {
        let says = mentions
            && result.members().is_some_and(|members| members.iter().any(|(key, _)| key == MEMBER));
        if says { None } else { result.with_first(&[(MEMBER, &Raw::encode(&"complete"))]) }
    } else if mentions {
        result.without_member(MEMBER)
    } else {
        None
    };
    fitted.unwrap_or(result)
}

#[cfg(test)]
mod tests;
