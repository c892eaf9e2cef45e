//! Observation: what happens here, for whoever wants to know it.
//!
//! *Theory of operation.* Whatever happens is an [`Event`], told where it happens to those who listen:
//! the log, the metrics ([`metrics`]), the audit ([`audit`]), a collector of spans ([`spans`]), the
//! list of what runs ([`running`]) and the picture for whoever looks on ([`live`]). Who listens is fixed when a configuration begins to be served
//! ([`Listeners`]), so that telling takes no lock, and what nobody wants to hear of costs a branch. A call
//! has one context ([`CallContext`]) from its beginning to its end, which all of them read; what may end
//! in many ways is told by a guard ([`ObservedCall`], [`LlmRequest`], [`ServerRun`], [`Guest`]), which
//! tells the end when it is dropped, too. Nothing of that waits: counting is an addition, and a record
//! goes into a queue that a thread of its own empties.

mod audit;
mod call;
mod context;
mod ending;
mod event;
mod file;
mod guest;
mod holdings;
mod listeners;
mod live;
mod llm_outcome;
mod llm_request;
mod log;
mod meters;
mod metrics;
mod post;
mod queue;
mod read;
mod record;
pub mod running;
mod secret;
mod server_run;
mod spans;
pub mod stats;
mod subject;
mod tally;
mod trace;
mod unfinished;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use url::Url;

use crate::observe::audit::Writing;
use crate::observe::listeners::Process;
use crate::observe::log::Log;
use crate::observe::metrics::Metrics;
use crate::observe::running::{Board, Files, Told};
use crate::observe::spans::Spans;
use crate::settings::Config;

pub use crate::observe::audit::Audit;
pub use crate::observe::call::ObservedCall;
pub use crate::observe::context::{CallContext, CallDetails, CallFacts, Stop};
pub use crate::observe::ending::{CallEnd, Ending};
pub use crate::observe::event::{
    ClientProgram, DeniedAccess, DeniedFor, Drift, Event, Kinds, LimitReached, LlmContext,
    ReadContext, Readable, ServerContext, SessionContext, SignInChange, SignInContext, StoppedFor,
    TlsDates,
};
pub use crate::observe::guest::{Guest, tokens};
pub use crate::observe::holdings::{Holding, Holdings, Payer};
pub use crate::observe::listeners::{Listener, Listeners};
pub use crate::observe::live::{Live, LiveAgent, LiveCall, LiveCounts, Picture};
pub use crate::observe::llm_outcome::LlmOutcome;
pub use crate::observe::llm_request::{LlmRequest, Prompted};
pub use crate::observe::log::TARGET as LOG_TARGET;
pub use crate::observe::meters::Meters;
pub use crate::observe::metrics::{METRICS, Metric, MetricKind};
pub use crate::observe::read::ObservedRead;
pub use crate::observe::secret::Secrets;
pub use crate::observe::secret::{
    Hide, SecretName, hide_in_argument, is_said, is_secret, is_secret_name, password, shows_secret,
    word,
};
pub use crate::observe::server_run::ServerRun;
pub use crate::observe::spans::is_trace_parent;
pub use crate::observe::subject::Subject;

/// The observers of one process, whichever configuration is served.
pub struct Observer {
    metrics: Arc<Metrics>,
    /// Tells this process from others that write to the same files.
    run: String,
    is_counting: bool,
    /// The listeners after the log and the metrics, in this order.
    further: Vec<Arc<dyn Listener>>,
    audits: Mutex<Audits>,
    process: Process,
    /// Counts the runs of servers.
    runs: AtomicU64,
    is_tracing: bool,
    /// Counters that nobody asks for.
    unread: OnceLock<Arc<Meters>>,
}

struct Audits {
    opened: usize,
    current: Option<(Audit, Secrets)>,
    /// The writers of audits before the current one. They end with the last call that they are told of.
    before: Vec<Writing>,
    /// The listeners to what happens now.
    listeners: Listeners,
}

