//! The sessions of legacy agents, by their ids, and the streams of each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::frontend::http::drain::Ticket;
use crate::frontend::http::room::Room;
use crate::frontend::http::stream::{OWN_STREAM, Reader, Stream};
use crate::frontend::session::Session;
use crate::frontend::until::until;
use crate::gateway::{Caller, Held};
use crate::observe::{Holding, Payer};
use crate::wire::code::UNAVAILABLE;
use crate::wire::incoming::error_object;
use crate::wire::peer::Peer;
use crate::wire::writer::{Message, Outbox};

/// One legacy agent.
pub(crate) struct Connected {
    /// Its id.
    pub(crate) id: String,
    /// Its requests, and ours to it.
    pub(crate) peer: Peer,
    /// Is cancelled when the session is over.
    pub(crate) ended: CancellationToken,
    /// Is cancelled when its requests are given up: with the session, or before that.
    pub(crate) stopped: CancellationToken,
    /// The requests of it that are under way.
    pub(crate) requests: TaskTracker,
    /// Who pays for it.
    payer: Payer,
    /// Counts it among what that one holds.
    _held: Option<Held>,
    state: Mutex<State>,
}

struct State {
    /// The session of the agent.
    session: Arc<Session>,
    used: Instant,
    /// The streams that can be read, by their numbers.
    streams: HashMap<u64, mpsc::Sender<Reader>>,
    next_stream: u64,
    /// The number of the first stream that belongs to a request.
    first_stream: u64,
    /// Who reads the stream of what belongs to no request.
    listener: Option<mpsc::WeakSender<Bytes>>,
}

impl Connected {
    /// A new session, without streams yet.
    pub(crate) fn new(
        id: String,
        session: Arc<Session>,
        peer: Peer,
        ended: CancellationToken,
    ) -> Self {
        // Whoever goes on with a stream that was lost with another process finds none of its number here.
        let first_stream = numbers(session.epoch());
        let stopped = ended.child_token();
        let state = State {
            session,
            used: Instant::now(),
            streams: HashMap::new(),
            next_stream: OWN_STREAM,
            first_stream,
            listener: None,
        };
        let requests = TaskTracker::new();
        let purse = state.session.purse();
        let (payer, held) = (purse.payer().clone(), purse.take(Holding::Sessions, usize::MAX).ok());
        Self { id, peer, ended, stopped, requests, payer, _held: held, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of the agent.
    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.state().session)
    }

    /// Lets a session that was made of its record take the place of this one, if nothing is under way.
    pub(crate) async fn renew(&self) {
        if self.requests.is_empty() {
            let renewed = self.session().renewed().await;
            self.state().session = renewed;
        }
    }

    /// Carries what comes out of `outbox` as a new stream, whose number is returned. The first is
    /// that of what belongs to no request.
    pub(crate) fn carry(
        &self,
        outbox: Outbox,
        first: Option<Message>,
        ticket: Option<Ticket>,
        tasks: &TaskTracker,
    ) -> u64 {
        let mut state = self.state();
        let number = state.next_stream;
        state.next_stream = state.first_stream.max(number + 1);
        let (stream, readers) =
            Stream::new(number, outbox, first, ticket, Room::of(state.session.purse()));
        state.streams.retain(|_, readers| !readers.is_closed());
        state.streams.insert(number, readers);
        tasks.spawn(until(&self.ended, stream.run()));
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

    /// Tells if the agent is there, and when it was last heard of; nothing for one that has
    /// something under way, for it cannot be sent away.
    fn last_seen(&self) -> Option<(bool, Instant)> {
        let state = self.state();
        let listens = state.listener.as_ref().is_some_and(|reader| reader.upgrade().is_some());
        self.requests.is_empty().then_some((listens, state.used))
    }

    /// Returns `true` if the agent has not been there for so long.
    fn is_idle_for(&self, time: Duration) -> bool {
        self.last_seen().is_some_and(|(listens, used)| !listens && used.elapsed() >= time)
    }

    /// Ends it.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        self.session().end();
        self.peer.close();
    }

    /// Ends it here, for another process goes on with it. What is under way is answered that it was given
    /// up, for as long as clients take that.
    async fn give_up(&self, draining: &CancellationToken) {
        self.requests.close();
        if draining.is_cancelled() {
            // Then it is for its end that the session has moved, and what was taken is answered.
            self.requests.wait().await;
        }
        self.peer.bid_farewell(error_object(UNAVAILABLE, ELSEWHERE, None));
        self.stopped.cancel();
        self.session().leave();
        self.peer.close();
        if timeout(FAREWELL, self.requests.wait()).await.is_err() {
            tracing::debug!("a client does not take that its session goes on elsewhere");
        }
        self.ended.cancel();
    }

