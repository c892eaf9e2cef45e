//! Sessions that another replica has begun: they are found by their records in the store that replicas
//! share, and taken over here.
//!
//! *Theory of operation.* A proxy sends the requests of a session to one replica, until that has gone or the
//! proxy changes its mind. The replica where they come then looks for the session's record. If it is the
//! caller's, the replica puts it again with a higher epoch, and the session goes on here; whoever had it
//! before finds out by the epoch, and ends its own copy. Nothing that was under way moves: what belongs to a
//! request of another replica (answers to our questions, cancellations, its stream) is refused here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, UNIX_EPOCH};

use hyper::{HeaderMap, StatusCode};
use tokio::time::Instant;

use crate::frontend::http::Server;
use crate::frontend::http::endpoint::Who;
use crate::frontend::http::field::one;
use crate::frontend::http::headers::SESSION;
use crate::frontend::http::post::ending;
use crate::frontend::http::response::{Refusal, bad_request};
use crate::frontend::http::sessions::{Connected, numbers};
use crate::frontend::session::Session;
use crate::observe::{Event, Payer};
use crate::raw::Raw;
use crate::state::{self, Key, Record, Room, SessionKey};
use crate::wire::agent::Notifier;
use crate::wire::code::{INVALID_REQUEST, UNAVAILABLE};
use crate::wire::peer::Peer;
use crate::wire::writer::Writer;

/// How often a minute a caller may ask for sessions that it does not have; more are not looked for.
const MOST_MISSES: u32 = 100;
/// How many callers are told apart who do so; those that come when there are so many count as one.
const MAX_CALLERS: usize = 1_000;
const MINUTE: Duration = Duration::from_mins(1);

/// The state of taking sessions over.
#[derive(Default)]
pub(crate) struct Adopting {
    /// The sessions that are being looked for, by their ids: of several requests one does it.
    flights: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    misses: Misses,
    /// When it was told last that sessions hop, and that configurations differ.
    hops: Minutely,
    differences: Minutely,
}

/// How often callers have asked for what they do not have.
#[derive(Default)]
struct Misses(Mutex<HashMap<Payer, (u32, Instant)>>);

/// Something that is said once a minute at most.
#[derive(Default)]
struct Minutely(Mutex<Option<Instant>>);

impl Adopting {
    /// The turn of whoever looks for a session.
    fn flight(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.get(id).and_then(Weak::upgrade) {
            return flight;
        }
        flights.retain(|_, flight| flight.strong_count() > 0);
        let flight = Arc::default();
        flights.insert(id.to_owned(), Arc::downgrade(&flight));
        flight
    }
}

impl Misses {
    /// Returns how long a caller has to wait until something is looked for again, if it has to.
    fn wait(&self, payer: &Payer, now: Instant) -> Option<Duration> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, since) = all.get(payer).or_else(|| all.get(&Payer::Local))?;
        let over = MINUTE.checked_sub(now.duration_since(*since)).filter(|left| !left.is_zero())?;
        (*number >= MOST_MISSES).then_some(over)
    }

    /// Counts one that was not found.
    fn count(&self, payer: &Payer, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut payer = payer;
        if all.len() >= MAX_CALLERS && !all.contains_key(payer) {
            all.retain(|_, (_, since)| now.duration_since(*since) < MINUTE);
            if all.len() >= MAX_CALLERS {
                payer = &Payer::Local;
            }
        }
        let (number, since) = all.entry(payer.clone()).or_insert((0, now));
        if now.duration_since(*since) >= MINUTE {
            (*number, *since) = (0, now);
        }
        *number = number.saturating_add(1);
    }
}

impl Minutely {
    /// Returns `true` if it is to be said.
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.duration_since(last) >= MINUTE);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

impl Server {
    /// The session that a request names, if it is the caller's: one that is here, or one that goes on here
    /// from now on.
    pub(crate) async fn session(
        &self,
        headers: &HeaderMap,
        who: &Who,
    ) -> Result<Arc<Connected>, Refusal> {
        let id = named(headers)?;
        if let Some(connected) = self.own(id, who).await {
            return Ok(connected);
        }
        self.adopt(id, who).await
    }

    /// The session that a message names which belongs to a request under way: an answer to our request called
    /// `answered`, or anything else. Where the session is not here, its request is not, and it stays where
    /// it is.
    pub(crate) async fn session_here(
        &self,
        headers: &HeaderMap,
        who: &Who,
        answered: Option<&Raw>,
    ) -> Result<Arc<Connected>, Refusal> {
        let id = named(headers)?;
        let Some(connected) = self.own(id, who).await else {
            self.find(id, who).await?;
            return Err(self.misplaced());
        };
        let is_ours = |answered: &Raw| connected.peer.is_waiting(answered);
        if connected.session().epoch() > 0 && answered.is_some_and(|answered| !is_ours(answered)) {
            return Err(self.misplaced());
        }
        Ok(connected)
    }

    /// Ends the session that a request names, wherever it is.
    pub(crate) async fn end_session(&self, headers: &HeaderMap, who: &Who) -> Result<(), Refusal> {
        let id = named(headers)?;
        if let Some(connected) = self.own(id, who).await {
            // Whoever has been told that it is over finds it nowhere.
            connected.session().is_over().await;
            self.sessions.end(&connected.id);
            return Ok(());
        }
        let (key, record) = self.find(id, who).await?;
        let ended = state::Session::ended(&record.tenure).ok_or_else(unknown)?;
        let ended = Record::Session(Arc::new(ended));
        if self.app.gateways.store().put(Key::Session(key), ended, Room::ENDLESS).await {
            Ok(())
        } else {
            Err(moving())
        }
    }

