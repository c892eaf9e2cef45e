//! Requests of the admin page and the access level that each requires.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HOST, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Uri;
use serde::Deserialize;

use crate::admin_page::workbenches::PageApproval;
use crate::auth::AccessLevel;
use crate::headers;
use crate::response::{HttpError, bad_request};
use mcp_workbench_serve::admin::AdminRequest;
use mcp_workbench_wire::code::INVALID_REQUEST;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageRequest {
    pub(super) to: u32,
    pub(super) ask: AdminRequest,
    /// An approval on the dashboard of this machine.
    #[serde(default)]
    pub(super) approval: Option<PageApproval>,
}

impl PageRequest {
    pub(crate) fn read(body: &Bytes) -> Result<Self, HttpError> {
        serde_json::from_slice(body).map_err(|error| {
            let message = format!("invalid request: {error}");
            bad_request(INVALID_REQUEST, &message)
        })
    }

    pub(crate) fn required_access(&self) -> AccessLevel {
        match &self.ask {
            AdminRequest::View
            | AdminRequest::Search { .. }
            | AdminRequest::Tools { .. }
            | AdminRequest::Unused => AccessLevel::Details,
            // These reveal or run the commands of servers, or the arguments of calls.
            AdminRequest::Findings
            | AdminRequest::Approvals
            | AdminRequest::Answer { .. }
            | AdminRequest::Act { .. }
            | AdminRequest::Call { .. }
            | AdminRequest::SignIn { .. } => AccessLevel::Operate,
        }
    }
}

/// Rejects requests that a browser could send from another web page.
pub(crate) fn check(head: &Parts) -> Result<(), HttpError> {
    if !headers::is_json(&head.headers) {
        let message = "Content-Type must be application/json";
        return Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, message));
    }
    if is_of_this_page(head) {
        return Ok(());
    }
    let message = "requests are only accepted from this workbench's own dashboard";
    Err(HttpError::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message))
}

/// `true` without an `Origin` header, or if it has the host and port that the request was sent to.
fn is_of_this_page(head: &Parts) -> bool {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let mut origins = head.headers.get_all(ORIGIN).iter();
    origins.all(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
        let authority = origin.as_ref().and_then(Uri::authority);
        authority.is_some_and(|at| host.is_some_and(|host| at.as_str().eq_ignore_ascii_case(host)))
    })
}
