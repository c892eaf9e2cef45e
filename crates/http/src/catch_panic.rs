//! Turns panics while handling a request into 500 responses.

use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use futures_util::FutureExt;
use hyper::StatusCode;

use crate::response::{HttpError, HttpResponse};
use mcp_workbench_wire::code::INTERNAL_ERROR;

pub(crate) fn catch_panics(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| catch_panic(next.run(request))))
}

/// Not an `async fn`, whose future would hold `answer` twice.
pub(crate) fn catch_panic(
    answer: impl Future<Output = HttpResponse>,
) -> impl Future<Output = HttpResponse> {
    AssertUnwindSafe(answer).catch_unwind().map(|answer| answer.unwrap_or_else(|_| lost()))
}

fn lost() -> HttpResponse {
    let message = "internal error";
    HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, message).into_response(None)
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use pretty_assertions::assert_eq;
    use tower::ServiceExt;

    use super::*;

    async fn panics() -> HttpResponse {
        assert!(std::env::args().len() == usize::MAX, "on purpose");
        HttpResponse::new(Body::from("not this"))
    }

    async fn code(reply: HttpResponse) -> i64 {
        assert_eq!(reply.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let said = to_bytes(reply.into_body(), 1000).await.unwrap();
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
        said["error"]["code"].as_i64().unwrap()
    }

    #[tokio::test]
    async fn a_panic_returns_500_without_affecting_others() {
        let router =
            Router::new().route("/panics", get(panics)).route("/fine", get(|| async { "fine" }));
        let router = catch_panics(router);
        let ask = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            router.clone().oneshot(request)
        };
        assert_eq!(code(ask("/panics").await.unwrap()).await, INTERNAL_ERROR);
        assert_eq!(ask("/fine").await.unwrap().status(), StatusCode::OK);
        assert_eq!(code(catch_panic(panics()).await).await, INTERNAL_ERROR);
    }
}
