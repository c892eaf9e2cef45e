//! Who asks: from the head of a request to the caller, or to what is said instead of an answer.

use hyper::StatusCode;
use hyper::http::request::Parts;

use crate::frontend::http::response::{Refusal, Reply};
use crate::frontend::http::{INVALID_REQUEST, origin};
use crate::gateway::Caller;

/// Who asks.
#[expect(clippy::result_large_err, reason = "it is the response itself, made once")]
pub(crate) fn caller(head: &Parts) -> Result<Caller, Reply> {
    if !origin::is_local(head) {
        let message = "only programs of this machine are served: Host and Origin, if there is one, \
                       must be a loopback address or localhost";
        let refusal = Refusal::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message);
        return Err(refusal.reply(None));
    }
    Ok(Caller::NOBODY)
}
