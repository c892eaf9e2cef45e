//! One message to a server over HTTP and what comes back for it; streams that are taken up again.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT, WWW_AUTHENTICATE,
};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout_at};

use crate::raw::Raw;
use crate::wire::budget::{self, Intake};
use crate::wire::code::{HEADER_MISMATCH, METHOD_NOT_FOUND};
use crate::wire::envelope::Outcome;
use crate::wire::mailbox::RequestError;
use crate::wire::remote::credentials::{Again, Challenge};
use crate::wire::remote::events::{Event, Events};
use crate::wire::remote::failure::{self, Failure};
use crate::wire::remote::receiver::Receiver;
use crate::wire::remote::{Remote, SESSION_ID, Sent, Session, lock};

/// The media type of a stream of events.
pub(super) const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How much of a body is read that tells of an error.
const MAX_ERROR: usize = 256 * 1024;
/// How long a server may take to end a stream after the answer: a connection that ends well is
/// used again.
const LINGER: Duration = Duration::from_secs(1);
/// The pause before a stream is taken up again where the server names none, and the longest one.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How often in a row a stream is taken up again without anything new on it.
const RETRIES: u32 = 5;

/// How reading a stream ended.
pub(super) enum End {
    /// With the answer that was waited for.
    Answered,
    /// Before it, and why; it is fruitful if anything was on it.
    Early { is_fruitful: bool, why: String },
}

/// A request's fate at a server that refuses: it was taken before, or is not now.
#[derive(Clone, Copy)]
pub(super) enum Taken {
    Yes,
    No,
}

/// A mark on a response: its refusal stands until a person has signed in.
#[derive(Clone, Copy)]
struct WantsSignIn;

/// Why a stream could not be taken up again.
enum NoStream {
    /// The server has answered that there is none.
    Refused(Response),
    /// The server was not reached.
    Unreachable,
}

impl<T: Receiver> Remote<T> {
    /// Sends one message and takes what comes back. A request has been answered when this ends,
    /// in whatever way.
    pub(super) async fn exchange(self: &Arc<Self>, sent: &Sent) {
        if self.way.is_old() {
            return self.exchange_old(sent).await;
        }
        let response = match self.post(sent, &self.url).await {
            Ok(response) => response,
            Err(error) => return self.fail(sent, failure::unsent(error)).await,
        };
        let status = response.status();
        if !status.is_success() {
            if sent.method == "initialize" && self.way.falls_back_on(status) {
                return self.fall_back(sent, response).await;
            }
            return self.refused(sent, response, Taken::No).await;
        }
        if sent.method == "initialize" {
            let mut session = lock(&self.session);
            session.id = response.headers().get(SESSION_ID).cloned();
        }
        if sent.id.is_none() {
            return;
        }
        if media_type(&response) == EVENT_STREAM {
            return self.follow(sent, response).await;
        }
        match read(response, self.intake.clone()).await {
            Ok(Body::Whole(text)) => self.take_body(sent, &text, status).await,
            Ok(Body::TooLong { length, .. }) => {
                self.answer(sent, Err(RequestError::Oversized(length))).await;
            }
            Err(error) => {
                let what = failure::innermost(error);
                let message = format!("the server's answer broke off: {what}");
                self.fail(sent, Failure::Broken.error(&message)).await;
            }
        }
    }

