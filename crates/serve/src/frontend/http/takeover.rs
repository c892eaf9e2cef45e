//! Session takeover between replicas that share a state store.
//!
//! A proxy sends the requests of a session to one replica, until that replica goes away or the
//! proxy rebalances. The replica that receives them then looks up the session's record. If it
//! belongs to the caller, the replica writes it back with a higher epoch and continues the session.
//! The previous owner notices the epoch and ends its own copy. Work in flight doesn't move:
//! messages about a request of another replica (answers to server requests, cancellations, its
//! stream) are rejected.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, UNIX_EPOCH};

use hyper::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::frontend::http::HttpServer;
use crate::frontend::http::endpoint::RequestScope;
use crate::frontend::http::header_value::single_value;
use crate::frontend::http::headers::SESSION;
use crate::frontend::http::message_handler::draining_error;
use crate::frontend::http::response::{HttpError, bad_request};
use crate::frontend::http::sessions::{HttpSession, first_number_of_epoch};
use crate::frontend::session::creation;
use crate::json::RawJson;
use crate::state::{self, Capacity, RecordKey, SessionKey, StateRecord};
use crate::telemetry::{Event, QuotaOwner};
use crate::wire::agent::Notifier;
use crate::wire::code::{INVALID_REQUEST, UNAVAILABLE};
use crate::wire::peer::Peer;
use crate::wire::writer::MessageWriter;

/// Failed session lookups that a caller may make each minute.
const MAX_MISSES: u32 = 100;
/// Further callers share one count.
const MAX_CALLERS: usize = 1_000;
const MINUTE: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(crate) struct SessionTakeover {
    /// Single-flight locks of session lookups, by session id.
    flights: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    misses: LookupLimiter,
    /// Throttle reports of hopping sessions and of differing configurations.
    hops: LogThrottle,
    differences: LogThrottle,
}

#[derive(Default)]
struct LookupLimiter(Mutex<HashMap<QuotaOwner, (u32, Instant)>>);

#[derive(Default)]
struct LogThrottle(Mutex<Option<Instant>>);

impl SessionTakeover {
    fn flight(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(id).and_then(Weak::upgrade) {
            return flight;
        }
        flights.retain(|_, flight| flight.strong_count() > 0);
        let flight = Arc::default();
        flights.insert(id.to_owned(), Arc::downgrade(&flight));
        flight
    }
}

impl LookupLimiter {
    /// Returns how long a caller that reached its limit has to wait before its next lookup.
    fn wait(&self, owner: &QuotaOwner, now: Instant) -> Option<Duration> {
        let all = self.0.lock();
        let (number, since) = all.get(owner).or_else(|| all.get(&QuotaOwner::Local))?;
        let over = MINUTE.checked_sub(now.duration_since(*since)).filter(|left| !left.is_zero())?;
        (*number >= MAX_MISSES).then_some(over)
    }

    fn count(&self, owner: &QuotaOwner, now: Instant) {
        let mut all = self.0.lock();
        let mut owner = owner;
        if all.len() >= MAX_CALLERS && !all.contains_key(owner) {
            all.retain(|_, (_, since)| now.duration_since(*since) < MINUTE);
            if all.len() >= MAX_CALLERS {
                owner = &QuotaOwner::Local;
            }
        }
        let (number, since) = all.entry(owner.clone()).or_insert((0, now));
        if now.duration_since(*since) >= MINUTE {
            (*number, *since) = (0, now);
        }
        *number = number.saturating_add(1);
    }
}

impl LogThrottle {
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| now.duration_since(last) >= MINUTE);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

impl HttpServer {
    /// Returns the caller's session, taken over from another replica if necessary.
    pub(crate) async fn find_or_adopt(
        &self,
        headers: &HeaderMap,
        who: &RequestScope,
    ) -> Result<Arc<HttpSession>, HttpError> {
        let id = session_id(headers)?;
        if let Some(connected) = self.owned_session(id, who).await {
            return Ok(connected);
        }
        self.adopt(id, who).await
    }

    /// Returns the local session for a message about a request in flight: a response to the server
    /// request `answered`, or a notification. Never takes a session over; 409 if another replica
    /// owns it.
    pub(crate) async fn local_session(
        &self,
        headers: &HeaderMap,
        who: &RequestScope,
        answered: Option<&RawJson>,
    ) -> Result<Arc<HttpSession>, HttpError> {
        let id = session_id(headers)?;
        let Some(connected) = self.owned_session(id, who).await else {
            self.find(id, who).await?;
            return Err(self.wrong_replica());
        };
        let is_ours = |answered: &RawJson| connected.peer.is_waiting(answered);
        if connected.session().ownership().epoch() > 0
            && answered.is_some_and(|answered| !is_ours(answered))
        {
            return Err(self.wrong_replica());
        }
        Ok(connected)
    }

    /// Ends the session that a request names, on any replica.
    pub(crate) async fn end_session(
        &self,
        headers: &HeaderMap,
        who: &RequestScope,
    ) -> Result<(), HttpError> {
        let id = session_id(headers)?;
        if let Some(connected) = self.owned_session(id, who).await {
            // Write the tombstone first: after the response, no replica may find the session.
            connected.session().ownership().end_record().await;
            self.sessions.end(&connected.id);
            return Ok(());
        }
        let (key, record) = self.find(id, who).await?;
        let ended = state::SessionRecord::ended(&record.tenure).ok_or_else(unknown)?;
        let ended = StateRecord::Session(Arc::new(ended));
        let store = self.app.gateways.store();
        if store.put(RecordKey::Session(key), ended, Capacity::UNLIMITED).await.is_stored() {
            Ok(())
        } else {
            Err(takeover_conflict())
        }
    }

