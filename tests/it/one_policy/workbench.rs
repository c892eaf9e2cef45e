//! A workbench in this process, and the agents that come to it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use mcp_workbench::backend::PoolOptions;
use mcp_workbench::config;
use mcp_workbench::frontend::http::{Door, Ending, Grace, Listening};
use mcp_workbench::frontend::{self, AppState};
use mcp_workbench::gateway::{Caller, Gateways};
use mcp_workbench::name::{AgentName, ServerName, ToolboxName};
use mcp_workbench::settings::Config;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::one_policy::agent::{Agent, Asker, Heard};
use crate::one_policy::conditions::FOLDER;

/// An agent, and its requests, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Visit<'a> {
    pub(crate) asker: &'a Asker,
    pub(crate) requests: &'a [(String, Value)],
}

/// Another agent that is there at the same time.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub(crate) visit: Visit<'a>,
    /// `true` if it has done everything when the first one comes; else they take turns.
    pub(crate) is_first: bool,
}

/// Who can come to a workbench.
#[derive(Clone, Copy)]
pub(crate) struct Doors {
    /// `true` if several agents can.
    pub(crate) serves_many: bool,
    /// `true` if agents can over HTTP.
    pub(crate) is_over_http: bool,
}

/// The configuration, if it can be used.
pub(crate) fn checked(config: &Value) -> Option<Config> {
    let (file, env) = (Path::new("workbench-config.json"), BTreeMap::new());
    let loaded = config::parse(&config.to_string(), file, Path::new("/"), &env).ok()?;
    let mut config = loaded.config;
    config.policy.working_directory = Some(FOLDER.into());
    Some(config)
}

/// The token of an agent.
fn token(agent: &str) -> String {
    format!("a-token-for-{agent}-0123")
}

/// The part of the configuration that says who comes over HTTP.
pub(crate) fn auth() -> Value {
    let tokens = ["ann", "bob"].map(|agent| {
        let digest = Sha256::digest(token(agent).as_bytes());
        let sha256 = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        json!({"agent": agent, "sha256": sha256})
    });
    json!({"tokens": tokens, "anonymous": true})
}

/// Everything that an agent receives, and that the one beside it does.
pub(crate) async fn heard(
    config: Config,
    doors: Doors,
    one: Visit<'_>,
    beside: Option<Beside<'_>>,
) -> [Heard; 2] {
    let mut workbench = Workbench::start(config, doors.serves_many).await;
    if doors.is_over_http {
        workbench.listen().await;
    }
    workbench.shows_what_runs(one.asker).await;
    let Some(Beside { visit: other, is_first }) = beside else {
        let heard = workbench.receive(one).await;
        workbench.end().await;
        return [heard, Heard::default()];
    };
    let mut second = workbench.come(other.asker);
    let heard = if is_first {
        greet_and_ask(second.as_mut(), other).await;
        workbench.receive(one).await
    } else {
        tokio::join!(workbench.receive(one), greet_and_ask(second.as_mut(), other)).0
    };
    let second = second.map(|second| second.heard()).unwrap_or_default();
    workbench.end().await;
    [heard, second]
}

async fn greet_and_ask(agent: Option<&mut Agent>, Visit { asker, requests }: Visit<'_>) {
    if let Some(agent) = agent {
        agent.greet(asker).await;
        for (method, params) in requests {
            agent.request(asker, method, params).await;
        }
    }
}

fn caller(asker: &Asker) -> Caller {
    Caller {
        agent: asker.name.as_ref().map(AgentName::new),
        toolbox: asker.toolbox.as_ref().map(ToolboxName::new),
    }
}

struct Workbench {
    app: AppState,
    gateways: Arc<Gateways>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    /// Where agents are served over HTTP, if they are.
    address: Option<SocketAddr>,
}

impl Workbench {
    /// Returns when all eager servers are up that can be.
    async fn start(config: Config, serves_many: bool) -> Self {
        let tasks = TaskTracker::new();
        let options = PoolOptions { serves_many, ..PoolOptions::default() };
        let gateways = Arc::new(Gateways::new(Arc::new(config), options, &tasks));
        let app = AppState::new(Arc::clone(&gateways), &tasks).expect("random numbers");
        gateways.keep_eager();
        while gateways.down().iter().any(|down| !down.has_failed) {
            yield_now().await;
        }
        Self { app, gateways, tasks, shutdown: CancellationToken::new(), address: None }
    }

    /// Waits until what eager servers have is shown to those who may see it: an agent that comes
    /// later than another like it finds that done.
    async fn shows_what_runs(&self, asker: &Asker) {
        let gateway = self.gateways.of(&caller(asker), None);
        let (config, down) = (gateway.config(), self.gateways.down());
        let is_up = |toolbox: &ToolboxName, server: &ServerName| {
            !down.iter().any(|down| down.at.toolbox == *toolbox && down.at.server == *server)
        };
        let eager = config.servers().filter(|(_, server)| server.eager);
        for (toolbox, server) in
            eager.filter(|(toolbox, server)| is_up(&toolbox.name, &server.name))
        {
            let view = || gateway.snapshot().view(&toolbox.name);
            while view().abilities_of(&server.name).is_none() {
                yield_now().await;
            }
        }
    }

    /// Serves over HTTP too.
    async fn listen(&mut self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        self.address = listener.local_addr().ok();
        let listening =
            Listening { agents: listener, health: None, most_connections: 1000, tls: None };
        let (draining, shutdown) = (CancellationToken::new(), self.shutdown.clone());
        let ending = Ending { draining, grace: Grace::default(), shutdown };
        let (app, tasks) = (self.app.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            frontend::http::serve(app, listening, Door::default(), &tasks, ending).await;
        });
    }

    /// Connects an agent; `None` if there is no such toolbox.
    fn come(&self, asker: &Asker) -> Option<Agent> {
        if asker.is_over_http {
            let address = self.address.expect("it listens");
            let token = asker.name.as_deref().map(token);
            return Some(Agent::over_http(address, asker.toolbox.as_deref(), token, &self.tasks));
        }
        let caller = caller(asker);
        if !self.gateways.has_toolbox(&caller) {
            return None;
        }
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let (app, tasks, shutdown) = (self.app.clone(), self.tasks.clone(), self.shutdown.clone());
        self.tasks.spawn(async move {
            frontend::serve(&app, caller, reader, writer, &tasks, &shutdown).await;
        });
        Some(Agent::on(ours, &self.tasks))
    }

    /// Has an agent come and make its requests, and tells what it has received.
    async fn receive(&self, visit: Visit<'_>) -> Heard {
        let mut agent = self.come(visit.asker);
        greet_and_ask(agent.as_mut(), visit).await;
        agent.map(|agent| agent.heard()).unwrap_or_default()
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.gateways.shut_down().await;
    }
}
