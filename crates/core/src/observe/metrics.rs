//! Metrics: counts and times, by the names of the configuration and by nothing that an agent says.
//!
//! What a call needs is looked up once for each server ([`Meters`]), so that counting is an
//! addition or two.

mod described;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use foldhash::HashMap;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

use crate::observe::ending::Ending;
use crate::observe::event::{Drift, Event, Kinds, LlmContext, ServerContext, TlsDates};
use crate::observe::holdings::Holdings;
use crate::observe::listeners::Listener;
use crate::observe::llm_outcome::LlmOutcome;
use crate::observe::meters::Meters;

pub use crate::observe::metrics::described::{METRICS, Metric, MetricKind};

/// The least of the times that are told apart, in seconds; from here on they double.
const BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

/// A toolbox and a server.
type Key = (Arc<str>, Arc<str>);
/// A server as one toolbox has it, or another pair of names.
type Labels = [(&'static str, Arc<str>); 2];
/// Labels of a server, and a word for the outcome of something.
type LabelsAndWord = [(&'static str, Arc<str>); 3];

/// The labels of a figure that is told only once it is known.
type NoLabels = [(&'static str, &'static str); 0];

/// All metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<LabelsAndWord, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    argument_bytes: Family<Labels, Counter>,
    result_bytes: Family<Labels, Counter>,
    running: Family<Labels, Gauge>,
    starts: Family<LabelsAndWord, Counter>,
    restarts: Family<Labels, Counter>,
    deaths: Family<Labels, Counter>,
    /// By the model, and what became of the request.
    llm_requests: Family<Labels, Counter>,
    /// By the model, and whether it read or wrote them.
    llm_tokens: Family<Labels, Counter>,
    pub(crate) sessions: Gauge,
    /// Of the whole program, as of the last time that somebody asked.
    tasks: Gauge,
    pub(crate) tokens_saved: Gauge,
    /// By the key of the file that names it, as of the last time that somebody asked.
    tls_seconds: Family<[(&'static str, &'static str); 1], Gauge>,
    tls: Mutex<Option<TlsDates>>,
    adopted: Counter,
    pub(crate) lost: Counter,
    /// How much callers hold.
    pub(crate) holdings: Holdings,
    /// How often a caller wanted more than it may hold, by what that was.
    limits_reached: Family<[(&'static str, &'static str); 1], Counter>,
    /// By the server, and what has become of the login.
    sign_ins: Family<Labels, Counter>,
    /// By the toolbox and the server.
    drift: Family<Labels, Counter>,
    /// Set where there is a store that workbenches share.
    shared_up: Family<NoLabels, Gauge>,
    shared_seconds: Family<NoLabels, Histogram, fn() -> Histogram>,
    meters: Mutex<HashMap<Key, Arc<Meters>>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("mcp_workbench");
        let held = Family::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Self {
            calls: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            argument_bytes: Family::default(),
            result_bytes: Family::default(),
            running: Family::default(),
            starts: Family::default(),
            restarts: Family::default(),
            deaths: Family::default(),
            llm_requests: Family::default(),
            llm_tokens: Family::default(),
            sessions: Gauge::default(),
            adopted: Counter::default(),
            tasks: Gauge::default(),
            tokens_saved: Gauge::default(),
            tls_seconds: Family::default(),
            tls: Mutex::default(),
            lost: Counter::default(),
            holdings: Holdings::new(&held),
            limits_reached: Family::default(),
            sign_ins: Family::default(),
            drift: Family::default(),
            shared_up: Family::default(),
            shared_seconds: Family::new_with_constructor(histogram),
            meters: Mutex::default(),
            registry: Registry::default(),
        };
        let to = &mut registry;
        described::CALLS.register(to, metrics.calls.clone());
        described::SECONDS.register(to, metrics.seconds.clone());
        described::ARGUMENT_BYTES.register(to, metrics.argument_bytes.clone());
        described::RESULT_BYTES.register(to, metrics.result_bytes.clone());
        described::RUNNING.register(to, metrics.running.clone());
        described::STARTS.register(to, metrics.starts.clone());
        described::RESTARTS.register(to, metrics.restarts.clone());
        described::DEATHS.register(to, metrics.deaths.clone());
        described::LLM_REQUESTS.register(to, metrics.llm_requests.clone());
        described::LLM_TOKENS.register(to, metrics.llm_tokens.clone());
        described::SESSIONS.register(to, metrics.sessions.clone());
        described::ADOPTED.register(to, metrics.adopted.clone());
        described::TASKS.register(to, metrics.tasks.clone());
        described::TOKENS_SAVED.register(to, metrics.tokens_saved.clone());
        described::TLS_SECONDS.register(to, metrics.tls_seconds.clone());
        described::LOST.register(to, metrics.lost.clone());
        described::HELD.register(to, held);
        described::LIMITS_REACHED.register(to, metrics.limits_reached.clone());
        described::SIGN_INS.register(to, metrics.sign_ins.clone());
        described::DRIFT.register(to, metrics.drift.clone());
        described::SHARED_UP.register(to, metrics.shared_up.clone());
        described::SHARED_SECONDS.register(to, metrics.shared_seconds.clone());
        Self { registry, ..metrics }
    }

    /// The metrics of a server in a toolbox.
    pub(crate) fn of(&self, toolbox: &str, server: &str) -> Arc<Meters> {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        let key: Key = (toolbox.into(), server.into());
        let (toolbox, server) = key.clone();
        Arc::clone(meters.entry(key).or_insert_with(|| Arc::new(self.make(&toolbox, &server))))
    }

    fn make(&self, toolbox: &Arc<str>, server: &Arc<str>) -> Meters {
        let labels: Labels = [("toolbox", Arc::clone(toolbox)), ("server", Arc::clone(server))];
        let with = |key, word: &str| -> LabelsAndWord {
            [("toolbox", Arc::clone(toolbox)), ("server", Arc::clone(server)), (key, word.into())]
        };
        Meters {
            calls: Ending::ALL
                .map(|ending| self.calls.get_or_create_owned(&with("outcome", ending.as_str()))),
            seconds: self.seconds.get_or_create_owned(&labels),
            argument_bytes: self.argument_bytes.get_or_create_owned(&labels),
            result_bytes: self.result_bytes.get_or_create_owned(&labels),
            running: self.running.get_or_create_owned(&labels),
            started: self.starts.get_or_create_owned(&with("result", "ok")),
            not_started: self.starts.get_or_create_owned(&with("result", "failed")),
            restarts: self.restarts.get_or_create_owned(&labels),
            deaths: self.deaths.get_or_create_owned(&labels),
        }
    }

    /// The metrics of the server whose run it is.
    fn of_run(&self, server: &ServerContext) -> Arc<Meters> {
        self.of(&server.toolbox, &server.server)
    }

    /// A request to a model has ended so.
    fn llm_request(&self, request: &LlmContext<'_>, outcome: LlmOutcome) {
        let model: Arc<str> = request.model.into();
        let with =
            |key, word: &str| -> Labels { [("model", Arc::clone(&model)), (key, word.into())] };
        self.llm_requests.get_or_create_owned(&with("outcome", outcome.as_str())).inc();
        for (kind, tokens) in ["read", "written"].into_iter().zip(request.tokens) {
            self.llm_tokens.get_or_create_owned(&with("kind", kind)).inc_by(tokens);
        }
    }

    /// Takes note of how long the certificates for TLS are good from now on.
    fn count_down(&self) {
        let dates = *self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let left = |until: u64| {
            let whole = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
            whole(until) - whole(now)
        };
        self.tls_seconds.clear();
        let Some(TlsDates { cert, client_ca }) = dates else { return };
        for (file, until) in [("cert", Some(cert)), ("clientCa", client_ca)] {
            if let Some(until) = until {
                self.tls_seconds.get_or_create_owned(&[("file", file)]).set(left(until));
            }
        }
    }

    /// Everything in the text format of Prometheus (`OpenMetrics`).
    pub(crate) fn render(&self) -> String {
        if let Ok(runtime) = Handle::try_current() {
            self.tasks.set(runtime.metrics().num_alive_tasks().try_into().unwrap_or(i64::MAX));
        }
        self.count_down();
        let mut text = String::new();
        // Writing into memory does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl Listener for Metrics {
    fn wants(&self) -> Kinds {
        let ended = Kinds::CALLS_ENDED.and(Kinds::LLM_REQUESTS);
        let ended = ended.and(Kinds::SERVERS).and(Kinds::SESSIONS).and(Kinds::DENIALS);
        ended.and(Kinds::SIGN_INS).and(Kinds::LISTINGS).and(Kinds::PROGRAM).and(Kinds::SHARED_STORE)
    }

    fn hear(&self, event: Event<'_>) {
        match event {
            Event::CallEnded(call, end) => call.meters.call(call.argument_bytes(), end),
            Event::LlmRequestEnded(request, outcome) => self.llm_request(request, outcome),
            Event::ServerStarted(server, _) => self.of_run(server).up(server.has_run_before),
            Event::ServerFailed(server, _) => self.of_run(server).not_started(),
            Event::ServerDied(server, _) => {
                let meters = self.of_run(server);
                meters.died();
                meters.down();
            }
            Event::ServerStopped(server, _) if server.was_ready => self.of_run(server).down(),
            Event::SessionOpened(_) => {
                self.sessions.inc();
            }
            Event::SessionAdopted(..) => {
                self.adopted.inc();
            }
            Event::TokensSaved(_, tokens) => {
                self.tokens_saved.inc_by(tokens);
            }
            Event::SessionClosed(_) => {
                self.sessions.dec();
            }
            Event::LimitReached(reached) => {
                let labels = [("what", reached.what.as_str())];
                self.limits_reached.get_or_create_owned(&labels).inc();
            }
            Event::SignIn(login, change) => {
                let labels = [("server", login.server.into()), ("change", change.as_str().into())];
                self.sign_ins.get_or_create_owned(&labels).inc();
            }
            Event::DefinitionsDrifted(Drift { server: at, found: drift, .. }) => {
                let (toolbox, server) = (at.toolbox.to_string(), at.server.to_string());
                let labels = [("toolbox", toolbox.into()), ("server", server.into())];
                let found = u64::try_from(drift.len()).unwrap_or(u64::MAX);
                self.drift.get_or_create_owned(&labels).inc_by(found);
            }
            Event::CertificateShown(dates) => {
                *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = Some(*dates);
            }
            Event::SharedStore(why) => {
                self.shared_up.get_or_create_owned(&[]).set(i64::from(why.is_none()));
            }
            Event::SharedStoreAsked(took) => {
                self.shared_seconds.get_or_create_owned(&[]).observe(took.as_secs_f64());
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
    use crate::catalog::{Difference, Drifted, Listing};
    use crate::name::{ServerName, ServerRef, ToolboxName};
    use crate::observe::ending::CallEnd;
    use crate::observe::event::{LimitReached, SignInChange, SignInContext, StoppedFor};
    use crate::observe::holdings::{Holding, Payer};

    #[test]
    fn every_outcome_stands_where_its_number_says() {
        for (at, ending) in Ending::ALL.into_iter().enumerate() {
            assert_eq!(ending as usize, at);
        }
    }

    /// The metrics that a text tells, by name: kind and labels.
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

    /// A request to a model that read and wrote so many tokens.
    fn request(tokens: [u64; 2]) -> LlmContext<'static> {
        LlmContext {
            agent: None,
            session: 0,
            model: "small",
            named: None,
            purpose: "tool",
            at: SystemTime::now(),
            took: Duration::ZERO,
            tokens,
            attempts: 1,
        }
    }

    #[test]
    fn every_metric_is_told_as_it_is_described() {
        let metrics = Metrics::new();
        let _ = metrics.of("dev", "git");
        let reached = LimitReached { payer: Payer::Local, what: Holding::Calls };
        metrics.hear(Event::LimitReached(&reached));
        let login = SignInContext { server: "hub", account: None, why: "" };
        metrics.hear(Event::SignIn(&login, SignInChange::Renewed));
        let at = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("git") };
        let drifted = Drifted { word: "tool", name: "push".to_owned(), what: Difference::New };
        let (found, becomes) = (&[drifted][..], "warn");
        metrics.hear(Event::DefinitionsDrifted(Drift { server: &at, found, becomes, accept: "" }));
        metrics.hear(Event::CertificateShown(&TlsDates { cert: u64::MAX, client_ca: None }));
        metrics.hear(Event::SharedStore(None));
        metrics.hear(Event::SharedStoreAsked(Duration::from_millis(1)));
        metrics.hear(Event::LlmRequestEnded(&request([1, 1]), LlmOutcome::TimedOut));
        let text = metrics.render();
        let described = METRICS.iter().map(|metric| {
            let labels = metric.labels.iter().copied().map(str::to_owned).collect();
            (metric.name.to_owned(), (metric.kind.as_str().to_owned(), labels))
        });
        pretty_assertions::assert_eq!(told(&text), described.collect(), "{text}");
    }

    #[test]
    fn what_is_counted_is_rendered() {
        let metrics = Metrics::new();
        let meters = metrics.of("dev", "git \"x\"");
        let end = |ending, took, result_bytes| CallEnd { ending, took, result_bytes };
        meters.call(10, end(Ending::Ok, Duration::from_millis(3), Some(20)));
        meters.call(1, end(Ending::TimedOut, Duration::from_secs(3), None));
        let server = ServerContext {
            run: 1,
            toolbox: "dev".to_owned(),
            server: "git \"x\"".to_owned(),
            label: String::new(),
            pid: None,
            was_ready: true,
            has_run_before: true,
        };
        metrics.hear(Event::ServerStarted(&server, &Listing::default()));
        assert!(Arc::ptr_eq(&meters, &metrics.of("dev", "git \"x\"")));
        for tokens in [[7, 0], [5, 2]] {
            metrics.hear(Event::LlmRequestEnded(&request(tokens), LlmOutcome::TimedOut));
        }
        let text = metrics.render();
        let labels = r#"toolbox="dev",server="git \"x\"""#;
        for line in [
            format!("mcp_workbench_tool_calls_total{{{labels},outcome=\"ok\"}} 1"),
            format!("mcp_workbench_tool_calls_total{{{labels},outcome=\"timed_out\"}} 1"),
            format!("mcp_workbench_argument_bytes_total{{{labels}}} 11"),
            format!("mcp_workbench_tool_call_seconds_bucket{{le=\"0.005\",{labels}}} 1"),
            format!("mcp_workbench_backends_running{{{labels}}} 1"),
            format!("mcp_workbench_backend_restarts_total{{{labels}}} 1"),
            r#"mcp_workbench_llm_requests_total{model="small",outcome="timed_out"} 2"#.to_owned(),
            r#"mcp_workbench_llm_tokens_total{model="small",kind="read"} 12"#.to_owned(),
            r#"mcp_workbench_llm_tokens_total{model="small",kind="written"} 2"#.to_owned(),
            "mcp_workbench_sessions 0".to_owned(),
            "mcp_workbench_audit_records_lost_total 0".to_owned(),
        ] {
            assert!(text.contains(&line), "no {line} in\n{text}");
        }
        metrics.hear(Event::ServerStopped(&server, StoppedFor::Idle));
        assert!(metrics.render().contains(&format!("backends_running{{{labels}}} 0")));
    }
}
