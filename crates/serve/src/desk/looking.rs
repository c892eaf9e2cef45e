//! All that is seen of a workbench at one moment, put together of what goes on and of how servers are.

use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::desk::Desk;
use crate::desk::view::{
    Agent, Call, Course, Drift, Latency, Server, ServerState, SignIn, Toolbox, View,
};
use crate::gateway::{Condition, Gateway, Judged, Phase};
use crate::name::{ServerRef, seen};
use crate::observe::{LiveCall, LiveCounts, Picture, tokens};
use crate::os::Memory;
use crate::settings::{Launch, ServerConfig, ToolboxConfig};
use crate::toolbox;

/// The most toolboxes, and the most servers of one.
const MAX_SHOWN: usize = 256;
/// The most definitions of a server that are not as the lock has them.
const MAX_DRIFTED: usize = 8;
/// The most characters of a description or of a reason.
const MAX_TEXT: usize = 400;
/// How long is not asked again how much memory processes hold.
const PAUSE: Duration = Duration::from_millis(1_900);

impl Desk {
    /// Looks at the workbench. From the first look on calls are noted.
    pub fn view(&self) -> View {
        let gateways = &self.0.gateways;
        let picture = gateways.observer().live().look();
        let conditions = gateways.conditions();
        let config = gateways.config();
        let gateway = gateways.at_hand(&self.0.caller);
        let mut pids: Vec<u32> =
            conditions.values().flat_map(|condition| &condition.pids).copied().collect();
        pids.sort_unstable();
        let memory = |work: &mut dyn FnMut(&Memory)| self.with_memory(&pids, work);
        let own = std::process::id();
        let mut view = View {
            at: millis(SystemTime::now()),
            pid: own,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: millis(self.0.since),
            config: seen::named(&self.0.papers.config, MAX_TEXT),
            reached: picture.address.clone().unwrap_or_else(|| "stdio".to_owned()),
            mode: config.mode.as_str().to_owned(),
            under_way: picture.under_way,
            saved_tokens: picture.saved_tokens,
            ..View::default()
        };
        memory(&mut |memory| {
            view.memory_bytes = memory.process(own);
            let toolboxes = config.toolboxes.iter().take(MAX_SHOWN);
            view.toolboxes = toolboxes
                .map(|toolbox| {
                    let shown = gateway.snapshot().view(&toolbox.name);
                    let servers = toolbox.servers.iter().take(MAX_SHOWN).map(|server| {
                        let at = ServerRef {
                            toolbox: toolbox.name.clone(),
                            server: server.name.clone(),
                        };
                        let condition = conditions.get(&at).cloned().unwrap_or_default();
                        let part = shown.part(server.name.as_str()).map(|part| &**part);
                        let counts = counts(&picture, &at);
                        let lacks = condition.wants_sign_in.then(|| gateway.signing_in(&at));
                        let sign_in = lacks.flatten().map(|it| SignIn {
                            account: it.account,
                            is_waited_for: it.is_waited_for,
                        });
                        let shown = self::server(server, &condition, part, memory, counts);
                        let drift = gateway.snapshot().drift(&at).map(|judged| drift(judged));
                        Server { sign_in, drift, ..shown }
                    });
                    let servers: Vec<Server> = servers.collect();
                    let tokens: u64 = servers.iter().filter_map(|server| server.tokens).sum();
                    let opened = opened(&picture, toolbox);
                    let others = picture.agents.len() - opened;
                    Toolbox {
                        name: toolbox.name.to_string(),
                        description: purpose(toolbox),
                        opened,
                        saved_tokens: tokens.saturating_mul(others as u64),
                        servers,
                    }
                })
                .collect();
        });
        view.agents = picture
            .agents
            .iter()
            .map(|(session, agent)| Agent {
                session: *session,
                name: agent.name.clone(),
                client: agent.client.clone(),
                since: agent.since,
                calls: agent.calls,
                saved_tokens: agent.saved_tokens,
            })
            .collect();
        view.course = picture
            .course
            .iter()
            .map(|(at, counts)| Course {
                at: *at,
                calls: counts.calls,
                errors: counts.errors,
                latency: latency(counts),
                saved_tokens: counts.saved_tokens,
            })
            .collect();
        view.calls = picture.calls.into_iter().map(call).collect();
        view
    }

