//! The client side of a bridge: the output to the client and the requests that it waits for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::StatusCode;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::code::INTERNAL_ERROR;
use crate::envelope::{JsonRpcMessage, MessageParseError, RpcOutcome, UNREADABLE_NAME};
use crate::http_client::failure::HttpTransportError;
use crate::http_client::sink::MessageSink;
use crate::incoming::{self, error_object};
use crate::json::{self, RawJson};
use crate::line::OversizedMessage;
use crate::mailbox::RequestError;
use crate::server::DisconnectReason;
use crate::writer::MessageWriter;

const LOST: &str = "the background service exited during this request, which may have had effects";

pub(super) enum BridgeEvent {
    /// The server didn't accept the request with this id.
    Resend(RawJson),
    /// The server has lost the session of this generation.
    Lost(u64),
}

#[derive(Clone)]
pub(super) struct BridgeRequest {
    pub(super) line: Bytes,
    pub(super) is_greeting: bool,
    pub(super) since: Instant,
    /// The connection that it was last sent on.
    pub(super) generation: u64,
    pub(super) tries: u32,
    /// `true` if the server certainly didn't accept it, and it will be sent again.
    pub(super) is_untaken: bool,
}

/// The client, shared by all connections to the server.
pub(super) struct BridgeClient {
    client: MessageWriter,
    /// By the JSON text of the request id.
    waiting: Mutex<HashMap<Bytes, BridgeRequest>>,
    /// Server requests that the client hasn't answered, by id, with the generation of their
    /// connection.
    asked: Mutex<HashMap<Bytes, u64>>,
    /// The result of `initialize`.
    greeted: Mutex<Option<RawJson>>,
    events: mpsc::UnboundedSender<BridgeEvent>,
}

impl BridgeClient {
    pub(super) fn new(
        client: MessageWriter,
        events: mpsc::UnboundedSender<BridgeEvent>,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            waiting: Mutex::default(),
            asked: Mutex::default(),
            greeted: Mutex::default(),
            events,
        })
    }

    pub(super) fn wait_for(&self, id: &RawJson, request: BridgeRequest) {
        self.waiting.lock().insert(id.clone().into_bytes(), request);
    }

    pub(super) fn waiting(&self, id: &RawJson) -> Option<BridgeRequest> {
        self.waiting.lock().get(id.as_bytes()).cloned()
    }

    /// Records that a request is sent again on connection `generation`. Returns `false` if the
    /// request is no longer pending.
    pub(super) fn moved(&self, id: &RawJson, generation: u64) -> bool {
        let mut waiting = self.waiting.lock();
        let request = waiting.get_mut(id.as_bytes());
        request.is_some_and(|request| {
            request.generation = generation;
            request.tries += 1;
            request.is_untaken = false;
            true
        })
    }

    pub(super) fn cancel(&self, params: Option<&RawJson>) {
        if let Some(id) = params.and_then(|params| params.member("requestId")) {
            self.waiting.lock().remove(id.as_bytes());
        }
    }

    /// Removes a server request that the client answers. Returns `true` if it came from connection
    /// `generation`.
    pub(super) fn take_server_request(&self, id: &RawJson, generation: u64) -> bool {
        self.asked.lock().remove(id.as_bytes()) == Some(generation)
    }

    pub(super) fn initialize_result(&self) -> Option<RawJson> {
        self.greeted.lock().clone()
    }

    /// Sends the client a message that doesn't answer a pending request.
    pub(super) async fn refuse(&self, message: Vec<Bytes>) {
        // If the client's output is closed, its input ends soon too.
        let _ = self.client.send(message).await;
    }

    pub(super) async fn tell(&self, method: &str, params: Option<RawJson>) {
        let _ = self.client.send(incoming::encode_notification(method, params)).await;
    }

    pub(super) async fn flush(&self) {
        let _ = self.client.flush().await;
    }

    /// Tells the client that the requests of earlier connections are cancelled.
    pub(super) async fn cancel_stale_requests(&self, generation: u64) {
        let stale = {
            let mut asked = self.asked.lock();
            let stale = asked.iter().filter(|(_, of)| **of != generation);
            let stale: Vec<Bytes> = stale.map(|(id, _)| id.clone()).collect();
            asked.retain(|_, of| *of == generation);
            stale
        };
        for id in stale {
            let id = RawJson::from_range(&id, 0..id.len());
            let params = json::object([("requestId", &id)]);
            self.tell("notifications/cancelled", Some(params)).await;
        }
    }

    pub(super) async fn give_up(&self, id: &RawJson, why: &str) {
        if self.waiting.lock().remove(id.as_bytes()).is_some() {
            let message = format!(
                "cannot reach the background service: {why}. Nothing was done; check it with \
                 `mcp-workbench setup status`"
            );
            self.fail(id.clone(), &message).await;
        }
    }

    pub(super) async fn give_up_all(&self, why: &str) {
        let ids: Vec<Bytes> = self.waiting.lock().keys().cloned().collect();
        for id in ids {
            self.give_up(&RawJson::from_range(&id, 0..id.len()), why).await;
        }
    }

    /// Queues the request to be sent again.
    pub(super) fn resend(&self, id: RawJson) {
        if let Some(request) = self.waiting.lock().get_mut(id.as_bytes()) {
            request.is_untaken = true;
        }
        // Fails only if the bridge has ended.
        let _ = self.events.send(BridgeEvent::Resend(id));
    }

    /// Fails the requests on connections before `generation`, which are closed. Those that the
    /// server didn't accept are sent again instead.
    pub(super) async fn fail_requests_before(&self, generation: u64) {
        let lost = self
            .waiting
            .lock()
            .extract_if(|_, request| request.generation < generation && !request.is_untaken)
            .map(|(id, _)| id)
            .collect::<Vec<_>>();
        for id in lost {
            self.fail(RawJson::from_range(&id, 0..id.len()), LOST).await;
        }
    }

    async fn fail(&self, id: RawJson, message: &str) {
        let error = error_object(INTERNAL_ERROR, message, None);
        let _ = self.client.send(incoming::encode_response(id, RpcOutcome::Error(error))).await;
    }
}

