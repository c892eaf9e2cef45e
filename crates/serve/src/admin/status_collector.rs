//! Collects the status of a workbench from its telemetry, server conditions and configuration.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::admin::status::{
    AgentStatus, Latency, LockDrift, MissingLogin, ServerState, ServerStatus, ToolboxStatus,
    TrafficSample, WorkbenchStatus,
};
use mcp_workbench_core::gateway::{BackendStatus, Caller, GatewayRegistry, ListingDrift, Phase};
use mcp_workbench_core::telemetry::{CallStats, LiveSnapshot, estimate_tokens};
use mcp_workbench_core::toolbox;
use mcp_workbench_names::{ServerRef, untrusted_text};
use mcp_workbench_os::ProcessMemory;
use mcp_workbench_settings::{Launch, ServerConfig, ToolboxConfig};

/// Maximum number of toolboxes, and of servers per toolbox.
const MAX_SHOWN: usize = 256;
const MAX_DRIFTED: usize = 8;
/// Maximum length of a description or reason, in characters.
const MAX_TEXT: usize = 400;
/// How long a memory reading is reused.
const PAUSE: Duration = Duration::from_millis(1_900);

pub(super) struct StatusCollector {
    since: SystemTime,
    memory: Mutex<Option<(Instant, Vec<u32>, ProcessMemory)>>,
}

impl StatusCollector {
    pub(super) fn new() -> Self {
        Self { since: SystemTime::now(), memory: Mutex::default() }
    }

    /// Returns the current status, as `caller` sees it. `file` is the configuration file. The first
    /// call turns on the recording of calls.
    pub(super) fn status(
        &self,
        gateways: &GatewayRegistry,
        caller: &Caller,
        file: &str,
    ) -> WorkbenchStatus {
        let picture = gateways.observer().live().snapshot();
        let conditions = gateways.backend_statuses();
        let config = gateways.config();
        let gateway = gateways.any_gateway_for(caller);
        let mut pids: Vec<u32> =
            conditions.values().flat_map(|condition| &condition.pids).copied().collect();
        pids.sort_unstable();
        let memory = |work: &mut dyn FnMut(&ProcessMemory)| self.with_memory(&pids, work);
        let own = std::process::id();
        let mut view = WorkbenchStatus {
            at: millis(SystemTime::now()),
            pid: own,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: millis(self.since),
            config: untrusted_text::display_name(file, MAX_TEXT),
            endpoint: picture.address.clone().unwrap_or_else(|| "stdio".to_owned()),
            mode: config.mode.as_str().to_owned(),
            calls_in_flight: picture.under_way,
            approvals: gateways.approvals().count(),
            calls_since: picture.since,
            latency: latency(picture.latency),
            saved_tokens: picture.saved_tokens,
            ..WorkbenchStatus::default()
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
                        let lacks = condition
                            .wants_sign_in
                            .then(|| gateway.sign_ins().required_sign_in(&at));
                        let sign_in = lacks.flatten().map(|it| MissingLogin {
                            account: it.account,
                            is_in_progress: it.is_waited_for,
                        });
                        let shown = self::server(server, &condition, part, memory, counts);
                        let drift = gateway.snapshot().drift(&at).map(|judged| drift(judged));
                        ServerStatus { sign_in, drift, ..shown }
                    });
                    ToolboxStatus {
                        name: toolbox.name.to_string(),
                        description: purpose(toolbox),
                        opened: opened(&picture, toolbox),
                        servers: servers.collect(),
                    }
                })
                .collect();
        });
        view.agents = picture
            .agents
            .iter()
            .map(|(session, agent)| AgentStatus {
                session: *session,
                name: agent.name.clone(),
                client: agent.client.clone(),
                version: agent.version.clone(),
                since: agent.since,
                calls: agent.calls,
                saved_tokens: agent.saved_tokens,
            })
            .collect();
        view.traffic = picture
            .traffic
            .iter()
            .map(|(at, counts)| TrafficSample {
                at: *at,
                calls: counts.calls,
                errors: counts.errors,
                latency: latency(counts.latency),
                saved_tokens: counts.saved_tokens,
            })
            .collect();
        view.calls = picture.calls;
        view
    }

    /// Calls `work` with the memory use of the processes, read again after `PAUSE`.
    fn with_memory(&self, pids: &[u32], work: &mut dyn FnMut(&ProcessMemory)) {
        let mut known = self.memory.lock();
        let is_known = |(when, known, _): &(Instant, Vec<u32>, ProcessMemory)| {
            when.elapsed() < PAUSE && known == pids
        };
        if !known.as_ref().is_some_and(is_known) {
            let wanted = pids.iter().copied().chain([std::process::id()]);
            *known = Some((Instant::now(), pids.to_vec(), ProcessMemory::of(wanted)));
        }
        if let Some((_, _, memory)) = &*known {
            work(memory);
        }
    }
}

fn drift(judged: &ListingDrift) -> LockDrift {
    LockDrift {
        action: judged.action.as_str().to_owned(),
        count: judged.drift.len(),
        differences: judged.drift.iter().take(MAX_DRIFTED).map(ToString::to_string).collect(),
        accept: judged.accepting(),
    }
}

fn purpose(toolbox: &ToolboxConfig) -> String {
    untrusted_text::single_line(&toolbox.description).chars().take(MAX_TEXT).collect()
}

fn opened(picture: &LiveSnapshot, toolbox: &ToolboxConfig) -> usize {
    picture.agents.values().filter(|agent| agent.opened.contains(&toolbox.name)).count()
}

fn counts(picture: &LiveSnapshot, at: &ServerRef) -> CallStats {
    let key = (at.toolbox.clone(), at.server.clone());
    picture.servers.get(&key).copied().unwrap_or_default()
}

fn server(
    config: &ServerConfig,
    condition: &BackendStatus,
    part: Option<&toolbox::ServerView>,
    memory: &ProcessMemory,
    counts: CallStats,
) -> ServerStatus {
    let state = match (&config.launch, condition.phase) {
        // Macros run in this process, so they are always available.
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
    ServerStatus {
        name: config.name.to_string(),
        state,
        is_paused: condition.is_paused,
        pid: condition.pids.first().copied(),
        since: condition.since.map(millis),
        memory_bytes: held.reduce(|all, one| all + one),
        tools: part.map(|part| part.tools.len()),
        tokens: bytes.map(|bytes| estimate_tokens(bytes) as u64),
        calls: counts.calls,
        errors: counts.errors,
        latency: latency(counts.latency),
        reason: reason
            .map(|reason| untrusted_text::single_line(reason).chars().take(MAX_TEXT).collect()),
        stderr_tail: condition.stderr_tail.clone(),
        sign_in: None,
        drift: None,
    }
}

fn latency(percentiles: Option<[f64; 3]>) -> Option<Latency> {
    percentiles.map(|[p50, p95, p99]| Latency { p50, p95, p99 })
}

pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
