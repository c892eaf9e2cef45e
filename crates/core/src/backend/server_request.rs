//! Messages from servers to agents, except responses: progress, notifications and requests.

use tokio::sync::oneshot;
use tokio::time::Instant;

use mcp_workbench_wire::RpcOutcome;
use mcp_workbench_wire::incoming::{Responder, error_object};
use mcp_workbench_wire::json::RawJson;

#[derive(Debug)]
pub enum AgentEvent {
    /// The `params` of a progress notification. The progress token isn't the agent's.
    Progress(RawJson),
    Notification {
        method: String,
        params: Option<RawJson>,
    },
    /// Boxed because it is rare, and every request reserves room for an event.
    Request(Box<ServerRequest>),
}

impl From<ServerRequest> for AgentEvent {
    fn from(request: ServerRequest) -> Self {
        Self::Request(Box::new(request))
    }
}

/// A request from a server to an agent (elicitation, sampling, roots). Dropping it sends an error
/// to the server.
pub struct ServerRequest {
    pub method: String,
    pub params: Option<RawJson>,
    /// `false` if the workbench itself sent it.
    pub is_of_server: bool,
    /// When the answer is no longer valid, if the workbench itself limits that.
    pub deadline: Option<Instant>,
    back: ReplyTo,
    when_answered: Option<Box<dyn FnOnce() + Send>>,
}

pub(crate) enum ReplyTo {
    Server(Responder),
    Local(oneshot::Sender<RpcOutcome>),
    Nowhere,
}

impl std::fmt::Debug for ServerRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

impl ServerRequest {
    pub(crate) fn from_server(
        method: String,
        params: Option<RawJson>,
        responder: Responder,
    ) -> Self {
        let mut request = Self::new(method, params, ReplyTo::Server(responder));
        request.is_of_server = true;
        request
    }

    /// Creates a request from the workbench and the receiver of its response.
    pub fn from_workbench(
        method: String,
        params: Option<RawJson>,
    ) -> (Self, oneshot::Receiver<RpcOutcome>) {
        let (back, answer) = oneshot::channel();
        (Self::new(method, params, ReplyTo::Local(back)), answer)
    }

    /// Creates a request that a server made in a result, and the receiver of its response.
    pub(crate) fn relayed(
        method: String,
        params: Option<RawJson>,
    ) -> (Self, oneshot::Receiver<RpcOutcome>) {
        let (mut request, answer) = Self::from_workbench(method, params);
        request.is_of_server = true;
        (request, answer)
    }

    fn new(method: String, params: Option<RawJson>, back: ReplyTo) -> Self {
        Self { method, params, is_of_server: false, deadline: None, back, when_answered: None }
    }

    /// Calls `f` when the request is answered or dropped.
    pub(crate) fn on_answered(mut self, f: impl FnOnce() + Send + 'static) -> Self {
        self.when_answered = Some(Box::new(f));
        self
    }

    /// Responds, and returns once the response has been sent.
    pub async fn answer(mut self, outcome: RpcOutcome) {
        match std::mem::replace(&mut self.back, ReplyTo::Nowhere) {
            ReplyTo::Server(responder) => {
                if responder.respond(outcome).await.is_err() {
                    tracing::debug!(
                        method = self.method,
                        "cannot respond to the server, it has exited"
                    );
                }
            }
            // The receiver may have given up.
            ReplyTo::Local(back) => drop(back.send(outcome)),
            ReplyTo::Nowhere => {}
        }
    }

    /// Responds with an error, without waiting.
    pub fn decline(mut self, code: i64, reason: &str) {
        let outcome = RpcOutcome::Error(error_object(code, reason, None));
        match std::mem::replace(&mut self.back, ReplyTo::Nowhere) {
            ReplyTo::Server(responder) => responder.try_respond(outcome),
            ReplyTo::Local(back) => drop(back.send(outcome)),
            ReplyTo::Nowhere => {}
        }
    }

    /// Resolves when no response is wanted any more.
    pub async fn cancelled(&mut self) {
        match &mut self.back {
            ReplyTo::Server(responder) => responder.cancelled().await,
            ReplyTo::Local(back) => back.closed().await,
            ReplyTo::Nowhere => {}
        }
    }
}

impl Drop for ServerRequest {
    fn drop(&mut self) {
        if let Some(f) = self.when_answered.take() {
            f();
        }
    }
}