/// Forwards the messages of one connection to the client.
#[derive(Clone)]
pub(super) struct BridgeSink(Arc<Inner>);

struct Inner {
    client: Arc<BridgeClient>,
    generation: u64,
    /// The pending request of the bridge itself, by id: its response isn't forwarded.
    expected: Mutex<Option<(Bytes, oneshot::Sender<RpcOutcome>)>>,
    is_lost: AtomicBool,
    closed: CancellationToken,
}

impl BridgeSink {
    pub(super) fn new(client: Arc<BridgeClient>, generation: u64) -> Self {
        Self(Arc::new(Inner {
            client,
            generation,
            expected: Mutex::default(),
            is_lost: AtomicBool::new(false),
            closed: CancellationToken::new(),
        }))
    }

    /// Registers a request of the bridge itself and returns the receiver of its response.
    pub(super) fn expect(&self, id: &RawJson) -> oneshot::Receiver<RpcOutcome> {
        let (sender, answer) = oneshot::channel();
        *self.0.expected.lock() = Some((id.clone().into_bytes(), sender));
        answer
    }

    pub(super) fn is_lost(&self) -> bool {
        self.0.is_lost.load(Ordering::Acquire)
    }

    fn expected(&self, id: &RawJson) -> Option<oneshot::Sender<RpcOutcome>> {
        let mut expected = self.0.expected.lock();
        expected.take_if(|(of, _)| of == id.as_bytes()).map(|(_, sender)| sender)
    }

    fn expects(&self, id: &RawJson) -> bool {
        self.0.expected.lock().as_ref().is_some_and(|(of, _)| of == id.as_bytes())
    }

    /// Removes a pending request that was sent on this connection.
    fn answered(&self, id: &RawJson) -> Option<BridgeRequest> {
        let mut waiting = self.0.client.waiting.lock();
        let request = waiting.get(id.as_bytes())?;
        let is_own = request.generation == self.0.generation;
        is_own.then(|| waiting.remove(id.as_bytes())).flatten()
    }
}

