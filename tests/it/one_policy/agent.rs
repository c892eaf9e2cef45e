//! An agent in this process, on the frontend itself.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};

use mcp_workbench::backend::PoolOptions;
use mcp_workbench::config;
use mcp_workbench::frontend::{self, AppState};
use mcp_workbench::gateway::{Caller, Gateways};
use mcp_workbench::name::{AgentName, ToolboxName};
use mcp_workbench::settings::Config;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Who asks, and how.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) name: Option<String>,
    pub(crate) is_modern: bool,
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

impl Asker {
    /// The request with what the agent says in each.
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

/// The configuration, if it can be used.
pub(crate) fn checked(config: &Value) -> Option<Config> {
    let (file, env) = (Path::new("workbench-config.json"), BTreeMap::new());
    config::parse(&config.to_string(), file, Path::new("/"), &env).ok().map(|loaded| loaded.config)
}

/// Everything that an agent receives that makes these requests, one after the other.
pub(crate) async fn heard(config: Config, asker: &Asker, requests: &[(String, Value)]) -> Heard {
    let tasks = TaskTracker::new();
    let options = PoolOptions::default();
    let gateways = Arc::new(Gateways::new(Arc::new(config), options, &tasks));
    let caller = Caller {
        agent: asker.name.as_ref().map(AgentName::new),
        toolbox: asker.toolbox.as_ref().map(ToolboxName::new),
    };
    if !gateways.has_toolbox(&caller) {
        return Heard { answers: vec![json!("there is no such toolbox")], told: Vec::new() };
    }
    let app = AppState::new(Arc::clone(&gateways), &tasks).expect("random numbers");
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let shutdown = CancellationToken::new();
    let serving = tasks.spawn({
        let (tasks, shutdown) = (tasks.clone(), shutdown.clone());
        async move { frontend::serve(&app, caller, reader, writer, &tasks, &shutdown).await }
    });
    let mut agent = Agent::on(ours, &tasks);
    if !asker.is_modern {
        let info = json!({"name": asker.client, "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        agent.ask("initialize", params).await;
        agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
    if let Some(first) = asker.begins() {
        agent.say(&first);
    }
    for (method, params) in requests {
        let params = asker.with_meta(params.clone(), agent.count);
        agent.ask(method, params).await;
    }
    shutdown.cancel();
    serving.await.expect("it ends");
    agent.reading.abort();
    gateways.shut_down().await;
    agent.heard()
}

/// The messages that have come, and who waits for others.
#[derive(Default)]
struct Inbox {
    heard: Heard,
    waiting: HashMap<u64, oneshot::Sender<()>>,
}

impl Inbox {
    fn take(&mut self, message: Value) {
        let Some(id) = message.get("id") else {
            self.heard.told.push((self.heard.answers.len(), message));
            return;
        };
        if let Some(waiting) = id.as_u64().and_then(|id| self.waiting.remove(&id)) {
            self.heard.answers.push(message);
            let _ = waiting.send(());
        }
    }
}

struct Agent {
    inbox: Arc<Mutex<Inbox>>,
    lines: mpsc::UnboundedSender<String>,
    reading: JoinHandle<()>,
    count: u64,
}

impl Agent {
    fn on(stream: DuplexStream, tasks: &TaskTracker) -> Self {
        let (reader, mut writer) = tokio::io::split(stream);
        let (lines, mut to_write) = mpsc::unbounded_channel::<String>();
        tasks.spawn(async move {
            while let Some(line) = to_write.recv().await {
                if writer.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let reading = tasks.spawn({
            let (inbox, lines) = (Arc::clone(&inbox), lines.clone());
            async move {
                let mut said = BufReader::new(reader).lines();
                while let Ok(Some(line)) = said.next_line().await {
                    let message: Value = serde_json::from_str(&line).expect("JSON");
                    if message["method"] == "notifications/tools/list_changed" {
                        // As clients do that are waited for.
                        let relist =
                            json!({"jsonrpc": "2.0", "id": "again", "method": "tools/list"});
                        let _ = lines.send(format!("{relist}\n"));
                    }
                    inbox.lock().expect("whole").take(message);
                }
            }
        });
        Self { inbox, lines, reading, count: 0 }
    }

    fn say(&self, message: &Value) {
        let _ = self.lines.send(format!("{message}\n"));
    }

    /// Makes a request, and waits for its answer.
    async fn ask(&mut self, method: &str, params: Value) {
        self.count += 1;
        let (sender, answer) = oneshot::channel();
        self.inbox.lock().expect("whole").waiting.insert(self.count, sender);
        self.say(&json!({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}));
        answer.await.expect("an answer");
    }

    fn heard(&self) -> Heard {
        self.inbox.lock().expect("whole").heard.clone()
    }
}
