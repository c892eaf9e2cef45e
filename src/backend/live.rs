//! A link to a running server: what calls go through.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::backend::deadline::Deadlines;
use crate::backend::{Error, Listed, Outcome};
use crate::policy::Permit;
use crate::raw::Raw;
use crate::wire::server::{Link, RequestError, Step};

/// How long a call waits to be told what its server died of.
const POST_MORTEM: Duration = Duration::from_secs(2);

/// One call of one tool.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The arguments as the agent wrote them.
    pub arguments: Option<&'a Raw>,
    /// What of the agent's `_meta` goes on to the server.
    pub meta: &'a [(String, Raw)],
    /// Where the `params` of the server's progress notifications go.
    pub progress: Option<&'a mpsc::Sender<Raw>>,
    /// How long the server may neither answer nor show progress.
    pub timeout: Duration,
}

/// A link to a running server; clones are the same link.
#[derive(Clone)]
pub struct Live(Arc<Inner>);

struct Inner {
    link: Link,
    /// What every request to this server carries in `_meta`, by the revision it speaks.
    meta: Vec<(String, Raw)>,
    listed: watch::Receiver<Listed>,
    /// What the server died of, once that is known.
    death: watch::Receiver<Option<Arc<str>>>,
    deadlines: Arc<Deadlines>,
    usage: Mutex<Usage>,
}

/// How much a link is used.
#[derive(Debug)]
struct Usage {
    running: usize,
    since: Instant,
    is_closing: bool,
}

/// What a link is made of.
pub(crate) struct Parts {
    pub(crate) link: Link,
    pub(crate) meta: Vec<(String, Raw)>,
    pub(crate) listed: watch::Receiver<Listed>,
    pub(crate) death: watch::Receiver<Option<Arc<str>>>,
    pub(crate) deadlines: Arc<Deadlines>,
}

impl Live {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { link, meta, listed, death, deadlines } = parts;
        let usage = Usage { running: 0, since: Instant::now(), is_closing: false };
        Self(Arc::new(Inner { link, meta, listed, death, deadlines, usage: Mutex::new(usage) }))
    }

    /// What the server last said it has.
    pub fn listed(&self) -> Listed {
        self.0.listed.borrow().clone()
    }

    fn usage<T>(&self, f: impl FnOnce(&mut Usage) -> T) -> T {
        f(&mut self.0.usage.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts as a use of the link while the result lives; `None` when it is being closed.
    pub(crate) fn begin_use(&self) -> Option<Use> {
        self.usage(|usage| {
            (!usage.is_closing).then(|| {
                usage.running += 1;
                Use(self.clone())
            })
        })
    }

    /// Since when the link has been unused; `None` while it is in use.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.usage(|usage| (usage.running == 0).then_some(usage.since))
    }

    /// Lets no more calls through, unless one is running.
    pub(crate) fn close_if_unused(&self) -> bool {
        self.usage(|usage| {
            usage.is_closing |= usage.running == 0;
            usage.is_closing
        })
    }

    /// Calls the permitted tool and waits for its answer; `None` when the server was gone before
    /// anything was sent to it. Dropping the future cancels the call at the server.
    pub(crate) async fn call(
        &self,
        permit: &Permit,
        call: Call<'_>,
    ) -> Result<Option<Outcome>, Error> {
        let name = Raw::encode(&permit.tool().tool);
        let mut params = vec![("name", &name)];
        params.extend(call.arguments.map(|arguments| ("arguments", arguments)));
        let meta: Vec<_> = call.meta.iter().chain(&self.0.meta).cloned().collect();
        let mut deadline = self.0.deadlines.add(Instant::now() + call.timeout);
        let request = self.0.link.request("tools/call", &params, &meta, true);
        let request = tokio::select! {
            biased;
            request = request => request,
            () = deadline.passed() => return Err(Error::TimedOut(call.timeout)),
        };
        let mut request = match request {
            Ok(request) => request,
            Err(RequestError::NotSent) => return Ok(None),
            Err(error) => return Err(self.failure(error).await),
        };
        loop {
            let step = tokio::select! {
                biased;
                step = request.next() => step,
                () = deadline.passed() => return Err(Error::TimedOut(call.timeout)),
            };
            match step {
                Step::Progress(params) => {
                    deadline.move_to(Instant::now() + call.timeout);
                    if let Some(progress) = call.progress {
                        // An agent that is gone takes no progress; its call ends elsewhere.
                        let _ = progress.send(params).await;
                    }
                }
                Step::Done(Ok(outcome)) => return Ok(Some(outcome)),
                Step::Done(Err(error)) => return Err(self.failure(error).await),
            }
        }
    }

    async fn failure(&self, error: RequestError) -> Error {
        match error {
            RequestError::Oversized(length) => Error::Oversized(length),
            RequestError::NotSent | RequestError::Closed => {
                Error::Died(self.cause_of_death().await)
            }
        }
    }

    /// Waits until the server has been buried, and says what it died of.
    pub(crate) async fn cause_of_death(&self) -> Arc<str> {
        let mut death = self.0.death.clone();
        let known = death.wait_for(Option::is_some);
        let cause = match timeout(POST_MORTEM, known).await {
            Ok(Ok(cause)) => cause.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        cause.unwrap_or_else(|| "it closed its output".into())
    }
}

/// One use of a link; ends when it is dropped.
pub(crate) struct Use(Live);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.usage(|usage| {
            usage.running -= 1;
            usage.since = Instant::now();
        });
    }
}