impl MessageSink for BridgeSink {
    async fn take(&self, message: Bytes) {
        let client = &self.0.client;
        match JsonRpcMessage::parse(&message) {
            Ok(JsonRpcMessage::Response { id, outcome }) => {
                if let Some(sender) = self.expected(&id) {
                    let _ = sender.send(outcome);
                    return;
                }
                let Some(request) = self.answered(&id) else {
                    return tracing::debug!(?id, "ignored an unexpected response");
                };
                if let (true, RpcOutcome::Result(result)) = (request.is_greeting, outcome) {
                    *client.greeted.lock() = Some(result);
                }
            }
            Ok(JsonRpcMessage::Request { id, .. }) => {
                client.asked.lock().insert(id.into_bytes(), self.0.generation);
            }
            Ok(JsonRpcMessage::Notification { .. }) => {}
            Err(MessageParseError::UnreadableName(message)) => {
                if let JsonRpcMessage::Response { id, outcome } = *message {
                    self.settle(&id, Err(RequestError::UnreadableName(outcome))).await;
                }
                return tracing::warn!("dropped a message of the service: {UNREADABLE_NAME}");
            }
            Err(malformed) => return tracing::debug!(?malformed, "ignored a malformed message"),
        }
        let _ = client.client.send(vec![message]).await;
    }

    fn is_waiting(&self, id: &RawJson) -> bool {
        let waits = |request: BridgeRequest| request.generation == self.0.generation;
        self.expects(id) || self.0.client.waiting(id).is_some_and(waits)
    }

    async fn settle(&self, id: &RawJson, outcome: Result<RpcOutcome, RequestError>) {
        let client = &self.0.client;
        if let Some(sender) = self.expected(id) {
            // On an error, dropping the sender tells the bridge that no response will come.
            if let Ok(outcome) = outcome {
                let _ = sender.send(outcome);
            }
            return;
        }
        if is_untaken(&outcome) {
            if self.is_waiting(id) {
                client.resend(id.clone());
            }
            return;
        }
        if self.answered(id).is_none() {
            return;
        }
        match outcome {
            Ok(outcome) => {
                let _ = client.client.send(incoming::encode_response(id.clone(), outcome)).await;
            }
            Err(RequestError::Oversized(length)) => {
                let message = format!("response of {length} bytes exceeds limits.maxMessageBytes");
                client.fail(id.clone(), &message).await;
            }
            Err(RequestError::UnreadableName(_)) => {
                client.fail(id.clone(), &format!("invalid response: {UNREADABLE_NAME}")).await;
            }
            Err(RequestError::Malformed(why)) => {
                client.fail(id.clone(), &format!("invalid response: {why}")).await;
            }
            Err(RequestError::NotSent | RequestError::Closed) => {
                client.fail(id.clone(), LOST).await;
            }
        }
    }

    fn should_resend(&self, status: StatusCode, is_session_lost: bool) -> bool {
        // A server answers 503 while it shuts down. Its successor can take the request.
        is_session_lost || status == StatusCode::SERVICE_UNAVAILABLE
    }

    fn tools_changed(&self) {
        tracing::debug!("the header arguments of a tool changed");
    }

    fn take_oversized(&self, _: &OversizedMessage) {
        // Only the edges are stored, so it can't be forwarded.
    }

    fn retries_undelivered(&self) -> bool {
        // The bridge has its own retries.
        false
    }

    fn set_unavailable_reason(&self, _: Option<&str>) {}

    fn mark_sse(&self) {}

    fn session_lost(&self, _: DisconnectReason) {
        if !self.0.is_lost.swap(true, Ordering::AcqRel) {
            let _ = self.0.client.events.send(BridgeEvent::Lost(self.0.generation));
        }
    }

    fn close(&self) {
        self.0.closed.cancel();
    }

    async fn closed(&self) {
        self.0.closed.cancelled().await;
    }
}

/// Returns `true` if the server certainly didn't accept the request.
fn is_untaken(outcome: &Result<RpcOutcome, RequestError>) -> bool {
    match outcome {
        Err(RequestError::NotSent) => true,
        Ok(RpcOutcome::Error(error)) => {
            HttpTransportError::from_error_object(error) == Some(HttpTransportError::Unreachable)
        }
        _ => false,
    }
}