    /// The session of this id, if it is here, the caller's, and no other replica goes on with it.
    async fn own(&self, id: &str, who: &Who) -> Option<Arc<Connected>> {
        let connected = self.sessions.get(id, &who.caller)?;
        connected.session().is_ours().await.then_some(connected)
    }

    /// Finds the record of a session that is elsewhere, if it is the caller's. To everybody else it is as if
    /// it were not there.
    async fn find(
        &self,
        id: &str,
        who: &Who,
    ) -> Result<(SessionKey, Arc<state::Session>), Refusal> {
        let store = self.app.gateways.store();
        if !store.is_shared() || !may_be_an_id(id) {
            return Err(unknown());
        }
        let misses = &self.adopting.misses;
        if let Some(wait) = misses.wait(who.purse.payer(), Instant::now()) {
            let message = "too many sessions were asked for that are not there; come again later";
            return Err(Refusal::too_often(message, wait));
        }
        let key = SessionKey::of_id(id);
        let found = match store.get(&Key::Session(key.clone())).await {
            Some(Record::Session(record)) => Some(record),
            _ => None,
        };
        let is_callers = |record: &Arc<state::Session>| {
            (&record.agent, &record.toolbox) == (&who.caller.agent, &who.caller.toolbox)
                && record.introduction.is_some()
        };
        let record = found.filter(is_callers).ok_or_else(|| {
            misses.count(who.purse.payer(), Instant::now());
            unknown()
        })?;
        Ok((key, record))
    }

    /// Goes on with a session that another replica has begun.
    async fn adopt(&self, id: &str, who: &Who) -> Result<Arc<Connected>, Refusal> {
        let flight = self.adopting.flight(id);
        let _turn = flight.lock().await;
        if let Some(connected) = self.own(id, who).await {
            return Ok(connected);
        }
        let (key, record) = self.find(id, who).await?;
        if self.under_way.is_ending() {
            return Err(ending());
        }
        self.count_session(who).await?;
        let (key, record) = self.take_over(key, &record).await?;
        let (writer, outbox) = Writer::detached();
        let peer = Peer::numbering_from(numbers(record.tenure.epoch));
        let notifier = Notifier::new(peer.clone(), writer);
        let purse = Arc::clone(&who.purse);
        let session = Box::pin(Session::adopted(&self.app, purse, notifier, key, &record)).await;
        let session = session.map_err(|crowded| Refusal::for_now(&crowded.to_string()))?;
        let ended = self.leaving.child_token();
        let connected = Arc::new(Connected::new(id.to_owned(), session, peer, ended));
        self.take_in(&connected, outbox).inspect_err(|_| connected.leave())?;
        connected.session().stays();
        Ok(connected)
    }

    /// Puts a record as that of a session which goes on here, and returns it.
    async fn take_over(
        &self,
        key: SessionKey,
        record: &state::Session,
    ) -> Result<(SessionKey, Arc<state::Session>), Refusal> {
        let fingerprint = self.app.gateways.fingerprint();
        let theirs = &record.configuration;
        if *theirs != *fingerprint && self.adopting.differences.is_due(Instant::now()) {
            tracing::warn!(
                "a session was begun with the configuration {theirs:?}, and goes on here with \
                 {fingerprint:?}: replicas serve different configurations, and each what its own says"
            );
        }
        let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let record = Arc::new(state::Session {
            tenure: record.tenure.next(&self.app.replica).ok_or_else(unknown)?,
            moves: record.moves.and(now),
            configuration: fingerprint.to_string(),
            ..record.clone()
        });
        let put = Record::Session(Arc::clone(&record));
        let store = self.app.gateways.store();
        if !store.put(Key::Session(key.clone()), put, Room::ENDLESS).await {
            return Err(moving());
        }
        if record.moves.are_many(now) {
            self.tell_of_hops("one was taken over more than three times in a minute");
        }
        Ok((key, record))
    }

    fn tell_of_hops(&self, how: &str) {
        if self.adopting.hops.is_due(Instant::now()) {
            self.app.gateways.observer().listeners().tell(Event::SessionsHop(how));
        }
    }

    /// The answer to what belongs to a request of another replica.
    fn misplaced(&self) -> Refusal {
        self.tell_of_hops("what belongs to a request came where the request is not");
        let message = "this belongs to a request of another replica of the workbench, which has ended or cannot \
                       be reached from here, so nothing was done: make the request anew. The proxy has to send \
                       all of a session to one replica";
        Refusal::new(StatusCode::CONFLICT, UNAVAILABLE, message)
    }
}

/// The id of the session that a request names.
fn named(headers: &HeaderMap) -> Result<&str, Refusal> {
    let id = one(headers, &SESSION).map_err(|error| bad_request(INVALID_REQUEST, &error))?;
    id.ok_or_else(|| {
        let message = "the Mcp-Session-Id header is missing; a session begins with initialize";
        bad_request(INVALID_REQUEST, message)
    })
}

/// Returns `true` if an id looks as we make them.
fn may_be_an_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn unknown() -> Refusal {
    let message = "there is no such session, or not any more; begin one with initialize";
    Refusal::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message)
}

/// The answer where another replica was quicker.
fn moving() -> Refusal {
    Refusal::for_now(
        "another replica of the workbench goes on with this session at this moment; try again",
    )
}

#[cfg(test)]
mod tests;
