//! Eras on the agent's side: a property of each request, read from its `_meta`.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use rmcp::model::ProtocolVersion;
use serde_json::json;

use crate::backend::Outcome;
use crate::exposure::Surface;
use crate::gateway::LogLevel;
use crate::raw::{self, Member, Raw};
use crate::state::Program;
use crate::wire::code::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, URL_ELICITATION_REQUIRED,
};
use crate::wire::incoming::error_object;

const PREFIX: &str = "io.modelcontextprotocol/";
/// The members in which a request tells of its client. They are never passed on, for the next hop
/// sends its own.
const RESERVED: [&str; 5] =
    ["protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "subscriptionId"];

/// The `_meta` of a request, sorted by who it is for.
#[derive(Debug)]
pub(crate) struct RequestMeta {
    /// `true` if the request is of the modern form (2026-07-28).
    pub(crate) is_modern: bool,
    /// The client's capabilities, as written; modern requests only.
    pub(crate) capabilities: Option<Raw>,
    /// The client's program; modern requests only.
    pub(crate) client: Option<Program>,
    /// The level of servers' logs that it wants to hear; modern requests only.
    pub(crate) log: Option<LogLevel>,
    /// The token that the agent wants progress under.
    pub(crate) progress_token: Option<Raw>,
    /// The members that go on to the server.
    pub(crate) passed_on: Vec<Member>,
}

impl RequestMeta {
    /// Reads a request's `_meta`; an error is the error object to answer with.
    pub(crate) fn read(meta: Option<&Raw>) -> Result<Self, Raw> {
        let mut read = Self::legacy();
        let not_an_object = || error_object(INVALID_PARAMS, "`_meta` is not an object", None);
        let members = meta.map(|meta| meta.each_member().ok_or_else(not_an_object)).transpose()?;
        for member in members.into_iter().flatten() {
            let (key, value) = member.ok_or_else(not_an_object)?;
            let reserved = key.strip_prefix(PREFIX).filter(|key| RESERVED.contains(key));
            match (reserved, &*key) {
                (Some("protocolVersion"), _) => read.is_modern = is_modern(&value)?,
                (Some("clientCapabilities"), _) => read.capabilities = Some(value),
                (Some("clientInfo"), _) => {
                    let text = |key| value.member(key).and_then(|text| text.parse().ok());
                    read.client = Some(Program {
                        name: text("name").unwrap_or_default(),
                        version: text("version").unwrap_or_default(),
                    });
                }
                (Some("logLevel"), _) => {
                    read.log =
                        value.parse().ok().and_then(|word: String| LogLevel::from_word(&word));
                }
                (Some(_), _) => {}
                (None, "progressToken") => read.progress_token = Some(value),
                (None, _) => read.passed_on.push((key, value)),
            }
        }
        if read.is_modern && read.capabilities.is_none() {
            let message = format!("request _meta is missing `{PREFIX}clientCapabilities`");
            return Err(error_object(INVALID_PARAMS, &message, None));
        }
        Ok(read)
    }

    /// The facts in a request of the older revisions: none.
    pub(crate) fn legacy() -> Self {
        Self {
            is_modern: false,
            capabilities: None,
            client: None,
            log: None,
            progress_token: None,
            passed_on: Vec::new(),
        }
    }

    /// The kind of tool list that the request's form allows.
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
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MEMBER));
    let mentions = FINDER.find(result.as_bytes()).is_some();
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

/// Gives an answer the form of the agent's era.
pub(crate) fn fit(outcome: Outcome, is_modern: bool) -> Outcome {
    match outcome {
        Outcome::Result(result) => Outcome::Result(fit_result(result, is_modern)),
        error @ Outcome::Error(_) => error,
    }
}

/// A server's answer, which says nothing that an agent would take for our own.
pub(crate) fn harmless(outcome: Outcome, is_modern: bool) -> Outcome {
    match outcome {
        Outcome::Error(error) => Outcome::Error(fit_error(error, is_modern)),
        result @ Outcome::Result(_) => result,
    }
}

/// A server's error object as it is, but for codes that speak of the connection: they would make
/// the agent renegotiate with us what concerns the server alone. What a modern agent would have to
/// be able to do concerns its request, and is told. The older code for a resource that is not
/// there is put into the newer one.
fn fit_error(error: Raw, is_modern: bool) -> Raw {
    #[derive(serde::Deserialize)]
    struct Code {
        code: i64,
    }

    match (error.parse::<Code>().map(|error| error.code), is_modern) {
        (Ok(MISSING_CAPABILITY), true) => error,
        (Ok(METHOD_NOT_FOUND | UNSUPPORTED_PROTOCOL_VERSION..=HEADER_MISMATCH), _)
        | (Ok(URL_ELICITATION_REQUIRED), true) => error_object(
            INTERNAL_ERROR,
            "the server answered with an error of the protocol",
            Some(&raw::object([("error", &error)])),
        ),
        (Ok(RESOURCE_NOT_FOUND), true) => {
            error.with_member("code", &Raw::encode(&INVALID_PARAMS)).unwrap_or(error)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
