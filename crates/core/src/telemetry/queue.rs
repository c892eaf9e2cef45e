//! The queue of messages to the audit writer. Senders never block.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::telemetry::context::CallStart;
use crate::telemetry::event::SessionContext;
use crate::telemetry::outcome::CallEnd;
use crate::telemetry::record::definitions::{ChangeRecord, DriftRecord};
use crate::telemetry::record::{
    ApprovalRecord, CertificateRecord, LlmRecord, ReadRecord, ReloadRecord, SignInRecord,
};
use crate::telemetry::rejections::Rejection;
use mcp_workbench_wire::json::RawJson;

/// Maximum number of queued messages.
const MAX_NOTES: usize = 16 * 1024;
/// Maximum size of arguments and other unbounded texts in the queue, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A message to the audit writer.
#[derive(Debug)]
pub(crate) enum AuditMessage {
    CallBegan(Arc<CallStart>),
    CallEnded(Arc<CallStart>, CallEnd),
    LlmRequestEnded(LlmRecord),
    DefinitionChanged(Box<ChangeRecord>),
    Drifted(Box<DriftRecord>),
    /// The session, and how often it has been adopted.
    SessionAdopted(SessionContext, u64),
    SessionClosed(SessionContext),
    /// A rejection, and how often it occurred.
    Incident(Rejection, u64),
    Read(ReadRecord),
    SignIn(SignInRecord),
    Reload(ReloadRecord),
    Certificates(CertificateRecord),
    Approval(Box<ApprovalRecord>),
}

impl AuditMessage {
    /// Returns the size of the texts that have no other bound.
    fn bytes(&self) -> usize {
        match self {
            Self::CallEnded(facts, ..) => facts.arguments.as_ref().map_or(0, RawJson::len),
            Self::Read(read) => read.name.len(),
            Self::SignIn(login) => login.why.len(),
            Self::Reload(ReloadRecord { changes, difference, reason, .. }) => {
                changes.len() + difference.len() + reason.len()
            }
            Self::Certificates(certificates) => {
                certificates.read.as_ref().err().map_or(0, String::len)
            }
            Self::CallBegan(_)
            | Self::LlmRequestEnded(_)
            | Self::DefinitionChanged(_)
            | Self::Drifted(_)
            | Self::Approval(_)
            | Self::SessionAdopted(..)
            | Self::SessionClosed(_)
            | Self::Incident(..) => 0,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct AuditQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// Lost records that are not reported in the file yet.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct QueueState {
    notes: Vec<AuditMessage>,
    bytes: usize,
    /// `true` if the writer sleeps until the next message.
    is_idle: bool,
    is_closed: bool,
    /// `true` if the writer has ended.
    is_over: bool,
}

impl AuditQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Adds a message. Returns `false` if the queue is full or closed.
    pub(crate) fn push(&self, note: AuditMessage) -> bool {
        let bytes = note.bytes();
        let mut state = self.state();
        if state.is_closed || state.notes.len() >= MAX_NOTES || state.bytes + bytes > MAX_BYTES {
            return false;
        }
        state.bytes += bytes;
        state.notes.push(note);
        if std::mem::take(&mut state.is_idle) {
            drop(state);
            self.changed.notify_all();
        }
        true
    }

    pub(crate) fn count_lost(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    /// Returns the number of records lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Returns the number of queued records and of lost ones that are not reported yet.
    pub(crate) fn unwritten(&self) -> u64 {
        let state = self.state();
        let records = state.notes.iter().filter(|note| !matches!(note, AuditMessage::CallBegan(_)));
        records.count() as u64 + self.lost.load(Ordering::Relaxed)
    }

    /// Takes all messages. Waits for one if the queue is empty, for at most `patience` if given.
    /// Also returns whether the queue is closed.
    pub(crate) fn take(&self, patience: Option<Duration>) -> (Vec<AuditMessage>, bool) {
        let mut state = self.state();
        if state.notes.is_empty() && !state.is_closed {
            state.is_idle = true;
            self.wait(&mut state, patience, |state| state.is_idle && !state.is_closed);
            state.is_idle = false;
        }
        state.bytes = 0;
        (std::mem::take(&mut state.notes), state.is_closed)
    }

    /// Waits for further messages, until the time has passed or the queue is closed.
    pub(crate) fn linger(&self, time: Duration) {
        self.wait(&mut self.state(), Some(time), |state| !state.is_closed);
    }

    fn wait(
        &self,
        state: &mut MutexGuard<'_, QueueState>,
        patience: Option<Duration>,
        condition: impl FnMut(&mut QueueState) -> bool,
    ) {
        match patience {
            Some(time) => _ = self.changed.wait_while_for(state, condition, time),
            None => self.changed.wait_while(state, condition),
        }
    }

    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Signals that the writer has ended.
    pub(crate) fn finish(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until the writer has ended. Returns `false` on a timeout.
    pub(crate) fn wait_finished(&self, patience: Duration) -> bool {
        let mut state = self.state();
        self.wait(&mut state, Some(patience), |state| !state.is_over);
        state.is_over
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn closed(session: u64) -> AuditMessage {
        AuditMessage::SessionClosed(SessionContext { session, ..SessionContext::default() })
    }

    // invariant: telemetry-never-blocks
    #[test]
    fn rejects_messages_when_full_without_blocking() {
        let queue = AuditQueue::default();
        for session in 0..MAX_NOTES as u64 {
            assert!(queue.push(closed(session)));
        }
        assert!(!queue.push(closed(0)));
        queue.count_lost(2);
        assert_eq!((queue.take_lost(), queue.take_lost()), (2, 0));
        let (notes, is_last) = queue.take(None);
        assert_eq!((notes.len(), is_last), (MAX_NOTES, false));
        assert!(queue.push(closed(0)), "there is room again");
    }

    #[test]
    fn writer_wakes_up_on_a_message_and_on_close() {
        let queue = Arc::new(AuditQueue::default());
        let waiting = Arc::clone(&queue);
        let writer = thread::spawn(move || {
            let mut seen = 0;
            loop {
                let (notes, is_last) = waiting.take(None);
                seen += notes.len();
                if is_last {
                    waiting.finish();
                    return seen;
                }
                waiting.linger(Duration::from_millis(1));
            }
        });
        for session in 0..1000 {
            assert!(queue.push(closed(session)));
        }
        queue.close();
        assert!(queue.wait_finished(Duration::from_secs(20)));
        assert_eq!(writer.join().unwrap(), 1000);
        assert!(!queue.push(closed(0)));
    }
}
