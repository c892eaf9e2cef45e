//! An agent that talks to the frontend in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

#[derive(Clone, Debug)]
pub(crate) struct AgentProfile {
    pub(crate) name: Option<String>,
    pub(crate) is_modern: bool,
    pub(crate) is_over_http: bool,
    pub(crate) client: String,
    /// The only toolbox that it connects to.
    pub(crate) toolbox: Option<String>,
    /// `true` if it subscribes to logs, progress and changes.
    pub(crate) is_curious: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ReceivedMessages {
    pub(crate) answers: Vec<Value>,
    /// Notifications, each with the number of responses before it.
    pub(crate) told: Vec<(usize, Value)>,
}

impl ReceivedMessages {
    pub(crate) fn messages(&self) -> impl Iterator<Item = String> {
        let told = self.told.iter().map(|(_, notice)| notice);
        self.answers.iter().chain(told).map(Value::to_string)
    }
}

impl AgentProfile {
    fn with_meta(&self, mut params: Value, number: u64) -> Value {
        let meta = &mut params["_meta"];
        if self.is_modern {
            *meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": self.client, "version": "1"},
            });
        }
        if self.is_curious {
            meta["progressToken"] = format!("of {number}").into();
            if self.is_modern {
                meta["io.modelcontextprotocol/logLevel"] = "debug".into();
            }
        }
        if meta.is_null() {
            params.as_object_mut().expect("an object").remove("_meta");
        }
        params
    }

    /// The first message after the handshake, which subscribes to everything.
    fn begins(&self) -> Option<Value> {
        let listen = json!({"notifications": {
            "toolsListChanged": true,
            "resourcesListChanged": true,
            "promptsListChanged": true,
            "resourceSubscriptions": ["note://a", "note://b", "file:///x"],
        }});
        let (method, params) = if self.is_modern {
            ("subscriptions/listen", self.with_meta(listen, 0))
        } else {
            ("logging/setLevel", json!({"level": "debug"}))
        };
        let first = json!({"jsonrpc": "2.0", "id": "first", "method": method, "params": params});
        self.is_curious.then_some(first)
    }
}

#[derive(Default)]
pub(crate) struct Inbox {
    heard: ReceivedMessages,
    waiting: HashMap<u64, oneshot::Sender<()>>,
}

#[derive(Clone)]
pub(crate) struct Ends {
    inbox: Arc<Mutex<Inbox>>,
    outbox: mpsc::UnboundedSender<Value>,
}

impl Ends {
    pub(crate) fn take(&self, message: Value) {
        if message["method"] == "notifications/tools/list_changed" {
            // Clients relist after a change, so the agent does too.
            self.say(json!({"jsonrpc": "2.0", "id": "again", "method": "tools/list"}));
        }
        let mut inbox = self.inbox.lock().expect("whole");
        let Some(id) = message.get("id") else {
            let index = inbox.heard.answers.len();
            inbox.heard.told.push((index, message));
            return;
        };
        if let Some(waiting) = id.as_u64().and_then(|id| inbox.waiting.remove(&id)) {
            inbox.heard.answers.push(message);
            let _ = waiting.send(());
        }
    }

    fn say(&self, message: Value) {
        let _ = self.outbox.send(message);
    }
}

pub(crate) struct Agent {
    ends: Ends,
    count: u64,
}

impl Agent {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Value>) {
        let (outbox, said) = mpsc::unbounded_channel();
        (Self { ends: Ends { inbox: Arc::default(), outbox }, count: 0 }, said)
    }

    pub(crate) fn ends(&self) -> Ends {
        self.ends.clone()
    }

    pub(crate) fn on(stream: DuplexStream, tasks: &TaskTracker) -> Self {
        let (reader, mut writer) = tokio::io::split(stream);
        let (agent, mut said) = Self::new();
        tasks.spawn(async move {
            while let Some(message) = said.recv().await {
                if writer.write_all(format!("{message}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let ends = agent.ends();
        tasks.spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                ends.take(serde_json::from_str(&line).expect("JSON"));
            }
        });
        agent
    }

    pub(crate) async fn greet(&mut self, asker: &AgentProfile) {
        if !asker.is_modern {
            let info = json!({"name": asker.client, "version": "1"});
            let params =
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
            self.ask("initialize", params).await;
            self.ends.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        if let Some(first) = asker.begins() {
            self.ends.say(first);
        }
    }

    pub(crate) async fn request(&mut self, asker: &AgentProfile, method: &str, params: &Value) {
        self.ask(method, asker.with_meta(params.clone(), self.count)).await;
    }

    async fn ask(&mut self, method: &str, params: Value) {
        self.count += 1;
        let (sender, answer) = oneshot::channel();
        self.ends.inbox.lock().expect("whole").waiting.insert(self.count, sender);
        let request =
            json!({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params});
        self.ends.say(request);
        answer.await.expect("an answer");
    }

    pub(crate) fn heard(&self) -> ReceivedMessages {
        self.ends.inbox.lock().expect("whole").heard.clone()
    }
}
