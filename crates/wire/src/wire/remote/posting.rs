//! Messages that a server over HTTP has certainly not taken, which are sent again after a while.
//!
//! That is so where no connection came about, and where the server says when to come again. A server
//! that is being restarted so costs a pause and no call. Anything else may have been taken, and is
//! never sent again.

use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Method, Response, StatusCode, Url};
use tokio::time::sleep;

use crate::raw::Raw;
use crate::wire::mailbox::RequestError;
use crate::wire::remote::receiver::Receiver;
use crate::wire::remote::{Remote, Sent, failure, lock};

/// The pauses before a server is tried again to which there is no connection.
const UNREACHABLE: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];
/// How often a message is sent again because the server wanted it later, and the longest time it may
/// want: whoever asked waits.
const LATER: u32 = 2;
const LONGEST_WISH: Duration = Duration::from_secs(5);

impl<T: Receiver> Remote<T> {
    /// Posts one message, once more after a while where it certainly was not taken.
    pub(super) async fn post(&self, sent: &Sent, url: &Url) -> reqwest::Result<Response> {
        // Whoever greets a server has somebody waiting for all servers of a toolbox.
        let is_patient = sent.id.is_some() && !sent.is_greeting() && self.to.is_patient();
        let (mut pauses, mut later) = (UNREACHABLE.iter().copied(), 0);
        loop {
            let (headers, body) = (self.headers_of(sent), Some(sent.body.clone()));
            let answer = self.send_to(url, Method::POST, headers, body).await;
            let pause = match &answer {
                Err(error) if error.is_connect() => pauses.next(),
                Ok(response) if later < LATER => {
                    later += 1;
                    wish(response)
                }
                Ok(_) | Err(_) => None,
            };
            let Some(pause) = pause.filter(|_| is_patient) else { return answer };
            tracing::debug!(server = self.label, ?pause, "a message was not taken and waits");
            self.note_untaken(sent, true);
            sleep(pause).await;
            self.note_untaken(sent, false);
        }
    }

    fn note_untaken(&self, Sent { id, .. }: &Sent, is_untaken: bool) {
        let Some(id) = id.clone().map(Raw::into_bytes) else { return };
        if let Some(running) = lock(&self.running).get_mut(&id) {
            running.is_untaken = is_untaken;
        }
    }

    /// Tells whoever waits for a request that has certainly not been taken that it was not sent.
    pub(super) async fn give_back_untaken(&self) {
        let untaken: Vec<Raw> = {
            let running = lock(&self.running);
            running.values().filter(|one| one.is_untaken).map(|one| one.id.clone()).collect()
        };
        for id in untaken {
            self.to.settle(&id, Err(RequestError::NotSent)).await;
        }
    }

    /// Passes on what came of an exchange, and notes whether the server is there.
    pub(super) fn noted(&self, answer: reqwest::Result<Response>) -> reqwest::Result<Response> {
        match &answer {
            Ok(response) => {
                let status = response.status();
                let is_away = matches!(status.as_u16(), 502..=504);
                let why = is_away.then(|| format!("it answers with HTTP status {status}"));
                self.to.note_trouble(why.as_deref());
            }
            Err(error) if error.is_connect() => {
                let why = failure::why(error);
                self.to.note_trouble(Some(&format!("it cannot be reached: {why}")));
            }
            Err(_) => {}
        }
        answer
    }
}

/// The time after which a server wants a message again that it has not taken (RFC 9110 §10.2.3);
/// `None`: it names none, or one that is too long to wait for.
fn wish(response: &Response) -> Option<Duration> {
    let is_refused = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let value = response.headers().get(RETRY_AFTER).filter(|_| is_refused)?;
    let wish = Duration::from_secs(value.to_str().ok()?.trim().parse().ok()?);
    (wish <= LONGEST_WISH).then_some(wish)
}

#[cfg(test)]
mod tests;
