//! Metrics, labeled with names from the configuration and never with text from an agent.
//!
//! The metrics of a server are looked up once ([`ServerMetrics`]), so recording a call takes an
//! addition or two.

mod descriptors;

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use foldhash::HashMap;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

use crate::telemetry::event::{
    CertificateExpiry, DriftEvent, Event, EventKinds, LlmContext, ServerContext,
};
use crate::telemetry::event_bus::EventListener;
use crate::telemetry::llm_outcome::LlmOutcome;
use crate::telemetry::outcome::CallOutcome;
use crate::telemetry::quota::QuotaUsage;
use crate::telemetry::server_metrics::ServerMetrics;

pub use crate::telemetry::metrics::descriptors::{METRICS, MetricDescriptor, MetricKind};

/// Upper bounds of the histogram buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

type Key = (Arc<str>, Arc<str>);
/// Toolbox and server, or another pair of labels.
type Labels = [(&'static str, Arc<str>); 2];
/// Toolbox, server and an outcome.
type LabelsAndWord = [(&'static str, Arc<str>); 3];

/// No labels. In a family, a metric is absent from the output until it is set.
type NoLabels = [(&'static str, &'static str); 0];

/// A metric with one label.
type Labeled<M> = Family<[(&'static str, &'static str); 1], M>;
type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    servers: ServerFamilies,
    llm: LlmMetrics,
    sessions: SessionMetrics,
    /// Tasks of the async runtime at the last render.
    runtime_tasks: Gauge,
    tls: TlsMetrics,
    pub(crate) lost: Counter,
    pub(crate) holdings: QuotaUsage,
    rejections: RejectionMetrics,
    shared_store: SharedStoreMetrics,
}

/// The metrics of all servers. Those of one server are looked up once ([`ServerMetrics`]).
#[derive(Debug)]
struct ServerFamilies {
    calls: Family<LabelsAndWord, Counter>,
    seconds: HistogramFamily<Labels>,
    argument_bytes: Family<Labels, Counter>,
    result_bytes: Family<Labels, Counter>,
    running: Family<Labels, Gauge>,
    starts: Family<LabelsAndWord, Counter>,
    restarts: Family<Labels, Counter>,
    crashes: Family<Labels, Counter>,
    drift: Family<Labels, Counter>,
    meters: Mutex<HashMap<Key, Arc<ServerMetrics>>>,
}

#[derive(Debug, Default)]
struct LlmMetrics {
    /// By model and outcome.
    requests: Family<Labels, Counter>,
    /// By model and direction (`read` or `written`).
    tokens: Family<Labels, Counter>,
}

#[derive(Debug, Default)]
struct SessionMetrics {
    open: Gauge,
    adopted: Counter,
    tokens_saved: Gauge,
}

#[derive(Debug, Default)]
struct TlsMetrics {
    /// By the configuration key of the certificate, as of the last render.
    seconds: Labeled<Gauge>,
    expiry: Mutex<Option<CertificateExpiry>>,
}

#[derive(Debug, Default)]
struct RejectionMetrics {
    /// By quota.
    limits_reached: Labeled<Counter>,
    /// By reason.
    auth_failures: Labeled<Counter>,
    /// By server and change.
    sign_ins: Family<Labels, Counter>,
}

/// Absent without a shared store.
#[derive(Debug)]
struct SharedStoreMetrics {
    up: Family<NoLabels, Gauge>,
    seconds: HistogramFamily<NoLabels>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("mcp_workbench");
        let caller_usage = Family::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let servers = ServerFamilies {
            calls: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            argument_bytes: Family::default(),
            result_bytes: Family::default(),
            running: Family::default(),
            starts: Family::default(),
            restarts: Family::default(),
            crashes: Family::default(),
            drift: Family::default(),
            meters: Mutex::default(),
        };
        let shared_store = SharedStoreMetrics {
            up: Family::default(),
            seconds: Family::new_with_constructor(histogram),
        };
        let metrics = Self {
            servers,
            llm: LlmMetrics::default(),
            sessions: SessionMetrics::default(),
            runtime_tasks: Gauge::default(),
            tls: TlsMetrics::default(),
            lost: Counter::default(),
            holdings: QuotaUsage::new(&caller_usage),
            rejections: RejectionMetrics::default(),
            shared_store,
            registry: Registry::default(),
        };
        let to = &mut registry;
        descriptors::CALLS.register(to, metrics.servers.calls.clone());
        descriptors::DURATION.register(to, metrics.servers.seconds.clone());
        descriptors::ARGUMENT_BYTES.register(to, metrics.servers.argument_bytes.clone());
        descriptors::RESULT_BYTES.register(to, metrics.servers.result_bytes.clone());
        descriptors::RUNNING.register(to, metrics.servers.running.clone());
        descriptors::STARTS.register(to, metrics.servers.starts.clone());
        descriptors::RESTARTS.register(to, metrics.servers.restarts.clone());
        descriptors::CRASHES.register(to, metrics.servers.crashes.clone());
        descriptors::LLM_REQUESTS.register(to, metrics.llm.requests.clone());
        descriptors::LLM_TOKENS.register(to, metrics.llm.tokens.clone());
        descriptors::SESSIONS.register(to, metrics.sessions.open.clone());
        descriptors::ADOPTED.register(to, metrics.sessions.adopted.clone());
        descriptors::RUNTIME_TASKS.register(to, metrics.runtime_tasks.clone());
        descriptors::TOKENS_SAVED.register(to, metrics.sessions.tokens_saved.clone());
        descriptors::TLS_EXPIRY.register(to, metrics.tls.seconds.clone());
        descriptors::LOST.register(to, metrics.lost.clone());
        descriptors::CALLER_USAGE.register(to, caller_usage);
        descriptors::LIMITS_REACHED.register(to, metrics.rejections.limits_reached.clone());
        descriptors::AUTH_FAILURES.register(to, metrics.rejections.auth_failures.clone());
        descriptors::SIGN_INS.register(to, metrics.rejections.sign_ins.clone());
        descriptors::DRIFT.register(to, metrics.servers.drift.clone());
        descriptors::SHARED_UP.register(to, metrics.shared_store.up.clone());
        descriptors::SHARED_DURATION.register(to, metrics.shared_store.seconds.clone());
        Self { registry, ..metrics }
    }

    pub(crate) fn for_server(&self, toolbox: &str, server: &str) -> Arc<ServerMetrics> {
        self.servers.get(toolbox, server)
    }

    fn of_run(&self, server: &ServerContext) -> Arc<ServerMetrics> {
        self.for_server(&server.toolbox, &server.server)
    }

    fn llm_request(&self, request: &LlmContext<'_>, outcome: LlmOutcome) {
        let model: Arc<str> = request.model.into();
        let with =
            |key, word: &str| -> Labels { [("model", Arc::clone(&model)), (key, word.into())] };
        self.llm.requests.get_or_create_owned(&with("outcome", outcome.as_str())).inc();
        for (kind, tokens) in ["read", "written"].into_iter().zip(request.tokens) {
            self.llm.tokens.get_or_create_owned(&with("kind", kind)).inc_by(tokens);
        }
    }

    /// Updates the remaining lifetime of the TLS certificates.
    fn update_tls_expiry(&self) {
        let dates = *self.tls.expiry.lock();
        let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let left = |until: u64| {
            let whole = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
            whole(until) - whole(now)
        };
        self.tls.seconds.clear();
        let Some(CertificateExpiry { cert, client_ca }) = dates else { return };
        for (file, until) in [("cert", Some(cert)), ("clientCa", client_ca)] {
            if let Some(until) = until {
                self.tls.seconds.get_or_create_owned(&[("file", file)]).set(left(until));
            }
        }
    }

    /// Renders all metrics in the `OpenMetrics` text format.
    pub(crate) fn render(&self) -> String {
        if let Ok(runtime) = Handle::try_current() {
            self.runtime_tasks
                .set(runtime.metrics().num_alive_tasks().try_into().unwrap_or(i64::MAX));
        }
        self.update_tls_expiry();
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl ServerFamilies {
    fn get(&self, toolbox: &str, server: &str) -> Arc<ServerMetrics> {
        let mut meters = self.meters.lock();
        let key: Key = (toolbox.into(), server.into());
        let (toolbox, server) = key.clone();
        Arc::clone(meters.entry(key).or_insert_with(|| Arc::new(self.make(&toolbox, &server))))
    }

    fn make(&self, toolbox: &Arc<str>, server: &Arc<str>) -> ServerMetrics {
        let labels: Labels = [("toolbox", Arc::clone(toolbox)), ("server", Arc::clone(server))];
        let with = |key, word: &str| -> LabelsAndWord {
            [("toolbox", Arc::clone(toolbox)), ("server", Arc::clone(server)), (key, word.into())]
        };
        ServerMetrics {
            calls: CallOutcome::ALL
                .map(|ending| self.calls.get_or_create_owned(&with("outcome", ending.as_str()))),
            seconds: self.seconds.get_or_create_owned(&labels),
            argument_bytes: self.argument_bytes.get_or_create_owned(&labels),
            result_bytes: self.result_bytes.get_or_create_owned(&labels),
            running: self.running.get_or_create_owned(&labels),
            started: self.starts.get_or_create_owned(&with("result", "ok")),
            not_started: self.starts.get_or_create_owned(&with("result", "failed")),
            restarts: self.restarts.get_or_create_owned(&labels),
            crashes: self.crashes.get_or_create_owned(&labels),
        }
    }
}

impl EventListener for Metrics {
    fn interest(&self) -> EventKinds {
        let ended = EventKinds::CALLS_ENDED.union(EventKinds::LLM_REQUESTS);
        let ended =
            ended.union(EventKinds::SERVERS).union(EventKinds::SESSIONS).union(EventKinds::DENIALS);
        ended
            .union(EventKinds::SIGN_INS)
            .union(EventKinds::LISTINGS)
            .union(EventKinds::PROGRAM)
            .union(EventKinds::SHARED_STORE)
    }

    fn on_event(&self, event: Event<'_>) {
        match event {
            Event::CallEnded(call) => call.meters.record_call(call.argument_bytes(), &call.end),
            Event::LlmRequestEnded(request, outcome) => self.llm_request(request, outcome),
            Event::ServerStarted(server, _) => {
                self.of_run(server).record_start(server.has_run_before);
            }
            Event::ServerFailed(server, _) => self.of_run(server).record_start_failure(),
            Event::ServerDied(server, _) => {
                let meters = self.of_run(server);
                meters.record_crash();
                meters.record_stop();
            }
            Event::ServerStopped(server, _) if server.was_ready => {
                self.of_run(server).record_stop();
            }
            Event::SessionOpened(_) => {
                self.sessions.open.inc();
            }
            Event::SessionAdopted(..) => {
                self.sessions.adopted.inc();
            }
            Event::TokensSaved(_, tokens) => {
                self.sessions.tokens_saved.inc_by(tokens);
            }
            Event::SessionClosed(_) => {
                self.sessions.open.dec();
            }
            Event::LimitReached(reached) => {
                let labels = [("quota", reached.quota.as_str())];
                self.rejections.limits_reached.get_or_create_owned(&labels).inc();
            }
            Event::AccessDenied(denied, _) => {
                let labels = [("reason", denied.reason.as_str())];
                self.rejections.auth_failures.get_or_create_owned(&labels).inc();
            }
            Event::SignIn(login, change) => {
                let labels = [("server", login.server.into()), ("change", change.as_str().into())];
                self.rejections.sign_ins.get_or_create_owned(&labels).inc();
            }
            Event::DefinitionsDrifted(DriftEvent { server: at, drift, .. }) => {
                let (toolbox, server) = (at.toolbox.to_string(), at.server.to_string());
                let labels = [("toolbox", toolbox.into()), ("server", server.into())];
                let found = u64::try_from(drift.len()).unwrap_or(u64::MAX);
                self.servers.drift.get_or_create_owned(&labels).inc_by(found);
            }
            Event::CertificateLoaded(dates) => {
                *self.tls.expiry.lock() = Some(*dates);
            }
            Event::SharedStore(error) => {
                self.shared_store.up.get_or_create_owned(&[]).set(i64::from(error.is_none()));
            }
            Event::SharedStoreQueried(took) => {
                self.shared_store.seconds.get_or_create_owned(&[]).observe(took.as_secs_f64());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::catalog::{DefinitionDrift, DriftKind, Listing};
    use crate::telemetry::event::{
        AccessDenial, AccessDenialReason, LimitReached, ServerStopReason, SignInChange,
        SignInContext,
    };
    use crate::telemetry::outcome::CallEnd;
    use crate::telemetry::quota::{QuotaKind, QuotaOwner};
    use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};

    #[test]
    fn all_outcomes_are_in_the_order_of_their_discriminants() {
        for (at, ending) in CallOutcome::ALL.into_iter().enumerate() {
            assert_eq!(ending as usize, at);
        }
    }

    /// Parses rendered metrics: the kind and the labels of each.
    fn told(text: &str) -> BTreeMap<String, (String, Vec<String>)> {
        let label = regex::Regex::new(r#"[{,](\w+)="(?:[^"\\]|\\.)*""#).unwrap();
        let mut told = BTreeMap::<_, (String, Vec<String>)>::new();
        let mut last = String::new();
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE mcp_workbench_") {
                let (name, kind) = kind.split_once(' ').unwrap();
                name.clone_into(&mut last);
                told.insert(last.clone(), (kind.to_owned(), Vec::new()));
            } else if !line.starts_with('#') {
                let labels = label.captures_iter(line).map(|found| found[1].to_owned());
                told.get_mut(&last).unwrap().1 = labels.filter(|label| label != "le").collect();
            }
        }
        told
    }

    fn request(tokens: [u64; 2]) -> LlmContext<'static> {
        LlmContext {
            agent: None,
            session: 0,
            model: "small",
            reported_model: None,
            purpose: "tool",
            at: SystemTime::now(),
            took: Duration::ZERO,
            tokens,
            attempts: 1,
        }
    }

    #[test]
    fn rendered_metrics_match_their_descriptors() {
        let metrics = Metrics::new();
        let _ = metrics.for_server("dev", "git");
        let reached = LimitReached { owner: QuotaOwner::Local, quota: QuotaKind::Calls };
        metrics.on_event(Event::LimitReached(&reached));
        let denied = AccessDenial { agent: None, reason: AccessDenialReason::InvalidToken };
        metrics.on_event(Event::AccessDenied(&denied, None));
        let login = SignInContext { server: "hub", account: None, why: "" };
        metrics.on_event(Event::SignIn(&login, SignInChange::Renewed));
        let at = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("git") };
        let drifted =
            DefinitionDrift { word: "tool", name: "push".to_owned(), kind: DriftKind::New };
        metrics.on_event(Event::DefinitionsDrifted(DriftEvent {
            server: &at,
            drift: &[drifted],
            action: "warn",
            accept_command: "",
        }));
        metrics.on_event(Event::CertificateLoaded(&CertificateExpiry {
            cert: u64::MAX,
            client_ca: None,
        }));
        metrics.on_event(Event::SharedStore(None));
        metrics.on_event(Event::SharedStoreQueried(Duration::from_millis(1)));
        metrics.on_event(Event::LlmRequestEnded(&request([1, 1]), LlmOutcome::TimedOut));
        let text = metrics.render();
        let described = METRICS.iter().map(|metric| {
            let labels = metric.labels.iter().copied().map(str::to_owned).collect();
            (metric.name.to_owned(), (metric.kind.as_str().to_owned(), labels))
        });
        pretty_assertions::assert_eq!(told(&text), described.collect(), "{text}");
    }

    #[test]
    fn renders_recorded_values() {
        let metrics = Metrics::new();
        let meters = metrics.for_server("dev", "git \"x\"");
        let end = |ending, took, result_bytes| CallEnd {
            outcome: ending,
            took,
            result_bytes,
            ..CallEnd::default()
        };
        meters.record_call(10, &end(CallOutcome::Ok, Duration::from_millis(3), Some(20)));
        meters.record_call(1, &end(CallOutcome::TimedOut, Duration::from_secs(3), None));
        let server = ServerContext {
            run: 1,
            toolbox: "dev".to_owned(),
            server: "git \"x\"".to_owned(),
            label: String::new(),
            pid: None,
            was_ready: true,
            has_run_before: true,
        };
        metrics.on_event(Event::ServerStarted(&server, &Listing::default()));
        assert!(Arc::ptr_eq(&meters, &metrics.for_server("dev", "git \"x\"")));
        for tokens in [[7, 0], [5, 2]] {
            metrics.on_event(Event::LlmRequestEnded(&request(tokens), LlmOutcome::TimedOut));
        }
        let text = metrics.render();
        let labels = r#"toolbox="dev",server="git \"x\"""#;
        for line in [
            format!("mcp_workbench_tool_calls_total{{{labels},outcome=\"ok\"}} 1"),
            format!("mcp_workbench_tool_calls_total{{{labels},outcome=\"timed_out\"}} 1"),
            format!("mcp_workbench_argument_bytes_total{{{labels}}} 11"),
            format!("mcp_workbench_tool_call_duration_seconds_bucket{{le=\"0.005\",{labels}}} 1"),
            format!("mcp_workbench_servers_running{{{labels}}} 1"),
            format!("mcp_workbench_server_restarts_total{{{labels}}} 1"),
            r#"mcp_workbench_llm_requests_total{model="small",outcome="timed_out"} 2"#.to_owned(),
            r#"mcp_workbench_llm_tokens_total{model="small",kind="read"} 12"#.to_owned(),
            r#"mcp_workbench_llm_tokens_total{model="small",kind="written"} 2"#.to_owned(),
            "mcp_workbench_sessions 0".to_owned(),
            "mcp_workbench_audit_records_lost_total 0".to_owned(),
        ] {
            assert!(text.contains(&line), "no {line} in\n{text}");
        }
        metrics.on_event(Event::ServerStopped(&server, ServerStopReason::Idle));
        assert!(metrics.render().contains(&format!("servers_running{{{labels}}} 0")));
    }
}
