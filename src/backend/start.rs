//! From nothing to a server that is running and listed, and back.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::backend::death::{self, StderrTail};
use crate::backend::handshake::{self, Era, Greeting, Unwelcome};
use crate::backend::launch::{self, Process};
use crate::backend::lists::{self, Kinds};
use crate::backend::switchboard::Switchboard;
use crate::backend::{Context, Spec, StartFailure, listen};
use crate::catalog::Listing;
use crate::config::Protocol;
use crate::wire::server::{self, Link};

/// How long the last lines of standard error are waited for.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// A server that has been started and listed.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) greeting: Arc<Greeting>,
    pub(crate) link: Link,
    pub(crate) stderr: StderrTail,
    pub(crate) drain: JoinHandle<()>,
    pub(crate) listing: Arc<Listing>,
}

impl Started {
    /// Ends the server and says how it ended.
    pub(crate) async fn end(self) -> String {
        let Self { process, link, stderr, drain, .. } = self;
        link.close_input();
        let status = process.end().await;
        // A child of the server that has left its group may hold its output open.
        link.close();
        hear_out(drain).await;
        death::describe(status, &stderr)
    }
}

/// Waits for the last lines of standard error, which a child of the server may hold open.
async fn hear_out(mut drain: JoinHandle<()>) {
    if timeout(LAST_WORDS, &mut drain).await.is_err() {
        drain.abort();
    }
}

/// Starts a server in the era that worked last, else in the other one.
pub(crate) async fn start(
    spec: Arc<Spec>,
    context: Arc<Context>,
    board: Arc<Switchboard>,
    era: Era,
    not_before: Option<Instant>,
) -> Result<Started, StartFailure> {
    if let Some(then) = not_before {
        sleep_until(then).await;
    }
    let first = match attempt(&spec, &context, &board, spec.protocol, era).await {
        Ok(started) => return Ok(started),
        Err(Attempt::Failed(failure)) => return Err(failure),
        Err(Attempt::Refused(first)) => first,
    };
    // One that refuses the first greeting may end of it, or of the second that followed; so each
    // gets a process that has heard nothing else.
    let alone = match spec.protocol {
        Protocol::Auto => [era.other(), era],
        Protocol::Legacy | Protocol::Modern => return Err(first),
    };
    for era in alone {
        let protocol = match era {
            Era::Legacy => Protocol::Legacy,
            Era::Modern => Protocol::Modern,
        };
        if let Ok(started) = attempt(&spec, &context, &board, protocol, era).await {
            return Ok(started);
        }
    }
    // What the first attempt said is about the era that servers commonly speak.
    Err(first)
}

enum Attempt {
    /// The server does not take the greeting: it said so, or ended after a second one.
    Refused(StartFailure),
    /// Anything else.
    Failed(StartFailure),
}

async fn attempt(
    spec: &Spec,
    context: &Context,
    board: &Arc<Switchboard>,
    protocol: Protocol,
    era: Era,
) -> Result<Started, Attempt> {
    let (mut process, streams) =
        launch::spawn(&spec.launch, &context.environment, context.program.as_deref())
            .map_err(Attempt::Failed)?;
    process.guard_with(&context.guard);
    let environment = context.environment.for_launch(&spec.launch);
    let inherited = environment.filter_map(|(key, value)| key.to_str().zip(value.to_str()));
    let own = spec.launch.env.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let stderr = StderrTail::new(inherited.chain(own));
    let drain = context.tasks.spawn(stderr.clone().drain(streams.stderr, spec.label.clone()));
    let hear = {
        let board = Arc::clone(board);
        move |incoming| board.hear(incoming)
    };
    let link = server::connect(
        streams.stdout,
        streams.stdin,
        spec.max_message_bytes,
        &spec.label,
        hear,
        &context.tasks,
    );
    let words = first_words(&link, protocol, era, spec, context, board);
    let words = timeout(spec.startup_timeout, words);
    let left = async {
        process.left().await;
        // What it still wrote is read first; a child of it may hold its output open.
        sleep(LAST_WORDS).await;
    };
    let words = tokio::select! {
        biased;
        words = words => words,
        () = left => {
            link.close();
            Ok(Err(Unwelcome::Ended))
        }
    };
    let failure = match words {
        Ok(Ok((greeting, listing))) => {
            return Ok(Started { process, greeting, link, stderr, drain, listing });
        }
        Ok(Err(failure)) => Some(failure),
        Err(_) => None,
    };
    // A server that ends may be noticed first by what can no longer be written to it.
    let has_ended = match failure {
        None => link.is_closed(),
        Some(_) => timeout(LAST_WORDS, link.closed()).await.is_ok(),
    };
    link.close_input();
    let status = process.end().await;
    link.close();
    hear_out(drain).await;
    Err(explain(failure, has_ended.then(|| death::describe(status, &stderr)), spec, &stderr))
}

async fn first_words(
    link: &Link,
    protocol: Protocol,
    era: Era,
    spec: &Spec,
    context: &Context,
    board: &Arc<Switchboard>,
) -> Result<(Arc<Greeting>, Arc<Listing>), Unwelcome> {
    let patience = spec.startup_timeout / 2;
    let greeting = handshake::begin(link, protocol, era, &spec.capabilities, patience).await?;
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
        .map_err(Unwelcome::Confused)?;
    Ok((greeting, Arc::new(listing)))
}

fn explain(
    words: Option<Unwelcome>,
    death: Option<String>,
    spec: &Spec,
    stderr: &StderrTail,
) -> Attempt {
    let with_tail = |reason: String| match stderr.text() {
        tail if tail.is_empty() => reason,
        tail => format!("{reason}; the last lines of its standard error:\n{tail}"),
    };
    let run_by_hand = || {
        "run its command by hand to see what is missing (a package, a variable in `env`, a folder)"
            .to_owned()
    };
    if let Some(death) = death {
        let failure = StartFailure {
            reason: format!("it ended before it was ready: {death}"),
            hint: run_by_hand(),
        };
        return match words {
            Some(Unwelcome::Refused(_)) => Attempt::Refused(failure),
            _ => Attempt::Failed(failure),
        };
    }
    match words {
        Some(Unwelcome::Refused(message)) => Attempt::Refused(StartFailure {
            reason: with_tail(format!("it refused the connection: {message}")),
            hint: run_by_hand(),
        }),
        Some(Unwelcome::Confused(message)) => Attempt::Failed(StartFailure {
            reason: with_tail(format!("it does not speak MCP as expected: {message}")),
            hint: run_by_hand(),
        }),
        None | Some(Unwelcome::Ended) => Attempt::Failed(StartFailure {
            reason: with_tail(format!(
                "it was not ready within {} ms",
                spec.startup_timeout.as_millis()
            )),
            hint: "open the toolbox again (a first start may have been downloading), or raise \
                   `startupTimeoutMs`"
                .to_owned(),
        }),
    }
}
