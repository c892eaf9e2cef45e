//! The answers to the requests of one connection, and the use of it: from when a request has come until
//! its answer has been taken.

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

use crate::frontend::http::connections::Peer;
use crate::frontend::http::connections::table::Place;
use crate::frontend::http::guard::caught;
use crate::frontend::http::response::Reply;
use crate::frontend::http::{ENDPOINT, Server};

/// All that a connection may ask for.
#[derive(Clone)]
pub(crate) struct Offer {
    /// Which path is whose.
    pub(crate) routes: Router,
    /// The server that messages of agents go to past the routes; `None`: all goes by these.
    pub(crate) messages: Option<Arc<Server>>,
}

/// The service of one connection.
pub(crate) struct Answering {
    pub(crate) from: Peer,
    pub(crate) offer: Offer,
}

impl hyper::service::Service<Request<Incoming>> for Answering {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let begun = Use::begin(&self.from.place);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.from.clone());
        let counted = |reply: Reply| reply.map(|body| Answer { body, _use: begun });
        // Routes cost more than most of what is done for a message.
        if let Some(server) = self.offer.messages.clone().filter(|_| is_message(&request)) {
            return Box::pin(
                async move { Ok(counted(caught(server.answer(request, None)).await)) },
            );
        }
        let routes = self.offer.routes.clone();
        Box::pin(async move { routes.oneshot(request).await.map(counted) })
    }
}

/// Returns `true` for a message to the endpoint of agents that is not a page's: those have more
/// headers in their answers.
fn is_message(request: &Request<Body>) -> bool {
    request.method() == Method::POST
        && request.uri().path() == ENDPOINT
        && !request.headers().contains_key(ORIGIN)
}

/// A request that is under way on a connection.
struct Use(Arc<Place>);

impl Use {
    fn begin(place: &Arc<Place>) -> Self {
        place.is_used(true);
        Self(Arc::clone(place))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.is_used(false);
    }
}

/// The body of an answer, with which the use of its connection ends.
pub(crate) struct Answer {
    body: Body,
    _use: Use,
}

impl hyper::body::Body for Answer {
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
    fn messages_of_pages_and_of_one_toolbox_go_by_the_routes() {
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
