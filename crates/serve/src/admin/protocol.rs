//! Requests and responses of the admin API.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::admin::status::{UnusedTools, WorkbenchStatus};
use mcp_workbench_core::gateway::PendingCall;

/// A query or an action.
#[derive(Debug, Deserialize, Serialize)]
#[serde(
    tag = "ask",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    try_from = "RawAdminRequest"
)]
pub enum AdminRequest {
    View,
    Act {
        act: ServerAction,
        toolbox: String,
        /// `None`: every server of the toolbox.
        server: Option<String>,
    },
    /// Searches for tools as an agent would.
    Search {
        query: String,
    },
    Tools {
        toolbox: String,
        server: String,
    },
    /// Calls a tool, subject to the same policy as an agent's call.
    Call {
        toolbox: String,
        server: String,
        /// The tool's name at its server.
        tool: String,
        /// A JSON object.
        arguments: Option<Box<RawValue>>,
        /// The `id` of an `AdminResponse::Confirm`, if the user confirmed its question. The call
        /// that asked it continues; tool and arguments must be the same.
        confirmed: Option<String>,
    },
    /// Starts a login at a server and returns its page.
    SignIn {
        toolbox: String,
        server: String,
    },
    Unused,
    /// Lists the calls that wait for an approval.
    Approvals,
    /// Approves or denies a waiting call.
    Answer {
        id: String,
        approve: bool,
        /// Signature of the [`approval_statement`](crate::admin::approval_statement), in hex.
        /// Operators over HTTP need none.
        signature: Option<String>,
    },
    /// Returns the configuration and the problems found in it.
    Findings,
}

/// The fields of all requests. Serde buffers the content of an internally tagged enum, which would
/// reformat the arguments.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawAdminRequest {
    ask: String,
    act: Option<ServerAction>,
    toolbox: Option<String>,
    server: Option<String>,
    query: Option<String>,
    tool: Option<String>,
    arguments: Option<Box<RawValue>>,
    confirmed: Option<String>,
    id: Option<String>,
    approve: Option<bool>,
    signature: Option<String>,
}

impl TryFrom<RawAdminRequest> for AdminRequest {
    type Error = String;

    fn try_from(asked: RawAdminRequest) -> Result<Self, String> {
        let RawAdminRequest {
            ask,
            act,
            toolbox,
            server,
            query,
            tool,
            arguments,
            confirmed,
            id,
            approve,
            signature,
        } = asked;
        let text = |name: &str, text: Option<String>| {
            text.ok_or_else(|| format!("`{ask}` needs `{name}`, a string"))
        };
        Ok(match &*ask {
            "view" => Self::View,
            "act" => Self::Act {
                act: act.ok_or("`act` needs `act`: start, stop, restart, pause or resume")?,
                toolbox: text("toolbox", toolbox)?,
                server,
            },
            "search" => Self::Search { query: text("query", query)? },
            "tools" => {
                Self::Tools { toolbox: text("toolbox", toolbox)?, server: text("server", server)? }
            }
            "call" => Self::Call {
                toolbox: text("toolbox", toolbox)?,
                server: text("server", server)?,
                tool: text("tool", tool)?,
                arguments,
                confirmed,
            },
            "signIn" => {
                Self::SignIn { toolbox: text("toolbox", toolbox)?, server: text("server", server)? }
            }
            "unused" => Self::Unused,
            "approvals" => Self::Approvals,
            "answer" => Self::Answer {
                id: text("id", id)?,
                approve: approve.ok_or("`answer` needs `approve`: true or false")?,
                signature,
            },
            "findings" => Self::Findings,
            _ => {
                return Err("`ask` must be view, act, search, tools, call, signIn, unused, \
                            approvals, answer or findings"
                    .to_owned());
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerAction {
    Start,
    /// Stops it; the next call starts it again.
    Stop,
    Restart,
    /// Stops it and blocks starts until it is resumed.
    Pause,
    Resume,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "answer", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AdminResponse {
    View(Box<WorkbenchStatus>),
    Done,
    /// The search results, best first.
    Hits {
        hits: Vec<AdminSearchHit>,
    },
    Tools {
        /// Sorted by name.
        tools: Vec<ToolDetails>,
        /// Number of further tools, which would make the response too large.
        #[serde(default)]
        omitted: usize,
    },
    /// The server's response, unchanged.
    Called {
        result: Option<Box<RawValue>>,
        /// The JSON-RPC error, if the server returned one.
        error: Option<Box<RawValue>>,
        ms: f64,
    },
    /// The user has to confirm the call, or a step of a macro. To confirm, repeat the request with
    /// `confirmed` set to `id`.
    Confirm {
        question: String,
        /// Names this one question of this one call.
        id: String,
    },
    /// A login page to open in a browser on this machine; the server starts after the login.
    SignInPage {
        /// An `http://` or `https://` URL.
        address: String,
        /// The code to enter on that page, if it needs one.
        code: Option<String>,
    },
    Unused(UnusedTools),
    Approvals {
        /// The public part of the approval key; `None` if there is none.
        key: Option<String>,
        /// The oldest call of each caller first.
        calls: Vec<PendingCall>,
    },
    Findings {
        /// The path as the user entered it.
        file: String,
        /// The text without secrets; `None` if it isn't a single readable file.
        text: Option<String>,
        findings: Vec<ConfigFinding>,
    },
    Error(AdminError),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdminSearchHit {
    pub toolbox: String,
    pub server: String,
    /// The tool's name at its server.
    pub tool: String,
    /// First line, without control characters.
    pub description: String,
    /// Relevance from 0 to 1.
    pub score: f64,
    /// `true` if the tool is more likely than not the right one.
    pub is_likely: bool,
    /// Words of the query that occur in the tool's name, server or description, in any inflection.
    pub words: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDetails {
    /// The tool's name at its server.
    pub name: String,
    /// The server's full description.
    pub description: String,
    pub input_schema: Box<RawValue>,
    /// `true` if policy treats the tool as dangerous.
    pub is_dangerous: bool,
    pub tokens: u64,
}

/// A problem or remark about the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigFinding {
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// The key, such as `toolboxes.dev`.
    pub path: String,
    /// Line number, starting at 1.
    pub line: Option<usize>,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct AdminError {
    pub kind: AdminErrorKind,
    /// The reason, followed by a hint if there is one.
    pub message: String,
}

impl AdminError {
    pub(crate) fn not_allowed(message: String) -> Self {
        Self { kind: AdminErrorKind::NotAllowed, message }
    }

    pub(crate) fn failed(message: String) -> Self {
        Self { kind: AdminErrorKind::Failed, message }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AdminErrorKind {
    /// The request is malformed.
    Malformed,
    /// The toolbox, server or tool doesn't exist or isn't visible to the caller.
    Unknown,
    /// The caller has read access only.
    NotAllowed,
    /// The action was attempted and failed.
    Failed,
}
