//! The audit: one line for each call and for whatever else is recorded, written by a thread of its own.
//!
//! It hears when a call begins and when it has ended; either becomes a note in a [`Queue`] that takes it
//! at once or not at all. The writer takes what has come together, makes lines of it and appends
//! them. Records for which there was no room, or no space on the disk, are counted, and the count
//! is written before the next line. Calls that run for longer than a moment are noted beside the
//! file ([`Unfinished`]), so that a program that is killed leaves an account of them.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use memchr::memchr_iter;
use prometheus_client::metrics::counter::Counter;

use crate::observe::context::{CallDetails, CallFacts};
use crate::observe::ending::{CallEnd, Ending};
use crate::observe::event::{Drift, Event, Kinds, TlsDates};
use crate::observe::file::{AuditFile, Unwritten};
use crate::observe::holdings::Payer;
use crate::observe::listeners::Listener;
use crate::observe::queue::{Note, Queue};
use crate::observe::record::definitions::{ChangeRecord, DriftRecord};
use crate::observe::record::{
    CertificateRecord, LlmRecord, ReadRecord, ReloadRecord, Scribe, SignInRecord,
};
use crate::observe::secret::Secrets;
use crate::observe::tally::{Cause, Incident, Tally};
use crate::observe::unfinished::{Unfinished, beside, take_left};
use crate::settings::AuditConfig;

/// How long lines come together before they are written.
const GATHER: Duration = Duration::from_millis(20);
/// How long a call runs before it is noted as unfinished.
const MOMENT: Duration = Duration::from_millis(250);
/// How often it is tried to write where that has failed, though nothing else is to be written.
const RETRY: Duration = Duration::from_secs(1);
/// About how many bytes of lines are written at once.
const BATCH: usize = 256 * 1024;
/// The bytes of the key that arguments are hashed with.
const KEY: usize = 32;
/// How many definitions of one listing that are not as the lock has them are recorded.
const MAX_DRIFTED: usize = 100;

/// Where calls are recorded; clones are the same. The writer ends with the last one.
#[derive(Clone, Debug)]
pub struct Audit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: AuditConfig,
    queue: Arc<Queue>,
    calls: Arc<AtomicU64>,
    lost: Counter,
    tally: Arc<Tally>,
}

/// The facts about this process that an audit needs.
pub(crate) struct Process {
    /// Tells it from others that write to the same file.
    pub(crate) run: String,
    /// How many audits it has opened.
    pub(crate) opened: usize,
    /// Counts its calls.
    pub(crate) calls: Arc<AtomicU64>,
    /// Counts records that could not be written.
    pub(crate) lost: Counter,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Audit {
    /// Opens the file, and begins with what was left by processes that were killed.
    pub(crate) fn open(
        config: AuditConfig,
        secrets: Secrets,
        process: Process,
    ) -> io::Result<Self> {
        let Process { run, opened, calls, lost } = process;
        let file = AuditFile::open(&config.file, config.max_bytes, config.keep)?;
        let key = key(&config.file)?;
        let mut left = take_left(&config.file)?;
        let (queue, tally) = (Arc::new(Queue::default()), Arc::new(Tally::default()));
        let mut writer = Writer {
            queue: Arc::clone(&queue),
            unfinished: Unfinished::new(&config.file, &format!("{run}-{opened}")),
            scribe: Scribe::new(run, config.arguments, key, secrets),
            file,
            running: Vec::new(),
            lost: lost.clone(),
            tally: Arc::clone(&tally),
            has_failed: false,
        };
        let calls_left = memchr_iter(b'\n', &left).count() as u64;
        writer.append(&mut left, calls_left);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run())?;
        Ok(Self(Arc::new(Shared { config, queue, calls, lost, tally })))
    }

    /// Returns `true` if both are one and the same audit.
    #[cfg(test)]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The configuration that it was opened with.
    pub(crate) fn config(&self) -> &AuditConfig {
        &self.0.config
    }

    fn put(&self, note: Note) {
        if !self.0.queue.push(note) {
            self.0.queue.lose(1);
            self.0.lost.inc();
        }
    }

    fn count(&self, who: Payer, cause: Cause) {
        let incident = Incident { who: Some(who), cause };
        for (incident, times) in self.0.tally.count(incident, Instant::now()) {
            self.put(Note::Incident(incident, times));
        }
    }

    fn reload(&self, outcome: &'static str, [changes, difference, reason]: [&str; 3]) {
        self.put(Note::Reload(ReloadRecord {
            at: SystemTime::now(),
            outcome,
            changes: changes.to_owned(),
            difference: difference.to_owned(),
            reason: reason.to_owned(),
        }));
    }

    fn certificates(&self, read: Result<TlsDates, String>) {
        self.put(Note::Certificates(CertificateRecord { at: SystemTime::now(), read }));
    }

    /// Its writer, for whoever waits for the end of that.
    pub(crate) fn writing(&self) -> Writing {
        Writing(Arc::clone(&self.0.queue))
    }
}

/// The writer of an audit, which ends all the same when nobody has the audit any more.
pub(crate) struct Writing(Arc<Queue>);

