//! Built-in servers: two small MCP servers in the executable.
//!
//! They give a first configuration something to start without a download, and the tests a real
//! server. The gateway starts them like any other server, as a child process on stdio
//! (`mcp-workbench builtin clock`).

use std::future::{Future, ready};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::stdio_pipes;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinError;

mod clock;
mod notes;

use clock::Clock;
use notes::Notes;

/// Which builtin server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BuiltinServer {
    /// Current time and time differences.
    Clock,
    /// In-memory notes, lost on exit.
    Notes,
}

#[derive(Debug, thiserror::Error)]
pub enum BuiltinError {
    #[error("the client did not complete the MCP handshake")]
    Handshake(#[source] Box<ServerInitializeError>),
    #[error("the server stopped unexpectedly")]
    Stopped(#[source] JoinError),
}

/// Serves one client on stdin and stdout until it closes them.
pub async fn serve(which: BuiltinServer) -> Result<(), BuiltinError> {
    match which {
        BuiltinServer::Clock => run(Clock::default()).await,
        BuiltinServer::Notes => run(Notes::default()).await,
    }
}

async fn run<T: Toolset>(tools: T) -> Result<(), BuiltinError> {
    let service = match ToolsetServer(tools).serve(stdio_pipes()).await {
        Ok(service) => service,
        // A client may disconnect before the handshake.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(BuiltinError::Handshake(Box::new(error))),
    };
    service.waiting().await.map_err(BuiltinError::Stopped)?;
    Ok(())
}

trait Toolset: Send + Sync + 'static {
    const NAME: &'static str;
    const TITLE: &'static str;
    const INSTRUCTIONS: &'static str;

    fn tools() -> Vec<Tool>;

    /// Runs a tool. Returns `None` if the name is unknown.
    fn call(&self, tool: &str, arguments: JsonObject) -> Option<BuiltinResult>;
}

/// A tool result, or an error message for the model.
type BuiltinResult = Result<CallToolResult, String>;

struct ToolsetServer<T>(T);

impl<T: Toolset> ServerHandler for ToolsetServer<T> {
    fn get_info(&self) -> ServerConfig {
        let info = Implementation::new(T::NAME, env!("CARGO_PKG_VERSION")).with_title(T::TITLE);
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(info)
            .with_instructions(T::INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        T::tools().into_iter().find(|tool| tool.name == name)
    }

    fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ListToolsResult, ErrorData>> + Send + '_ {
        ready(Ok(ListToolsResult::with_all_items(T::tools())))
    }

    fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CallToolResponse, ErrorData>> + Send + '_ {
        let outcome = self.0.call(&request.name, request.arguments.unwrap_or_default());
        ready(match outcome {
            Some(Ok(result)) => Ok(result.into()),
            // A tool error is a result, because the model never sees a protocol error.
            Some(Err(message)) => {
                Ok(CallToolResult::error(vec![ContentBlock::text(message)]).into())
            }
            None => {
                let message = format!("unknown tool `{}`", request.name);
                Err(ErrorData::invalid_params(message, None))
            }
        })
    }
}

fn tool<A: JsonSchema + 'static, R: JsonSchema + 'static>(
    name: &'static str,
    description: &'static str,
    annotations: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, JsonObject::new())
        .with_input_schema::<A>()
        .with_output_schema::<R>()
        .with_annotations(annotations.open_world(false))
}

/// Parses the arguments and runs a tool. Its result becomes `structuredContent`.
fn answer<A: DeserializeOwned, R: Serialize>(
    arguments: JsonObject,
    run: impl FnOnce(A) -> Result<R, String>,
) -> BuiltinResult {
    let arguments = serde_json::from_value(arguments.into())
        .map_err(|error| format!("invalid arguments: {error}"))?;
    let result = serde_json::to_value(run(arguments)?).map_err(|error| error.to_string())?;
    Ok(CallToolResult::structured(result))
}

#[cfg(test)]
mod tests;
