//! Metric descriptors, used by the registry and by the reference documentation.

use prometheus_client::registry::Registry;

/// The description of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricDescriptor {
    /// The name without the prefix `mcp_workbench_` and the suffixes of its kind.
    pub name: &'static str,
    pub kind: MetricKind,
    /// The names of its labels, in order.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl MetricDescriptor {
    pub(super) fn register(
        &self,
        registry: &mut Registry,
        figures: impl prometheus_client::registry::Metric,
    ) {
        registry.register(self.name, self.help, figures);
    }
}

/// The kind of a metric, as in `OpenMetrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows while the process runs. The name ends in `_total`.
    Counter,
    /// It can grow and shrink.
    Gauge,
    /// Cumulative counts up to each bound, with the sum and the total count.
    Histogram,
}

impl MetricKind {
    /// Returns the name of the kind in `OpenMetrics`.
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
) -> MetricDescriptor {
    MetricDescriptor { name, kind, labels, help }
}

macro_rules! metrics {
    ($($constant:ident = $kind:ident, $name:literal, $labels:expr, $help:literal;)*) => {
        $(pub(super) const $constant: MetricDescriptor = metric(MetricKind::$kind, $name, $labels, $help);)*
        /// All metrics, in the order of the output.
        pub const METRICS: &[MetricDescriptor] = &[$($constant),*];
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
