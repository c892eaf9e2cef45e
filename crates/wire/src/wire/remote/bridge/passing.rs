//! The client's side of a bridge: what goes to it, and which of its requests wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use reqwest::StatusCode;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::raw::{self, Raw};
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::envelope::{Message, Outcome};
use crate::wire::incoming::{self, error_object};
use crate::wire::line::Oversized;
use crate::wire::mailbox::RequestError;
use crate::wire::remote::failure::Failure;
use crate::wire::remote::lock;
use crate::wire::remote::receiver::Receiver;
use crate::wire::server::Lost;
use crate::wire::writer::Writer;

/// Something that a connection cannot see to by itself.
pub(super) enum Event {
    /// A request was not taken.
    Again(Raw),
    /// The server has lost the session of this generation.
    Lost(u64),
}

/// A request of the client that waits for its answer.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) line: Bytes,
    pub(super) is_greeting: bool,
    /// When the client has sent it.
    pub(super) since: Instant,
    /// The connection that it was sent on.
    pub(super) generation: u64,
    /// How often it was sent again.
    pub(super) tries: u32,
}

/// The client, as all connections to the server have it in common.
pub(super) struct Far {
    client: Writer,
    /// By the text of their ids.
    waiting: Mutex<HashMap<Bytes, Waiting>>,
    /// The questions of servers to the client, by their ids, and the connections that they came on.
    asked: Mutex<HashMap<Bytes, u64>>,
    /// The answer to the greeting.
    greeted: Mutex<Option<Raw>>,
    events: mpsc::UnboundedSender<Event>,
}

impl Far {
    pub(super) fn new(client: Writer, events: mpsc::UnboundedSender<Event>) -> Arc<Self> {
        Arc::new(Self {
            client,
            waiting: Mutex::default(),
            asked: Mutex::default(),
            greeted: Mutex::default(),
            events,
        })
    }

    pub(super) fn wait_for(&self, id: &Raw, request: Waiting) {
        lock(&self.waiting).insert(id.clone().into_bytes(), request);
    }

    pub(super) fn waiting(&self, id: &Raw) -> Option<Waiting> {
        lock(&self.waiting).get(id.as_bytes()).cloned()
    }

    /// Takes note that a request is sent again, on this connection; `false`: nobody waits for it now.
    pub(super) fn moved(&self, id: &Raw, generation: u64) -> bool {
        let mut waiting = lock(&self.waiting);
        let request = waiting.get_mut(id.as_bytes());
        request.is_some_and(|request| {
            request.generation = generation;
            request.tries += 1;
            true
        })
    }

    /// Forgets the request that the client cancels.
    pub(super) fn cancel(&self, params: Option<&Raw>) {
        if let Some(id) = params.and_then(|params| params.member("requestId")) {
            lock(&self.waiting).remove(id.as_bytes());
        }
    }

    /// Returns `true` if the server asked this on the connection, and takes note of the answer.
    pub(super) fn was_asked(&self, id: &Raw, generation: u64) -> bool {
        lock(&self.asked).remove(id.as_bytes()) == Some(generation)
    }

    /// The answer to the greeting.
    pub(super) fn greeted(&self) -> Option<Raw> {
        lock(&self.greeted).clone()
    }

    /// Sends the client what is no answer to a request of it.
    pub(super) async fn refuse(&self, message: Vec<Bytes>) {
        // Where it takes nothing any more, its input ends soon.
        let _ = self.client.send(message).await;
    }

    /// Sends the client a notification.
    pub(super) async fn tell(&self, method: &str, params: Option<Raw>) {
        let _ = self.client.send(incoming::notification(method, params)).await;
    }

    pub(super) async fn flush(&self) {
        let _ = self.client.flush().await;
    }

    /// Takes back what earlier connections have asked the client.
    pub(super) async fn forget_questions(&self, generation: u64) {
        let stale = {
            let mut asked = lock(&self.asked);
            let stale = asked.iter().filter(|(_, of)| **of != generation);
            let stale: Vec<Bytes> = stale.map(|(id, _)| id.clone()).collect();
            asked.retain(|_, of| *of == generation);
            stale
        };
        for id in stale {
            let id = Raw::part_of(&id, 0..id.len());
            let params = raw::object([("requestId", &id)]);
            self.tell("notifications/cancelled", Some(params)).await;
        }
    }

    /// Answers a request that the server did not take.
    pub(super) async fn give_up(&self, id: &Raw, why: &str) {
        if lock(&self.waiting).remove(id.as_bytes()).is_some() {
            let message = format!(
                "the service of the workbench cannot be reached: {why}. Nothing was done; \
                 `mcp-workbench setup status` shows the service"
            );
            self.fail(id.clone(), &message).await;
        }
    }

    /// Answers every request that waits.
    pub(super) async fn give_up_all(&self, why: &str) {
        let ids: Vec<Bytes> = lock(&self.waiting).keys().cloned().collect();
        for id in ids {
            self.give_up(&Raw::part_of(&id, 0..id.len()), why).await;
        }
    }

    async fn fail(&self, id: Raw, message: &str) {
        let error = error_object(INTERNAL_ERROR, message, None);
        let _ = self.client.send(incoming::answer(id, Outcome::Error(error))).await;
    }
}

/// One connection to the server, as the client sees it.
#[derive(Clone)]
pub(super) struct Passing(Arc<Inner>);

