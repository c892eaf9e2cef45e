//! The telemetry of one process: its listeners, its metrics and its audit logs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fmt, io};

use parking_lot::Mutex;
use tracing::Span;
use url::Url;

use crate::telemetry::audit::{AuditLog, AuditProcess, AuditWriterHandle};
use crate::telemetry::event_bus::{EventBus, EventListener, ProcessContext};
use crate::telemetry::live_view::LiveView;
use crate::telemetry::log::LogListener;
use crate::telemetry::log_spans::session_span;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::process_registry::publisher::ProcessPublisher;
use crate::telemetry::process_registry::{ProcessFiles, ProcessRecord};
use crate::telemetry::quota::QuotaUsage;
use crate::telemetry::redaction::Redactor;
use crate::telemetry::server_metrics::ServerMetrics;
use crate::telemetry::spans::SpanListener;
use mcp_workbench_settings::Config;

/// The telemetry of one process, for every configuration that it serves.
pub struct Telemetry {
    metrics: Arc<Metrics>,
    /// A random id that distinguishes this process from others that write to the same files.
    run: String,
    is_counting: bool,
    /// Listeners in addition to the log and the metrics, in order.
    further: Vec<Arc<dyn EventListener>>,
    audits: Mutex<Audits>,
    process: ProcessContext,
    pub(crate) runs: AtomicU64,
    is_tracing: bool,
    /// Shared by all servers if metrics are off.
    unread: OnceLock<Arc<ServerMetrics>>,
}

struct Audits {
    opened: usize,
    current: Option<(AuditLog, Redactor)>,
    /// Writers of replaced audit logs. Each ends with the last call that still uses its log.
    before: Vec<AuditWriterHandle>,
    /// The bus for work that starts now.
    listeners: EventBus,
}

