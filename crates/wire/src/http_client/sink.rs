//! The interface through which an HTTP connection delivers messages and looks up pending requests.

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::StatusCode;

use crate::envelope::RpcOutcome;
use crate::incoming::IncomingMessage;
use crate::json::RawJson;
use crate::line::OversizedMessage;
use crate::mailbox::RequestError;
use crate::server::{DisconnectReason, IncomingHandler, ServerConnection};

/// Receives everything that one server sends.
pub(super) trait MessageSink: Send + Sync + 'static {
    /// Handles one message. Returns once the next one can be handled.
    fn take(&self, message: Bytes) -> impl Future<Output = ()> + Send;

    /// Handles a message that exceeded the limit. It may be the response to a request.
    fn take_oversized(&self, edges: &OversizedMessage);

    fn is_waiting(&self, id: &RawJson) -> bool;

    /// Completes a request without a message from the server.
    fn settle(
        &self,
        id: &RawJson,
        outcome: Result<RpcOutcome, RequestError>,
    ) -> impl Future<Output = ()> + Send;

    /// Returns `true` if a rejected request is completed with [`RequestError::NotSent`], so that
    /// the caller may send it on a new session. The server has not executed the request.
    fn should_resend(&self, status: StatusCode, is_session_lost: bool) -> bool;

    /// Called when a tool may require other arguments in headers than before.
    fn tools_changed(&self);

    /// Returns `true` if requests that are certainly undelivered are retried before an error is
    /// reported.
    fn retries_undelivered(&self) -> bool;

    /// Records why the server is unavailable; `None` if it is available.
    fn set_unavailable_reason(&self, why: Option<&str>);

    fn mark_sse(&self);

    /// Called when the session has ended and no further request can succeed.
    fn session_lost(&self, how: DisconnectReason);

    fn close(&self);

    fn closed(&self) -> impl Future<Output = ()> + Send;
}

/// Delivers messages to a `ServerConnection`.
pub(super) struct ConnectionSink<H> {
    connection: ServerConnection,
    handler: Mutex<H>,
    label: String,
}

impl<H: IncomingHandler> ConnectionSink<H> {
    pub(super) fn new(connection: ServerConnection, handler: H, label: &str) -> Self {
        Self { connection, handler: Mutex::new(handler), label: label.to_owned() }
    }
}

impl<H: IncomingHandler> MessageSink for ConnectionSink<H> {
    async fn take(&self, message: Bytes) {
        if let Some(message) = self.connection.read(&message, &self.label).await {
            let mut handler = self.handler.lock();
            self.connection.take(message, &mut *handler);
        }
    }

    fn take_oversized(&self, edges: &OversizedMessage) {
        self.connection.peer().take_oversized(&edges.head, &edges.tail, edges.length);
    }

    fn is_waiting(&self, id: &RawJson) -> bool {
        self.connection.peer().is_waiting(id)
    }

    async fn settle(&self, id: &RawJson, outcome: Result<RpcOutcome, RequestError>) {
        self.connection.peer().settle(id, outcome);
    }

    fn should_resend(&self, _: StatusCode, is_session_lost: bool) -> bool {
        // The request wasn't executed, so it can be repeated on the next session.
        is_session_lost
    }

    fn tools_changed(&self) {
        let method = "notifications/tools/list_changed".to_owned();
        let mut handler = self.handler.lock();
        handler.handle(IncomingMessage::Notification { method, params: None });
    }

    fn retries_undelivered(&self) -> bool {
        true
    }

    fn set_unavailable_reason(&self, why: Option<&str>) {
        self.connection.set_unavailable_reason(why);
    }

    fn mark_sse(&self) {
        self.connection.mark_sse();
    }

    fn session_lost(&self, how: DisconnectReason) {
        self.connection.disconnect(how);
    }

    fn close(&self) {
        self.connection.close();
    }

    async fn closed(&self) {
        self.connection.closed().await;
    }
}
