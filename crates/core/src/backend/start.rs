//! From nothing to a server that is running and listed, and back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::backend::death::{Cause, StderrTail, quoted};
use crate::backend::handshake::{self, Era, Greeting, Refusal, Unwelcome};
use crate::backend::lists::{self, Kinds};
use crate::backend::store::Found;
use crate::backend::switchboard::Switchboard;
use crate::backend::unanswered::{ENDED_TRANSPORT, OTHER_PATH, UNTRUSTED, WANTS_TOKEN, of_sign_in};
use crate::backend::upstream::Upstream;
use crate::backend::{Context, Reach, Spec, StartFailure, Urgency, listen, turns};
use crate::catalog::Listing;
use crate::observe::Secrets;
use crate::settings::Protocol;
use crate::wire::remote::Failure;
use crate::wire::server::Link;

/// How long the last lines of standard error are waited for.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The pauses in which a server over HTTP that was there before may come back.
const AWAY: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(900), Duration::from_millis(1800)];

/// How long a server waits for the one that was in its place before: calls may run long.
const HANDING_OVER: Duration = Duration::from_secs(10);

/// A server that has been started and listed.
pub(crate) struct Started {
    upstream: Upstream,
    pub(crate) greeting: Arc<Greeting>,
    pub(crate) link: Link,
    pub(crate) listing: Arc<Listing>,
}

impl Started {
    /// The way in which it was spoken to, which is tried first the next time.
    pub(crate) fn found(&self) -> Found {
        Found { era: self.greeting.era, is_old: self.link.is_old() }
    }

    /// Ends the server and says how it ended.
    pub(crate) async fn end(self) -> Cause {
        self.upstream.end(&self.link).await
    }

    /// Its process; a server over HTTP has none of ours.
    pub(crate) fn id(&self) -> Option<u32> {
        self.upstream.id()
    }

    /// Its last lines on standard error, as they come; a server over HTTP shows none.
    pub(crate) fn last_words(&self) -> Option<StderrTail> {
        self.upstream.last_words()
    }

    /// Resolves when the server's process has ended; a server over HTTP has none.
    pub(crate) async fn left(&mut self) {
        self.upstream.left().await;
    }
}

/// A server that could not be started.
pub(crate) struct Failed {
    /// Why, with what it said itself; for whom it was started.
    pub(crate) whole: Arc<StartFailure>,
    /// Why, without that, for everybody else.
    pub(crate) public: Arc<StartFailure>,
    /// Its last lines on standard error, if it got as far as to write any.
    pub(crate) words: Option<StderrTail>,
    /// `true` if it is not there at the moment, as a server is that is being restarted.
    is_away: bool,
}

impl From<StartFailure> for Failed {
    fn from(failure: StartFailure) -> Self {
        let failure = Arc::new(failure);
        Self { whole: Arc::clone(&failure), public: failure, words: None, is_away: false }
    }
}

impl Failed {
    /// The reason depends on whether the server's words may be told.
    fn new(reason: impl Fn(bool) -> String, hint: &str) -> Self {
        let [whole, public] =
            [true, false].map(|is_told| Arc::new(StartFailure::new(reason(is_told), hint)));
        Self { whole, public, words: None, is_away: false }
    }
}

/// The way in which a server is spoken to first by a process that has not started it yet: the one that
/// worked for another, else the era that costs less, which is the legacy one for a child, for that hears
/// what it does not know.
async fn first_way(spec: &Arc<Spec>, context: &Context) -> Found {
    if let Some(keeper) = &context.keeper
        && let Some(found) = keeper.way(spec).await
    {
        return found;
    }
    let era = match spec.reach {
        Reach::Stdio(_) => Era::Legacy,
        Reach::Http(_) => Era::Modern,
    };
    Found { era, is_old: false }
}

