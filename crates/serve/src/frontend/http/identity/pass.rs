//! For how long who asks may listen: a stream that has no end of its own ends with the token that it
//! was asked for with.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::frontend::http::response::Reply;

/// How long a token is good.
#[derive(Clone, Default)]
pub(crate) struct Pass {
    /// When it expires; `None`: never.
    pub(crate) until: Option<Instant>,
    /// Is cancelled when the configuration does not have it any more.
    pub(crate) revoked: Option<CancellationToken>,
}

impl Pass {
    /// One that is good for so many seconds, as long as the configuration is what it is.
    pub(crate) fn lasting(seconds: u64, revoked: CancellationToken) -> Self {
        let until = Instant::now().checked_add(Duration::from_secs(seconds));
        Self { until, revoked: Some(revoked) }
    }

    /// Makes an answer end when this pass does.
    pub(crate) fn bound(self, reply: Reply) -> Reply {
        if self.until.is_none() && self.revoked.is_none() {
            return reply;
        }
        let ended = Box::pin(self.ended());
        reply.map(|body| Body::new(Bound { body, ended }))
    }

    async fn ended(self) {
        let expired = async {
            match self.until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let revoked = async {
            match &self.revoked {
                Some(revoked) => revoked.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = expired => {}
            () = revoked => {}
        }
    }
}

/// A body that may end before its time.
struct Bound {
    body: Body,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl hyper::body::Body for Bound {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        // An error of the body is its end, and our own bodies have none.
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.and_then(Result::ok).map(Ok))
    }
}
