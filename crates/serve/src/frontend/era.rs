//! Protocol eras of agents. The era is a property of each request, read from its `_meta`.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use rmcp::model::ProtocolVersion;
use serde_json::json;

use crate::exposure::ListMutability;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::LogLevel;
use mcp_workbench_core::state::ClientInfo;
use mcp_workbench_wire::code::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, URL_ELICITATION_REQUIRED,
};
use mcp_workbench_wire::incoming::{edit_error, error_object};
use mcp_workbench_wire::json::{self, EditError, Member, RawJson, similar};

const PREFIX: &str = "io.modelcontextprotocol/";
/// Members that the gateway reads. Those with the prefix describe the client and aren't forwarded:
/// the gateway sends its own to servers.
const READ: [&str; 6] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/subscriptionId",
    "progressToken",
];

/// The metadata of a request, which decides its era.
#[derive(Debug)]
pub struct RequestMeta {
    /// `true` for revision 2026-07-28.
    pub(crate) is_modern: bool,
    /// As the client sent them; modern requests only.
    pub(crate) capabilities: Option<RawJson>,
    /// Modern requests only.
    pub(crate) client: Option<ClientInfo>,
    /// The lowest level of servers' log messages to send; modern requests only.
    pub(crate) log: Option<LogLevel>,
    pub(crate) progress_token: Option<RawJson>,
    pub(crate) forwarded: Vec<Member>,
}

impl RequestMeta {
    /// Parses `_meta`. The error is the JSON-RPC error object to answer with.
    pub fn read(meta: Option<&RawJson>) -> Result<Self, RawJson> {
        let mut read = Self::legacy();
        let not_an_object = || error_object(INVALID_PARAMS, "`_meta` is not an object", None);
        let members = meta.map(|meta| meta.members().ok_or_else(not_an_object)).transpose()?;
        let members = members.unwrap_or_default();
        check_names(&members, &READ)?;
        for (key, value) in members {
            let reserved = key.strip_prefix(PREFIX).filter(|_| READ.contains(&&*key));
            match (reserved, &*key) {
                (Some("protocolVersion"), _) => read.is_modern = is_modern(&value)?,
                (Some("clientCapabilities"), _) => read.capabilities = Some(value),
                (Some("clientInfo"), _) => {
                    let text = |key| value.member(key).and_then(|text| text.parse().ok());
                    read.client = Some(ClientInfo {
                        name: text("name").unwrap_or_default(),
                        version: text("version").unwrap_or_default(),
                    });
                }
                (Some("logLevel"), _) => {
                    read.log =
                        value.parse().ok().and_then(|word: String| LogLevel::from_word(&word));
                }
                (Some(_), _) => {}
                (None, "progressToken") => {
                    if value.as_bytes().starts_with(b"\"") && value.decode_string().is_none() {
                        let message = "`progressToken` is not valid Unicode";
                        return Err(error_object(INVALID_PARAMS, message, None));
                    }
                    read.progress_token = Some(value);
                }
                (None, _) => read.forwarded.push((key, value)),
            }
        }
        if read.is_modern && read.capabilities.is_none() {
            let message = format!("request _meta is missing `{PREFIX}clientCapabilities`");
            return Err(error_object(INVALID_PARAMS, &message, None));
        }
        Ok(read)
    }

    pub(crate) fn legacy() -> Self {
        Self {
            is_modern: false,
            capabilities: None,
            client: None,
            log: None,
            progress_token: None,
            forwarded: Vec::new(),
        }
    }

    pub(crate) fn list_mutability(&self) -> ListMutability {
        if self.is_modern { ListMutability::Fixed } else { ListMutability::Mutable }
    }
}

