//! The sessions of legacy agents, by their ids, and the streams of each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::frontend::http::stream::{Reader, Stream};
use crate::frontend::session::Session;
use crate::wire::peer::Peer;
use crate::wire::writer::{Message, Outbox};

/// How long a session is kept that nobody uses.
const IDLE: Duration = Duration::from_hours(24);
/// How many sessions there may be; the one that was not used for longest makes room.
const MOST: usize = 1000;

/// One legacy agent.
pub(crate) struct Connected {
    /// Its id.
    pub(crate) id: String,
    /// What belongs to it.
    pub(crate) session: Arc<Session>,
    /// Its requests, and ours to it.
    pub(crate) peer: Peer,
    /// Is cancelled when the session is over.
    pub(crate) ended: CancellationToken,
    state: Mutex<State>,
}

struct State {
    used: Instant,
    /// The streams that can be read, by their numbers.
    streams: HashMap<u64, mpsc::Sender<Reader>>,
    next_stream: u64,
    /// Who reads the stream of what belongs to no request.
    listener: Option<mpsc::WeakSender<Bytes>>,
}

/// The number of the stream of what belongs to no request.
pub(crate) const OWN_STREAM: u64 = 0;

impl Connected {
    /// A new session, without streams yet.
    pub(crate) fn new(
        id: String,
        session: Arc<Session>,
        peer: Peer,
        ended: CancellationToken,
    ) -> Self {
        let state = State {
            used: Instant::now(),
            streams: HashMap::new(),
            next_stream: OWN_STREAM,
            listener: None,
        };
        Self { id, session, peer, ended, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries what comes out of `outbox` as a new stream, whose number is returned. The first is
    /// that of what belongs to no request.
    pub(crate) fn carry(&self, outbox: Outbox, first: Option<Message>, tasks: &TaskTracker) -> u64 {
        let mut state = self.state();
        let number = state.next_stream;
        state.next_stream += 1;
        let (stream, readers) = Stream::new(number, outbox, first);
        state.streams.retain(|_, readers| !readers.is_closed());
        state.streams.insert(number, readers);
        tasks.spawn(self.ended.clone().run_until_cancelled_owned(stream.run()));
        number
    }

    /// Gives a client a stream to read; says whether there is such a stream.
    pub(crate) fn read(&self, number: u64, reader: Reader) -> bool {
        let mut state = self.state();
        if number == OWN_STREAM {
            state.listener = Some(reader.events.downgrade());
        }
        state.streams.get(&number).is_some_and(|readers| readers.try_send(reader).is_ok())
    }

    /// Takes note that the agent is there.
    pub(crate) fn touch(&self) {
        self.state().used = Instant::now();
    }

    /// How long the agent has not been there.
    fn idle(&self) -> Duration {
        let state = self.state();
        let listens = state.listener.as_ref().is_some_and(|reader| reader.upgrade().is_some());
        if listens { Duration::ZERO } else { state.used.elapsed() }
    }

    fn end(&self) {
        self.ended.cancel();
        self.session.end();
        self.peer.close();
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Arc<Connected>>>);

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Connected>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new session in.
    pub(crate) fn insert(&self, connected: Arc<Connected>) {
        let crowded_out = {
            let mut table = self.table();
            let oldest = (table.len() >= MOST)
                .then(|| table.values().max_by_key(|connected| connected.idle()).cloned());
            table.insert(connected.id.clone(), connected);
            oldest.flatten().and_then(|oldest| table.remove(&oldest.id))
        };
        if let Some(oldest) = crowded_out {
            tracing::warn!("there are {MOST} sessions; the one that was idle for longest ends");
            oldest.end();
        }
    }

    /// The session of this id.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Connected>> {
        self.table().get(id).cloned()
    }

    /// Ends the session of this id.
    pub(crate) fn end(&self, id: &str) {
        let ended = self.table().remove(id);
        if let Some(ended) = ended {
            ended.end();
        }
    }

    /// Ends the sessions that nobody has used for a day.
    pub(crate) fn end_idle(&self) {
        let idle: Vec<_> =
            self.table().extract_if(|_, connected| connected.idle() >= IDLE).collect();
        for (_, connected) in idle {
            tracing::debug!("a session that was not used for a day ends");
            connected.end();
        }
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self) {
        let all: Vec<_> = self.table().drain().collect();
        for (_, connected) in all {
            connected.end();
        }
    }
}