impl Writing {
    /// Waits until everything is written and nothing more will be; false if that takes longer.
    pub(crate) fn has_finished_within(&self, patience: Duration) -> bool {
        self.0.wait_finished(patience)
    }

    /// Writes what there is, with the calls that still run; says in the log if that takes longer.
    pub(crate) fn finish(&self, patience: Duration) -> bool {
        self.0.close();
        let has_finished = self.has_finished_within(patience);
        if !has_finished {
            tracing::error!(
                "at least {} of the audit could not be written in time and will not be",
                records(self.0.unwritten())
            );
        }
        has_finished
    }
}

impl Listener for Audit {
    fn wants(&self) -> Kinds {
        let calls = Kinds::CALLS_BEGUN.and(Kinds::CALLS_ENDED).and(Kinds::CALL_TEXTS);
        let others = Kinds::SESSIONS
            .and(Kinds::LISTINGS)
            .and(Kinds::DENIALS)
            .and(Kinds::READS)
            .and(Kinds::SIGN_INS)
            .and(Kinds::PROGRAM);
        calls.and(Kinds::LLM_REQUESTS).and(others)
    }

    fn hear(&self, event: Event<'_>) {
        match event {
            Event::CallBegan(call) => {
                // What found no room is recorded when it ends.
                self.0.queue.push(Note::CallBegan(Arc::clone(call.facts())));
            }
            Event::CallEnded(call, end) => {
                let facts = Arc::clone(call.facts());
                self.put(Note::CallEnded(facts, call.details.clone(), end));
            }
            Event::LlmRequestEnded(request, outcome) => {
                let number = self.0.calls.fetch_add(1, Ordering::Relaxed);
                self.put(Note::LlmRequestEnded(LlmRecord::new(request, outcome, number)));
            }
            Event::DefinitionsChanged(server, changed) => {
                let at = SystemTime::now();
                for changed in changed {
                    let (toolbox, server) = (server.toolbox.clone(), server.server.clone());
                    let record = ChangeRecord { at, toolbox, server, changed: changed.clone() };
                    self.put(Note::DefinitionChanged(Box::new(record)));
                }
            }
            Event::DefinitionsDrifted(Drift { server, found, becomes, accept: _ }) => {
                let now = SystemTime::now();
                for drifted in found.iter().take(MAX_DRIFTED) {
                    let (server, drifted) = (server.clone(), drifted.clone());
                    let record = DriftRecord { at: now, server, drifted, becomes };
                    self.put(Note::Drifted(Box::new(record)));
                }
            }
            Event::SessionAdopted(session, times) => {
                self.put(Note::SessionAdopted(session.clone(), times));
            }
            Event::SessionClosed(session) if session.without_us > 0 => {
                self.put(Note::SessionClosed(session.clone()));
            }
            Event::AccessDenied(denied, address) => {
                self.count(Payer::new(denied.agent.as_ref(), address), Cause::Denied(denied.why));
            }
            Event::LimitReached(reached) => {
                self.count(reached.payer.clone(), Cause::Limit(reached.what));
            }
            Event::ReadEnded(read, end) => self.put(Note::Read(ReadRecord::new(read, end))),
            Event::SignIn(login, change) => {
                self.put(Note::SignIn(SignInRecord::new(login, change)));
            }
            Event::Reloaded { changes, difference } => {
                self.reload("taken_over", [changes, difference, ""]);
            }
            Event::ReloadHeld { changes, difference } => {
                self.reload("held", [changes, difference, ""]);
            }
            Event::ReloadRefused(error) => self.reload("refused", ["", "", &error.to_string()]),
            Event::CertificateShown(dates) => self.certificates(Ok(*dates)),
            Event::CertificateRefused(error) => self.certificates(Err(error.to_string())),
            _ => {}
        }
    }

    fn flush(&self, patience: Duration) {
        self.writing().finish(patience);
    }
}

