//! The guard of answers: a fault of ours costs only the request in which it shows.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use hyper::StatusCode;

use crate::frontend::http::response::{Refusal, Reply};
use crate::wire::code::INTERNAL_ERROR;

/// Guards all answers of a router.
pub(crate) fn guarded(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| caught(next.run(request))))
}

/// Waits for an answer; where a panic loses it, the answer says that something went wrong.
pub(crate) async fn caught(answer: impl Future<Output = Reply>) -> Reply {
    let mut answer = pin!(answer);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(lost()))
    })
    .await
}

fn lost() -> Reply {
    let message = "something went wrong here";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, message).reply(None)
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use pretty_assertions::assert_eq;
    use tower::ServiceExt;

    use super::*;

    async fn panics() -> Reply {
        assert!(std::env::args().len() == usize::MAX, "on purpose");
        Reply::new(Body::from("not this"))
    }

    async fn code(reply: Reply) -> i64 {
        assert_eq!(reply.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let said = to_bytes(reply.into_body(), 1000).await.unwrap();
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
        said["error"]["code"].as_i64().unwrap()
    }

    #[tokio::test]
    async fn a_panic_is_answered_and_harms_nobody() {
        let router =
            Router::new().route("/panics", get(panics)).route("/fine", get(|| async { "fine" }));
        let router = guarded(router);
        let ask = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            router.clone().oneshot(request)
        };
        assert_eq!(code(ask("/panics").await.unwrap()).await, INTERNAL_ERROR);
        assert_eq!(ask("/fine").await.unwrap().status(), StatusCode::OK);
        assert_eq!(code(caught(panics()).await).await, INTERNAL_ERROR);
    }
}
