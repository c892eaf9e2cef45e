//! The way of records to the one thread that writes them. Nobody waits to put one in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::observe::context::{CallDetails, CallFacts};
use crate::observe::ending::CallEnd;
use crate::observe::event::SessionContext;
use crate::observe::record::definitions::{ChangeRecord, DriftRecord};
use crate::observe::record::{
    CertificateRecord, LlmRecord, ReadRecord, ReloadRecord, SignInRecord,
};
use crate::observe::tally::Incident;
use crate::raw::Raw;

/// How many notes may wait to be written.
const MAX_NOTES: usize = 16 * 1024;
/// How many bytes of arguments may wait with them.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A piece of work for the writer.
#[derive(Debug)]
pub(crate) enum Note {
    /// A call has begun.
    CallBegan(Arc<CallFacts>),
    /// It has ended.
    CallEnded(Arc<CallFacts>, CallDetails, CallEnd),
    /// A request to a model has ended.
    LlmRequestEnded(LlmRecord),
    /// A server has changed a definition.
    DefinitionChanged(Box<ChangeRecord>),
    /// A definition is not as the lock has it.
    Drifted(Box<DriftRecord>),
    /// An agent's session goes on here, where it was taken over so often in all.
    SessionAdopted(SessionContext, u64),
    /// An agent has left.
    SessionClosed(SessionContext),
    /// Somebody did not get what it wanted, so often.
    Incident(Incident, u64),
    /// A resource or a prompt was read.
    Read(ReadRecord),
    /// A login has changed.
    SignIn(SignInRecord),
    /// The configuration was read again.
    Reload(ReloadRecord),
    /// Certificates were read.
    Certificates(CertificateRecord),
}

impl Note {
    /// The bytes in it that may be any number.
    fn bytes(&self) -> usize {
        match self {
            Self::CallEnded(facts, ..) => facts.arguments.as_ref().map_or(0, Raw::len),
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
            | Self::SessionAdopted(..)
            | Self::SessionClosed(_)
            | Self::Incident(..) => 0,
        }
    }
}

/// Notes that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Records that found no room, and were not told of yet.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    notes: Vec<Note>,
    bytes: usize,
    /// `true` if the writer sleeps until somebody wakes it.
    is_idle: bool,
    is_closed: bool,
    /// `true` if the writer has ended.
    is_over: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a note in; false where there is no room for it.
    pub(crate) fn push(&self, note: Note) -> bool {
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

    /// Counts records that could not be written.
    pub(crate) fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    /// The records that were lost since this was last asked.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// The records that wait to be written, with those that were lost and not told of yet.
    pub(crate) fn unwritten(&self) -> u64 {
        let state = self.state();
        let records = state.notes.iter().filter(|note| !matches!(note, Note::CallBegan(_)));
        records.count() as u64 + self.lost.load(Ordering::Relaxed)
    }

    /// Waits for notes, for as long as `patience` says if it says anything, and takes them; also
    /// whether there will be no more.
    pub(crate) fn take(&self, patience: Option<Duration>) -> (Vec<Note>, bool) {
        let mut state = self.state();
        if state.notes.is_empty() && !state.is_closed {
            state.is_idle = true;
            state = self.wait(state, patience, |state| state.is_idle && !state.is_closed);
            state.is_idle = false;
        }
        state.bytes = 0;
        (std::mem::take(&mut state.notes), state.is_closed)
    }

    /// Lets notes come together for a while, or until there will be no more.
    pub(crate) fn gather(&self, time: Duration) {
        drop(self.wait(self.state(), Some(time), |state| !state.is_closed));
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        patience: Option<Duration>,
        condition: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        if let Some(time) = patience {
            let waited = self.changed.wait_timeout_while(state, time, condition);
            waited.unwrap_or_else(PoisonError::into_inner).0
        } else {
            let waited = self.changed.wait_while(state, condition);
            waited.unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Takes no more notes.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Says that nothing more will be written.
    pub(crate) fn finish(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until nothing more will be written; false if that takes longer.
    pub(crate) fn wait_finished(&self, patience: Duration) -> bool {
        self.wait(self.state(), Some(patience), |state| !state.is_over).is_over
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn closed(session: u64) -> Note {
        Note::SessionClosed(SessionContext { session, ..SessionContext::default() })
    }

    #[test]
    fn what_finds_no_room_is_turned_away_and_nobody_waits() {
        let queue = Queue::default();
        for session in 0..MAX_NOTES as u64 {
            assert!(queue.push(closed(session)));
        }
        assert!(!queue.push(closed(0)));
        queue.lose(2);
        assert_eq!((queue.take_lost(), queue.take_lost()), (2, 0));
        let (notes, is_last) = queue.take(None);
        assert_eq!((notes.len(), is_last), (MAX_NOTES, false));
        assert!(queue.push(closed(0)), "there is room again");
    }

    #[test]
    fn who_waits_is_woken_by_a_note_and_by_the_end() {
        let queue = Arc::new(Queue::default());
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
                waiting.gather(Duration::from_millis(1));
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
