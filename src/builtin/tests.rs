//! Tests both built-in servers with a real client on an in-memory pipe.

use pretty_assertions::assert_eq;
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, ProtocolVersion};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService, ServiceError,
};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::io::duplex;

use crate::builtin::{Clock, Notes, Toolset, ToolsetServer};

pub(super) struct Client(RunningService<RoleClient, ClientConfig>);

impl Client {
    pub(super) async fn connect<T: Toolset>(tools: T) -> Self {
        Self::connect_as(tools, ClientLifecycleMode::Initialize).await
    }

    async fn connect_as<T: Toolset>(tools: T, lifecycle: ClientLifecycleMode) -> Self {
        let (ours, theirs) = duplex(4096);
        // The task ends with the pipe.
        #[expect(clippy::disallowed_methods, reason = "a test has no task tracker")]
        tokio::spawn(async move {
            let service = ToolsetServer(tools).serve(theirs).await.unwrap();
            service.waiting().await
        });
        let config =
            ClientConfig::default().with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        let client = config.serve_with_lifecycle(ours, lifecycle).await;
        Self(client.unwrap())
    }

    pub(super) async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        self.try_call(tool, arguments).await.unwrap()
    }

    /// Returns the structured result of a call, after checking that its text is the same.
    pub(super) async fn structured(&self, tool: &'static str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(false), "{result:?}");
        let structured = result.structured_content.unwrap();
        let text = &result.content[0].as_text().unwrap().text;
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured);
        structured
    }

    pub(super) async fn failure(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        result.content[0].as_text().unwrap().text.clone()
    }

    async fn try_call(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<CallToolResult, ServiceError> {
        let arguments = arguments.as_object().unwrap().clone();
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        self.0.call_tool(params).await
    }
}

#[tokio::test]
async fn reports_name_version_and_instructions() {
    for (client, name) in [
        (Client::connect(Clock::default()).await, "workbench-clock"),
        (Client::connect(Notes::default()).await, "workbench-notes"),
    ] {
        let info = client.0.peer().peer_info().unwrap();
        let server = info.server_info.as_ref().unwrap();
        assert_eq!(server.name, name);
        assert_eq!(server.version, env!("CARGO_PKG_VERSION"));
        assert!(info.instructions.as_ref().is_some_and(|text| text.len() < 300));
    }
}

#[tokio::test]
async fn serves_modern_clients() {
    let modern =
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = Client::connect_as(Notes::default(), modern).await;
    let info = client.0.peer().peer_info().unwrap();
    assert_eq!(info.protocol_version, ProtocolVersion::V_2026_07_28);
    let listed = client.structured("list_notes", json!({})).await;
    assert_eq!(listed, json!({ "titles": [] }));
}

#[tokio::test]
async fn every_tool_is_described_in_full() {
    for (client, names) in [
        (Client::connect(Clock::default()).await, "now elapsed"),
        (
            Client::connect(Notes::default()).await,
            "add_note list_notes read_note search_notes delete_note",
        ),
    ] {
        let tools = client.0.list_all_tools().await.unwrap();
        let listed: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(listed.join(" "), names);
        for tool in tools {
            assert!(tool.description.is_some());
            assert!(tool.output_schema.is_some());
            assert_eq!(tool.input_schema["type"], "object");
            let annotations = tool.annotations.unwrap();
            assert_eq!(annotations.open_world_hint, Some(false));
            let reads = !["add_note", "delete_note"].contains(&tool.name.as_ref());
            assert_eq!(annotations.read_only_hint, Some(reads), "{}", tool.name);
            let deletes = tool.name == "delete_note";
            assert_eq!(annotations.destructive_hint == Some(true), deletes, "{}", tool.name);
        }
    }
}

#[tokio::test]
async fn invalid_arguments_are_tool_errors() {
    let client = Client::connect(Notes::default()).await;
    assert_eq!(
        client.failure("read_note", json!({})).await,
        "invalid arguments: missing field `title`"
    );
    assert_eq!(
        client.failure("read_note", json!({ "name": "a" })).await,
        "invalid arguments: unknown field `name`, expected `title`"
    );
}

#[tokio::test]
async fn an_unknown_tool_is_a_protocol_error() {
    let client = Client::connect(Clock::default()).await;
    let error = client.try_call("tomorrow", json!({})).await.unwrap_err();
    let ServiceError::McpError(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.code.0, -32602);
    assert_eq!(error.message, "unknown tool `tomorrow`");
}

#[test]
fn a_tool_is_found_by_name() {
    let server = ToolsetServer(Clock::default());
    assert!(server.get_tool("now").is_some());
    assert!(server.get_tool("tomorrow").is_none());
}
