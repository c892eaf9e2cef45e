//! A link to a running server: what calls go through.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::backend::agent::LogLevel;
use crate::backend::deadline::Deadlines;
use crate::backend::death::Cause;
use crate::backend::handshake::{Era, Greeting};
use crate::backend::question::Event;
use crate::backend::switchboard::{Entry, Switchboard};
use crate::backend::users::Users;
use crate::backend::{Error, Listed, Outcome, Unanswered, events};
use crate::login::SignIn;
use crate::raw::{Member, Raw};
use crate::wire::code::INTERNAL_ERROR;
use crate::wire::incoming::error_object;
use crate::wire::server::{Link, RequestError, Step};

/// How long a call waits to be told what its server died of.
const POST_MORTEM: Duration = Duration::from_secs(2);

/// How long a server may take to answer what is asked of it beside its work.
const SETTLING: Duration = Duration::from_secs(10);
/// One request that is passed on to a server.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The members of its `params`, less `_meta`, and less a tool's name.
    pub params: &'a [(&'a str, &'a Raw)],
    /// The members of the agent's `_meta` that go on to the server.
    pub meta: &'a [Member],
    /// The level of the server's log that is wanted in it.
    pub log: LogLevel,
    /// Where the server's progress goes.
    pub events: Option<&'a events::Sender>,
    /// How long it may take.
    pub patience: Patience,
    /// Where it is noted that it goes to its server; `None`: nobody wants to know.
    pub sent: Option<&'a AtomicBool>,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long the server may neither answer nor show progress.
    pub quiet: Duration,
    /// How long it may take in all, with all its progress and questions.
    pub in_all: Duration,
}

impl Patience {
    /// Why a call ends whose time is over, where the last moment it could have was `last`.
    fn error(self, last: Instant) -> Error {
        if last <= Instant::now() {
            return Error::TookTooLong(self.in_all);
        }
        Error::TimedOut(self.quiet)
    }
}

/// A link to a running server; clones are the same link.
#[derive(Clone)]
pub struct Live(Arc<Inner>);

struct Inner {
    link: Link,
    greeting: Arc<Greeting>,
    listed: watch::Receiver<Listed>,
    /// The server's death, once it is known.
    death: watch::Receiver<Option<Arc<Death>>>,
    deadlines: Arc<Deadlines>,
    is_remote: bool,
    login: Option<Arc<SignIn>>,
    usage: Mutex<Usage>,
    /// Told when nobody uses the link any more.
    unused: Notify,
}

/// The end of a server, and who may hear what it said to it.
pub(crate) struct Death {
    pub(crate) cause: Cause,
    /// The principals that have used it; `None`: all that there are.
    pub(crate) users: Option<Users>,
}

/// How much a link is used.
#[derive(Debug)]
struct Usage {
    running: usize,
    since: Instant,
    is_closing: bool,
}

/// The parts that a link is made of.
pub(crate) struct Parts {
    pub(crate) link: Link,
    pub(crate) greeting: Arc<Greeting>,
    pub(crate) listed: watch::Receiver<Listed>,
    pub(crate) death: watch::Receiver<Option<Arc<Death>>>,
    pub(crate) deadlines: Arc<Deadlines>,
    /// Set if the server is spoken to over HTTP.
    pub(crate) is_remote: bool,
    /// The login at it, where one signs in.
    pub(crate) login: Option<Arc<SignIn>>,
}

