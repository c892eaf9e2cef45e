//! Session takeover between replicas that share a state store.
//!
//! A proxy sends the requests of a session to one replica, until that replica goes away or the
//! proxy rebalances. The replica that receives them then looks up the session's record. If it
//! belongs to the caller, the replica writes it back with a higher epoch and continues the session.
//! The previous owner notices the epoch and ends its own copy. Work in flight doesn't move:
//! messages about a request of another replica (answers to server requests, cancellations, its
//! stream) are rejected.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use hyper::{HeaderMap, StatusCode};
use tokio::time::Instant;

use crate::drain::draining_error;
use crate::header_value::single_value;
use crate::headers::SESSION;
use crate::response::{HttpError, bad_request};
use crate::server::{HttpServer, RequestScope};
use crate::sessions::{HttpSession, first_number_of_epoch};
use mcp_workbench_core::gateway::Caller;
use mcp_workbench_core::state::{self, Capacity, RecordKey, SessionKey, StateRecord};
use mcp_workbench_core::telemetry::Event;
use mcp_workbench_serve::frontend::session::creation;
use mcp_workbench_wire::agent::Notifier;
use mcp_workbench_wire::code::{INVALID_REQUEST, UNAVAILABLE};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::peer::Peer;
use mcp_workbench_wire::writer::MessageWriter;

/// Returns the caller's session, taken over from another replica if necessary.
pub(crate) async fn find_or_adopt(
    server: &HttpServer,
    headers: &HeaderMap,
    who: &RequestScope,
) -> Result<Arc<HttpSession>, HttpError> {
    let id = session_id(headers)?;
    if let Some(connected) = owned_session(server, id, who).await {
        return Ok(connected);
    }
    adopt(server, id, who).await
}

/// Returns the local session for a message about a request in flight: a response to the server
/// request `answered`, or a notification. Never takes a session over; 409 if another replica
/// owns it.
pub(crate) async fn local_session(
    server: &HttpServer,
    headers: &HeaderMap,
    who: &RequestScope,
    answered: Option<&RawJson>,
) -> Result<Arc<HttpSession>, HttpError> {
    let id = session_id(headers)?;
    let Some(connected) = owned_session(server, id, who).await else {
        find(server, id, who).await?;
        return Err(wrong_replica(server));
    };
    let is_ours = |answered: &RawJson| connected.peer.is_waiting(answered);
    if connected.session().ownership().epoch() > 0
        && answered.is_some_and(|answered| !is_ours(answered))
    {
        return Err(wrong_replica(server));
    }
    Ok(connected)
}

/// Ends the session that a request names, on any replica.
pub(crate) async fn end_session(
    server: &HttpServer,
    headers: &HeaderMap,
    who: &RequestScope,
) -> Result<(), HttpError> {
    let id = session_id(headers)?;
    if let Some(connected) = owned_session(server, id, who).await {
        // Write the tombstone first: after the response, no replica may find the session.
        connected.session().ownership().end_record().await;
        server.sessions.end(&connected.id);
        return Ok(());
    }
    let (key, record) = find(server, id, who).await?;
    let ended = state::SessionRecord::ended(&record.tenure).ok_or_else(unknown)?;
    let ended = StateRecord::Session(Arc::new(ended));
    let store = server.app.gateways.store();
    if store.put(RecordKey::Session(key), ended, Capacity::UNLIMITED).await.is_stored() {
        Ok(())
    } else {
        Err(takeover_conflict())
    }
}

/// Returns the caller's session if it is local and this replica still owns it.
async fn owned_session(
    server: &HttpServer,
    id: &str,
    who: &RequestScope,
) -> Option<Arc<HttpSession>> {
    let connected = server.sessions.get(id, &who.caller)?;
    connected.session().ownership().confirm().await.then_some(connected)
}

/// Sessions of other callers are reported as unknown.
async fn find(
    server: &HttpServer,
    id: &str,
    who: &RequestScope,
) -> Result<(SessionKey, Arc<state::SessionRecord>), HttpError> {
    let store = server.app.gateways.store();
    if !store.is_shared() || !may_be_an_id(id) {
        return Err(unknown());
    }
    let misses = &server.adopting.misses;
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
        let Caller { agent, toolbox, subject } = &who.caller;
        (&record.agent, &record.toolbox, &record.subject) == (agent, toolbox, subject)
            && record.introduction.is_some()
    };
    let record = found.filter(is_callers).ok_or_else(|| {
        misses.count(who.quota.payer(), Instant::now());
        unknown()
    })?;
    Ok((key, record))
}

async fn adopt(
    server: &HttpServer,
    id: &str,
    who: &RequestScope,
) -> Result<Arc<HttpSession>, HttpError> {
    let flight = server.adopting.flight(id);
    let _turn = flight.lock().await;
    if let Some(connected) = owned_session(server, id, who).await {
        return Ok(connected);
    }
    let (key, record) = find(server, id, who).await?;
    if server.under_way.is_closed() {
        return Err(draining_error());
    }
    server.count_session(who).await?;
    let (key, record) = take_over(server, key, &record).await?;
    let (writer, outbox) = MessageWriter::detached();
    let peer = Peer::with_first_id(first_number_of_epoch(record.tenure.epoch));
    let notifier = Notifier::new(peer.clone(), writer);
    let quota = Arc::clone(&who.quota);
    let session = Box::pin(creation::adopt(&server.app, quota, notifier, key, &record)).await;
    let session = session.map_err(|crowded| HttpError::unavailable(&crowded.to_string()))?;
    let ended = server.ending.closing.child_token();
    let connected = Arc::new(HttpSession::new(id.to_owned(), session, peer, ended));
    server.register_session(&connected, outbox).inspect_err(|_| connected.release())?;
    connected.session().ownership().commit_takeover();
    Ok(connected)
}

/// Writes the record back with this replica as its owner and the next epoch.
async fn take_over(
    server: &HttpServer,
    key: SessionKey,
    record: &state::SessionRecord,
) -> Result<(SessionKey, Arc<state::SessionRecord>), HttpError> {
    let fingerprint = server.app.gateways.fingerprint();
    let theirs = &record.configuration;
    if *theirs != *fingerprint && server.adopting.differences.is_due(Instant::now()) {
        tracing::warn!(
            "took over a session that started with configuration {theirs:?}; it continues with \
             {fingerprint:?} because the replicas have different configurations"
        );
    }
    let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let record = Arc::new(state::SessionRecord {
        tenure: record.tenure.taken_over_by(&server.app.replica).ok_or_else(unknown)?,
        moves: record.moves.and(now),
        configuration: fingerprint.to_string(),
        ..record.clone()
    });
    let put = StateRecord::Session(Arc::clone(&record));
    let store = server.app.gateways.store();
    if !store.put(RecordKey::Session(key.clone()), put, Capacity::UNLIMITED).await.is_stored() {
        return Err(takeover_conflict());
    }
    if record.moves.is_flapping(now) {
        tell_of_hops(server, "a session moved more than three times in a minute");
    }
    Ok((key, record))
}

fn tell_of_hops(server: &HttpServer, how: &str) {
    if server.adopting.hops.is_due(Instant::now()) {
        server.app.gateways.observer().bus().emit(Event::SessionAffinityLost(how));
    }
}

fn wrong_replica(server: &HttpServer) -> HttpError {
    tell_of_hops(server, "a message about a request in flight reached the wrong replica");
    let message = "this message belongs to a request of another replica that is gone or \
                   unreachable; nothing was done, send the request again. The proxy must route \
                   each session to one replica";
    HttpError::new(StatusCode::CONFLICT, UNAVAILABLE, message)
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