    /// Returns the caller's session if it is local and this replica still owns it.
    async fn owned_session(&self, id: &str, who: &RequestScope) -> Option<Arc<HttpSession>> {
        let connected = self.sessions.get(id, &who.caller)?;
        connected.session().ownership().confirm().await.then_some(connected)
    }

    /// Sessions of other callers are reported as unknown.
    async fn find(
        &self,
        id: &str,
        who: &RequestScope,
    ) -> Result<(SessionKey, Arc<state::SessionRecord>), HttpError> {
        let store = self.app.gateways.store();
        if !store.is_shared() || !may_be_an_id(id) {
            return Err(unknown());
        }
        let misses = &self.adopting.misses;
        if let Some(wait) = misses.wait(who.quota.payer(), Instant::now()) {
            let message = "too many requests for unknown sessions; retry later";
            return Err(HttpError::too_many_requests(message, wait));
        }
        let key = SessionKey::of_id(id);
        let found = match store.get(&RecordKey::Session(key.clone())).await {
            Some(StateRecord::Session(record)) => Some(record),
            _ => None,
        };
        let is_callers = |record: &Arc<state::SessionRecord>| {
            (&record.agent, &record.toolbox) == (&who.caller.agent, &who.caller.toolbox)
                && record.introduction.is_some()
        };
        let record = found.filter(is_callers).ok_or_else(|| {
            misses.count(who.quota.payer(), Instant::now());
            unknown()
        })?;
        Ok((key, record))
    }

    async fn adopt(&self, id: &str, who: &RequestScope) -> Result<Arc<HttpSession>, HttpError> {
        let flight = self.adopting.flight(id);
        let _turn = flight.lock().await;
        if let Some(connected) = self.owned_session(id, who).await {
            return Ok(connected);
        }
        let (key, record) = self.find(id, who).await?;
        if self.under_way.is_closed() {
            return Err(draining_error());
        }
        self.count_session(who).await?;
        let (key, record) = self.take_over(key, &record).await?;
        let (writer, outbox) = MessageWriter::detached();
        let peer = Peer::with_first_id(first_number_of_epoch(record.tenure.epoch));
        let notifier = Notifier::new(peer.clone(), writer);
        let quota = Arc::clone(&who.quota);
        let session = Box::pin(creation::adopt(&self.app, quota, notifier, key, &record)).await;
        let session = session.map_err(|crowded| HttpError::unavailable(&crowded.to_string()))?;
        let ended = self.closing.child_token();
        let connected = Arc::new(HttpSession::new(id.to_owned(), session, peer, ended));
        self.register_session(&connected, outbox).inspect_err(|_| connected.release())?;
        connected.session().ownership().commit_takeover();
        Ok(connected)
    }

    /// Writes the record back with this replica as its owner and the next epoch.
    async fn take_over(
        &self,
        key: SessionKey,
        record: &state::SessionRecord,
    ) -> Result<(SessionKey, Arc<state::SessionRecord>), HttpError> {
        let fingerprint = self.app.gateways.fingerprint();
        let theirs = &record.configuration;
        if *theirs != *fingerprint && self.adopting.differences.is_due(Instant::now()) {
            tracing::warn!(
                "took over a session that started with configuration {theirs:?}; it continues with \
                 {fingerprint:?} because the replicas have different configurations"
            );
        }
        let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let record = Arc::new(state::SessionRecord {
            tenure: record.tenure.taken_over_by(&self.app.replica).ok_or_else(unknown)?,
            moves: record.moves.and(now),
            configuration: fingerprint.to_string(),
            ..record.clone()
        });
        let put = StateRecord::Session(Arc::clone(&record));
        let store = self.app.gateways.store();
        if !store.put(RecordKey::Session(key.clone()), put, Capacity::UNLIMITED).await.is_stored() {
            return Err(takeover_conflict());
        }
        if record.moves.is_flapping(now) {
            self.tell_of_hops("a session moved more than three times in a minute");
        }
        Ok((key, record))
    }

    fn tell_of_hops(&self, how: &str) {
        if self.adopting.hops.is_due(Instant::now()) {
            self.app.gateways.observer().bus().emit(Event::SessionAffinityLost(how));
        }
    }

    fn wrong_replica(&self) -> HttpError {
        self.tell_of_hops("a message about a request in flight reached the wrong replica");
        let message = "this message belongs to a request of another replica that is gone or \
                       unreachable; nothing was done, send the request again. The proxy must route \
                       each session to one replica";
        HttpError::new(StatusCode::CONFLICT, UNAVAILABLE, message)
    }
}

fn session_id(headers: &HeaderMap) -> Result<&str, HttpError> {
    let id =
        single_value(headers, &SESSION).map_err(|error| bad_request(INVALID_REQUEST, &error))?;
    id.ok_or_else(|| {
        let message = "missing Mcp-Session-Id header; start a session with initialize";
        bad_request(INVALID_REQUEST, message)
    })
}

fn may_be_an_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn unknown() -> HttpError {
    let message = "unknown or expired session; start a new one with initialize";
    HttpError::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message)
}

/// Another replica took the session over first.
fn takeover_conflict() -> HttpError {
    HttpError::unavailable("another replica is taking over this session; retry")
}

#[cfg(test)]
mod tests;
