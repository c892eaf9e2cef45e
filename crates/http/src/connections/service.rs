//! The HTTP service of one connection. The connection counts as in use from the arrival of a
//! request until its response has been read.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::header::ORIGIN;
use hyper::{Method, Request, Response};
use tower::ServiceExt;

use crate::catch_panic::catch_panic;
use crate::connections::connection_info::ConnectionInfo;
use crate::connections::slots::ConnectionSlot;
use crate::endpoint;
use crate::paths::ENDPOINT;
use crate::response::HttpResponse;
use crate::server::HttpServer;

#[derive(Clone)]
pub(crate) struct RouteSet {
    pub(crate) routes: Router,
    /// Handles agents' messages directly, without routing. `None` routes all requests.
    pub(crate) messages: Option<Arc<HttpServer>>,
}

pub(crate) struct ConnectionService {
    pub(crate) from: ConnectionInfo,
    pub(crate) offer: RouteSet,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<TrackedBody>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let begun = InUseGuard::begin(&self.from.slot);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.from.clone());
        let counted = |reply: HttpResponse| reply.map(|body| TrackedBody { body, _use: begun });
        // Routing costs more than most of the work for a message.
        if let Some(server) = self.offer.messages.clone().filter(|_| is_message(&request)) {
            return Box::pin(async move {
                Ok(counted(catch_panic(endpoint::answer(&server, request, None)).await))
            });
        }
        let routes = self.offer.routes.clone();
        Box::pin(async move { routes.oneshot(request).await.map(counted) })
    }
}

/// Returns `true` for messages to the MCP endpoint, unless a web page sent them: responses to those
/// need CORS headers.
fn is_message(request: &Request<Body>) -> bool {
    request.method() == Method::POST
        && request.uri().path() == ENDPOINT
        && !request.headers().contains_key(ORIGIN)
}

struct InUseGuard(Arc<ConnectionSlot>);

impl InUseGuard {
    fn begin(slot: &Arc<ConnectionSlot>) -> Self {
        slot.set_in_use(true);
        Self(Arc::clone(slot))
    }
}

impl Drop for InUseGuard {
    fn drop(&mut self) {
        self.0.set_in_use(false);
    }
}

/// The body of a response. The connection is in use until it is dropped.
pub(crate) struct TrackedBody {
    body: Body,
    _use: InUseGuard,
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_posts_to_the_endpoint_bypass_the_routes() {
        let request = |method: Method, path: &str| {
            Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
        };
        assert!(is_message(&request(Method::POST, "/mcp")));
        assert!(is_message(&request(Method::POST, "/mcp?a=b")));
        for other in ["/mcp/", "/mcp/box", "/mcpx", "/", "/ready"] {
            assert!(!is_message(&request(Method::POST, other)), "{other}");
        }
        assert!(!is_message(&request(Method::GET, "/mcp")));
        let mut of_a_page = request(Method::POST, "/mcp");
        of_a_page.headers_mut().insert(ORIGIN, "http://localhost".parse().unwrap());
        assert!(!is_message(&of_a_page));
    }
}
