//! The frontend: serves agents. It owns sessions, eras, and what goes back to an agent unasked.
//!
//! *Theory of operation.* Every request comes here as raw text and is answered ([`dispatch`]): over
//! stdio by one task for all of its agent ([`answers`]). What ends here is answered here ([`handshake`], [`lists`],
//! [`subscriptions`]); the rest is passed on through the gateway ([`calls`], [`primitives`],
//! [`extensions`]) and accompanied: what the server says meanwhile goes to the agent. What is known
//! of the agent is its [`session`].

mod answers;
mod asked;
mod attribution;
mod calls;
mod dispatch;
mod era;
mod extensions;
mod handshake;
pub mod http;
mod listed;
mod lists;
mod primitives;
mod profiles;
mod resolve;
mod seldom;
mod session;
mod shown;
mod subscriptions;
mod subtasks;
mod suspended;
mod until;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::desk::{Desk, Papers};
use crate::frontend::answers::Answers;
use crate::frontend::session::Session;
use crate::frontend::subtasks::{Subtask, Task};
use crate::frontend::suspended::AllSuspended;
use crate::gateway::{Caller, Gateways};
use crate::observe::Payer;
use crate::state::{SessionKey, rehearsal};
use crate::wire;
use crate::wire::incoming::Incoming;

/// How long calls may still take that are running when the agent's output ends.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// The state that all sessions share; clones are the same.
#[derive(Clone)]
pub struct AppState {
    gateways: Arc<Gateways>,
    suspended: Arc<AllSuspended>,
    tickets: Arc<AtomicU64>,
    tasks: TaskTracker,
    desk: Desk,
    /// The name of this process among those that share a store: random, and no secret.
    replica: Arc<str>,
}

impl AppState {
    /// Serves agents from these gateways; what belongs to sessions runs on `tasks`.
    ///
    /// # Errors
    ///
    /// When the operating system has no random numbers.
    pub fn new(gateways: Arc<Gateways>, tasks: &TaskTracker) -> Result<Self, getrandom::Error> {
        let (mut key, mut name) = ([0; 32], [0; 8]);
        getrandom::fill(&mut key)?;
        getrandom::fill(&mut name)?;
        let replica: Arc<str> = format!("{:016x}", u64::from_ne_bytes(name)).into();
        let desk = Desk::new(Arc::clone(&gateways), Caller::NOBODY, Papers::default());
        Ok(Self {
            desk,
            gateways,
            suspended: Arc::new(AllSuspended::new(key, Arc::clone(&replica))),
            replica,
            tickets: Arc::default(),
            tasks: tasks.clone(),
        })
    }

    /// Lets whoever runs the workbench sit at this desk.
    #[must_use]
    pub fn with_desk(self, desk: Desk) -> Self {
        Self { desk, ..self }
    }

    /// The desk of whoever runs the workbench.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// How long the names of tools and prompts may be, in bytes.
    fn max_name_length(&self) -> usize {
        self.gateways.config().max_tool_name_length
    }

    /// A number that was not given before.
    fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }
}

/// Serves one agent, `caller`, over its streams until its output ends or `shutdown` is cancelled.
///
/// Calls that are still running then are given up, after 300 ms in the first case; their servers
/// are the gateway's business.
pub async fn serve<R, W>(
    app: &AppState,
    caller: Caller,
    reader: R,
    writer: W,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let max = app.gateways.config().limits.max_message_bytes;
    let (mut messages, notifier) = wire::agent::connect(reader, writer, max, tasks);
    let last_words = notifier.clone();
    let purse = app.gateways.payers().purse(&Payer::new(caller.agent.as_ref(), None));
    let mut session = Session::new(app, caller, purse, Some(notifier), SessionKey::random());
    let mut ending = pin!(shutdown.cancelled());
    let task = Arc::new(Task::default());
    // Dropped on return, which ends what still runs.
    let mut answers = Answers::new(&task);
    let (reading, stopping) = (Subtask::new(&task), Subtask::new(&task));
    loop {
        let incoming = {
            let mut next = pin!(messages.next());
            reading.begin_anew();
            poll_fn(|context| {
                task.enter(context);
                // First, so that what is begun is worked on however much comes.
                answers.go_on();
                if let Poll::Ready(incoming) = reading.poll(|context| next.as_mut().poll(context)) {
                    return Poll::Ready(Some(incoming));
                }
                stopping.poll(|context| ending.as_mut().poll(context)).map(|()| None)
            })
            .await
        };
        let Some(incoming) = incoming else {
            session.end();
            return;
        };
        match incoming {
            None => break,
            Some(Incoming::Notification { method, params }) => {
                session.hears(&method, params.as_ref());
            }
            Some(Incoming::Request(request)) => {
                if rehearsal::is_on() && answers.is_empty() {
                    session = Box::pin(session.renewed()).await;
                }
                answers.begin(dispatch::answer(Arc::clone(&session), request));
            }
        }
    }
    // An agent that closes its side right after its last request still reads the answers; what
    // only waits for changes ends now.
    session.stop_listening();
    let last_answers = async {
        answers.finish().await;
        last_words.flush().await
    };
    tokio::select! {
        () = ending => {}
        _ = timeout(LAST_ANSWERS, last_answers) => {}
    }
    session.end();
}
