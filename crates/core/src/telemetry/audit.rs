//! The audit log: a JSON line for each call and for each other recorded event.
//!
//! The listener puts messages into an [`AuditQueue`], which accepts them immediately or not at all.
//! A writer thread drains the queue in batches, encodes the lines and appends them. Records lost to
//! a full queue or a full disk are counted, and the count is written before the next line. Calls
//! that run for longer than `IN_FLIGHT_AFTER` are also listed next to the file ([`LeaseFile`]), so
//! a killed process leaves a record of them.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use memchr::memchr_iter;
use prometheus_client::metrics::counter::Counter;

use crate::telemetry::context::CallStart;
use crate::telemetry::event::{CertificateExpiry, DriftEvent, Event, EventKinds};
use crate::telemetry::event_bus::EventListener;
use crate::telemetry::lease_file::{LeaseFile, sibling_path, take_orphans};
use crate::telemetry::outcome::{CallEnd, CallOutcome};
use crate::telemetry::queue::{AuditMessage, AuditQueue};
use crate::telemetry::quota::QuotaOwner;
use crate::telemetry::record::definitions::{ChangeRecord, DriftRecord};
use crate::telemetry::record::{
    ApprovalRecord, AuditEncoder, CertificateRecord, LlmRecord, ReadRecord, ReloadRecord,
    SignInRecord,
};
use crate::telemetry::redaction::Redactor;
use crate::telemetry::rejections::{Rejection, RejectionCause, RejectionCounter};
use crate::telemetry::rotating_file::{PartialWriteError, RotatingFile};
use mcp_workbench_os::{OpenMode, open_own};
use mcp_workbench_settings::AuditConfig;

/// How long the writer collects messages before the next write.
const GATHER: Duration = Duration::from_millis(20);
/// How long a call runs before it is listed in the lease file.
const IN_FLIGHT_AFTER: Duration = Duration::from_millis(250);
/// How soon to write again after a failure if no message arrives.
const RETRY: Duration = Duration::from_secs(1);
/// Approximate size of one write, in bytes.
const BATCH: usize = 256 * 1024;
/// Size of the key for argument hashes, in bytes.
const KEY: usize = 32;
/// Maximum number of drifted definitions recorded per listing.
const MAX_DRIFTED: usize = 100;

/// The audit log. Clones share it, and the writer ends when the last one is dropped.
#[derive(Clone, Debug)]
pub struct AuditLog(Arc<AuditShared>);

#[derive(Debug)]
struct AuditShared {
    config: AuditConfig,
    queue: Arc<AuditQueue>,
    calls: Arc<AtomicU64>,
    lost: Counter,
    tally: Arc<RejectionCounter>,
}

pub(crate) struct AuditProcess {
    /// Distinguishes this process from others that write to the same file.
    pub(crate) run: String,
    /// How many audit logs the process has opened, including this one.
    pub(crate) opened: usize,
    pub(crate) calls: Arc<AtomicU64>,
    pub(crate) lost: Counter,
}

impl Drop for AuditShared {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl AuditLog {
    /// Opens the file, and first appends the calls that killed processes left in their lease files.
    pub(crate) fn open(
        config: AuditConfig,
        secrets: Redactor,
        process: AuditProcess,
    ) -> io::Result<Self> {
        let AuditProcess { run, opened, calls, lost } = process;
        let file = RotatingFile::open(&config.file, config.max_bytes, config.keep)?;
        let key = key(&config.file)?;
        let mut left = take_orphans(&config.file)?;
        let (queue, tally) =
            (Arc::new(AuditQueue::default()), Arc::new(RejectionCounter::default()));
        let mut writer = AuditWriter {
            queue: Arc::clone(&queue),
            unfinished: LeaseFile::new(&config.file, &format!("{run}-{opened}")),
            scribe: AuditEncoder::new(run, config.arguments, key, secrets),
            file,
            running: Vec::new(),
            lost: lost.clone(),
            tally: Arc::clone(&tally),
            has_failed: false,
        };
        let calls_left = memchr_iter(b'\n', &left).count() as u64;
        writer.append(&mut left, calls_left);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run())?;
        Ok(Self(Arc::new(AuditShared { config, queue, calls, lost, tally })))
    }

