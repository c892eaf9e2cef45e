//! An agent in this process, on the frontend itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Who asks, and how.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) name: Option<String>,
    pub(crate) is_modern: bool,
    pub(crate) is_over_http: bool,
    /// The name of its program.
    pub(crate) client: String,
    /// The one toolbox that it wants.
    pub(crate) toolbox: Option<String>,
    /// `true` if it wants to hear everything: logs, progress, changes.
    pub(crate) is_curious: bool,
}

/// Everything that an agent has received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) answers: Vec<Value>,
    /// The notifications, each with how many answers had come before it.
    pub(crate) told: Vec<(usize, Value)>,
}

impl Heard {
    /// Every message as it is written.
    pub(crate) fn messages(&self) -> impl Iterator<Item = String> {
        let told = self.told.iter().map(|(_, notice)| notice);
        self.answers.iter().chain(told).map(Value::to_string)
    }
}

impl Asker {
    /// The parameters of a request, with what the agent says in each.
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

    /// The first message after its greeting, which asks to hear everything.
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

/// The messages that have come, and who waits for others.
#[derive(Default)]
pub(crate) struct Inbox {
    heard: Heard,
    waiting: HashMap<u64, oneshot::Sender<()>>,
}

/// Both are shared with what reads.
#[derive(Clone)]
pub(crate) struct Ends {
    inbox: Arc<Mutex<Inbox>>,
    outbox: mpsc::UnboundedSender<Value>,
}

impl Ends {
    /// Takes what has come.
    pub(crate) fn take(&self, message: Value) {
        if message["method"] == "notifications/tools/list_changed" {
            // As clients do that are waited for.
            self.say(json!({"jsonrpc": "2.0", "id": "again", "method": "tools/list"}));
        }
        let mut inbox = self.inbox.lock().expect("whole");
        let Some(id) = message.get("id") else {
            let place = inbox.heard.answers.len();
            inbox.heard.told.push((place, message));
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
    /// An agent, and what it says.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Value>) {
        let (outbox, said) = mpsc::unbounded_channel();
        (Self { ends: Ends { inbox: Arc::default(), outbox }, count: 0 }, said)
    }

    pub(crate) fn ends(&self) -> Ends {
        self.ends.clone()
    }

    /// An agent at the other end of a stream.
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

    /// Says who it is, and what it wants to hear.
    pub(crate) async fn greet(&mut self, asker: &Asker) {
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

    /// Makes a request as this asker does, and waits for its answer.
    pub(crate) async fn request(&mut self, asker: &Asker, method: &str, params: &Value) {
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

    pub(crate) fn heard(&self) -> Heard {
        self.ends.inbox.lock().expect("whole").heard.clone()
    }
}
