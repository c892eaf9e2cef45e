//! A workbench in this process, and the agents that come to it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mcp_workbench::backend::PoolOptions;
use mcp_workbench::config;
use mcp_workbench::frontend::{self, AppState};
use mcp_workbench::gateway::{Caller, Gateways};
use mcp_workbench::name::{AgentName, ServerName, ToolboxName};
use mcp_workbench::settings::Config;
use serde_json::Value;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::one_policy::agent::{Agent, Asker, Heard};

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

/// The configuration, if it can be used.
pub(crate) fn checked(config: &Value) -> Option<Config> {
    let (file, env) = (Path::new("workbench-config.json"), BTreeMap::new());
    config::parse(&config.to_string(), file, Path::new("/"), &env).ok().map(|loaded| loaded.config)
}

/// Everything that an agent receives, and that the one beside it does.
pub(crate) async fn heard(
    config: Config,
    serves_many: bool,
    one: Visit<'_>,
    beside: Option<Beside<'_>>,
) -> [Heard; 2] {
    let workbench = Workbench::start(config, serves_many).await;
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
        Self { app, gateways, tasks, shutdown: CancellationToken::new() }
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

    /// Connects an agent; `None` if there is no such toolbox.
    fn come(&self, asker: &Asker) -> Option<Agent> {
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
