//! Failures on the way to a server, for whoever has to word them.

use thiserror::Error;

use crate::backend;
use crate::catalog::schema::Mismatch;
use crate::name::{ServerName, ServerRef, ToolId, ToolboxName};

/// A server that could not be started.
#[derive(Clone, Debug)]
pub struct FailedServer {
    /// Which one.
    pub server: ServerName,
    /// Why.
    pub reason: String,
    /// Advice on what to do about it.
    pub hint: String,
    /// `true` if all that is missing is that somebody signs in.
    pub wants_sign_in: bool,
}

/// Why a call did not reach a tool or did not come back. Names are offered nearest first.
#[derive(Debug, Error)]
pub enum CallError {
    /// There is no such toolbox.
    #[error("there is no toolbox `{wanted}`")]
    UnknownToolbox {
        /// The name that was asked for.
        wanted: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// There is no such server in the toolbox.
    #[error("there is no server `{wanted}` in toolbox `{toolbox}`")]
    UnknownServer {
        /// The toolbox.
        toolbox: ToolboxName,
        /// The name that was asked for.
        wanted: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// There is no such tool, or the agent may not know of it.
    #[error("there is no tool `{wanted}`")]
    UnknownTool {
        /// The name that was asked for.
        wanted: String,
        /// The names that are nearest.
        nearest: Vec<String>,
    },
    /// The arguments are no JSON object.
    #[error("the arguments of `{tool}` are {found}, expected an object")]
    NotAnObject {
        /// The tool.
        tool: ToolId,
        /// The kind of JSON that they are.
        found: &'static str,
    },
    /// The arguments do not fit the schema of a tool of ours, which has no server to decide.
    #[error("the arguments do not fit the schema of `{tool}`")]
    BadArguments {
        /// The tool.
        tool: ToolId,
        /// In which ways.
        mismatches: Vec<Mismatch>,
    },
    /// The tool is there, but this call of it is not let through.
    #[error("`{tool}` was not called: {reason}")]
    Refused {
        /// The tool.
        tool: ToolId,
        /// Why not.
        reason: String,
        /// Advice on what to do about it.
        hint: String,
    },
    /// There is no such prompt or resource, or the agent may not know of it.
    #[error("there is no {what} `{wanted}`")]
    UnknownPrimitive {
        /// The kind of primitive, in words.
        what: &'static str,
        /// The name that was asked for.
        wanted: String,
    },
    /// The server could not answer.
    #[error("server `{server}`: {error}")]
    Server {
        /// The server.
        server: ServerName,
        /// Why not.
        error: backend::Error,
    },
}

impl CallError {
    /// Returns `true` if all that is missing is that somebody signs in at the server.
    pub(crate) fn wants_sign_in(&self) -> bool {
        match self {
            Self::Server { error, .. } => wants_sign_in(error),
            _ => false,
        }
    }
}

fn wants_sign_in(error: &backend::Error) -> bool {
    match error {
        backend::Error::StartFailed(failure) => failure.wants_sign_in,
        backend::Error::Unanswered(failure) => failure.wants_sign_in,
        _ => false,
    }
}

pub(crate) fn server_error(at: &ServerRef, error: backend::Error) -> CallError {
    CallError::Server { server: at.server.clone(), error }
}

pub(crate) fn failed(server: &ServerName, error: &backend::Error) -> FailedServer {
    let hint = match error {
        backend::Error::StartFailed(failure) => failure.hint.clone(),
        backend::Error::Unanswered(failure) => failure.hint.clone(),
        _ => "try again".to_owned(),
    };
    let (server, reason) = (server.clone(), error.to_string());
    FailedServer { server, reason, hint, wants_sign_in: wants_sign_in(error) }
}