/// When a server may be started.
pub(crate) struct When {
    /// Not before this time.
    pub(crate) not_before: Option<Instant>,
    /// Not before this says that another one has gone.
    pub(crate) after: Option<watch::Receiver<bool>>,
    /// How urgent it is, which may rise.
    pub(crate) urgency: watch::Receiver<Urgency>,
}

impl When {
    /// Waits until then; the server's turn to start is still to be waited for.
    async fn has_come(&mut self, spec: &Spec) {
        if let Some(then) = self.not_before {
            sleep_until(then).await;
        }
        let Some(mut gone) = self.after.take() else { return };
        // One whose actor has ended has gone, too.
        if timeout(HANDING_OVER, gone.wait_for(|gone| *gone)).await.is_err() {
            let server = &spec.label;
            tracing::info!(server, "started beside the one before it, which is still in use");
        }
    }
}

/// Starts a server in the way that worked last, else in another one. A server over HTTP that was
/// there before and is away is given a moment to come back.
pub(crate) async fn start(
    spec: Arc<Spec>,
    context: Arc<Context>,
    board: Arc<Switchboard>,
    found: Option<Found>,
    mut when: When,
) -> Result<Started, Failed> {
    when.has_come(&spec).await;
    let mut pauses = AWAY.iter().copied().filter(|_| found.is_some());
    loop {
        let failed = match start_now(&spec, &context, &board, found, &when.urgency).await {
            Err(failed) if failed.is_away => failed,
            result => return result,
        };
        let Some(pause) = pauses.next() else { return Err(failed) };
        sleep(pause).await;
    }
}

async fn start_now(
    spec: &Arc<Spec>,
    context: &Arc<Context>,
    board: &Arc<Switchboard>,
    found: Option<Found>,
    urgency: &watch::Receiver<Urgency>,
) -> Result<Started, Failed> {
    let Found { era, is_old } = match found {
        Some(found) => found,
        None => first_way(spec, context).await,
    };
    if is_old {
        let way = Way { protocol: Protocol::Legacy, era: Era::Legacy, is_old: true };
        match attempt(spec, context, board, way, urgency).await {
            Ok(started) => return Ok(started),
            Err(Attempt::Refused(failed) | Attempt::Failed(failed)) if failed.is_away => {
                return Err(failed);
            }
            // It may have come to speak as others do.
            Err(_) => {}
        }
    }
    let protocol = spec.spoken();
    let way = Way { protocol, era, is_old: false };
    let first = match attempt(spec, context, board, way, urgency).await {
        Ok(started) => return Ok(started),
        Err(Attempt::Failed(failure)) => return Err(failure),
        Err(Attempt::Refused(first)) => first,
    };
    // One that refuses the first greeting may end of it, or of the second that followed; so each
    // gets a process that has heard nothing else.
    let alone = match (protocol, &spec.reach) {
        (Protocol::Auto, Reach::Stdio(_)) => [era.other(), era],
        _ => return Err(first),
    };
    for era in alone {
        let protocol = match era {
            Era::Legacy => Protocol::Legacy,
            Era::Modern => Protocol::Modern,
        };
        let way = Way { protocol, era, is_old: false };
        if let Ok(started) = attempt(spec, context, board, way, urgency).await {
            return Ok(started);
        }
    }
    // What the first attempt said is about the era that servers commonly speak.
    Err(first)
}

/// How a server is spoken to in one attempt.
#[derive(Clone, Copy)]
struct Way {
    protocol: Protocol,
    /// The era that comes first, where both may be tried.
    era: Era,
    /// `true` if it is known to speak HTTP with SSE.
    is_old: bool,
}

enum Attempt {
    /// The server does not take the greeting: it said so, or ended after a second one.
    Refused(Failed),
    /// Anything else.
    Failed(Failed),
}