    #[cfg(test)]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn config(&self) -> &AuditConfig {
        &self.0.config
    }

    fn put(&self, note: AuditMessage) {
        if !self.0.queue.push(note) {
            self.0.queue.count_lost(1);
            self.0.lost.inc();
        }
    }

    fn count(&self, who: QuotaOwner, cause: RejectionCause) {
        let incident = Rejection { who: Some(who), cause };
        for (incident, times) in self.0.tally.count(incident, Instant::now()) {
            self.put(AuditMessage::Incident(incident, times));
        }
    }

    fn reload(&self, outcome: &'static str, [changes, difference, reason]: [&str; 3]) {
        self.put(AuditMessage::Reload(ReloadRecord {
            at: SystemTime::now(),
            outcome,
            changes: changes.to_owned(),
            difference: difference.to_owned(),
            reason: reason.to_owned(),
        }));
    }

    fn certificates(&self, read: Result<CertificateExpiry, String>) {
        self.put(AuditMessage::Certificates(CertificateRecord { at: SystemTime::now(), read }));
    }

    /// Returns a handle that can wait for the writer without keeping it running.
    pub(crate) fn writer_handle(&self) -> AuditWriterHandle {
        AuditWriterHandle(Arc::clone(&self.0.queue))
    }
}

/// A handle to the writer, which ends even if the handle still exists.
pub(crate) struct AuditWriterHandle(Arc<AuditQueue>);

impl AuditWriterHandle {
    /// Waits until everything is written and the writer has ended. Returns `false` on a timeout.
    pub(crate) fn wait_finished(&self, patience: Duration) -> bool {
        self.0.wait_finished(patience)
    }

    /// Closes the log and writes the rest, including calls in flight. Logs a timeout.
    pub(crate) fn finish(&self, patience: Duration) -> bool {
        self.0.close();
        let has_finished = self.wait_finished(patience);
        if !has_finished {
            tracing::error!(
                "audit log: at least {} not written before the shutdown timeout",
                records(self.0.unwritten())
            );
        }
        has_finished
    }
}

impl EventListener for AuditLog {
    fn interest(&self) -> EventKinds {
        let calls =
            EventKinds::CALLS_BEGUN.union(EventKinds::CALLS_ENDED).union(EventKinds::CALL_TEXTS);
        let others = EventKinds::SESSIONS
            .union(EventKinds::LISTINGS)
            .union(EventKinds::DENIALS)
            .union(EventKinds::READS)
            .union(EventKinds::SIGN_INS)
            .union(EventKinds::APPROVALS)
            .union(EventKinds::PROGRAM);
        calls.union(EventKinds::LLM_REQUESTS).union(others)
    }

    fn on_event(&self, event: Event<'_>) {
        match event {
            Event::CallBegan(call) => {
                // If the queue is full, the call is still recorded when it ends.
                self.0.queue.push(AuditMessage::CallBegan(Arc::clone(call.start())));
            }
            Event::CallEnded(call) => {
                self.put(AuditMessage::CallEnded(Arc::clone(call.start()), call.end.clone()));
            }
            Event::LlmRequestEnded(request, outcome) => {
                let number = self.0.calls.fetch_add(1, Ordering::Relaxed);
                self.put(AuditMessage::LlmRequestEnded(LlmRecord::new(request, outcome, number)));
            }
            Event::DefinitionsChanged(server, changed) => {
                let at = SystemTime::now();
                for changed in changed {
                    let (toolbox, server) = (server.toolbox.clone(), server.server.clone());
                    let record = ChangeRecord { at, toolbox, server, changed: changed.clone() };
                    self.put(AuditMessage::DefinitionChanged(Box::new(record)));
                }
            }
            Event::DefinitionsDrifted(DriftEvent {
                server,
                drift: found,
                action,
                accept_command: _,
            }) => {
                let now = SystemTime::now();
                for drifted in found.iter().take(MAX_DRIFTED) {
                    let (server, drifted) = (server.clone(), drifted.clone());
                    let record = DriftRecord { at: now, server, drifted, action };
                    self.put(AuditMessage::Drifted(Box::new(record)));
                }
            }
            Event::SessionAdopted(session, times) => {
                self.put(AuditMessage::SessionAdopted(session.clone(), times));
            }
            Event::SessionClosed(session) if session.baseline_bytes > 0 => {
                self.put(AuditMessage::SessionClosed(session.clone()));
            }
            Event::AccessDenied(denied, address) => {
                self.count(
                    QuotaOwner::new(denied.agent.as_ref(), address),
                    RejectionCause::Denied(denied.reason),
                );
            }
            Event::LimitReached(reached) => {
                self.count(reached.owner.clone(), RejectionCause::Limit(reached.quota));
            }
            Event::ReadEnded(read, end) => self.put(AuditMessage::Read(ReadRecord::new(read, end))),
            Event::SignIn(login, change) => {
                self.put(AuditMessage::SignIn(SignInRecord::new(login, change)));
            }
            Event::ApprovalEnded(call, outcome, by) => {
                let record = ApprovalRecord::new(call, outcome, by);
                self.put(AuditMessage::Approval(Box::new(record)));
            }
            Event::Reloaded { changes, difference } => {
                self.reload("applied", [changes, difference, ""]);
            }
            Event::ReloadPending { changes, difference } => {
                self.reload("pending", [changes, difference, ""]);
            }
            Event::ReloadRefused(error) => self.reload("rejected", ["", "", &error.to_string()]),
            Event::CertificateLoaded(dates) => self.certificates(Ok(*dates)),
            Event::CertificateRefused(error) => self.certificates(Err(error.to_string())),
            _ => {}
        }
    }

