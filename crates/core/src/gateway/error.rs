//! Errors on the way to a server.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::backend;
use crate::catalog::schema::SchemaViolation;
use mcp_workbench_names::{ServerName, ServerRef, ToolId, ToolboxName};

/// A server that could not be started.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FailedServer {
    pub server: ServerName,
    pub reason: String,
    pub hint: String,
    /// `true` if the server only needs a sign-in.
    pub wants_sign_in: bool,
}

/// Why a call didn't reach a tool or didn't return. Suggested names are ordered by similarity.
#[derive(Debug, Error)]
pub enum CallError {
    #[error("there is no toolbox `{wanted}`")]
    UnknownToolbox { wanted: String, known: Vec<String> },
    #[error("there is no server `{wanted}` in toolbox `{toolbox}`")]
    UnknownServer { toolbox: ToolboxName, wanted: String, known: Vec<String> },
    /// The tool doesn't exist or is hidden from the agent.
    #[error("there is no tool `{wanted}`")]
    UnknownTool { wanted: String, nearest: Vec<String> },
    #[error("the arguments of `{tool}` are {found}, expected an object")]
    NotAnObject { tool: ToolId, found: &'static str },
    /// The arguments violate the schema of a macro or built-in tool, which has no server to check
    /// them.
    #[error("the arguments violate the schema of `{tool}`")]
    InvalidArguments { tool: ToolId, mismatches: Vec<SchemaViolation> },
    /// A rule, limit or user stopped this call of an existing tool.
    #[error("`{tool}` was not called: {reason}")]
    Refused { tool: ToolId, reason: String, hint: String },
    /// The prompt or resource doesn't exist or is hidden from the agent.
    #[error("there is no {what} `{wanted}`")]
    UnknownPrimitive {
        /// The kind of primitive, as in "prompt".
        what: &'static str,
        wanted: String,
    },
    #[error(transparent)]
    TooManySubscriptions(#[from] backend::SubscriptionLimitError),
    #[error("server `{server}`: {error}")]
    Server { server: ServerName, error: backend::BackendError },
}

impl CallError {
    pub(crate) fn wants_sign_in(&self) -> bool {
        match self {
            Self::Server { error, .. } => wants_sign_in(error),
            _ => false,
        }
    }
}

fn wants_sign_in(error: &backend::BackendError) -> bool {
    match error {
        backend::BackendError::StartFailed(failure) => failure.wants_sign_in,
        backend::BackendError::Remote(failure) => failure.wants_sign_in,
        _ => false,
    }
}

pub(crate) fn server_error(at: &ServerRef, error: backend::BackendError) -> CallError {
    CallError::Server { server: at.server.clone(), error }
}

pub(crate) fn failed(server: &ServerName, error: &backend::BackendError) -> FailedServer {
    let hint = match error {
        backend::BackendError::StartFailed(failure) => failure.hint.clone(),
        backend::BackendError::Remote(failure) => failure.hint.clone(),
        _ => "try again".to_owned(),
    };
    let (server, reason) = (server.clone(), error.to_string());
    FailedServer { server, reason, hint, wants_sign_in: wants_sign_in(error) }
}
