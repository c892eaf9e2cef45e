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
}

/// The configuration, if it can be used.
pub(crate) fn checked(config: &Value) -> Option<Config> {
    let (file, env) = (Path::new("workbench-config.json"), BTreeMap::new());
    config::parse(&config.to_string(), file, Path::new("/"), &env).ok().map(|loaded| loaded.config)
}

/// The answers that an agent gets to these requests, one after the other.
pub(crate) async fn answers(
    config: Config,
    asker: &Asker,
    requests: &[(String, Value)],
) -> Vec<Value> {
    let tasks = TaskTracker::new();
    let options = PoolOptions::default();
    let gateways = Arc::new(Gateways::new(Arc::new(config), options, &tasks));
    let caller = Caller {
        agent: asker.name.as_ref().map(AgentName::new),
        toolbox: asker.toolbox.as_ref().map(ToolboxName::new),
    };
    if !gateways.has_toolbox(&caller) {
        return vec![json!("there is no such toolbox")];
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
    let mut answers = Vec::new();
    if !asker.is_modern {
        let info = json!({"name": asker.client, "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        answers.push(agent.ask("initialize", params).await);
        agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
    for (method, params) in requests {
        let mut params = params.clone();
        if asker.is_modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": asker.client, "version": "1"},
            });
        }
        answers.push(agent.ask(method, params).await);
    }
    shutdown.cancel();
    serving.await.expect("it ends");
    agent.reading.abort();
    gateways.shut_down().await;
    answers
}

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

struct Agent {
    waiting: Waiting,
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
        let waiting = Waiting::default();
        let reading = tasks.spawn({
            let (waiting, lines) = (Arc::clone(&waiting), lines.clone());
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
                    let id = message["id"].as_u64();
                    let waiting = id.and_then(|id| waiting.lock().expect("whole").remove(&id));
                    if let Some(waiting) = waiting {
                        let _ = waiting.send(message);
                    }
                }
            }
        });
        Self { waiting, lines, reading, count: 0 }
    }

    fn say(&self, message: &Value) {
        let _ = self.lines.send(format!("{message}\n"));
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.count += 1;
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().expect("whole").insert(self.count, sender);
        self.say(&json!({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}));
        answer.await.expect("an answer")
    }
}