impl Default for Observer {
    fn default() -> Self {
        let nobody = Listeners::new([], Process::default());
        let audits = Audits { opened: 0, current: None, before: Vec::new(), listeners: nobody };
        let observer = Self {
            metrics: Arc::new(Metrics::new()),
            run: run(),
            is_counting: true,
            further: Vec::new(),
            audits: Mutex::new(audits),
            process: Process::default(),
            runs: AtomicU64::new(0),
            is_tracing: false,
            unread: OnceLock::new(),
        };
        observer.renewed()
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Observer {
    /// Lets somebody hear of what happens, after those who do already.
    #[must_use]
    pub fn heard_by(mut self, listener: Arc<dyn Listener>) -> Self {
        self.further.push(listener);
        self.renewed()
    }

    /// Counts nothing from now on, where nobody can ask for the figures.
    #[must_use]
    pub fn uncounted(mut self) -> Self {
        self.is_counting = false;
        self.renewed()
    }

    /// Makes its list of those who hear of what happens anew, before anything is recorded.
    fn renewed(self) -> Self {
        let listeners = self.with(None);
        self.audits(|audits| audits.listeners = listeners);
        self
    }

    /// Makes it export spans to the collector at this address, as the service of this name.
    ///
    /// # Errors
    ///
    /// When this machine cannot make such connections.
    pub fn exporting(self, address: &Url, service: &str) -> Result<Self, String> {
        let spans = Spans::new(address, service, &self.run)?;
        Ok(Self { is_tracing: true, ..self.heard_by(Arc::new(spans)) })
    }

    /// Tells others on this machine what runs here, in these files. Where they cannot be made, nobody
    /// is told.
    #[must_use]
    pub fn telling(self, files: &Files, told: Told) -> Self {
        match Board::start(files, told) {
            Ok(board) => self.heard_by(Arc::new(board)),
            Err(error) => {
                tracing::debug!(%error, "others are not told what runs here");
                self
            }
        }
    }

    /// Returns the listeners to what happens now, and to all that belongs to what begins now.
    pub fn listeners(&self) -> Listeners {
        self.audits(|audits| audits.listeners.clone())
    }

    /// Makes the list of listeners where calls are recorded there.
    fn with(&self, audit: Option<&Audit>) -> Listeners {
        let metrics = self.is_counting.then(|| Arc::clone(&self.metrics) as Arc<dyn Listener>);
        let audit = audit.map(|audit| Arc::new(audit.clone()) as Arc<dyn Listener>);
        let log: Arc<dyn Listener> = Arc::new(Log);
        let further = self.further.iter().cloned();
        let all = [log].into_iter().chain(metrics).chain(further).chain(audit);
        Listeners::new(all, self.process.clone())
    }

    /// Returns `true` if traces are continued here.
    pub fn is_tracing(&self) -> bool {
        self.is_tracing
    }

    fn audits<T>(&self, f: impl FnOnce(&mut Audits) -> T) -> T {
        f(&mut self.audits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where the calls of a configuration are recorded: where they are recorded already, if it
    /// wants the same.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; where calls are recorded stays as it is then.
    pub fn audit(&self, config: &Config) -> io::Result<Option<Audit>> {
        let secrets = Secrets::of_config(config);
        self.audits(|audits| {
            let Some(wanted) = &config.audit else {
                audits.replace(None, self.with(None));
                return Ok(None);
            };
            if let Some((audit, known)) = &audits.current
                && audit.config() == wanted
                && *known == secrets
            {
                return Ok(Some(audit.clone()));
            }
            audits.opened += 1;
            let process = audit::Process {
                run: self.run.clone(),
                opened: audits.opened,
                calls: Arc::clone(&self.process.calls),
                lost: self.metrics.lost.clone(),
            };
            let audit = Audit::open(wanted.clone(), secrets.clone(), process).map_err(|error| {
                io::Error::new(error.kind(), format!("`{}`: {error}", wanted.file.display()))
            })?;
            audits.replace(Some((audit.clone(), secrets)), self.with(Some(&audit)));
            Ok(Some(audit))
        })
    }

    /// Where calls are recorded now.
    #[cfg(test)]
    pub(crate) fn current_audit(&self) -> Option<Audit> {
        self.audits(|audits| audits.current.as_ref().map(|(audit, _)| audit.clone()))
    }

    /// The metrics of a server in a toolbox. Where nobody can ask for them, all servers share their counters.
    pub fn meters(&self, toolbox: &str, server: &str) -> Arc<Meters> {
        if self.is_counting {
            return self.metrics.of(toolbox, server);
        }
        Arc::clone(self.unread.get_or_init(Arc::default))
    }

    /// The figures of what callers hold.
    pub fn holdings(&self) -> &Holdings {
        &self.metrics.holdings
    }

    /// Returns the picture of what goes on now.
    pub fn live(&self) -> &Live {
        &self.process.live
    }

    /// All metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        self.metrics.render()
    }

    /// From now on what ends does so because the program does.
    pub fn begin_ending(&self) {
        self.process.is_ending.store(true, Ordering::Relaxed);
    }

    /// Writes what is still to be written, within `patience`.
    pub fn close(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let (before, listeners) = self.audits(|audits| {
            audits.replace(None, self.with(None));
            (std::mem::take(&mut audits.before), audits.listeners.clone())
        });
        for writing in before {
            writing.finish(left());
        }
        listeners.flush(left);
    }
}

impl Audits {
    fn replace(&mut self, audit: Option<(Audit, Secrets)>, listeners: Listeners) {
        self.listeners = listeners;
        self.before.retain(|before| !before.has_finished_within(Duration::ZERO));
        let replaced = std::mem::replace(&mut self.current, audit);
        self.before.extend(replaced.map(|(audit, _)| audit.writing()));
    }
}

/// Eight digits that no other process has.
fn run() -> String {
    let mut random = [0; 4];
    // Without random numbers the time has to do.
    if getrandom::fill(&mut random).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        random = now.map_or(0, |time| time.subsec_nanos()).to_ne_bytes();
    }
    format!("{:08x}", u32::from_ne_bytes(random))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    fn config(audit: &Path, keep: u32) -> Config {
        let text = serde_json::json!({
            "audit": {"file": audit, "keep": keep},
            "mcpServers": {"clock": {"command": "clock"}},
        });
        let env = std::collections::BTreeMap::<String, String>::new();
        let loaded = config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
        loaded.unwrap().config
    }

    #[test]
    fn where_nobody_can_ask_for_figures_no_server_has_counters_of_its_own() {
        let uncounted = Observer::default().uncounted();
        assert!(Arc::ptr_eq(&uncounted.meters("dev", "git"), &uncounted.meters("dev", "clock")));
        assert!(!uncounted.render().contains("git"));
        let counted = Observer::default();
        assert!(!Arc::ptr_eq(&counted.meters("dev", "git"), &counted.meters("dev", "clock")));
        assert!(counted.render().contains("git"));
    }

    #[test]
    fn an_audit_goes_on_until_another_is_wanted_and_where_none_can_be_had() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.jsonl");
        let observer = Observer::default();
        let first = observer.audit(&config(&file, 1)).unwrap().unwrap();
        let same = observer.audit(&config(&file, 1)).unwrap().unwrap();
        assert!(first.is(&same));
        let other = observer.audit(&config(&file, 2)).unwrap().unwrap();
        assert!(!first.is(&other));
        assert!(observer.audit(&config(folder.path(), 1)).is_err());
        assert!(observer.current_audit().is_some_and(|audit| audit.is(&other)));
        let none = Config { audit: None, ..config(&file, 1) };
        assert!(observer.audit(&none).unwrap().is_none() && observer.current_audit().is_none());
        observer.close(Duration::from_secs(20));
        assert!(
            [first, other].iter().all(|audit| audit.writing().has_finished_within(Duration::ZERO))
        );
    }

    #[test]
    fn the_writer_of_an_audit_that_was_replaced_ends_with_what_it_was_told_of() {
        const PATIENCE: Duration = Duration::from_secs(20);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.jsonl");
        let observer = Observer::default();
        let writing = observer.audit(&config(&file, 1)).unwrap().unwrap().writing();
        let of_a_call = observer.listeners();
        drop(observer.audit(&config(&file, 2)).unwrap());
        assert!(!writing.has_finished_within(Duration::ZERO));
        drop(of_a_call);
        assert!(writing.has_finished_within(PATIENCE));
    }
}
