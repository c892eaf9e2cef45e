//! Forwards messages between a client on two streams and a server over HTTP.
//!
//! *Theory of operation.* Messages are forwarded unchanged, with their ids. [`BridgeSink`] receives
//! the messages of the server and tracks the client's pending requests. A server that restarts has
//! lost only the session: the bridge repeats the client's `initialize` and its subscriptions, and
//! tells the client that lists have changed. Requests that the server didn't accept are sent again.
//! Requests that it may have executed are answered with an error.

mod client_side;
mod session_replay;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent;
use crate::envelope::{JsonRpcMessage, MessageParseError, RpcOutcome, UNREADABLE_NAME};
use crate::http_client::bridge::client_side::{
    BridgeClient, BridgeEvent, BridgeRequest, BridgeSink,
};
use crate::http_client::bridge::session_replay::SessionReplay;
use crate::http_client::sink::MessageSink;
use crate::http_client::{Credentials, SESSION_DELETE_TIMEOUT, ServerAddress, start};
use crate::json::RawJson;
use crate::line::{InputLine, LineReader};
use crate::memory_pool::ReadLimits;
use crate::server::DisconnectReason;
use crate::writer::MessageWriter;

/// Client messages read ahead while the server is unavailable.
const AHEAD: usize = 16;
/// How long an unavailable server is retried before requests fail.
const TIMEOUT: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(200);
/// Timeout of a request that the bridge repeats for the client.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(10);

/// The server that a bridge forwards to.
pub struct BridgeUpstream {
    pub url: Url,
    pub credentials: Arc<dyn Credentials>,
    /// The message limit in bytes.
    pub max: usize,
}

/// How a bridge ended.
#[derive(Debug, PartialEq, Eq)]
pub enum BridgeOutcome {
    /// The client's input ended or the bridge was stopped.
    ClientLeft,
    /// The restarted server can't continue the session. Holds the reason.
    ServerReplaced(String),
}

/// Forwards messages until the client's input ends or `stop` is cancelled.
///
/// Whenever the server doesn't accept messages, the bridge calls `revive`, which returns once the
/// server responds, or the reason why it doesn't.
pub async fn run<R, W>(
    (input, output): (R, W),
    upstream: BridgeUpstream,
    revive: impl AsyncFn() -> Result<(), String>,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<BridgeOutcome, String>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (lines, read) = mpsc::channel(AHEAD);
    let left = stop.child_token();
    let (over, max) = (left.clone().drop_guard(), upstream.max);
    tasks.spawn(async move {
        let mut reader = LineReader::new(input, max);
        while let Some(line) = reader.next().await {
            if lines.send(line).await.is_err() {
                break;
            }
        }
        drop(over);
    });
    let (events, told) = mpsc::unbounded_channel();
    let client = BridgeClient::new(MessageWriter::start(output, tasks), events);
    let mut bridge = Bridge {
        current: BridgeConnection::new(&upstream, BridgeSink::new(Arc::clone(&client), 0), tasks)?,
        previous: None,
        generation: 0,
        replay: SessionReplay::default(),
        client,
        upstream,
        revive,
        left,
        tasks: tasks.clone(),
    };
    let end = tokio::select! {
        end = bridge.serve(read, told) => end,
        () = stop.cancelled() => BridgeOutcome::ClientLeft,
    };
    bridge.close().await;
    Ok(end)
}

struct BridgeConnection {
    writer: MessageWriter,
    sink: BridgeSink,
}

impl BridgeConnection {
    fn new(
        upstream: &BridgeUpstream,
        sink: BridgeSink,
        tasks: &TaskTracker,
    ) -> Result<Self, String> {
        let (writer, outbox) = MessageWriter::detached();
        let address = ServerAddress::from(upstream.url.clone());
        let server = (address, Arc::clone(&upstream.credentials));
        start(server, ReadLimits::from(upstream.max), "service", sink.clone(), outbox, tasks)?;
        Ok(Self { writer, sink })
    }
}

