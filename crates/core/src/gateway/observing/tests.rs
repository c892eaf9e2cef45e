use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::backend::{PoolOptions, Presence};
use crate::config;
use crate::gateway::{Caller, Gateways, RequestContext};
use crate::name::{AgentName, ServerName, ToolId, ToolboxName};
use crate::observe::{Event, Kinds, Listener, Observer};

/// A further observer: all of it stands here.
#[derive(Default)]
struct Diary(Mutex<Vec<String>>);

impl Listener for Diary {
    fn wants(&self) -> Kinds {
        Kinds::CALLS_BEGUN.and(Kinds::CALLS_ENDED).and(Kinds::SERVERS).and(Kinds::SESSIONS)
    }

    fn hear(&self, event: Event<'_>) {
        let line = match event {
            Event::CallBegan(call) => {
                format!("{} calls {}", call.subject.agent.unwrap(), call.subject.tool)
            }
            Event::CallEnded(call, end) => {
                format!("{} ends: {}", call.subject.tool, end.ending.as_str())
            }
            Event::ServerStarting(server) => format!("{} starts", server.label),
            Event::ServerFailed(server, _) => format!("{} fails", server.label),
            Event::SessionOpened(session) => format!("{} comes", session.agent.as_ref().unwrap()),
            Event::SessionClosed(session) => format!("{} leaves", session.agent.as_ref().unwrap()),
            _ => "something else".to_owned(),
        };
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test]
async fn a_further_observer_is_a_type_and_a_line() {
    let diary = Arc::new(Diary::default());
    let heard: Arc<dyn Listener> = Arc::clone(&diary) as Arc<dyn Listener>;
    let observer = Observer::default().heard_by(heard);

    let text = json!({"mcpServers": {"srv": {"command": "/there/is/no/such/program"}}});
    let env = BTreeMap::new();
    let loaded = config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let options = PoolOptions { observer: Arc::new(observer), ..PoolOptions::default() };
    let config = Arc::new(loaded.unwrap().config);
    let gateways = Gateways::new(config, options, &TaskTracker::new());
    let ann = Caller { agent: Some(AgentName::new("ann")), toolbox: None };
    let (gateway, presence) = (gateways.of(&ann, None), Presence::new(None));
    let guest = gateways.welcome(&ann, presence.id);
    let context = RequestContext { caller: &ann, ..RequestContext::nobody(&presence) };
    let tool = ToolId {
        toolbox: ToolboxName::new("srv"),
        server: ServerName::new("srv"),
        tool: "t".to_owned(),
    };
    assert!(gateway.call(&tool, None, &[], &context).await.is_err());
    drop(guest);
    assert_eq!(
        *diary.0.lock().unwrap(),
        [
            "ann comes",
            "ann calls t",
            "srv/srv starts",
            "srv/srv fails",
            "t ends: start_failed",
            "ann leaves",
        ]
    );
}
