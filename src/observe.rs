//! Observation: what is done here, for whoever wants to know it later.
//!
//! *Theory of operation.* The call path begins a [`Watch`] for each call and says what it finds
//! out; when the watch ends, or is dropped, the call is counted ([`metrics`]), recorded
//! ([`audit`]), and told to a collector ([`spans`]). Nothing of that waits: counting is an addition,
//! and a record goes into a queue that a thread of its own empties. An observer outlives configurations; what a configuration wants
//! recorded is its [`Audit`]. A request to a language model is observed in the same way ([`Inquiry`]).

mod answered;
mod audit;
mod file;
mod guest;
mod inquiry;
mod metrics;
mod post;
mod queue;
mod record;
pub mod running;
mod secret;
mod spans;
pub mod stats;
mod subject;
mod unfinished;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use url::Url;

use crate::config::Config;
use crate::observe::metrics::Metrics;
use crate::observe::running::{Board, Files, Shown, Told, ToldState};
use crate::observe::spans::Spans;

pub use crate::observe::answered::Response;
pub use crate::observe::audit::Audit;
pub use crate::observe::guest::{Guest, tokens};
pub use crate::observe::inquiry::{Inquired, Inquiry};
pub use crate::observe::metrics::{Meters, Up};
pub use crate::observe::record::ClientProgram;
pub use crate::observe::record::Ending;
pub use crate::observe::record::Notes;
pub use crate::observe::secret::Secrets;
pub(crate) use crate::observe::secret::{is_secret, password};
pub use crate::observe::spans::is_trace_parent;
pub use crate::observe::subject::Subject;
pub use crate::observe::watch::Watch;

/// Counts and records what is done here.
pub struct Observer {
    metrics: Metrics,
    /// Tells this process from others that write to the same files.
    run: String,
    audits: Mutex<Audits>,
    /// Counts the calls that are recorded.
    calls: Arc<AtomicU64>,
    spans: Option<Spans>,
    /// Where it is told what runs; `None`: nowhere.
    board: Option<Board>,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Audits {
    opened: usize,
    current: Option<(Audit, Secrets)>,
    /// The audits before the current one, which may still be writing.
    before: Vec<Audit>,
}

impl Default for Observer {
    fn default() -> Self {
        Self {
            metrics: Metrics::new(),
            run: run(),
            audits: Mutex::default(),
            calls: Arc::default(),
            spans: None,
            board: None,
            is_ending: AtomicBool::new(false),
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Observer {
    /// Makes it export spans to the collector at this address, as the service of this name.
    ///
    /// # Errors
    ///
    /// When this machine cannot make such connections.
    pub fn exporting(self, address: &Url, service: &str) -> Result<Self, String> {
        Ok(Self { spans: Some(Spans::new(address, service)?), ..self })
    }

    /// Tells others on this machine what runs here, in these files. Where they cannot be made, nobody
    /// is told.
    #[must_use]
    pub fn telling(self, files: &Files, told: Told) -> Self {
        let board = Board::start(files, told).inspect_err(|error| {
            tracing::debug!(%error, "others are not told what runs here");
        });
        Self { board: board.ok(), ..self }
    }

    /// Tells others of a server for as long as the result is there.
    pub(crate) fn show(&self, server: &str, state: ToldState, pid: Option<u32>) -> Shown {
        self.board.as_ref().map_or(Shown::NOWHERE, |board| board.server(server, state, pid))
    }

    /// Tells others why a server could not be started.
    pub(crate) fn show_failure(&self, server: &str, reason: &str) {
        if let Some(board) = &self.board {
            board.failed(server, reason);
        }
    }

    /// Tells others at which address agents are served.
    pub(crate) fn show_address(&self, address: String) {
        if let Some(board) = &self.board {
            board.tell(|told| told.at = address);
        }
    }

    /// Returns `true` if traces are continued here.
    pub fn is_tracing(&self) -> bool {
        self.spans.is_some()
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
                audits.replace(None);
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
                calls: Arc::clone(&self.calls),
                lost: self.metrics.lost.clone(),
            };
            let audit = Audit::open(wanted.clone(), secrets.clone(), process).map_err(|error| {
                io::Error::new(error.kind(), format!("`{}`: {error}", wanted.file.display()))
            })?;
            audits.replace(Some((audit.clone(), secrets)));
            Ok(Some(audit))
        })
    }

    /// Where calls are recorded now.
    pub fn current_audit(&self) -> Option<Audit> {
        self.audits(|audits| audits.current.as_ref().map(|(audit, _)| audit.clone()))
    }

    /// The metrics of a server in a toolbox.
    pub fn meters(&self, toolbox: &str, server: &str) -> Arc<Meters> {
        self.metrics.of(toolbox, server)
    }

    /// All metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        self.metrics.render()
    }

    /// From now on what ends does so because the program does.
    pub fn begin_ending(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Writes what is still to be written, within `patience`.
    pub fn close(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let all = self.audits(|audits| {
            audits.replace(None);
            std::mem::take(&mut audits.before)
        });
        for audit in all {
            if !audit.close(left()) {
                tracing::warn!("what was still to be recorded could not be written in time");
            }
        }
        if let Some(spans) = &self.spans {
            spans.close(left());
        }
        if let Some(board) = &self.board {
            board.close(left());
        }
    }
}

impl Audits {
    fn replace(&mut self, audit: Option<(Audit, Secrets)>) {
        self.before.retain(|before| !before.has_finished());
        self.before.extend(std::mem::replace(&mut self.current, audit).map(|(audit, _)| audit));
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
        assert!(first.has_finished() && other.has_finished());
    }
}