struct Inner {
    far: Arc<Far>,
    generation: u64,
    /// An answer that is for us, by the id of its request.
    expected: Mutex<Option<(Bytes, oneshot::Sender<Outcome>)>>,
    is_lost: AtomicBool,
    closed: CancellationToken,
}

impl Passing {
    pub(super) fn new(far: Arc<Far>, generation: u64) -> Self {
        Self(Arc::new(Inner {
            far,
            generation,
            expected: Mutex::default(),
            is_lost: AtomicBool::new(false),
            closed: CancellationToken::new(),
        }))
    }

    /// Keeps the answer to a request for us.
    pub(super) fn expect(&self, id: &Raw) -> oneshot::Receiver<Outcome> {
        let (sender, answer) = oneshot::channel();
        *lock(&self.0.expected) = Some((id.clone().into_bytes(), sender));
        answer
    }

    /// Returns `true` if the server does not know the session any more.
    pub(super) fn is_lost(&self) -> bool {
        self.0.is_lost.load(Ordering::Acquire)
    }

    /// The sender for an answer that is for us.
    fn expected(&self, id: &Raw) -> Option<oneshot::Sender<Outcome>> {
        let mut expected = lock(&self.0.expected);
        expected.take_if(|(of, _)| of == id.as_bytes()).map(|(_, sender)| sender)
    }

    fn expects(&self, id: &Raw) -> bool {
        lock(&self.0.expected).as_ref().is_some_and(|(of, _)| of == id.as_bytes())
    }

    /// Takes a request that was sent on this connection off the list of those that wait.
    fn answered(&self, id: &Raw) -> Option<Waiting> {
        let mut waiting = lock(&self.0.far.waiting);
        let request = waiting.get(id.as_bytes())?;
        let is_own = request.generation == self.0.generation;
        is_own.then(|| waiting.remove(id.as_bytes())).flatten()
    }
}

impl Receiver for Passing {
    async fn take(&self, message: Bytes) {
        let far = &self.0.far;
        match Message::parse(&message) {
            Ok(Message::Answer { id, outcome }) => {
                if let Some(sender) = self.expected(&id) {
                    let _ = sender.send(outcome);
                    return;
                }
                let Some(request) = self.answered(&id) else {
                    return tracing::debug!(?id, "an answer that nobody waits for");
                };
                if let (true, Outcome::Result(result)) = (request.is_greeting, outcome) {
                    *lock(&far.greeted) = Some(result);
                }
            }
            Ok(Message::Request { id, .. }) => {
                lock(&far.asked).insert(id.into_bytes(), self.0.generation);
            }
            Ok(Message::Notification { .. }) => {}
            Err(malformed) => return tracing::debug!(?malformed, "not a message"),
        }
        let _ = far.client.send(vec![message]).await;
    }

    fn is_waiting(&self, id: &Raw) -> bool {
        let waits = |request: Waiting| request.generation == self.0.generation;
        self.expects(id) || self.0.far.waiting(id).is_some_and(waits)
    }

    async fn settle(&self, id: &Raw, outcome: Result<Outcome, RequestError>) {
        let far = &self.0.far;
        if let Some(sender) = self.expected(id) {
            // Without an answer, it is as if there was none.
            if let Ok(outcome) = outcome {
                let _ = sender.send(outcome);
            }
            return;
        }
        if is_untaken(&outcome) {
            if self.is_waiting(id) {
                let _ = far.events.send(Event::Again(id.clone()));
            }
            return;
        }
        if self.answered(id).is_none() {
            return;
        }
        match outcome {
            Ok(outcome) => {
                let _ = far.client.send(incoming::answer(id.clone(), outcome)).await;
            }
            Err(RequestError::Oversized(length)) => {
                let message = format!(
                    "the answer has {length} bytes, which is more than one message may have \
                     (limits.maxMessageBytes)"
                );
                far.fail(id.clone(), &message).await;
            }
            Err(RequestError::NotSent | RequestError::Closed) => {
                let message = "the service of the workbench ended while this was under way: it may \
                               have been done or not";
                far.fail(id.clone(), message).await;
            }
        }
    }

    fn sends_again(&self, status: StatusCode, is_session_lost: bool) -> bool {
        // A server that is about to end says so, and the next one may take it.
        is_session_lost || status == StatusCode::SERVICE_UNAVAILABLE
    }

    fn hear_of_other_tools(&self) {
        tracing::debug!("a tool wants other arguments in the headers");
    }

    fn take_oversized(&self, _: &Oversized) {
        // What it asked or told cannot be passed on.
    }

    fn is_patient(&self) -> bool {
        // Who passes on has a patience of its own.
        false
    }

    fn note_trouble(&self, _: Option<&str>) {}

    fn note_old(&self) {}

    fn lose(&self, _: Lost) {
        if !self.0.is_lost.swap(true, Ordering::AcqRel) {
            let _ = self.0.far.events.send(Event::Lost(self.0.generation));
        }
    }

    fn close(&self) {
        self.0.closed.cancel();
    }

    async fn closed(&self) {
        self.0.closed.cancelled().await;
    }
}

/// Returns `true` if the server has not taken a request.
fn is_untaken(outcome: &Result<Outcome, RequestError>) -> bool {
    match outcome {
        Err(RequestError::NotSent) => true,
        Ok(Outcome::Error(error)) => Failure::of(error) == Some(Failure::Unreachable),
        _ => false,
    }
}
