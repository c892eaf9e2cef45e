//! The metrics as data: name, kind, labels and help of each, for the registry and for the reference.

use prometheus_client::registry::Registry;

/// A metric as it is told to whoever asks for figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name between the prefix `mcp_workbench_` and the endings that its kind adds.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// The labels of each of its figures, in their order.
    pub labels: &'static [&'static str],
    /// The things that it counts or measures.
    pub help: &'static str,
}

impl Metric {
    /// Has these figures told as this metric.
    pub(super) fn register(
        &self,
        registry: &mut Registry,
        figures: impl prometheus_client::registry::Metric,
    ) {
        registry.register(self.name, self.help, figures);
    }
}

/// The kinds of metrics, as `OpenMetrics` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, from the start of the program on; its name ends in `_total`.
    Counter,
    /// It grows and falls.
    Gauge,
    /// Counts of how many were at most so large, a sum and a count.
    Histogram,
}

impl MetricKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const SERVER: &[&str] = &["toolbox", "server"];

const fn metric(
    kind: MetricKind,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, labels, help }
}

macro_rules! metrics {
    ($($constant:ident = $kind:ident, $name:literal, $labels:expr, $help:literal;)*) => {
        $(pub(super) const $constant: Metric = metric(MetricKind::$kind, $name, $labels, $help);)*
        /// Every metric, in the order in which they are told.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    CALLS = Counter, "tool_calls", &["toolbox", "server", "outcome"], "Calls by what became of them";
    SECONDS = Histogram, "tool_call_seconds", SERVER, "How long calls took, from the request to the answer";
    ARGUMENT_BYTES = Counter, "argument_bytes", SERVER, "Bytes of arguments of calls";
    RESULT_BYTES = Counter, "result_bytes", SERVER, "Bytes of results and errors of calls";
    RUNNING = Gauge, "backends_running", SERVER, "Servers that are running";
    STARTS = Counter, "backend_starts", &["toolbox", "server", "result"], "Starts of servers";
    RESTARTS = Counter, "backend_restarts", SERVER, "Starts of servers that have run before";
    DEATHS = Counter, "backend_deaths", SERVER, "Servers that ended by themselves";
    LLM_REQUESTS = Counter, "llm_requests", &["model", "outcome"], "Requests to language models by what became of them";
    LLM_TOKENS = Counter, "llm_tokens", &["model", "kind"], "Tokens that language models have read and written";
    SESSIONS = Gauge, "sessions", &[], "Agents that are there";
    ADOPTED = Counter, "sessions_adopted", &[], "Sessions that another replica had begun and that were taken over here";
    TASKS = Gauge, "tasks", &[], "Tasks of the program that have not ended";
    TOKENS_SAVED = Gauge, "tokens_saved", &[], "Estimate of tokens of definitions that agents did not get, against direct mode";
    TLS_SECONDS = Gauge, "tls_expires_in_seconds", &["file"], "How long the certificates for TLS are still good, by the key of their file";
    LOST = Counter, "audit_records_lost", &[], "Records that could not be written to the audit file";
    HELD = Gauge, "held", &["what"], "What callers hold at the moment, by what it is";
    LIMITS_REACHED = Counter, "limits_reached", &["what"], "How often a caller wanted to hold more than it may, by what that was";
    SIGN_INS = Counter, "sign_ins", &["server", "change"], "Logins at servers over HTTP: signed_in, renewed, wanted, signed_out";
    DRIFT = Counter, "definition_drift", &["toolbox", "server"], "Definitions that were found not to be as `workbench.lock` has them";
    SHARED_UP = Gauge, "shared_store_up", &[], "Whether the store that workbenches share can be used: 1 or 0; absent where there is none";
    SHARED_SECONDS = Histogram, "shared_store_seconds", &[], "How long the store that workbenches share took to answer, or to be given up";
}
