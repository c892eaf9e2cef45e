//! Questions of the page, and who may ask them.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HOST, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Uri;
use serde::Deserialize;

use crate::desk::Ask;
use crate::frontend::http::headers;
use crate::frontend::http::identity::Sight;
use crate::frontend::http::page::{Page, Workbenches, private};
use crate::frontend::http::response::{self, Refusal, Reply, bad_request};
use crate::wire::code::INVALID_REQUEST;

/// A question of the page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// The process of the workbench that is asked.
    to: u32,
    ask: Ask,
}

impl Asked {
    /// Reads a question.
    pub(crate) fn read(body: &Bytes) -> Result<Self, Refusal> {
        serde_json::from_slice(body).map_err(|error| {
            let message = format!("the question cannot be understood: {error}");
            bad_request(INVALID_REQUEST, &message)
        })
    }

    /// How much one must be able to see to ask this.
    pub(crate) fn needs(&self) -> Sight {
        match &self.ask {
            Ask::View | Ask::Search { .. } | Ask::Tools { .. } | Ask::Unused => Sight::Words,
            // The file says how servers are started.
            Ask::Findings | Ask::Act { .. } | Ask::Call { .. } | Ask::SignIn { .. } => Sight::Acts,
        }
    }
}

/// Refuses what another page may have sent, or anything that is no question of this one.
pub(crate) fn check(head: &Parts) -> Result<(), Refusal> {
    if !headers::is_json(&head.headers) {
        let message = "Content-Type must be application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, message));
    }
    if is_of_this_page(head) {
        return Ok(());
    }
    let message = "questions are taken from the page of this workbench alone";
    Err(Refusal::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message))
}

/// Returns `true` if the request comes from no page, or from ours: one at the address that it went to.
fn is_of_this_page(head: &Parts) -> bool {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let mut origins = head.headers.get_all(ORIGIN).iter();
    origins.all(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
        let authority = origin.as_ref().and_then(Uri::authority);
        authority.is_some_and(|at| host.is_some_and(|host| at.as_str().eq_ignore_ascii_case(host)))
    })
}

impl<W: Workbenches> Page<W> {
    /// Answers a question that may be asked.
    pub(crate) async fn answer(&self, asked: Asked) -> Reply {
        let answer = self.workbenches.ask(asked.to, asked.ask).await;
        private(response::message(StatusCode::OK, answer.into()))
    }
}