impl Default for Telemetry {
    fn default() -> Self {
        let nobody = EventBus::new([], ProcessContext::default());
        let audits = Audits { opened: 0, current: None, before: Vec::new(), listeners: nobody };
        let observer = Self {
            metrics: Arc::new(Metrics::new()),
            run: run(),
            is_counting: true,
            further: Vec::new(),
            audits: Mutex::new(audits),
            process: ProcessContext::default(),
            runs: AtomicU64::new(0),
            is_tracing: false,
            unread: OnceLock::new(),
        };
        observer.renewed()
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Adds a listener, which receives events after those added before.
    #[must_use]
    pub fn with_listener(mut self, listener: Arc<dyn EventListener>) -> Self {
        self.further.push(listener);
        self.renewed()
    }

    /// Turns metrics off, to save their cost in a process without a metrics endpoint.
    #[must_use]
    pub fn without_metrics(mut self) -> Self {
        self.is_counting = false;
        self.renewed()
    }

    /// Rebuilds the bus. Only called before anything is recorded.
    fn renewed(self) -> Self {
        let listeners = self.build_bus(None);
        self.audits(|audits| audits.listeners = listeners);
        self
    }

    /// Exports spans to the OTLP collector at this address, under this service name.
    ///
    /// # Errors
    ///
    /// Returns an error if the exporter or its HTTP client can't be created.
    pub fn with_otlp_exporter(self, address: &Url, service: &str) -> Result<Self, String> {
        let spans = SpanListener::new(address, service, &self.run)?;
        Ok(Self { is_tracing: true, ..self.with_listener(Arc::new(spans)) })
    }

    /// Publishes this process in the process registry. It stays unlisted if its files can't be
    /// created.
    #[must_use]
    pub fn with_process_registry(self, files: &ProcessFiles, record: ProcessRecord) -> Self {
        match ProcessPublisher::start(files, record) {
            Ok(publisher) => self.with_listener(Arc::new(publisher)),
            Err(error) => {
                tracing::debug!(%error, "failed to publish this process for `ps`");
                self
            }
        }
    }

    /// Returns the bus for work that starts now, to be used until that work ends.
    pub fn bus(&self) -> EventBus {
        self.audits(|audits| audits.listeners.clone())
    }

    /// Builds the bus, with the audit log as the last listener.
    pub(crate) fn build_bus(&self, audit: Option<&AuditLog>) -> EventBus {
        let metrics = self.is_counting.then(|| Arc::clone(&self.metrics) as Arc<dyn EventListener>);
        let audit = audit.map(|audit| Arc::new(audit.clone()) as Arc<dyn EventListener>);
        let log: Arc<dyn EventListener> = Arc::new(LogListener::default());
        let further = self.further.iter().cloned();
        let all = [log].into_iter().chain(metrics).chain(further).chain(audit);
        EventBus::new(all, self.process.clone())
    }

    /// Returns `true` if spans are exported.
    pub fn is_tracing(&self) -> bool {
        self.is_tracing
    }

    fn audits<T>(&self, f: impl FnOnce(&mut Audits) -> T) -> T {
        f(&mut self.audits.lock())
    }

    /// Opens the audit log of a configuration, or returns the current one if its settings and
    /// secrets are unchanged. `None` if the configuration has no audit log.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be opened. The current audit log then stays in use.
    pub fn open_audit(&self, config: &Config) -> io::Result<Option<AuditLog>> {
        let secrets = Redactor::from_config(config);
        self.audits(|audits| {
            let Some(wanted) = &config.audit else {
                audits.replace(None, self.build_bus(None));
                return Ok(None);
            };
            if let Some((audit, known)) = &audits.current
                && audit.config() == wanted
                && *known == secrets
            {
                return Ok(Some(audit.clone()));
            }
            audits.opened += 1;
            let process = AuditProcess {
                run: self.run.clone(),
                opened: audits.opened,
                calls: Arc::clone(&self.process.calls),
                lost: self.metrics.lost.clone(),
            };
            let audit =
                AuditLog::open(wanted.clone(), secrets.clone(), process).map_err(|error| {
                    io::Error::new(error.kind(), format!("`{}`: {error}", wanted.file.display()))
                })?;
            audits.replace(Some((audit.clone(), secrets)), self.build_bus(Some(&audit)));
            Ok(Some(audit))
        })
    }

    #[cfg(test)]
    pub(crate) fn current_audit(&self) -> Option<AuditLog> {
        self.audits(|audits| audits.current.as_ref().map(|(audit, _)| audit.clone()))
    }

    /// Returns the metrics of a server in a toolbox. All servers share them if metrics are off.
    pub fn meters(&self, toolbox: &str, server: &str) -> Arc<ServerMetrics> {
        if self.is_counting {
            return self.metrics.for_server(toolbox, server);
        }
        Arc::clone(self.unread.get_or_init(Arc::default))
    }

    /// Returns the gauges of quota usage.
    pub fn quota_usage(&self) -> &QuotaUsage {
        &self.metrics.holdings
    }

    /// Returns the live view of this process.
    pub fn live(&self) -> &LiveView {
        &self.process.live
    }

    /// Renders all metrics in the `OpenMetrics` text format.
    pub fn render(&self) -> String {
        self.metrics.render()
    }

    /// Returns the `tracing` span of a session; `session` is its number in this process.
    pub fn session_span(&self, session: u64) -> Span {
        session_span(&self.run, session)
    }

    /// Marks the process as shutting down. Work that is dropped from now on is reported as
    /// `shutting_down` instead of `cancelled`.
    pub fn begin_shutdown(&self) {
        self.process.is_ending.store(true, Ordering::Relaxed);
    }

    /// Writes all pending records, within `patience`.
    pub fn close(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let (before, listeners) = self.audits(|audits| {
            audits.replace(None, self.build_bus(None));
            (std::mem::take(&mut audits.before), audits.listeners.clone())
        });
        for writing in before {
            writing.finish(left());
        }
        listeners.flush(left);
    }
}

impl Audits {
    fn replace(&mut self, audit: Option<(AuditLog, Redactor)>, listeners: EventBus) {
        self.listeners = listeners;
        self.before.retain(|before| !before.wait_finished(Duration::ZERO));
        let replaced = std::mem::replace(&mut self.current, audit);
        self.before.extend(replaced.map(|(audit, _)| audit.writer_handle()));
    }
}

fn run() -> String {
    let mut random = [0; 4];
    // Fall back to the clock if the system can't provide random numbers.
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

    fn config(audit: &Path, keep: u32) -> Config {
        let text = serde_json::json!({
            "audit": {"file": audit, "keep": keep},
            "mcpServers": {"clock": {"command": "clock"}},
        });
        let env = std::collections::BTreeMap::<String, String>::new();
        let loaded = mcp_workbench_config::parse(
            &text.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
        loaded.unwrap().config
    }

    #[test]
    fn servers_share_metrics_that_are_off() {
        let uncounted = Telemetry::default().without_metrics();
        assert!(Arc::ptr_eq(&uncounted.meters("dev", "git"), &uncounted.meters("dev", "clock")));
        assert!(!uncounted.render().contains("git"));
        let counted = Telemetry::default();
        assert!(!Arc::ptr_eq(&counted.meters("dev", "git"), &counted.meters("dev", "clock")));
        assert!(counted.render().contains("git"));
    }

    #[test]
    fn audit_log_is_reused_until_its_settings_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.jsonl");
        let observer = Telemetry::default();
        let first = observer.open_audit(&config(&file, 1)).unwrap().unwrap();
        let same = observer.open_audit(&config(&file, 1)).unwrap().unwrap();
        assert!(first.is(&same));
        let other = observer.open_audit(&config(&file, 2)).unwrap().unwrap();
        assert!(!first.is(&other));
        assert!(observer.open_audit(&config(folder.path(), 1)).is_err());
        assert!(observer.current_audit().is_some_and(|audit| audit.is(&other)));
        let none = Config { audit: None, ..config(&file, 1) };
        assert!(
            observer.open_audit(&none).unwrap().is_none() && observer.current_audit().is_none()
        );
        observer.close(Duration::from_secs(20));
        assert!(
            [first, other].iter().all(|audit| audit.writer_handle().wait_finished(Duration::ZERO))
        );
    }

    #[test]
    fn replaced_audit_writer_ends_with_its_last_call() {
        const TIMEOUT: Duration = Duration::from_secs(20);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.jsonl");
        let observer = Telemetry::default();
        let writing = observer.open_audit(&config(&file, 1)).unwrap().unwrap().writer_handle();
        let of_a_call = observer.bus();
        drop(observer.open_audit(&config(&file, 2)).unwrap());
        assert!(!writing.wait_finished(Duration::ZERO));
        drop(of_a_call);
        assert!(writing.wait_finished(TIMEOUT));
    }
}
