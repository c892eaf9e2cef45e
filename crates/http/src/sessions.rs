//! Sessions of legacy clients over HTTP, by id, with the streams of each.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::drain::InFlightGuard;
use crate::event_stream::{ResumableStream, SESSION_STREAM, StreamReader};
use crate::send_quota::SendQuota;
use mcp_workbench_core::gateway::{Caller, QuotaGuard};
use mcp_workbench_core::telemetry::{QuotaKind, QuotaOwner};
use mcp_workbench_serve::frontend::session::{AgentSession, creation};
use mcp_workbench_wire::code::UNAVAILABLE;
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::peer::Peer;
use mcp_workbench_wire::writer::{Outbox, QueuedMessage};

pub(crate) struct HttpSession {
    pub(crate) id: String,
    pub(crate) peer: Peer,
    pub(crate) ended: CancellationToken,
    /// Cancelled when requests in flight are aborted, at the latest with `ended`.
    pub(crate) stopped: CancellationToken,
    pub(crate) requests: TaskTracker,
    owner: QuotaOwner,
    _held: Option<QuotaGuard>,
    state: Mutex<HttpSessionState>,
}

struct HttpSessionState {
    session: Arc<AgentSession>,
    used: Instant,
    streams: HashMap<u64, mpsc::Sender<StreamReader>>,
    next_stream: u64,
    first_stream: u64,
    listener: Option<mpsc::WeakSender<Bytes>>,
}