impl Attempt {
    /// Redacts these secrets, which the server may have repeated.
    fn without(self, secrets: &Secrets) -> Self {
        let redacted = |Failed { whole, public, words, is_away }: Failed| {
            let [whole, public] = [whole, public].map(|failure| {
                let reason = secrets.redact_written(&failure.reason).into_owned();
                Arc::new(StartFailure { reason, ..(*failure).clone() })
            });
            Failed { whole, public, words, is_away }
        };
        match self {
            Self::Refused(failed) => Self::Refused(redacted(failed)),
            Self::Failed(failed) => Self::Failed(redacted(failed)),
        }
    }
}

async fn attempt(
    spec: &Spec,
    context: &Context,
    board: &Arc<Switchboard>,
    way: Way,
    urgency: &watch::Receiver<Urgency>,
) -> Result<Started, Attempt> {
    // A server that is there without us costs no start, and its time is its own.
    let mut turn = match spec.reach {
        Reach::Stdio(_) => context.turns.take(urgency.clone()).await,
        Reach::Http(_) => None,
    };
    let hear = {
        let (board, process) = (Arc::clone(board), board.begin_process());
        move |incoming| board.hear(process, incoming)
    };
    let opened = Upstream::open(spec, board.secrets(), context, way.is_old, hear).await;
    let (mut upstream, link) = opened.map_err(|failure| Attempt::Failed(failure.into()))?;
    let words = {
        let words = first_words(&link, way, spec, context, board);
        let words = timeout(spec.startup_timeout, words);
        let left = async {
            upstream.left().await;
            // What it still wrote is read first; a child of it may hold its output open.
            sleep(LAST_WORDS).await;
        };
        let given_away = turns::given_away();
        tokio::pin!(words, left, given_away);
        loop {
            tokio::select! {
                biased;
                words = &mut words => break words,
                () = &mut left => {
                    link.close();
                    break Ok(Err(Unwelcome::Ended));
                }
                () = &mut given_away, if turn.is_some() => turn = None,
            }
        }
    };
    drop(turn);
    let failure = match words {
        Ok(Ok((greeting, listing))) => {
            return Ok(Started { upstream, greeting, link, listing });
        }
        Ok(Err(failure)) => Some(failure),
        Err(_) => None,
    };
    // A server that ends may be noticed first by what can no longer be written to it.
    let has_ended = match failure {
        None => link.is_closed(),
        Some(_) => timeout(LAST_WORDS, link.closed()).await.is_ok(),
    };
    let last_words = upstream.last_words();
    let death = upstream.end(&link).await;
    let said = last_words.clone();
    let mut failed = explain(failure, has_ended.then_some(death), spec, last_words);
    let (Attempt::Refused(failure) | Attempt::Failed(failure)) = &mut failed;
    failure.words = said;
    Err(failed.without(board.secrets()))
}

async fn first_words(
    link: &Link,
    Way { protocol, era, .. }: Way,
    spec: &Spec,
    context: &Context,
    board: &Arc<Switchboard>,
) -> Result<(Arc<Greeting>, Arc<Listing>), Unwelcome> {
    let patience = spec.startup_timeout / 2;
    let told = spec.abilities.told();
    let greeting = handshake::begin(link, protocol, era, &told, patience).await?;
    let greeting = Arc::new(greeting);
    // Lists may change while they are read; so first the server is asked to tell, and what it told
    // before is forgotten.
    board.take_changed();
    if greeting.era == Era::Modern {
        let listening = listen::listen(link, &greeting, board).await;
        let (link, board) = (link.clone(), Arc::clone(board));
        context.tasks.spawn(listen::keep(listening, link, Arc::clone(&greeting), board));
    }
    let listing = lists::read(link, &greeting, &Listing::default(), Kinds::ALL, &spec.label)
        .await
        .map_err(|unread| {
            if unread.wants_sign_in { Unwelcome::SignIn } else { Unwelcome::Confused(unread.why) }
        })?;
    Ok((greeting, Arc::new(listing)))
}