    /// Ends it here, and leaves it to another process, if there may be one.
    pub(crate) fn leave(&self) {
        self.ended.cancel();
        self.session().leave();
        self.peer.close();
    }
}

/// The first of the numbers that a session gives to streams and questions, where it was taken over so often:
/// those of no two processes meet, and a client in JavaScript can count with them.
pub(crate) fn numbers(epoch: u64) -> u64 {
    ((epoch % (1 << 20)) << 32) + 1
}

/// There is no room for another one.
#[derive(Debug)]
pub(crate) struct Full;

/// How long answers may take on their way to a client whose session goes on elsewhere.
const FAREWELL: Duration = Duration::from_secs(5);
/// The answer to what was under way when another process took the session over.
const ELSEWHERE: &str = "this session goes on at another replica of the workbench, so this request was given \
                         up here; what it asked for may or may not have been done";

/// All of them.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Arc<Connected>>>);

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Connected>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new session in. Where its caller has `of_one` already, or there are `in_all`, the one of
    /// the same caller leaves that was idle for longest, those last whose agents listen. Nobody is let
    /// in who has none that could leave: no caller's session ends for another's.
    pub(crate) fn insert(
        &self,
        connected: Arc<Connected>,
        [of_one, in_all]: [usize; 2],
    ) -> Result<(), Full> {
        let crowded_out = {
            let mut table = self.table();
            let own = || table.values().filter(|other| other.payer == connected.payer);
            let too_many_own = (own().count() + 1).saturating_sub(of_one);
            let too_many = too_many_own.max((table.len() + 1).saturating_sub(in_all));
            let mut crowded_out = Vec::new();
            if too_many > 0 {
                connected.session().purse().reaches(Holding::Sessions);
                let seen = |other: &Arc<Connected>| Some((other.last_seen()?, Arc::clone(other)));
                crowded_out.extend(own().filter_map(seen));
                if crowded_out.len() < too_many {
                    return Err(Full);
                }
                crowded_out.sort_by_key(|(seen, _)| *seen);
                crowded_out.truncate(too_many);
            }
            for (_, oldest) in &crowded_out {
                table.remove(&oldest.id);
            }
            table.insert(connected.id.clone(), connected);
            crowded_out
        };
        for (_, oldest) in crowded_out {
            tracing::warn!(
                "there are as many sessions of {} as there may be (limits.perCaller.maxSessions, \
                 http.maxSessions); the one that was idle for longest ends",
                oldest.payer
            );
            oldest.end();
        }
        Ok(())
    }

    /// The session of this id, if it is this caller's.
    pub(crate) fn get(&self, id: &str, caller: &Caller) -> Option<Arc<Connected>> {
        self.table().get(id).filter(|found| found.state().session.caller() == caller).cloned()
    }

    /// Lets a session go when another process goes on with it, if one could. While this process drains, what
    /// is under way is answered first.
    pub(crate) fn watch(
        self: &Arc<Self>,
        connected: &Arc<Connected>,
        draining: CancellationToken,
        tasks: &TaskTracker,
    ) {
        let Some(elsewhere) = connected.session().goes_elsewhere() else { return };
        let (sessions, watched) = (Arc::clone(self), Arc::downgrade(connected));
        let watching = async move {
            elsewhere.await;
            let Some(connected) = watched.upgrade() else { return };
            // Another copy may have taken its place.
            let is_it = |found: &Arc<Connected>| Arc::ptr_eq(found, &connected);
            if sessions.table().get(&connected.id).is_some_and(is_it) {
                sessions.table().remove(&connected.id);
            }
            tracing::debug!("a session goes on at another replica");
            connected.give_up(&draining).await;
        };
        tasks.spawn(until(&connected.ended, watching));
    }

    /// Asks for each session if it is still ours, unless that was said within `good_for`; says to the store
    /// by that that it is needed.
    pub(crate) async fn confirm(&self, good_for: Duration) {
        let all: Vec<_> = self.table().values().map(|connected| connected.session()).collect();
        for session in all {
            session.is_ours_since(good_for).await;
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }

    /// Ends the session of this id.
    pub(crate) fn end(&self, id: &str) {
        let ended = self.table().remove(id);
        if let Some(ended) = ended {
            ended.end();
        }
    }

    /// Ends the sessions that nobody has used for so long.
    pub(crate) fn end_idle(&self, time: Duration) {
        let idle: Vec<_> =
            self.table().extract_if(|_, connected| connected.is_idle_for(time)).collect();
        for (_, connected) in idle {
            tracing::debug!("a session that was not used for {} s ends", time.as_secs());
            connected.end();
        }
    }

    /// Ends all sessions here; where processes share a store, another one can go on with them.
    pub(crate) fn leave_all(&self) {
        let all: Vec<_> = self.table().drain().collect();
        for (_, connected) in all {
            connected.leave();
        }
    }
}

#[cfg(test)]
mod tests;