struct Bridge<F> {
    upstream: BridgeUpstream,
    client: Arc<BridgeClient>,
    current: BridgeConnection,
    /// The connection before the current one. Requests on it can still complete.
    previous: Option<BridgeConnection>,
    generation: u64,
    replay: SessionReplay,
    revive: F,
    /// Cancelled when the client's input ends.
    left: CancellationToken,
    tasks: TaskTracker,
}

impl<F: AsyncFn() -> Result<(), String>> Bridge<F> {
    async fn serve(
        &mut self,
        mut lines: mpsc::Receiver<InputLine>,
        mut events: mpsc::UnboundedReceiver<BridgeEvent>,
    ) -> BridgeOutcome {
        loop {
            let done = tokio::select! {
                biased;
                Some(event) = events.recv() => self.handle_event(event).await,
                line = lines.recv() => match line {
                    Some(InputLine::Message(line)) => {
                        self.pass(line).await;
                        Ok(())
                    }
                    Some(InputLine::Oversized { head, tail, length, .. }) => {
                        self.client.refuse(agent::refuse_edges(&head, &tail, length)).await;
                        Ok(())
                    }
                    None => return BridgeOutcome::ClientLeft,
                },
            };
            if let Err(why) = done {
                return BridgeOutcome::ServerReplaced(why);
            }
        }
    }

    async fn pass(&mut self, line: Bytes) {
        let mut request_id = None;
        match JsonRpcMessage::parse(&line) {
            Ok(JsonRpcMessage::Request { id, method, .. }) => {
                self.replay.record_request(&method, &id, &line);
                let since = Instant::now();
                let request = BridgeRequest {
                    line: line.clone(),
                    is_greeting: method == "initialize",
                    since,
                    generation: self.generation,
                    tries: 0,
                    is_untaken: false,
                };
                self.client.wait_for(&id, request);
                request_id = Some(id);
            }
            Ok(JsonRpcMessage::Notification { method, params }) => {
                self.replay.record_notification(&method, &line);
                if method == "notifications/cancelled" {
                    self.client.cancel(params.as_ref());
                }
            }
            // A response to a request of an earlier server.
            Ok(JsonRpcMessage::Response { id, .. })
                if !self.client.take_server_request(&id, self.generation) =>
            {
                return;
            }
            Ok(JsonRpcMessage::Response { .. }) => {}
            // The server rejects the response and fails its own request.
            Err(MessageParseError::UnreadableName(message))
                if matches!(&*message, JsonRpcMessage::Response { id, .. }
                    if self.client.take_server_request(id, self.generation)) => {}
            Err(MessageParseError::UnreadableName(message))
                if !matches!(*message, JsonRpcMessage::Request { .. }) =>
            {
                return tracing::warn!("dropped a message of the client: {UNREADABLE_NAME}");
            }
            Err(malformed) => {
                return self.client.refuse(agent::parse_error_response(&malformed)).await;
            }
        }
        // Later delivery errors are reported through the sink.
        if self.current.writer.send(vec![line]).await.is_err()
            && let Some(id) = request_id
        {
            self.client.resend(id);
        }
    }

    /// Handles one event. Fails if the session can't continue.
    async fn handle_event(&mut self, event: BridgeEvent) -> Result<(), String> {
        let id = match event {
            BridgeEvent::Lost(generation) if generation == self.generation => {
                return self.reconnect().await;
            }
            BridgeEvent::Lost(_) => return Ok(()),
            BridgeEvent::Resend(id) => id,
        };
        let Some(request) = self.client.waiting(&id) else { return Ok(()) };
        if request.since.elapsed() > TIMEOUT {
            self.client.give_up(&id, "it accepts no requests").await;
            return Ok(());
        }
        if request.generation == self.generation {
            if request.tries > 0 {
                self.left.run_until_cancelled(sleep(PAUSE)).await;
            }
            self.reconnect().await?;
        }
        if self.client.moved(&id, self.generation)
            && self.current.writer.send(vec![request.line]).await.is_err()
        {
            self.client.resend(id);
        }
        Ok(())
    }