/// The key of an audit file, which lies beside it and is made once.
fn key(audit: &Path) -> io::Result<Vec<u8>> {
    let path = beside(audit, ".key");
    let read = || -> io::Result<Vec<u8>> {
        let mut key = Vec::with_capacity(KEY);
        std::fs::File::open(&path)?.take(KEY as u64).read_to_end(&mut key)?;
        Ok(key)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let mut key = [0; KEY];
    getrandom::fill(&mut key).map_err(io::Error::from)?;
    // It has its name only when it is whole, and the first of several is everybody's.
    let file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    std::fs::write(file.path(), key)?;
    match file.persist_noclobber(&path) {
        Ok(_) => Ok(key.to_vec()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => read(),
        Err(error) => Err(error.error),
    }
}

/// The state of the thread that writes.
struct Writer {
    queue: Arc<Queue>,
    scribe: Scribe,
    file: AuditFile,
    unfinished: Unfinished,
    running: Vec<Running>,
    lost: Counter,
    tally: Arc<Tally>,
    /// `true` if the last line could not be written. That is reported once.
    has_failed: bool,
}

/// A call that has begun. When nobody has it any more, it has ended.
struct Running {
    facts: Weak<CallFacts>,
    is_noted: bool,
}

impl Writer {
    fn run(mut self) {
        loop {
            let is_waiting = self.running.iter().any(|running| !running.is_noted);
            // What was lost is told as soon as there is room again.
            let again = self.has_failed.then_some(RETRY);
            let patience = is_waiting.then_some(MOMENT).or(again);
            let patience = patience.into_iter().chain(self.tally.left(Instant::now())).min();
            let (mut notes, is_last) = self.queue.take(patience);
            let again = self.tally.take(Instant::now(), is_last);
            notes
                .extend(again.into_iter().map(|(incident, times)| Note::Incident(incident, times)));
            self.write(notes);
            if is_last {
                break;
            }
            self.note_running();
            self.queue.gather(GATHER);
        }
        self.end_running();
        let lost = self.queue.take_lost();
        if lost > 0 {
            tracing::error!(
                file = %self.file.path().display(),
                "{} of the audit could not be written and will not be; nothing in the file says so",
                records(lost)
            );
        }
        self.queue.finish();
    }

    fn write(&mut self, notes: Vec<Note>) {
        let (mut lines, mut records) = (Vec::new(), 0);
        for note in notes {
            match note {
                Note::CallBegan(facts) => {
                    let facts = Arc::downgrade(&facts);
                    self.running.push(Running { facts, is_noted: false });
                    continue;
                }
                Note::CallEnded(facts, details, end) => {
                    self.scribe.call(&mut lines, &facts, &details, end);
                }
                Note::LlmRequestEnded(request) => self.scribe.llm_request(&mut lines, &request),
                Note::DefinitionChanged(change) => self.scribe.definition(&mut lines, &change),
                Note::Drifted(drift) => self.scribe.drift(&mut lines, &drift),
                Note::SessionAdopted(session, times) => {
                    self.scribe.adopted(&mut lines, &session, times);
                }
                Note::SessionClosed(session) => self.scribe.session(&mut lines, &session),
                Note::Incident(incident, times) => Scribe::incident(&mut lines, &incident, times),
                Note::Read(read) => self.scribe.read(&mut lines, &read),
                Note::SignIn(login) => self.scribe.sign_in(&mut lines, &login),
                Note::Reload(reload) => self.scribe.reload(&mut lines, &reload),
                Note::Certificates(read) => self.scribe.certificates(&mut lines, &read),
            }
            records += 1;
            if lines.len() >= BATCH {
                self.append(&mut lines, std::mem::take(&mut records));
            }
        }
        self.append(&mut lines, records);
    }

    /// Writes lines, after those that say how many before them are lost.
    fn append(&mut self, lines: &mut Vec<u8>, records: u64) {
        let lost = self.queue.take_lost();
        if lost > 0 {
            let mut all = Vec::with_capacity(lines.len() + 100);
            Scribe::lost(&mut all, lost);
            all.append(lines);
            *lines = all;
        }
        if lines.is_empty() {
            self.has_failed = false;
            return;
        }
        match self.file.write(lines) {
            Ok(()) => self.has_failed = false,
            Err(Unwritten { error, written }) => {
                let mut written = memchr_iter(b'\n', &lines[..written]).count() as u64;
                // The first line says what was lost before.
                let still_lost = if lost > 0 && written == 0 { lost } else { 0 };
                written -= u64::from(lost > 0 && written > 0);
                let records = records.saturating_sub(written);
                self.queue.lose(still_lost + records);
                self.lost.inc_by(records);
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(%error, "calls cannot be recorded");
                }
            }
        }
        lines.clear();
    }

    /// Notes what has been running for a moment, where that has changed.
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
            running.is_noted = runs.is_some_and(|time| time >= MOMENT);
            has_changed |= running.is_noted;
        }
        if !has_changed {
            return;
        }
        let mut lines = Vec::new();
        for facts in self.running.iter().filter(|r| r.is_noted).filter_map(|r| r.facts.upgrade()) {
            self.scribe.unfinished(&mut lines, &facts);
        }
        if let Err(error) = self.unfinished.note(&lines) {
            tracing::warn!(%error, "calls that are running cannot be noted");
        }
    }

    /// Writes the lines of the calls that end with the program.
    fn end_running(&mut self) {
        let mut lines = Vec::new();
        let running = self.running.drain(..).filter_map(|running| running.facts.upgrade());
        let mut records = 0;
        for facts in running.collect::<Vec<_>>() {
            let took = facts.at.elapsed().unwrap_or_default();
            let end = CallEnd { ending: Ending::ShuttingDown, took, result_bytes: None };
            self.scribe.call(&mut lines, &facts, &CallDetails::default(), end);
            records += 1;
        }
        self.append(&mut lines, records);
        if let Err(error) = self.unfinished.note(&[]) {
            tracing::warn!(%error, "what was noted of running calls could not be removed");
        }
    }
}

/// A number of records, in words.
fn records(number: u64) -> String {
    if number == 1 { "1 record".to_owned() } else { format!("{number} records") }
}

#[cfg(test)]
mod tests;
