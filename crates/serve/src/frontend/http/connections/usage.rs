//! Which connections are used: those on which a request has come whose answer has not been taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tower::Service;

use crate::frontend::http::connections::table::Place;

/// A service that notes when its connection is used.
#[derive(Clone)]
pub(crate) struct Counted<S> {
    service: S,
    place: Arc<Place>,
}

impl<S> Counted<S> {
    /// Wraps the service of the connection that has this place.
    pub(crate) fn new(service: S, place: Arc<Place>) -> Self {
        Self { service, place }
    }
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

impl<S, B> Service<hyper::Request<B>> for Counted<S>
where
    S: Service<hyper::Request<B>, Response = Response>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: hyper::Request<B>) -> Self::Future {
        let begun = Use::begin(&self.place);
        let answer = self.service.call(request);
        Box::pin(
            async move { Ok(answer.await?.map(|body| Body::new(Answer { body, _use: begun }))) },
        )
    }
}

/// The body of an answer, with which the use of its connection ends.
struct Answer {
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
