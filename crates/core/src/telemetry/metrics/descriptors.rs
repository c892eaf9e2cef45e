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
    CALLS = Counter, "tool_calls", &["toolbox", "server", "outcome"], "Tool calls by outcome";
    DURATION = Histogram, "tool_call_duration_seconds", SERVER, "Duration of tool calls, from the request to the response";
    ARGUMENT_BYTES = Counter, "argument_bytes", SERVER, "Bytes of tool call arguments";
    RESULT_BYTES = Counter, "result_bytes", SERVER, "Bytes of tool call results and errors";
    RUNNING = Gauge, "servers_running", SERVER, "Running server processes, and connections to HTTP servers";
    STARTS = Counter, "server_starts", &["toolbox", "server", "result"], "Server starts by result (`ok` or `failed`)";
    RESTARTS = Counter, "server_restarts", SERVER, "Successful starts of servers that had run before";
    CRASHES = Counter, "server_crashes", SERVER, "Servers that exited unexpectedly";
    LLM_REQUESTS = Counter, "llm_requests", &["model", "outcome"], "Requests to language models by outcome";
    LLM_TOKENS = Counter, "llm_tokens", &["model", "kind"], "Tokens that language models read (input) and wrote (output)";
    SESSIONS = Gauge, "sessions", &[], "Open sessions of agents";
    ADOPTED = Counter, "sessions_adopted", &[], "Sessions adopted from another replica";
    RUNTIME_TASKS = Gauge, "runtime_tasks", &[], "Running tasks of the async runtime";
    TOKENS_SAVED = Gauge, "tokens_saved", &[], "Estimated tokens of definitions that models did not have to read, compared with direct mode";
    TLS_EXPIRY = Gauge, "tls_certificate_expiry_seconds", &["file"], "Seconds until the TLS certificate in this configuration key expires";
    LOST = Counter, "audit_records_lost", &[], "Audit records that could not be written";
    CALLER_USAGE = Gauge, "caller_usage", &["quota"], "Resources that all callers hold at the moment, by quota";
    LIMITS_REACHED = Counter, "limits_reached", &["quota"], "Times that a caller or server reached a quota";
    AUTH_FAILURES = Counter, "auth_failures", &["reason"], "HTTP requests denied for their `Host`, `Origin`, token, certificate or agent";
    SIGN_INS = Counter, "sign_ins", &["server", "change"], "Changes of logins at HTTP servers: signed_in, renewed, required, signed_out";
    DRIFT = Counter, "definition_drift", &["toolbox", "server"], "Definitions found to differ from `workbench.lock`";
    SHARED_UP = Gauge, "shared_store_up", &[], "1 if the shared store is available, otherwise 0; absent without a shared store";
    SHARED_DURATION = Histogram, "shared_store_request_duration_seconds", &[], "Duration of requests to the shared store, including timeouts";
}
