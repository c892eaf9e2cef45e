//! A workbench in this process and the agents that connect to it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_workbench_core::backend::{PoolOptions, ServedAgents};
use mcp_workbench_core::gateway::{Caller, GatewayRegistry};
use mcp_workbench_http::{DefaultAccess, DrainControl, DrainTimeouts, HttpListeners};
use mcp_workbench_names::{AgentName, ServerName, ToolboxName};
use mcp_workbench_serve::frontend::{self, AppState, StreamDrain};
use mcp_workbench_settings::Config;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::one_policy::agent::{Agent, AgentProfile, ReceivedMessages};
use crate::one_policy::conditions::FOLDER;

#[derive(Clone, Copy)]
pub(crate) struct Visit<'a> {
    pub(crate) asker: &'a AgentProfile,
    pub(crate) requests: &'a [(String, Value)],
}

#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub(crate) visit: Visit<'a>,
    /// `true` if it finishes before the first agent starts; otherwise they alternate.
    pub(crate) is_first: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Doors {
    /// `true` if several agents can connect.
    pub(crate) serves_many: bool,
    pub(crate) is_over_http: bool,
}

pub(crate) fn checked(config: &Value) -> Option<Config> {
    let (file, env) = (Path::new("workbench-config.json"), BTreeMap::new());
    let loaded =
        mcp_workbench_config::parse(&config.to_string(), file, Path::new("/"), &env).ok()?;
    let mut config = loaded.config;
    config.policy.working_directory = Some(FOLDER.into());
    Some(config)
}

fn token(agent: &str) -> String {
    format!("a-token-for-{agent}-0123")
}

pub(crate) fn auth() -> Value {
    let tokens = ["ann", "bob"].map(|agent| {
        let digest = Sha256::digest(token(agent).as_bytes());
        let sha256 = hex::encode(digest);
        json!({"agent": agent, "sha256": sha256})
    });
    json!({"tokens": tokens, "anonymous": true})
}

pub(crate) async fn heard(
    config: Config,
    doors: Doors,
    one: Visit<'_>,
    beside: Option<Beside<'_>>,
) -> [ReceivedMessages; 2] {
    let mut workbench = Workbench::start(config, doors.serves_many).await;
    if doors.is_over_http {
        workbench.listen().await;
    }
    workbench.shows_what_runs(one.asker).await;
    let Some(Beside { visit: other, is_first }) = beside else {
        let heard = workbench.receive(one).await;
        workbench.end().await;
        return [heard, ReceivedMessages::default()];
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

fn caller(asker: &AgentProfile) -> Caller {
    Caller {
        agent: asker.name.as_ref().map(AgentName::new),
        toolbox: asker.toolbox.as_ref().map(ToolboxName::new),
        subject: None,
    }
}

struct Workbench {
    app: AppState,
    gateways: Arc<GatewayRegistry>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    address: Option<SocketAddr>,
}

impl Workbench {
    /// Returns once every eager server is running or has failed.
    async fn start(config: Config, serves_many: bool) -> Self {
        let tasks = TaskTracker::new();
        let options = PoolOptions {
            agents: ServedAgents { are_many: serves_many, ..ServedAgents::default() },
            ..PoolOptions::default()
        };
        let gateways = Arc::new(GatewayRegistry::new(Arc::new(config), options, &tasks));
        let app = AppState::new(Arc::clone(&gateways), &tasks).expect("random numbers");
        gateways.run_eager_servers();
        while gateways.unready_servers().iter().any(|down| !down.has_failed) {
            yield_now().await;
        }
        Self { app, gateways, tasks, shutdown: CancellationToken::new(), address: None }
    }

    /// Waits until the agent sees the listings of eager servers. A second agent of the same kind
    /// would find them loaded.
    async fn shows_what_runs(&self, asker: &AgentProfile) {
        let gateway = self.gateways.gateway_for(&caller(asker), None);
        let (config, down) = (gateway.config(), self.gateways.unready_servers());
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

    async fn listen(&mut self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        self.address = listener.local_addr().ok();
        let listening =
            HttpListeners { agents: listener, health: None, max_connections: 1000, tls: None };
        let (draining, shutdown) = (CancellationToken::new(), self.shutdown.clone());
        let ending = DrainControl { draining, grace: DrainTimeouts::default(), shutdown };
        let (app, tasks) = (self.app.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            mcp_workbench_http::serve(app, listening, DefaultAccess::default(), &tasks, ending)
                .await;
        });
    }

    fn come(&self, asker: &AgentProfile) -> Option<Agent> {
        if asker.is_over_http {
            let address = self.address.expect("a listener");
            let token = asker.name.as_deref().map(token);
            return Some(Agent::over_http(address, asker.toolbox.as_deref(), token, &self.tasks));
        }
        let caller = caller(asker);
        if !self.gateways.has_toolbox(&caller) {
            return None;
        }
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let streams = tokio::io::split(theirs);
        let (app, tasks, shutdown) = (self.app.clone(), self.tasks.clone(), self.shutdown.clone());
        self.tasks.spawn(async move {
            let drain = StreamDrain {
                timeout: Duration::from_millis(300),
                agent_left: std::future::pending(),
            };
            frontend::serve_stream(&app, caller, streams, &tasks, &shutdown, drain).await;
        });
        Some(Agent::on(ours, &self.tasks))
    }

    async fn receive(&self, visit: Visit<'_>) -> ReceivedMessages {
        let mut agent = self.come(visit.asker);
        greet_and_ask(agent.as_mut(), visit).await;
        agent.map(|agent| agent.heard()).unwrap_or_default()
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.gateways.shut_down().await;
    }
}
