//! From nothing to a server that is running and listed, and back.

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::ClientInitializeError;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::TaskTracker;

use crate::backend::death::{self, StderrTail};
use crate::backend::handshake::{self, Ears, Era, Session};
use crate::backend::launch::{self, Process};
use crate::backend::{Context, Spec, StartFailure};
use crate::catalog::Listing;
use crate::wire;

/// How long the last lines of standard error are waited for.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// A server that has been started and listed.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) session: Session,
    pub(crate) link: wire::server::Link,
    pub(crate) stderr: StderrTail,
    pub(crate) drain: JoinHandle<()>,
    pub(crate) tools_changed: Arc<Notify>,
    pub(crate) listing: Listing,
    pub(crate) era: Era,
}

impl Started {
    /// Ends the server and says how it ended.
    pub(crate) async fn end(self) -> String {
        let Self { process, session, link, stderr, drain, .. } = self;
        link.close_input();
        drop(session);
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
    era: Era,
    not_before: Option<Instant>,
) -> Result<Started, StartFailure> {
    if let Some(then) = not_before {
        sleep_until(then).await;
    }
    let other = match era {
        Era::Legacy => Era::Modern,
        Era::Modern => Era::Legacy,
    };
    match attempt(&spec, &context, era).await {
        Err(Attempt::Refused(first)) => match attempt(&spec, &context, other).await {
            Ok(started) => Ok(started),
            // What the first attempt said is about the era that servers commonly speak.
            Err(_) => Err(first),
        },
        Err(Attempt::Failed(failure)) => Err(failure),
        Ok(started) => Ok(started),
    }
}

enum Attempt {
    /// The server answered that it does not speak this era.
    Refused(StartFailure),
    /// Anything else.
    Failed(StartFailure),
}

async fn attempt(spec: &Spec, context: &Context, era: Era) -> Result<Started, Attempt> {
    let (mut process, streams) =
        launch::spawn(&spec.launch, &context.environment, context.program.as_deref())
            .map_err(Attempt::Failed)?;
    process.guard_with(&context.guard);
    let environment = context.environment.for_launch(&spec.launch);
    let inherited = environment.filter_map(|(key, value)| key.to_str().zip(value.to_str()));
    let own = spec.launch.env.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let stderr = StderrTail::new(inherited.chain(own));
    let drain = context.tasks.spawn(stderr.clone().drain(streams.stderr, spec.label.clone()));
    let (link, transport) = wire::server::connect(
        streams.stdout,
        streams.stdin,
        spec.max_message_bytes,
        &spec.label,
        &context.tasks,
    );
    let ears = Ears { tools_changed: Arc::new(Notify::new()) };
    let tools_changed = Arc::clone(&ears.tools_changed);
    let words = first_words(transport, ears, era, &link, spec, &context.tasks);
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
            Ok(Err(Words::Silence))
        }
    };
    let failure = match words {
        Ok(Ok((session, listing))) => {
            return Ok(Started {
                process,
                session,
                link,
                stderr,
                drain,
                tools_changed,
                listing,
                era,
            });
        }
        Ok(Err(failure)) => failure,
        Err(_) => Words::Silence,
    };
    let has_ended = match failure {
        Words::Silence | Words::Refused(_) => link.is_closed(),
        // A server that ends may be noticed first by what can no longer be written to it.
        Words::Confused(_) => timeout(LAST_WORDS, link.closed()).await.is_ok(),
    };
    link.close_input();
    let status = process.end().await;
    link.close();
    hear_out(drain).await;
    Err(explain(failure, has_ended.then(|| death::describe(status, &stderr)), spec, &stderr))
}

/// Why the first words came to nothing.
enum Words {
    Refused(String),
    Confused(String),
    Silence,
}

async fn first_words(
    transport: wire::server::ServerTransport,
    ears: Ears,
    era: Era,
    link: &wire::server::Link,
    spec: &Spec,
    tasks: &TaskTracker,
) -> Result<(Session, Listing), Words> {
    let tools_changed = Arc::clone(&ears.tools_changed);
    let session = handshake::begin(transport, ears, era).await.map_err(|error| match *error {
        ClientInitializeError::JsonRpcError(error) => Words::Refused(error.message.into_owned()),
        error => Words::Confused(error.to_string()),
    })?;
    let mut listing = if session.has_tools {
        handshake::list_tools(link, &session.meta, &spec.label).await.map_err(Words::Confused)?
    } else {
        Listing::default()
    };
    listing.instructions.clone_from(&session.instructions);
    if era == Era::Modern && session.has_tools {
        tasks.spawn(handshake::hear_changes(session.service.peer().clone(), tools_changed));
    }
    Ok((session, listing))
}

fn explain(words: Words, death: Option<String>, spec: &Spec, stderr: &StderrTail) -> Attempt {
    let with_tail = |reason: String| match stderr.text() {
        tail if tail.is_empty() => reason,
        tail => format!("{reason}; the last lines of its standard error:\n{tail}"),
    };
    let run_by_hand = || {
        "run its command by hand to see what is missing (a package, a variable in `env`, a folder)"
            .to_owned()
    };
    if let Some(death) = death {
        return Attempt::Failed(StartFailure {
            reason: format!("it ended before it was ready: {death}"),
            hint: run_by_hand(),
        });
    }
    match words {
        Words::Refused(message) => Attempt::Refused(StartFailure {
            reason: with_tail(format!("it refused the connection: {message}")),
            hint: run_by_hand(),
        }),
        Words::Confused(message) => Attempt::Failed(StartFailure {
            reason: with_tail(format!("it does not speak MCP as expected: {message}")),
            hint: run_by_hand(),
        }),
        Words::Silence => Attempt::Failed(StartFailure {
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