    /// Waits for the server and restores a lost session. If the server stays unavailable, all
    /// pending requests fail, and the next message tries again.
    async fn reconnect(&mut self) -> Result<(), String> {
        let left = self.left.clone();
        let until = Instant::now() + TIMEOUT;
        let renewing = async {
            loop {
                let why = match (self.revive)().await {
                    Err(why) => why,
                    Ok(()) if !self.current.sink.is_lost() => return Ok(()),
                    Ok(()) => match self.reinitialize().await {
                        ReinitializeOutcome::Yes => return Ok(()),
                        ReinitializeOutcome::Later(why) => why,
                        ReinitializeOutcome::Never(why) => return Err(why),
                    },
                };
                if Instant::now() > until {
                    self.client.give_up_all(&why).await;
                    return Ok(());
                }
                sleep(PAUSE).await;
            }
        };
        left.run_until_cancelled(renewing).await.unwrap_or(Ok(()))
    }

    /// Opens a new connection and restores the client's session on it, if there is one.
    async fn reinitialize(&mut self) -> ReinitializeOutcome {
        let Some((hello, before)) = self.replay.hello(&self.client) else {
            // No session was established, so nothing is lost.
            return self
                .connect()
                .await
                .map_or_else(ReinitializeOutcome::Later, |()| ReinitializeOutcome::Yes);
        };
        if let Err(why) = self.connect().await {
            return ReinitializeOutcome::Later(why);
        }
        let result = match self.ask_again(&hello.id, hello.line).await {
            Some(RpcOutcome::Result(result)) => result,
            refused => {
                let why = match refused {
                    Some(RpcOutcome::Error(error)) => format!("it rejected the session: {error:?}"),
                    _ => "it did not respond to `initialize`".to_owned(),
                };
                // Marks the new session as lost too, so that the next attempt initializes again.
                self.current.sink.session_lost(DisconnectReason::Session);
                return ReinitializeOutcome::Later(why);
            }
        };
        if let Err(why) = session_replay::check_same(&before, &result) {
            return ReinitializeOutcome::Never(why);
        }
        if let Some(initialized) = self.replay.initialized() {
            let _ = self.current.writer.send(vec![initialized]).await;
            for (id, line) in self.replay.subscriptions() {
                self.ask_again(&id, line).await;
            }
            self.client.cancel_stale_requests(self.generation).await;
            for method in session_replay::lists(&result) {
                self.client.tell(method, None).await;
            }
        }
        ReinitializeOutcome::Yes
    }

    /// Opens a new connection. Requests on the previous one can still complete; the one before that
    /// is closed, and its requests fail.
    async fn connect(&mut self) -> Result<(), String> {
        self.generation += 1;
        let sink = BridgeSink::new(Arc::clone(&self.client), self.generation);
        let span = BridgeConnection::new(&self.upstream, sink, &self.tasks)?;
        let before = std::mem::replace(&mut self.current, span);
        if let Some(older) = self.previous.replace(before) {
            older.sink.close();
            self.client.fail_requests_before(self.generation - 1).await;
        }
        Ok(())
    }

    /// Repeats a request of the client and returns the response instead of forwarding it.
    async fn ask_again(&self, id: &RawJson, line: Bytes) -> Option<RpcOutcome> {
        let answer = self.current.sink.expect(id);
        self.current.writer.send(vec![line]).await.ok()?;
        timeout(REPLAY_TIMEOUT, answer).await.ok()?.ok()
    }

    async fn close(self) {
        self.current.writer.close();
        // Waits for the DELETE of the session. Pending requests get no response any more.
        let _ = timeout(SESSION_DELETE_TIMEOUT, self.current.sink.closed()).await;
        let _ = timeout(SESSION_DELETE_TIMEOUT, self.client.flush()).await;
    }
}

enum ReinitializeOutcome {
    Yes,
    /// The server isn't ready yet. Holds the reason.
    Later(String),
    /// The session can't continue. Holds the reason.
    Never(String),
}

#[cfg(test)]
mod tests;
