//! Status of a workbench at one moment.

use serde::{Deserialize, Serialize};

use mcp_workbench_core::telemetry::FinishedCall;

/// Status of a running workbench. Times are in Unix milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkbenchStatus {
    pub at: u64,
    /// Process ID.
    pub pid: u32,
    pub version: String,
    pub since: u64,
    /// The path of the configuration, as the user entered it.
    pub config: String,
    /// `stdio`, or the address it listens on.
    pub endpoint: String,
    pub mode: String,
    /// Memory of the workbench process, in bytes; `None` if the system doesn't report it.
    pub memory_bytes: Option<u64>,
    /// At most 256.
    pub agents: Vec<AgentStatus>,
    /// In the order of the configuration; at most 256.
    pub toolboxes: Vec<ToolboxStatus>,
    /// The most recently finished calls, newest first; at most 100.
    pub calls: Vec<FinishedCall>,
    /// Since when calls are recorded: `top` or the dashboard was first opened.
    pub calls_since: u64,
    /// Durations of all calls since then.
    pub latency: Option<Latency>,
    /// One sample per 5 s for the last 10 minutes, oldest first.
    pub traffic: Vec<TrafficSample>,
    pub calls_in_flight: u64,
    /// Number of calls that wait for an approval.
    pub approvals: usize,
    /// Total tokens saved, including agents that have disconnected.
    pub saved_tokens: i64,
}

/// A connected agent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStatus {
    /// Sequence number of the agent in this process.
    pub session: u64,
    /// The agent's name in policy.
    pub name: Option<String>,
    /// The name and version that the client reports about itself.
    pub client: Option<String>,
    pub version: Option<String>,
    pub since: u64,
    pub calls: u64,
    /// Tokens of definitions that its model did not have to read.
    pub saved_tokens: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolboxStatus {
    pub name: String,
    /// The description that models read, on one line.
    pub description: String,
    /// Number of connected agents that have opened it.
    pub opened: usize,
    /// In the order of the configuration; at most 256.
    pub servers: Vec<ServerStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerStatus {
    pub name: String,
    pub state: ServerState,
    /// `true` if an operator stopped it and blocked its start.
    pub is_paused: bool,
    /// `None` for a server over HTTP.
    pub pid: Option<u32>,
    /// When it entered the current state.
    pub since: Option<u64>,
    /// Memory of its processes, in bytes; `None` if the system doesn't report it.
    pub memory_bytes: Option<u64>,
    /// Number of tools that agents can see; `None` if it has not been listed yet.
    pub tools: Option<usize>,
    /// Tokens of the definitions of those tools.
    pub tokens: Option<u64>,
    pub calls: u64,
    /// Finished calls that failed.
    pub errors: u64,
    /// Durations of its calls since `callsSince`.
    pub latency: Option<Latency>,
    /// Why it failed to start or exited; without control characters.
    pub reason: Option<String>,
    /// Last lines on stderr, without control characters; at most 8.
    pub stderr_tail: Vec<String>,
    /// Set if the server needs a login.
    pub sign_in: Option<MissingLogin>,
    /// `None` if the definitions match the lock, or aren't checked.
    pub drift: Option<LockDrift>,
}

/// Definitions of a server that differ from the lock.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockDrift {
    /// `warn`, `quarantine` or `deny`.
    pub action: String,
    pub count: usize,
    /// The differences, such as "tool `add` changed: description"; at most 8.
    pub differences: Vec<String>,
    /// The command that accepts the changes.
    pub accept: String,
}

/// A login that a server needs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MissingLogin {
    /// The agent that has to log in; `None` for the login of this machine.
    pub account: Option<String>,
    pub is_in_progress: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Not running; starts on demand.
    #[default]
    Stopped,
    /// Started, but not listed yet.
    Starting,
    Running,
    /// Failed to start, or exited unexpectedly.
    Failed,
}

/// Calls within one interval.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrafficSample {
    pub at: u64,
    pub calls: u64,
    /// Finished calls that failed.
    pub errors: u64,
    pub latency: Option<Latency>,
    pub saved_tokens: i64,
}

/// Percentiles of call durations, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Unused tools and a patch that excludes them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnusedTools {
    /// Since when usage has been recorded.
    pub since: u64,
    /// Toolbox, server and tool of each; at most 1,000.
    pub tools: Vec<(String, String, String)>,
    /// A JSON fragment to merge into the configuration.
    pub patch: String,
}