    /// Does something with what is known of how much memory processes hold.
    fn with_memory(&self, pids: &[u32], work: &mut dyn FnMut(&Memory)) {
        let mut known = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |(when, known, _): &(Instant, Vec<u32>, Memory)| {
            when.elapsed() < PAUSE && known == pids
        };
        if !known.as_ref().is_some_and(is_known) {
            let wanted = pids.iter().copied().chain([std::process::id()]);
            *known = Some((Instant::now(), pids.to_vec(), Memory::of(wanted)));
        }
        if let Some((_, _, memory)) = &*known {
            work(memory);
        }
    }

    /// The gateway of whoever sits here, once it shows what servers listed when they last ran.
    pub(super) async fn gateway(&self) -> std::sync::Arc<Gateway> {
        let gateway = self.0.gateways.at_hand(&self.0.caller);
        gateway.recalled().await;
        gateway
    }
}

/// The definitions that are not as the lock has them.
fn drift(judged: &Judged) -> Drift {
    Drift {
        definitions: judged.heed.word().to_owned(),
        count: judged.drift.len(),
        what: judged.drift.iter().take(MAX_DRIFTED).map(ToString::to_string).collect(),
        accept: judged.accepting(),
    }
}

/// The line about a toolbox.
fn purpose(toolbox: &ToolboxConfig) -> String {
    seen::line(&toolbox.description).chars().take(MAX_TEXT).collect()
}

/// How many of the agents that are there have had a toolbox open.
fn opened(picture: &Picture, toolbox: &ToolboxConfig) -> usize {
    picture.agents.values().filter(|agent| agent.opened.contains(&toolbox.name)).count()
}

fn counts(picture: &Picture, at: &ServerRef) -> LiveCounts {
    let key = (at.toolbox.clone(), at.server.clone());
    picture.servers.get(&key).copied().unwrap_or_default()
}

fn server(
    config: &ServerConfig,
    condition: &Condition,
    part: Option<&toolbox::Part>,
    memory: &Memory,
    counts: LiveCounts,
) -> Server {
    let state = match (&config.launch, condition.phase) {
        // Tools of ours are there as long as we are.
        (Launch::Macros(_), _) | (_, Phase::Running) => ServerState::Running,
        (Launch::Unsupported { .. } | Launch::Broken { .. }, _) | (_, Phase::Failed) => {
            ServerState::Failed
        }
        (_, Phase::Starting) => ServerState::Starting,
        (_, Phase::Stopped) => ServerState::Stopped,
    };
    let reason = match &config.launch {
        Launch::Unsupported { reason, .. } | Launch::Broken { reason, .. } => Some(reason),
        _ => condition.reason.as_ref().filter(|_| state == ServerState::Failed),
    };
    let bytes = part.map(|part| part.tools.iter().map(|tool| tool.definition.raw.len()).sum());
    let held = condition.pids.iter().filter_map(|pid| memory.group(*pid));
    Server {
        name: config.name.to_string(),
        state,
        is_muted: condition.is_muted,
        pid: condition.pids.first().copied(),
        since: condition.since.map(millis),
        memory_bytes: held.reduce(|all, one| all + one),
        tools: part.map(|part| part.tools.len()),
        tokens: bytes.map(|bytes| tokens(bytes) as u64),
        calls: counts.calls,
        errors: counts.errors,
        latency: latency(&counts),
        reason: reason.map(|reason| seen::line(reason).chars().take(MAX_TEXT).collect()),
        last_words: condition.last_words.clone(),
        sign_in: None,
        drift: None,
    }
}

fn latency(counts: &LiveCounts) -> Option<Latency> {
    counts.latency.map(|[p50, p95, p99]| Latency { p50, p95, p99 })
}

fn call(call: LiveCall) -> Call {
    let LiveCall { number, at, session, agent, toolbox, server, tool, argument_bytes, end } = call;
    Call {
        number,
        at,
        session,
        agent,
        toolbox,
        server,
        tool,
        // More digits say nothing.
        ms: (end.took.as_secs_f64() * 100_000.0).round() / 100.0,
        argument_bytes: argument_bytes as u64,
        result_bytes: end.result_bytes.map(|bytes| bytes as u64),
        outcome: end.ending.as_str().to_owned(),
    }
}

/// A time in milliseconds since 1970.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