/// Rejects names that are repeated or differ only in case, from each other or from one in `read`:
/// checks could read one member and the server another.
pub(crate) fn check_names(members: &[Member], read: &[&str]) -> Result<(), RawJson> {
    let refuse = |message: &str| Err(error_object(INVALID_PARAMS, message, None));
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    names.sort_by(|one, other| similar::compare(one, other));
    for pair in names.windows(2) {
        match *pair {
            [one, other] if one == other => {
                return refuse(&format!("the parameter `{one}` is repeated"));
            }
            [one, other] if similar::is_similar(one, other) => {
                return refuse(&format!(
                    "the parameters `{one}` and `{other}` differ only in case"
                ));
            }
            _ => {}
        }
    }
    for name in names {
        let is_variant = |known: &&&str| **known != name && similar::is_similar(known, name);
        if let Some(known) = read.iter().find(is_variant) {
            return refuse(&format!("the parameter `{name}` must be spelled `{known}`"));
        }
    }
    Ok(())
}

fn is_modern(version: &RawJson) -> Result<bool, RawJson> {
    let known = ProtocolVersion::KNOWN_VERSIONS;
    match version.parse::<ProtocolVersion>() {
        Ok(version) if known.contains(&version) => Ok(!version.has_initialize()),
        _ => {
            let data =
                json!({"supported": known, "requested": version.parse::<serde_json::Value>().ok()});
            Err(error_object(
                UNSUPPORTED_PROTOCOL_VERSION,
                "unsupported protocol version",
                Some(&RawJson::encode(&data)),
            ))
        }
    }
}

/// Modern results have a `resultType`, which older revisions don't know.
pub(crate) fn adapt_result(result: RawJson, is_modern: bool) -> Result<RawJson, EditError> {
    const MEMBER: &str = "resultType";
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MEMBER));
    // JSON escapes letters only as `\u…`, which would hide the word.
    static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r"\u"));
    if !result.as_bytes().starts_with(b"{") {
        // Not a result of MCP, so it has no type.
        return Ok(result);
    }
    let mentions = [&*FINDER, &*ESCAPED].iter().any(|it| it.find(result.as_bytes()).is_some());
    let says = mentions && result.member(MEMBER).is_some();
    match (is_modern, says) {
        (true, false) => result.with_first(&[(MEMBER, &RawJson::encode(&"complete"))]),
        (false, true) => result.without_member(MEMBER),
        _ => Ok(result),
    }
}

pub(crate) fn adapt_outcome(outcome: RpcOutcome, is_modern: bool) -> RpcOutcome {
    match outcome {
        RpcOutcome::Result(result) => RpcOutcome::from_edit(adapt_result(result, is_modern)),
        error @ RpcOutcome::Error(_) => error,
    }
}

/// Changes errors of a server that an agent would take for the gateway's own.
pub(crate) fn sanitize_outcome(outcome: RpcOutcome, is_modern: bool) -> RpcOutcome {
    match outcome {
        RpcOutcome::Error(error) => RpcOutcome::Error(fit_error(error, is_modern)),
        result @ RpcOutcome::Result(_) => result,
    }
}

/// Wraps error codes that concern the connection, because the agent would renegotiate with the
/// gateway instead of the server. A missing client capability is passed on to modern agents, since
/// it concerns their request. They also get the newer code for an unknown resource.
fn fit_error(error: RawJson, is_modern: bool) -> RawJson {
    #[derive(serde::Deserialize)]
    struct Code {
        code: i64,
    }

    match (error.parse::<Code>().map(|error| error.code), is_modern) {
        (Ok(MISSING_CAPABILITY), true) => error,
        (Ok(METHOD_NOT_FOUND | UNSUPPORTED_PROTOCOL_VERSION..=HEADER_MISMATCH), _)
        | (Ok(URL_ELICITATION_REQUIRED), true) => error_object(
            INTERNAL_ERROR,
            "the server returned a protocol error",
            Some(&json::object([("error", &error)])),
        ),
        (Ok(RESOURCE_NOT_FOUND), true) => {
            let fitted = error.with_member("code", &RawJson::encode(&INVALID_PARAMS));
            fitted.unwrap_or_else(edit_error)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
