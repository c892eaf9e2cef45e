//! All that is seen of a workbench at one moment.

use serde::{Deserialize, Serialize};

/// A workbench that serves, at one moment. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct View {
    /// The moment.
    pub at: u64,
    /// The process.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
    /// When it began.
    pub since: u64,
    /// The configuration, as the user named it.
    pub config: String,
    /// How it is reached: `stdio`, or an address.
    pub reached: String,
    /// How it presents toolboxes.
    pub mode: String,
    /// The memory of the workbench itself, in bytes, where the system tells.
    pub memory_bytes: Option<u64>,
    /// The agents that are there; 256 at most.
    pub agents: Vec<Agent>,
    /// The toolboxes, in the order of the configuration; 256 at most.
    pub toolboxes: Vec<Toolbox>,
    /// The calls that ended last, the newest first; 100 at most.
    pub calls: Vec<Call>,
    /// How it went, a point for each 5 s of the last 10 minutes; the oldest first.
    pub course: Vec<Course>,
    /// Calls that run now.
    pub under_way: u64,
    /// Tokens that models were spared in all, those of agents that have left included.
    pub saved_tokens: i64,
}

/// An agent that is there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Agent {
    /// Counts the agents of the process.
    pub session: u64,
    /// Its name in policy.
    pub name: Option<String>,
    /// The name that its program gives itself.
    pub client: Option<String>,
    /// Since when it is there.
    pub since: u64,
    /// Its calls that have ended.
    pub calls: u64,
    /// Tokens of definitions that its model was spared.
    pub saved_tokens: i64,
}

/// A toolbox.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toolbox {
    /// Its name.
    pub name: String,
    /// The line about it that models read.
    pub description: String,
    /// How many of the agents that are there have had it open.
    pub opened: usize,
    /// Tokens of its definitions for each of those agents that have not, and so were spared them.
    pub saved_tokens: u64,
    /// Its servers, in the order of the configuration; 256 at most.
    pub servers: Vec<Server>,
}

/// A server of a toolbox.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Server {
    /// Its name in the toolbox.
    pub name: String,
    /// The part of its life that it is in.
    pub state: ServerState,
    /// `true` if it is not to be started, because somebody muted it.
    pub is_muted: bool,
    /// Its process; none over HTTP.
    pub pid: Option<u32>,
    /// Since when it is in that state.
    pub since: Option<u64>,
    /// The memory of its processes, in bytes, where the system tells.
    pub memory_bytes: Option<u64>,
    /// How many tools agents may see of it; `None`: it has not been listed yet.
    pub tools: Option<usize>,
    /// Tokens of the definitions of those tools.
    pub tokens: Option<u64>,
    /// Calls that have ended.
    pub calls: u64,
    /// Calls among them that did not end well.
    pub errors: u64,
    /// How long its calls took.
    pub latency: Option<Latency>,
    /// Why it could not be started, or ended by itself; without control characters.
    pub reason: Option<String>,
    /// Its last lines on standard error, without control characters; 8 at most.
    pub last_words: Vec<String>,
    /// The sign-in that it lacks; `None`: it lacks none.
    pub sign_in: Option<SignIn>,
    /// Its definitions that are not as the lock has them; `None`: all are, or nobody looks.
    pub drift: Option<Drift>,
}

/// Definitions of a server that are not as the lock has them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Drift {
    /// The fate of them: `warn`, `quarantine` or `deny`.
    pub definitions: String,
    /// How many there are.
    pub count: usize,
    /// The differences, such as "tool `add` has changed: description"; 8 at most.
    pub what: Vec<String>,
    /// The command that takes it over.
    pub accept: String,
}

/// A sign-in that a server lacks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SignIn {
    /// The agent whose login it is; `None`: one for all who use this machine's account.
    pub account: Option<String>,
    /// `true` if somebody is about to sign in.
    pub is_waited_for: bool,
}

/// The part of its life that a server is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// It does not run; it starts when it is wanted.
    #[default]
    Stopped,
    /// It has been started, and has not said yet what it has.
    Starting,
    /// It runs.
    Running,
    /// It could not be started, or has ended by itself.
    Failed,
}

/// A call that has ended.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Call {
    /// Counts the calls of the process; a call that is seen twice has the same.
    pub number: u64,
    /// When it began.
    pub at: u64,
    /// The session of the agent.
    pub session: u64,
    /// The agent, by its name in policy.
    pub agent: Option<String>,
    /// The toolbox, where one has it.
    pub toolbox: Option<String>,
    /// The server, where one has it.
    pub server: Option<String>,
    /// The tool, as the agent named it; without control characters.
    pub tool: String,
    /// How long it took, in milliseconds.
    pub ms: f64,
    /// The bytes of its arguments.
    pub argument_bytes: u64,
    /// The bytes of its answer, if there was one.
    pub result_bytes: Option<u64>,
    /// The word for its end, as in the audit: `ok`, `tool_error`, `timed_out` and so on.
    pub outcome: String,
}

/// How it went within one stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Course {
    /// The beginning of the stretch.
    pub at: u64,
    /// Calls that ended in it.
    pub calls: u64,
    /// Calls among them that did not end well.
    pub errors: u64,
    /// How long they took.
    pub latency: Option<Latency>,
    /// Tokens that models were spared in it.
    pub saved_tokens: i64,
}

/// Within which time so many of the calls ended, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Latency {
    /// Half of them.
    pub p50: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 99 of 100.
    pub p99: f64,
}

/// Tools that nobody has used, and how they would be left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unused {
    /// Since when uses are known.
    pub since: u64,
    /// The tools, as toolbox, server and tool; 1,000 at most.
    pub tools: Vec<(String, String, String)>,
    /// A fragment of JSON that leaves them out, to be merged into the configuration.
    pub patch: String,
}
