use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::backend::{AgentHandle, PoolOptions};
use crate::gateway::{Caller, GatewayRegistry, RequestContext};
use crate::telemetry::{Event, EventKinds, EventListener, Telemetry};
use mcp_workbench_names::{AgentName, ServerName, ToolId, ToolboxName};

/// A listener that records events as text.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl EventListener for Diary {
    fn interest(&self) -> EventKinds {
        EventKinds::CALLS_BEGUN
            .union(EventKinds::CALLS_ENDED)
            .union(EventKinds::SERVERS)
            .union(EventKinds::SESSIONS)
    }

    fn on_event(&self, event: Event<'_>) {
        let line = match event {
            Event::CallBegan(call) => {
                format!("{} calls {}", call.subject.agent.unwrap(), call.subject.tool)
            }
            Event::CallEnded(call) => {
                format!("{} ends: {}", call.subject.tool, call.end.outcome.as_str())
            }
            Event::ServerStarting(server) => format!("{} starts", server.label),
            Event::ServerFailed(server, _) => format!("{} fails", server.label),
            Event::SessionOpened(session) => format!("{} comes", session.agent.as_ref().unwrap()),
            Event::SessionClosed(session) => format!("{} leaves", session.agent.as_ref().unwrap()),
            _ => "something else".to_owned(),
        };
        self.0.lock().push(line);
    }
}

// invariant: every-call-recorded
#[tokio::test]
async fn listener_receives_call_server_and_session_events() {
    let diary = Arc::new(Diary::default());
    let heard: Arc<dyn EventListener> = Arc::clone(&diary) as Arc<dyn EventListener>;
    let observer = Telemetry::default().with_listener(heard);

    let text = json!({"mcpServers": {"srv": {"command": "/there/is/no/such/program"}}});
    let env = BTreeMap::new();
    let loaded =
        mcp_workbench_config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let options = PoolOptions { observer: Arc::new(observer), ..PoolOptions::default() };
    let config = Arc::new(loaded.unwrap().config);
    let gateways = GatewayRegistry::new(config, options, &TaskTracker::new());
    let ann = Caller { agent: Some(AgentName::new("ann")), ..Caller::default() };
    let (gateway, presence) = (gateways.gateway_for(&ann, None), AgentHandle::new(None));
    let guest = gateways.register_agent(&ann, presence.id);
    let context = RequestContext { caller: &ann, ..RequestContext::detached(&presence) };
    let tool = ToolId {
        toolbox: ToolboxName::new("srv"),
        server: ServerName::new("srv"),
        tool: "t".to_owned(),
    };
    assert!(gateway.calls().call(&tool, None, &[], &context).await.is_err());
    drop(guest);
    assert_eq!(
        *diary.0.lock(),
        [
            "ann comes",
            "ann calls t",
            "srv/srv starts",
            "srv/srv fails",
            "t ends: server_unavailable",
            "ann leaves",
        ]
    );
}
