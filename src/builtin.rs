//! Builtin servers: two small, real MCP servers that the executable carries.
//!
//! They give a first configuration something to start without a download, and they are what the
//! gateway is tried against. Each is started like any other server, as a child on stdio
//! (`mcp-workbench builtin clock`), so the gateway knows nothing of them.

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
pub enum Builtin {
    /// The time, and durations between times.
    Clock,
    /// Notes that last as long as the server runs.
    Notes,
}

/// Why a builtin server could not do its work to the end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the client did not complete the handshake")]
    Handshake(#[source] Box<ServerInitializeError>),
    #[error("the server stopped unexpectedly")]
    Stopped(#[source] JoinError),
}

/// Serves one client on stdin and stdout until it closes them.
pub async fn serve(which: Builtin) -> Result<(), ServeError> {
    match which {
        Builtin::Clock => run(Clock::default()).await,
        Builtin::Notes => run(Notes::default()).await,
    }
}

async fn run<T: Toolset>(tools: T) -> Result<(), ServeError> {
    let service = match Server(tools).serve(stdio_pipes()).await {
        Ok(service) => service,
        // A client that leaves before it has said anything has nothing to complain about.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(Box::new(error))),
    };
    service.waiting().await.map_err(ServeError::Stopped)?;
    Ok(())
}

/// The tools of one builtin server.
trait Toolset: Send + Sync + 'static {
    const NAME: &'static str;
    const TITLE: &'static str;
    const INSTRUCTIONS: &'static str;

    fn tools() -> Vec<Tool>;

    /// Runs a tool; nothing if there is none of that name.
    fn call(&self, tool: &str, arguments: JsonObject) -> Option<Outcome>;
}

/// A tool's result, or what went wrong in words for the model.
type Outcome = Result<CallToolResult, String>;

/// The protocol around a set of tools.
struct Server<T>(T);

impl<T: Toolset> ServerHandler for Server<T> {
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
            // The model can read a result and do better; of an error it sees nothing.
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

/// A tool with the schemas of its argument and result types.
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

/// Runs a tool on checked arguments; what it returns becomes `structuredContent`.
fn answer<A: DeserializeOwned, R: Serialize>(
    arguments: JsonObject,
    run: impl FnOnce(A) -> Result<R, String>,
) -> Outcome {
    let arguments = serde_json::from_value(arguments.into())
        .map_err(|error| format!("invalid arguments: {error}"))?;
    let result = serde_json::to_value(run(arguments)?).map_err(|error| error.to_string())?;
    Ok(CallToolResult::structured(result))
}

#[cfg(test)]
mod tests;