impl Live {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { link, greeting, listed, death, deadlines, is_remote, login } = parts;
        let usage = Usage { running: 0, since: Instant::now(), is_closing: false };
        let (usage, unused) = (Mutex::new(usage), Notify::new());
        Self(Arc::new(Inner {
            link,
            greeting,
            listed,
            death,
            deadlines,
            is_remote,
            login,
            usage,
            unused,
        }))
    }

    /// The server's last listing.
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

    /// The link with a use of it, for whoever has waited for it.
    pub(crate) fn held(self) -> Used {
        let in_use = self.begin_use();
        (self, in_use)
    }

    /// Since when the link has been unused; `None` while it is in use.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        self.usage(|usage| (usage.running == 0).then_some(usage.since))
    }

    /// Resolves when nobody uses the link.
    pub(crate) async fn unused(&self) {
        while self.idle_since().is_none() {
            self.0.unused.notified().await;
        }
    }

    /// Lets no more calls through, unless one is running.
    pub(crate) fn close_if_unused(&self) -> bool {
        self.usage(|usage| {
            usage.is_closing |= usage.running == 0;
            usage.is_closing
        })
    }

    /// Returns `true` if the server is spoken to over HTTP.
    pub(crate) fn is_remote(&self) -> bool {
        self.0.is_remote
    }

    /// The name that the server gives itself.
    pub fn info(&self) -> Option<Raw> {
        self.0.greeting.info.clone()
    }

    /// Which revisions the server speaks.
    pub fn era(&self) -> Era {
        self.0.greeting.era
    }

    /// Asks something of the server and passes its result over; an error is what else there was.
    pub(crate) async fn outcome(
        &self,
        method: &str,
        params: &[(&str, &Raw)],
    ) -> Result<(), Outcome> {
        let asked = async {
            match self.0.link.request(method, params, &[], false).await {
                Ok(mut asked) => asked.done().await,
                Err(error) => Err(error),
            }
        };
        let failed = |why| Err(Outcome::Error(error_object(INTERNAL_ERROR, why, None)));
        match timeout(SETTLING, asked).await {
            Ok(Ok(Outcome::Result(_))) => Ok(()),
            Ok(Ok(error @ Outcome::Error(_))) => Err(error),
            Ok(Err(_)) => failed("the server ended"),
            Err(_) => failed("the server does not answer"),
        }
    }

    /// Returns `true` if the server can be told how much of its log is wanted.
    pub(crate) fn keeps_log(&self) -> bool {
        self.era() == Era::Legacy && self.0.greeting.abilities.logging.is_some()
    }

    /// Asks a legacy server for what its agents want to hear of its log.
    pub(crate) async fn pass_on_log_level(&self, board: &Switchboard) {
        if self.keeps_log()
            && let Some(level) = board.take_wanted_log()
            && self.outcome("logging/setLevel", &[("level", &level)]).await.is_err()
        {
            tracing::debug!("a server does not take the log level");
        }
    }

    /// Tells the server something.
    pub(crate) fn notify(&self, method: &str, params: Option<Raw>) {
        self.0.link.notify(method, params);
    }

    /// Makes a request and waits for its answer; `None` when the server was gone before anything
    /// was sent to it. Dropping the future cancels the request at the server.
    ///
    /// Here and on the way here, what is rarely waited for is boxed: every call has a future with
    /// room for all that it may wait for.
    pub(crate) async fn request(
        &self,
        method: &str,
        first: Option<(&str, &Raw)>,
        call: &Call<'_>,
        entry: &Entry,
    ) -> Result<Option<Outcome>, Error> {
        let params: Vec<_> = first.into_iter().chain(call.params.iter().copied()).collect();
        let mut meta: Vec<_> = call.meta.iter().chain(&self.0.greeting.meta).cloned().collect();
        if self.era() == Era::Modern
            && let Some(level) = call.log.wanted()
        {
            meta.push(("io.modelcontextprotocol/logLevel".into(), level.encode()));
        }
        let Patience { quiet, in_all } = call.patience;
        let last = Instant::now() + in_all;
        let mut deadline = self.0.deadlines.add(last.min(Instant::now() + quiet));
        let request = self.0.link.request(method, &params, &meta, true);
        let request = tokio::select! {
            biased;
            request = request => request,
            () = deadline.passed() => return Err(call.patience.error(last)),
        };
        drop((params, meta));
        let mut request = match request {
            Ok(request) => request.of(call.events.and_then(events::Sender::cancellation)),
            Err(RequestError::NotSent) => return Ok(None),
            Err(error) => return Err(Box::pin(self.failure(error, entry)).await),
        };
        loop {
            let step = tokio::select! {
                biased;
                step = request.next() => step,
                () = deadline.passed() => {
                    // A person who is asked something may take their time.
                    match entry.patient_since().map(|since| last.min(since + quiet)) {
                        Some(until) if until > Instant::now() => deadline.move_to(until),
                        _ => return Err(call.patience.error(last)),
                    }
                    continue;
                }
            };
            match step {
                Step::Progress(params) => {
                    deadline.move_to(last.min(Instant::now() + quiet));
                    if let Some(events) = call.events {
                        // An agent that is gone takes no progress; its call ends elsewhere.
                        let _ = Box::pin(events.send(Event::Progress(params))).await;
                    }
                }
                Step::Done(Ok(Outcome::Error(error))) if self.0.is_remote => {
                    return match Unanswered::of(&error, self.0.login.as_deref()) {
                        Some(unanswered) => Err(Error::Unanswered(Arc::new(unanswered))),
                        None => Ok(Some(Outcome::Error(error))),
                    };
                }
                Step::Done(Ok(outcome)) => return Ok(Some(outcome)),
                // A server over HTTP may turn a request away with the session it belongs to.
                Step::Done(Err(RequestError::NotSent)) => return Ok(None),
                Step::Done(Err(error)) => return Err(Box::pin(self.failure(error, entry)).await),
            }
        }
    }

    async fn failure(&self, error: RequestError, entry: &Entry) -> Error {
        match error {
            RequestError::Oversized(length) => Error::Oversized(length),
            RequestError::NotSent | RequestError::Closed => {
                let death = self.death().await;
                let Some(Death { cause, users }) = death.as_deref() else {
                    return Error::Died("it closed its output".into());
                };
                let is_told = users.as_ref().is_none_or(|users| users.are_only(entry.principal()));
                Error::Died(cause.told(is_told).into())
            }
        }
    }

    /// Waits until the server has been buried, and returns what is known of its death.
    pub(crate) async fn death(&self) -> Option<Arc<Death>> {
        let mut death = self.0.death.clone();
        let known = death.wait_for(Option::is_some);
        match timeout(POST_MORTEM, known).await {
            Ok(Ok(death)) => death.clone(),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

/// One use of a link; ends when it is dropped.
pub(crate) struct Use(Live);

/// A link, and a use of it, without which it could be closed before it is used; none where it is being
/// closed already.
pub(crate) type Used = (Live, Option<Use>);

impl Drop for Use {
    fn drop(&mut self) {
        let is_last = self.0.usage(|usage| {
            usage.running -= 1;
            usage.since = Instant::now();
            usage.running == 0
        });
        if is_last {
            self.0.0.unused.notify_one();
        }
    }
}