    /// Sends a request to the server's address, as [`Self::send_to`] does.
    pub(super) async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
    ) -> reqwest::Result<Response> {
        self.send_to(&self.url, method, headers, None).await
    }

    /// Sends a request with the headers that say who asks; once more after a refusal, if the
    /// credentials are others then.
    pub(super) async fn send_to(
        &self,
        url: &Url,
        method: Method,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> reqwest::Result<Response> {
        let mut is_last = false;
        loop {
            let mut all = self.credentials.authorization().await;
            let mut shown = all.get(AUTHORIZATION).cloned();
            if let Some(shown) = &mut shown {
                shown.set_sensitive(true);
            }
            let version = concat!("mcp-workbench/", env!("CARGO_PKG_VERSION"));
            all.entry(USER_AGENT).or_insert(HeaderValue::from_static(version));
            all.extend(headers.clone());
            let mut request = self.client.request(method.clone(), url.clone()).headers(all);
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            let mut response = self.noted(request.send().await)?;
            let status = response.status();
            if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                return Ok(response);
            }
            let schemes = response.headers().get_all(WWW_AUTHENTICATE).iter();
            let schemes =
                schemes.filter_map(|scheme| scheme.to_str().ok().map(str::to_owned)).collect();
            let challenge = Challenge { status, schemes, shown, is_last };
            match self.credentials.refused(challenge).await {
                Again::Once if !is_last => is_last = true,
                Again::Once | Again::No => return Ok(response),
                Again::SignIn => {
                    response.extensions_mut().insert(WantsSignIn);
                    return Ok(response);
                }
            }
        }
    }

    pub(super) async fn fail(&self, sent: &Sent, error: Raw) {
        self.answer(sent, Ok(Outcome::Error(error))).await;
    }

    /// Takes what should be the answer, or several messages with the answer among them.
    async fn take_body(&self, sent: &Sent, text: &Bytes, status: StatusCode) {
        match serde_json::from_slice::<Vec<&RawValue>>(text) {
            Ok(batch) => {
                for message in batch {
                    self.take(&text.slice_ref(message.get().as_bytes()), Some(sent)).await;
                }
            }
            Err(_) => self.take(text, Some(sent)).await,
        }
        if self.is_waiting(sent) {
            let error = failure::status(status, &HeaderMap::new(), text, &self.secrets());
            self.fail(sent, error).await;
        }
    }

    fn is_waiting(&self, sent: &Sent) -> bool {
        sent.id.as_ref().is_some_and(|id| self.to.is_waiting(id))
    }

    /// Takes an answer that is no success.
    pub(super) async fn refused(&self, sent: &Sent, response: Response, taken: Taken) {
        #[derive(Deserialize)]
        struct Members<'a> {
            #[serde(borrow)]
            error: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Code {
            code: i64,
        }

        let (status, headers) = (response.status(), response.headers().clone());
        let wants_sign_in = response.extensions().get::<WantsSignIn>().is_some();
        let body = read_error(response).await;
        let error = serde_json::from_slice::<Members<'_>>(&body).ok();
        let error = error.map(|members| Raw::slice_of(&body, members.error));
        let code = error.as_ref().and_then(|error| Some(error.parse::<Code>().ok()?.code));
        if code == Some(HEADER_MISMATCH) && sent.method == "tools/call" {
            // The tool may want other arguments in the headers now.
            self.to.hear_of_other_tools();
        }
        // Who is refused wants to know by whom.
        let is_own = code.is_some() && !matches!(status.as_u16(), 401 | 403 | 407);
        let error = error.filter(|_| is_own).unwrap_or_else(|| {
            if wants_sign_in {
                failure::sign_in(status)
            } else {
                failure::status(status, &headers, &body, &self.secrets())
            }
        });
        let session = lock(&self.session).clone();
        let is_lost = sent.modern.is_none()
            && (session.id.is_some() || self.way.is_old() && !sent.is_greeting())
            && is_lost(status, &body)
            && code != Some(METHOD_NOT_FOUND);
        let is_tried_again = self.to.sends_again(status, is_lost);
        match taken {
            Taken::No if is_tried_again => self.answer(sent, Err(RequestError::NotSent)).await,
            Taken::Yes if is_lost => self.answer(sent, Err(RequestError::Closed)).await,
            Taken::No => self.fail(sent, error).await,
            // That is about the rest of the answer: the request itself may have been done.
            Taken::Yes => {
                let message = format!(
                    "the server's answer broke off, and its rest is refused with HTTP status {status}"
                );
                self.fail(sent, Failure::Broken.error(&message)).await;
            }
        }
        if is_lost {
            self.lose_session();
        }
    }

    /// The secrets of the credentials and of the address, which must not be told to anybody else.
    pub(super) fn secrets(&self) -> Vec<String> {
        let mut secrets = self.credentials.secrets();
        secrets.extend(failure::secrets_of(&self.url));
        secrets
    }

    /// Takes what comes on a stream until the request is answered. A legacy stream that ends
    /// before is taken up again where it broke off.
    async fn follow(&self, sent: &Sent, mut response: Response) {
        let mut events = Events::new(self.intake.max);
        let mut retries = 0;
        loop {
            let why = match self.read_events(Some(sent), response, &mut events).await {
                End::Answered => return,
                End::Early { is_fruitful: true, why } => {
                    retries = 0;
                    why
                }
                End::Early { is_fruitful: false, why } => why,
            };
            let last_id = events.last_id().filter(|_| sent.modern.is_none()).map(str::to_owned);
            response = loop {
                retries += 1;
                let Some(id) = last_id.as_ref().filter(|_| retries <= RETRIES) else {
                    let message = format!("the server's answer broke off: {why}");
                    return self.fail(sent, Failure::Broken.error(&message)).await;
                };
                sleep(events.retry().unwrap_or(PAUSE).min(LONGEST_PAUSE)).await;
                match self.open_stream(Some(id)).await {
                    Ok(stream) => break stream,
                    Err(NoStream::Refused(response)) => {
                        return self.refused(sent, response, Taken::Yes).await;
                    }
                    Err(NoStream::Unreachable) => {}
                }
            };
            events.reconnect();
        }
    }

    /// Takes what the server says unasked, for as long as it lets us listen.
    pub(super) async fn listen(&self) {
        let mut events = Events::new(self.intake.max);
        let (mut pause, mut was_open) = (PAUSE, false);
        loop {
            match self.open_stream(events.last_id()).await {
                Ok(response) => {
                    was_open = true;
                    events.reconnect();
                    let end = self.read_events(None, response, &mut events).await;
                    if matches!(end, End::Early { is_fruitful: true, .. }) {
                        pause = PAUSE;
                    }
                }
                Err(NoStream::Refused(response)) => {
                    let status = response.status();
                    tracing::debug!(server = self.label, %status, "the server says nothing unasked");
                    if was_open && status == StatusCode::NOT_FOUND {
                        self.lose_session();
                    }
                    return;
                }
                Err(NoStream::Unreachable) => {}
            }
            sleep(events.retry().unwrap_or(pause).max(pause).min(LONGEST_PAUSE)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Opens a stream of the session, from the last event on that was read of it.
    async fn open_stream(&self, last_id: Option<&str>) -> Result<Response, NoStream> {
        let mut headers = self.session_headers(EVENT_STREAM);
        let last_id = last_id.and_then(|id| HeaderValue::from_str(id).ok());
        headers.extend(last_id.map(|id| (LAST_EVENT_ID, id)));
        match self.send(Method::GET, headers).await {
            Ok(response) if is_stream(&response) => Ok(response),
            Ok(response) => Err(NoStream::Refused(response)),
            Err(error) => {
                let why = failure::innermost(error);
                tracing::debug!(server = self.label, why, "a stream could not be opened");
                Err(NoStream::Unreachable)
            }
        }
    }

    /// Takes the messages of one connection, until `sent` is answered where there is one.
    pub(super) async fn read_events(
        &self,
        sent: Option<&Sent>,
        mut response: Response,
        events: &mut Events,
    ) -> End {
        let mut is_fruitful = false;
        let mut charge = self.intake.account.charge();
        // Once the answer is there, the stream is only given time to end.
        let mut until = None;
        loop {
            let chunk = match until {
                None => response.chunk().await,
                Some(deadline) => match timeout_at(deadline, response.chunk()).await {
                    Ok(chunk) => chunk,
                    Err(_) => return End::Answered,
                },
            };
            let why = match chunk {
                Ok(Some(chunk)) => {
                    charge.grow(events.held() + chunk.len()).await;
                    events.read(&chunk);
                    while let Some(event) = events.next() {
                        is_fruitful = true;
                        let paid = std::mem::replace(&mut charge, self.intake.account.charge());
                        self.take_event(event.paid_with(paid), sent).await;
                    }
                    if sent.is_some_and(|sent| !self.is_waiting(sent)) {
                        until.get_or_insert_with(|| Instant::now() + LINGER);
                    }
                    continue;
                }
                Ok(None) => "the stream ended".to_owned(),
                Err(error) => failure::innermost(error),
            };
            return if until.is_some() { End::Answered } else { End::Early { is_fruitful, why } };
        }
    }

    pub(super) async fn take_event(&self, event: Event, sent: Option<&Sent>) {
        match (event, sent) {
            (Event::Message(message), sent) => self.take(&message, sent).await,
            // Others are no messages.
            (Event::Other { .. }, _) => {}
            (Event::Oversized(edges), Some(sent)) => {
                self.answer(sent, Err(RequestError::Oversized(edges.length))).await;
            }
            (Event::Oversized(edges), None) => {
                let length = edges.length;
                tracing::warn!(
                    server = self.label,
                    length,
                    "a message was too long and has been dropped"
                );
                self.to.take_oversized(&edges);
            }
        }
    }

    /// Ends the session, if there is one.
    pub(super) async fn part(&self) {
        let Session { id, is_lost, .. } = lock(&self.session).clone();
        if id.is_none() || is_lost {
            return;
        }
        let headers = self.session_headers("application/json");
        // Not every server lets itself be told.
        let _ = self.send(Method::DELETE, headers).await;
    }
}

/// Returns `true` if an answer says that there is no session of ours. Some servers say so with 400.
fn is_lost(status: StatusCode, body: &[u8]) -> bool {
    status == StatusCode::NOT_FOUND
        || status == StatusCode::BAD_REQUEST
            && ["session id", "sessionid"]
                .iter()
                .any(|name| String::from_utf8_lossy(body).to_ascii_lowercase().contains(name))
}

pub(super) fn is_stream(response: &Response) -> bool {
    response.status() == StatusCode::OK && media_type(response) == EVENT_STREAM
}

pub(super) fn media_type(response: &Response) -> String {
    let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = header.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// The body of a response.
pub(super) enum Body {
    Whole(Bytes),
    /// The beginning of one that is longer than allowed, and how long it is as far as is known.
    TooLong {
        text: Bytes,
        length: usize,
    },
}

/// Reads the beginning of a body that tells of an error; nothing of one that breaks off.
pub(super) async fn read_error(response: Response) -> Bytes {
    match read(response, Intake::from(MAX_ERROR)).await {
        Ok(Body::Whole(text) | Body::TooLong { text, .. }) => text,
        Err(_) => Bytes::new(),
    }
}

/// Reads a body as far as it is not too long, and as there is room for it.
pub(super) async fn read(mut response: Response, intake: Intake) -> reqwest::Result<Body> {
    let Intake { max, account } = intake;
    let said = response.content_length().and_then(|length| usize::try_from(length).ok());
    let (mut charge, mut text) = (account.charge(), BytesMut::new());
    while let Some(chunk) = response.chunk().await? {
        let length = text.len() + chunk.len();
        if length > max {
            text.extend_from_slice(&chunk[..max - text.len()]);
            return Ok(Body::TooLong { text: text.freeze(), length: said.unwrap_or(length) });
        }
        if length > text.capacity() {
            let room = budget::room_for(length, said, max);
            charge.grow(room).await;
            text.reserve(room - text.len());
        }
        text.extend_from_slice(&chunk);
    }
    Ok(Body::Whole(charge.attach(text.freeze())))
}