fn explain(
    words: Option<Unwelcome>,
    death: Option<Cause>,
    spec: &Spec,
    stderr: Option<StderrTail>,
) -> Attempt {
    let Some(stderr) = stderr else {
        return explain_remote(words, spec);
    };
    let words_of = |reason: String| {
        let tail = stderr.text();
        move |is_told| quoted(&reason, &tail, is_told)
    };
    let by_hand =
        "run its command by hand to see what is missing (a package, a variable in `env`, a folder)";
    if let Some(death) = death {
        let how = match &words {
            Some(Unwelcome::Refused(Refusal { message, .. })) => {
                format!("it refused the connection ({message}), and ended")
            }
            _ => "it ended before it was ready".to_owned(),
        };
        let failed = Failed::new(|is_told| format!("{how}: {}", death.told(is_told)), by_hand);
        return match words {
            Some(Unwelcome::Refused(_)) => Attempt::Refused(failed),
            _ => Attempt::Failed(failed),
        };
    }
    match words {
        Some(Unwelcome::Refused(Refusal { message, .. })) => Attempt::Refused(Failed::new(
            words_of(format!("it refused the connection: {message}")),
            by_hand,
        )),
        Some(Unwelcome::Confused(message)) => Attempt::Failed(Failed::new(
            words_of(format!("it does not speak MCP as expected: {message}")),
            by_hand,
        )),
        // A process of ours is signed in to by nobody.
        None | Some(Unwelcome::Ended | Unwelcome::SignIn) => Attempt::Failed(Failed::new(
            words_of(format!("it was not ready within {} ms", spec.startup_timeout.as_millis())),
            "try again (a first start may have been downloading), or raise `startupTimeoutMs`",
        )),
    }
}

/// A server that takes nobody who has not signed in.
fn wants_sign_in(spec: &Spec) -> StartFailure {
    let (reason, hint) = of_sign_in(spec.reach.login().map(|login| &**login));
    StartFailure { reason, hint, wants_sign_in: true }
}

/// Why a server over HTTP did not start.
fn explain_remote(words: Option<Unwelcome>, spec: &Spec) -> Attempt {
    let timed_out = || format!("it was not ready within {} ms", spec.startup_timeout.as_millis());
    let is_away = matches!(
        &words,
        Some(Unwelcome::Refused(Refusal {
            failure: Some(Failure::Unreachable | Failure::HttpStatus(502..=504)),
            ..
        }))
    );
    let (reason, hint) = match words {
        Some(Unwelcome::Refused(Refusal { message, failure, .. })) => match failure {
            Some(Failure::Unreachable) => {
                (message, "check that the server runs, and the `url` of its entry")
            }
            Some(Failure::Untrusted) => (message, UNTRUSTED),
            Some(Failure::SignIn) => return Attempt::Failed(wants_sign_in(spec).into()),
            Some(Failure::HttpStatus(401 | 403)) => (message, WANTS_TOKEN),
            Some(Failure::HttpStatus(410)) => (message, ENDED_TRANSPORT),
            Some(Failure::HttpStatus(300..500)) => (message, OTHER_PATH),
            Some(Failure::HttpStatus(_) | Failure::Broken) => {
                (message, "check the `url` of its entry, and what the server says in its log")
            }
            None => (
                format!("it refused the connection: {message}"),
                "check the `url` and the `headers` of its entry",
            ),
        },
        Some(Unwelcome::Confused(message)) => (
            format!("it does not speak MCP as expected: {message}"),
            "check that its `url` is the one for MCP",
        ),
        Some(Unwelcome::SignIn) => return Attempt::Failed(wants_sign_in(spec).into()),
        Some(Unwelcome::Ended) => {
            ("it ended the session at once".to_owned(), "see what the server says in its log")
        }
        None => (timed_out(), "try again, or raise `startupTimeoutMs`"),
    };
    let failure = StartFailure::new(reason, hint.to_owned());
    Attempt::Failed(Failed { is_away, ..failure.into() })
}
