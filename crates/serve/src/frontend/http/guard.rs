//! The guard of answers: a fault of ours costs only the request in which it shows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use hyper::StatusCode;
use pin_project_lite::pin_project;

use crate::frontend::http::response::{Refusal, Reply};
use crate::wire::code::INTERNAL_ERROR;

/// Guards all answers of a router.
pub(crate) fn guarded(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| caught(next.run(request))))
}

pin_project! {
    /// An answer that is guarded.
    pub(crate) struct Caught<F> {
        #[pin]
        answer: F,
    }
}

/// Guards an answer: where a panic loses it, it says that something went wrong.
///
/// An `async fn` would have a place for what it is given beside the place where that runs.
pub(crate) fn caught<F: Future<Output = Reply>>(answer: F) -> Caught<F> {
    Caught { answer }
}

impl<F: Future<Output = Reply>> Future for Caught<F> {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let answer = self.project().answer;
        let polled = catch_unwind(AssertUnwindSafe(|| answer.poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(lost()))
    }
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
