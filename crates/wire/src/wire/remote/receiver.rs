//! Receivers: whoever gets what a server over HTTP sends, and knows which requests still wait.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use reqwest::StatusCode;

use crate::raw::Raw;
use crate::wire::envelope::Outcome;
use crate::wire::incoming::Incoming;
use crate::wire::line::Oversized;
use crate::wire::mailbox::RequestError;
use crate::wire::server::{Hear, Link, Lost};

/// The receiving end of everything that one server sends.
pub(super) trait Receiver: Send + Sync + 'static {
    /// Takes one message; returns once there is room for the next.
    fn take(&self, message: Bytes) -> impl Future<Output = ()> + Send;

    /// Hears of a message that was too long to be taken, which may be the answer to a request.
    fn take_oversized(&self, edges: &Oversized);

    /// Returns `true` if a request still waits for its answer.
    fn is_waiting(&self, id: &Raw) -> bool;

    /// Ends the wait for a request otherwise than by a message of the server.
    fn settle(
        &self,
        id: &Raw,
        outcome: Result<Outcome, RequestError>,
    ) -> impl Future<Output = ()> + Send;

    /// Returns `true` if a request that was refused with this status, and not acted on, is told to be
    /// [not sent](RequestError::NotSent), whatever else the server said of it.
    fn sends_again(&self, status: StatusCode, is_session_lost: bool) -> bool;

    /// Hears that a tool may want other arguments in the headers than it did.
    fn hear_of_other_tools(&self);

    /// Returns `true` if a request that has certainly not been taken is sent again after a while,
    /// before anybody hears of it.
    fn is_patient(&self) -> bool;

    /// Hears why the server cannot be reached; `None`: it can be.
    fn note_trouble(&self, why: Option<&str>);

    /// Hears that the server speaks the transport before streamable HTTP.
    fn note_old(&self);

    /// Hears that the session has ended, without which nothing more can be asked.
    fn lose(&self, how: Lost);

    /// Ends the connection.
    fn close(&self);

    /// Resolves when the connection has ended.
    fn closed(&self) -> impl Future<Output = ()> + Send;
}

/// A link to a server of ours.
pub(super) struct Linked<H> {
    link: Link,
    hear: Mutex<H>,
    label: String,
}

impl<H: Hear> Linked<H> {
    pub(super) fn new(link: Link, hear: H, label: &str) -> Self {
        Self { link, hear: Mutex::new(hear), label: label.to_owned() }
    }
}

impl<H: Hear> Receiver for Linked<H> {
    async fn take(&self, message: Bytes) {
        if let Some(message) = self.link.read(&message, &self.label).await {
            let mut hear = self.hear.lock().unwrap_or_else(PoisonError::into_inner);
            self.link.take(message, &mut *hear);
        }
    }

    fn take_oversized(&self, edges: &Oversized) {
        self.link.peer().take_oversized(&edges.head, &edges.tail, edges.length);
    }

    fn is_waiting(&self, id: &Raw) -> bool {
        self.link.peer().is_waiting(id)
    }

    async fn settle(&self, id: &Raw, outcome: Result<Outcome, RequestError>) {
        self.link.peer().settle(id, outcome);
    }

    fn sends_again(&self, _: StatusCode, is_session_lost: bool) -> bool {
        // Nothing was done, so the next session may be asked the same.
        is_session_lost
    }

    fn hear_of_other_tools(&self) {
        let method = "notifications/tools/list_changed".to_owned();
        let mut hear = self.hear.lock().unwrap_or_else(PoisonError::into_inner);
        hear.hear(Incoming::Notification { method, params: None });
    }

    fn is_patient(&self) -> bool {
        true
    }

    fn note_trouble(&self, why: Option<&str>) {
        self.link.note_trouble(why);
    }

    fn note_old(&self) {
        self.link.note_old();
    }

    fn lose(&self, how: Lost) {
        self.link.lose(how);
    }

    fn close(&self) {
        self.link.close();
    }

    async fn closed(&self) {
        self.link.closed().await;
    }
}