    fn flush(&self, patience: Duration) {
        self.writer_handle().finish(patience);
    }
}

/// Returns the key for argument hashes from the file next to the audit log, or creates it.
fn key(audit: &Path) -> io::Result<Vec<u8>> {
    let path = sibling_path(audit, ".key");
    let read = || -> io::Result<Vec<u8>> {
        let mut key = Vec::with_capacity(KEY);
        open_own(&path, OpenMode::ReadShared)?.take(KEY as u64).read_to_end(&mut key)?;
        Ok(key)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let mut key = [0; KEY];
    getrandom::fill(&mut key).map_err(io::Error::from)?;
    // The file gets its name when it is complete. If processes race, all use the key of the first.
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(&key)?;
    match file.persist_noclobber(&path) {
        Ok(_) => Ok(key.to_vec()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => read(),
        Err(error) => Err(error.error),
    }
}

struct AuditWriter {
    queue: Arc<AuditQueue>,
    scribe: AuditEncoder,
    file: RotatingFile,
    unfinished: LeaseFile,
    running: Vec<RunningCall>,
    lost: Counter,
    tally: Arc<RejectionCounter>,
    /// `true` if the last write failed. Only the first of several failures is logged.
    has_failed: bool,
}

/// A call in flight. It has ended when the reference is dead.
struct RunningCall {
    facts: Weak<CallStart>,
    is_noted: bool,
}

impl AuditWriter {
    fn run(mut self) {
        loop {
            let is_waiting = self.running.iter().any(|running| !running.is_noted);
            // After a failure, wake up without messages too, to record the loss once there is
            // space.
            let again = self.has_failed.then_some(RETRY);
            let patience = is_waiting.then_some(IN_FLIGHT_AFTER).or(again);
            let patience = patience.into_iter().chain(self.tally.left(Instant::now())).min();
            let (mut notes, is_last) = self.queue.take(patience);
            let again = self.tally.take(Instant::now(), is_last);
            notes.extend(
                again.into_iter().map(|(incident, times)| AuditMessage::Incident(incident, times)),
            );
            self.write(notes);
            if is_last {
                break;
            }
            self.note_running();
            self.queue.linger(GATHER);
        }
        self.end_running();
        let lost = self.queue.take_lost();
        if lost > 0 {
            tracing::error!(
                file = %self.file.path().display(),
                "audit log: {} could not be written; the file does not show the loss",
                records(lost)
            );
        }
        self.queue.finish();
    }

    fn write(&mut self, notes: Vec<AuditMessage>) {
        let (mut lines, mut records) = (Vec::new(), 0);
        for note in notes {
            match note {
                AuditMessage::CallBegan(facts) => {
                    let facts = Arc::downgrade(&facts);
                    self.running.push(RunningCall { facts, is_noted: false });
                    continue;
                }
                AuditMessage::CallEnded(facts, end) => {
                    self.scribe.encode_call(&mut lines, &facts, &end);
                }
                AuditMessage::LlmRequestEnded(request) => {
                    self.scribe.llm_request(&mut lines, &request);
                }
                AuditMessage::DefinitionChanged(change) => {
                    self.scribe.definition(&mut lines, &change);
                }
                AuditMessage::Drifted(drift) => self.scribe.drift(&mut lines, &drift),
                AuditMessage::SessionAdopted(session, times) => {
                    self.scribe.encode_adoption(&mut lines, &session, times);
                }
                AuditMessage::SessionClosed(session) => self.scribe.session(&mut lines, &session),
                AuditMessage::Incident(incident, times) => {
                    AuditEncoder::encode_rejection(&mut lines, &incident, times);
                }
                AuditMessage::Read(read) => self.scribe.read(&mut lines, &read),
                AuditMessage::SignIn(login) => self.scribe.sign_in(&mut lines, &login),
                AuditMessage::Reload(reload) => self.scribe.reload(&mut lines, &reload),
                AuditMessage::Approval(record) => self.scribe.approval(&mut lines, &record),
                AuditMessage::Certificates(read) => self.scribe.certificates(&mut lines, &read),
            }
            records += 1;
            if lines.len() >= BATCH {
                self.append(&mut lines, std::mem::take(&mut records));
            }
        }
        self.append(&mut lines, records);
    }

    /// Writes the lines, after a line with the number of records lost before them.
    fn append(&mut self, lines: &mut Vec<u8>, records: u64) {
        let lost = self.queue.take_lost();
        if lost > 0 {
            let mut all = Vec::with_capacity(lines.len() + 100);
            AuditEncoder::lost(&mut all, lost);
            all.append(lines);
            *lines = all;
        }
        if lines.is_empty() {
            self.has_failed = false;
            return;
        }
        match self.file.write(lines) {
            Ok(()) => self.has_failed = false,
            Err(PartialWriteError { error, written }) => {
                let mut written = memchr_iter(b'\n', &lines[..written]).count() as u64;
                // The first line is the count of earlier losses. If it was not written, count them
                // again.
                let still_lost = if lost > 0 && written == 0 { lost } else { 0 };
                written -= u64::from(lost > 0 && written > 0);
                let records = records.saturating_sub(written);
                self.queue.count_lost(still_lost + records);
                self.lost.inc_by(records);
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(%error, "failed to write to the audit log");
                }
            }
        }
        lines.clear();
    }

    /// Updates the lease file if the calls in it have changed.
    fn note_running(&mut self) {
        let mut has_changed = false;
        self.running.retain(|running| {
            let is_running = running.facts.strong_count() > 0;
            has_changed |= running.is_noted && !is_running;
            is_running
        });
        for running in self.running.iter_mut().filter(|running| !running.is_noted) {
            let facts = running.facts.upgrade();
            let runs = facts.and_then(|facts| facts.at.elapsed().ok());
            running.is_noted = runs.is_some_and(|time| time >= IN_FLIGHT_AFTER);
            has_changed |= running.is_noted;
        }
        if !has_changed {
            return;
        }
        let mut lines = Vec::new();
        for facts in self.running.iter().filter(|r| r.is_noted).filter_map(|r| r.facts.upgrade()) {
            self.scribe.encode_in_flight(&mut lines, &facts);
        }
        if let Err(error) = self.unfinished.replace(&lines) {
            tracing::warn!(%error, "failed to write the file of calls in flight");
        }
    }

    /// Records the calls that the shutdown interrupts.
    fn end_running(&mut self) {
        let mut lines = Vec::new();
        let running = self.running.drain(..).filter_map(|running| running.facts.upgrade());
        let mut records = 0;
        for facts in running.collect::<Vec<_>>() {
            let took = facts.at.elapsed().unwrap_or_default();
            let end = CallEnd { outcome: CallOutcome::ShuttingDown, took, ..CallEnd::default() };
            self.scribe.encode_call(&mut lines, &facts, &end);
            records += 1;
        }
        self.append(&mut lines, records);
        if let Err(error) = self.unfinished.replace(&[]) {
            tracing::warn!(%error, "failed to remove the file of calls in flight");
        }
    }
}

fn records(number: u64) -> String {
    if number == 1 { "1 record".to_owned() } else { format!("{number} records") }
}

#[cfg(test)]
mod tests;