impl HttpSession {
    pub(crate) fn new(
        id: String,
        session: Arc<AgentSession>,
        peer: Peer,
        ended: CancellationToken,
    ) -> Self {
        // Each takeover starts a new number range, so a client can't resume a stream of the
        // previous owner here.
        let first_stream = first_number_of_epoch(session.ownership().epoch());
        let stopped = ended.child_token();
        let state = HttpSessionState {
            session,
            used: Instant::now(),
            streams: HashMap::new(),
            next_stream: SESSION_STREAM,
            first_stream,
            listener: None,
        };
        let requests = TaskTracker::new();
        let quota = state.session.quota();
        let (owner, guard) =
            (quota.payer().clone(), quota.try_acquire(QuotaKind::Sessions, usize::MAX).ok());
        Self { id, peer, ended, stopped, requests, owner, _held: guard, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, HttpSessionState> {
        self.state.lock()
    }

    pub(crate) fn session(&self) -> Arc<AgentSession> {
        Arc::clone(&self.state().session)
    }

    /// Replaces the session by one restored from its record, unless requests are in flight.
    pub(crate) async fn renew(&self) {
        if self.requests.is_empty() {
            let renewed = creation::restored_copy(&self.session()).await;
            self.state().session = renewed;
        }
    }

    /// Opens a stream for the messages from `outbox` and returns its number. The first call opens
    /// the session stream.
    pub(crate) fn open_stream(
        &self,
        outbox: Outbox,
        first: Option<QueuedMessage>,
        guard: Option<InFlightGuard>,
        tasks: &TaskTracker,
    ) -> u64 {
        let mut state = self.state();
        let number = state.next_stream;
        state.next_stream = state.first_stream.max(number + 1);
        let (stream, readers) = ResumableStream::new(
            number,
            outbox,
            first,
            guard,
            SendQuota::of(state.session.quota()),
        );
        state.streams.retain(|_, readers| !readers.is_closed());
        state.streams.insert(number, readers);
        tasks.spawn(self.ended.clone().run_until_cancelled_owned(Box::pin(stream.run())));
        number
    }

    /// Attaches a reader to a stream. Returns `false` if the stream is unknown or has ended.
    pub(crate) fn attach_reader(&self, number: u64, reader: StreamReader) -> bool {
        let mut state = self.state();
        if number == SESSION_STREAM {
            state.listener = Some(reader.events.downgrade());
        }
        state.streams.get(&number).is_some_and(|readers| readers.try_send(reader).is_ok())
    }

    pub(crate) fn touch(&self) {
        self.state().used = Instant::now();
    }

    /// Returns whether the client listens, and when it was last used. `None` while requests are in
    /// flight: such a session can't be evicted.
    fn last_seen(&self) -> Option<(bool, Instant)> {
        let state = self.state();
        let listens = state.listener.as_ref().is_some_and(|reader| reader.upgrade().is_some());
        self.requests.is_empty().then_some((listens, state.used))
    }

    fn is_idle_for(&self, time: Duration) -> bool {
        self.last_seen().is_some_and(|(listens, used)| !listens && used.elapsed() >= time)
    }

    pub(crate) fn end(&self) {
        self.ended.cancel();
        self.session().end();
        self.peer.close();
    }

    /// Hands the session over to another replica. Requests in flight are answered with an error,
    /// which clients have 5 s to read.
    async fn hand_over(&self, draining: &CancellationToken) {
        self.requests.close();
        if draining.is_cancelled() {
            // The session has moved because of the drain, so let accepted requests finish.
            self.requests.wait().await;
        }
        self.peer.set_shutdown_error(error_object(UNAVAILABLE, TAKEN_OVER, None));
        self.stopped.cancel();
        self.session().release();
        self.peer.close();
        if timeout(TAKEOVER_TIMEOUT, self.requests.wait()).await.is_err() {
            tracing::debug!("requests of a moved session did not finish in time");
        }
        self.ended.cancel();
    }

    /// Ends the session in this process only. Another replica can take it over.
    pub(crate) fn release(&self) {
        self.ended.cancel();
        self.session().release();
        self.peer.close();
    }
}

/// Returns the first stream and request number of an epoch. The ranges of the owners don't overlap,
/// and all numbers are exact in JavaScript (below 2^53).
pub(crate) fn first_number_of_epoch(epoch: u64) -> u64 {
    ((epoch % (1 << 20)) << 32) + 1
}

/// The session limit is reached, and no session of the caller can be evicted.
#[derive(Debug)]
pub(crate) struct SessionLimitError;

/// Time for clients to read the errors of a handover.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(5);
const TAKEN_OVER: &str = "the session moved to another replica, so this request was aborted; it \
                          may or may not have taken effect";

#[derive(Default)]
pub(crate) struct SessionRegistry(Mutex<HashMap<String, Arc<HttpSession>>>);

impl SessionRegistry {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<HttpSession>>> {
        self.0.lock()
    }

    /// Adds a session. If its caller has `of_one` sessions already, or there are `in_all`, the
    /// caller's session that was idle longest is evicted, those with a listening client last.
    /// Sessions of other callers are never evicted.
    pub(crate) fn insert(
        &self,
        connected: Arc<HttpSession>,
        [of_one, in_all]: [usize; 2],
    ) -> Result<(), SessionLimitError> {
        let crowded_out = {
            let mut table = self.table();
            let own = || table.values().filter(|other| other.owner == connected.owner);
            let too_many_own = (own().count() + 1).saturating_sub(of_one);
            let too_many = too_many_own.max((table.len() + 1).saturating_sub(in_all));
            let mut crowded_out = Vec::new();
            if too_many > 0 {
                connected.session().quota().report_limit_reached(QuotaKind::Sessions);
                let seen = |other: &Arc<HttpSession>| Some((other.last_seen()?, Arc::clone(other)));
                crowded_out.extend(own().filter_map(seen));
                if crowded_out.len() < too_many {
                    return Err(SessionLimitError);
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
            let session = oldest.session();
            tracing::warn!(
                parent: session.span(),
                "session limit reached (limits.perCaller.maxSessions, http.maxSessions); ended the \
                 longest-idle session of {}",
                oldest.owner
            );
            oldest.end();
        }
        Ok(())
    }

    /// Returns the session `id` if it belongs to `caller`.
    pub(crate) fn get(&self, id: &str, caller: &Caller) -> Option<Arc<HttpSession>> {
        self.table().get(id).filter(|found| found.state().session.caller() == caller).cloned()
    }

    /// Hands the session over when another replica takes it. While this process drains, requests in
    /// flight finish first.
    pub(crate) fn watch(
        self: &Arc<Self>,
        connected: &Arc<HttpSession>,
        draining: CancellationToken,
        tasks: &TaskTracker,
    ) {
        let Some(elsewhere) = connected.session().ownership().lost() else { return };
        let (sessions, watched) = (Arc::clone(self), Arc::downgrade(connected));
        let watching = async move {
            elsewhere.await;
            let Some(connected) = watched.upgrade() else { return };
            // The session may have come back and been registered again.
            let is_it = |found: &Arc<HttpSession>| Arc::ptr_eq(found, &connected);
            if sessions.table().get(&connected.id).is_some_and(is_it) {
                sessions.table().remove(&connected.id);
            }
            tracing::debug!("a session moved to another replica");
            connected.hand_over(&draining).await;
        };
        let watching = watching.instrument(connected.session().span().clone());
        tasks.spawn(connected.ended.clone().run_until_cancelled_owned(Box::pin(watching)));
    }

    /// Confirms the ownership of each session not confirmed within `good_for`. This also renews its
    /// record in the state store.
    pub(crate) async fn confirm_ownership(&self, good_for: Duration) {
        let all: Vec<_> = self.table().values().map(|connected| connected.session()).collect();
        for session in all {
            session.ownership().confirm_within(good_for).await;
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }

    pub(crate) fn end(&self, id: &str) {
        let ended = self.table().remove(id);
        if let Some(ended) = ended {
            ended.end();
        }
    }

    pub(crate) fn end_idle(&self, time: Duration) {
        let idle: Vec<_> =
            self.table().extract_if(|_, connected| connected.is_idle_for(time)).collect();
        for (_, connected) in idle {
            let session = connected.session();
            let seconds = time.as_secs();
            tracing::debug!(parent: session.span(), "ended a session after {seconds} s without requests");
            connected.end();
        }
    }

    /// Ends all sessions in this process. Other replicas with the same state store can take them
    /// over.
    pub(crate) fn leave_all(&self) {
        let all: Vec<_> = self.table().drain().collect();
        for (_, connected) in all {
            connected.release();
        }
    }
}

#[cfg(test)]
mod tests;
