//! Ends long-lived responses, such as SSE streams, when the credential they were opened with
//! expires or is revoked.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::response::HttpResponse;

#[derive(Clone, Default)]
pub(crate) struct CredentialLifetime {
    /// `None` if it never expires.
    pub(crate) expires_at: Option<Instant>,
    /// Cancelled when the configuration no longer has the credential.
    pub(crate) revoked: Option<CancellationToken>,
}

impl CredentialLifetime {
    pub(crate) fn lasting(seconds: u64, revoked: CancellationToken) -> Self {
        let expires_at = Instant::now().checked_add(Duration::from_secs(seconds));
        Self { expires_at, revoked: Some(revoked) }
    }

    pub(crate) fn limit_response(self, reply: HttpResponse) -> HttpResponse {
        if self.expires_at.is_none() && self.revoked.is_none() {
            return reply;
        }
        let ended = Box::pin(self.ended());
        reply.map(|body| Body::new(ExpiringBody { body, ended }))
    }

    async fn ended(self) {
        let expired = async {
            match self.expires_at {
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

struct ExpiringBody {
    body: Body,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl hyper::body::Body for ExpiringBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        // Bodies of this server never fail; treat an error as the end.
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.and_then(Result::ok).map(Ok))
    }
}
