//! Work that waits for a modern agent to answer a question of a server that asks in the older way.
//!
//! The server waits for its answer within the call; the agent is answered that input is required,
//! with a `requestState` that leads back here, and makes its request again with the answer
//! (2026-07-28, basic/patterns/mrtr). The state is signed, good for one use by a request like the
//! first of the same caller, and expires; the call that it leads to is then cancelled at the server.
//! What is live of it waits here. That it may be taken up, once, is a record in the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{RequestStateCodec, RequestStateError, SealOptions};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::Outcome;
use crate::frontend::asked::Asked;
use crate::frontend::calls::{QUESTION, Running, input_required};
use crate::frontend::session::Session;
use crate::gateway::{Held, Question};
use crate::name::{AgentName, ToolboxName};
use crate::observe::{Holding, Payer};
use crate::raw::Raw;
use crate::state::{Key, Kind, Record, Room, Suspended};
use crate::wire::code::INVALID_PARAMS;
use crate::wire::incoming::error_object;

/// How much work of all callers may wait at once; more is given up, of those who have most.
const MOST: usize = 1000;
/// The mark that tells our states from those of servers, which are passed on.
const PREFIX: &str = "workbench.";
/// All work that waits for agents.
pub(crate) struct AllSuspended {
    codec: RequestStateCodec,
    /// Says in a state, for everybody to read, which process has the work.
    replica: Arc<str>,
    waiting: Mutex<HashMap<u64, Waiting>>,
}

struct Waiting {
    running: Running,
    question: Question,
    /// Counts it among what its caller holds.
    held: Option<Held>,
    /// Gives it up in the end.
    _expiry: AbortOnDropHandle<()>,
}

impl AllSuspended {
    /// Nothing waits yet. What will is known by this process alone, which is called `replica`.
    pub(crate) fn new(key: [u8; 32], replica: Arc<str>) -> Self {
        // The key has the length that is asked for.
        Self { codec: RequestStateCodec::new_unchecked(key), replica, waiting: Mutex::default() }
    }

    fn waiting<T>(&self, f: impl FnOnce(&mut HashMap<u64, Waiting>) -> T) -> T {
        f(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts work aside until the question is answered; the result to answer the agent with.
    pub(crate) async fn suspend(
        &self,
        session: &Session,
        asked: &Asked,
        running: Running,
        question: Question,
    ) -> Raw {
        let ticket = session.app().next_ticket();
        let patience = Kind::Suspended.lifetime().unwrap_or(Duration::MAX);
        let options = SealOptions::new().ttl(patience);
        let binding = binding(session, asked);
        let sealed = self
            .codec
            .seal_with(ticket.to_string().as_bytes(), &options.associated_data(binding.as_bytes()));
        let state = format!("{PREFIX}{}.{sealed}", self.replica);
        let required = input_required(&question, &state);
        let agent = session.caller().agent.clone();
        let record = Suspended { agent, method: asked.method.clone() };
        let store = session.app().gateways.store();
        store.put(Key::Suspended(ticket), Record::Suspended(record), Room::ENDLESS).await;
        let suspended = Arc::clone(&session.app().suspended);
        let expiry = session.app().tasks.spawn(async move {
            sleep(patience).await;
            drop(suspended.waiting(|waiting| waiting.remove(&ticket)));
        });
        let expiry = AbortOnDropHandle::new(expiry);
        let most = session.app().gateways.config().limits.per_caller.max_questions;
        let purse = session.purse();
        let given_up = self.waiting(|waiting| {
            let given_up = if of(waiting, purse.payer()).count() >= most {
                purse.reaches(Holding::Questions);
                of(waiting, purse.payer()).min()
            } else if waiting.len() >= MOST {
                greediest(waiting).and_then(|payer| of(waiting, &payer).min())
            } else {
                None
            };
            let given_up = given_up.map(|oldest| (oldest, waiting.remove(&oldest)));
            // Those that wait are counted above, so there is always one more.
            let held = purse.take(Holding::Questions, usize::MAX).ok();
            waiting.insert(ticket, Waiting { running, question, held, _expiry: expiry });
            given_up
        });
        if let Some((oldest, _work)) = given_up {
            store.remove(&Key::Suspended(oldest));
        }
        required
    }

    /// The work that a request goes on with; `None` when it is a request of its own, an error when
    /// what it wants to go on with is not there.
    pub(crate) async fn resume(
        &self,
        session: &Session,
        asked: &Asked,
    ) -> Option<Result<Running, Outcome>> {
        let state: String = asked.param("requestState")?.parse().ok()?;
        let sealed = state.strip_prefix(PREFIX)?;
        Some(self.take(session, asked, sealed).await)
    }

    async fn take(
        &self,
        session: &Session,
        asked: &Asked,
        sealed: &str,
    ) -> Result<Running, Outcome> {
        let refuse = |reason: &str| {
            Outcome::Error(error_object(INVALID_PARAMS, &format!("`requestState` {reason}"), None))
        };
        let sealed = match sealed.split_once('.') {
            Some((replica, sealed)) if replica == &*self.replica => sealed,
            Some((replica, _)) if is_replica(replica) => {
                return Err(refuse(
                    "was given by another replica of this workbench, which has ended or cannot be reached \
                     from here, so nothing was done: make the request anew",
                ));
            }
            _ => return Err(refuse("is not what was given for this request")),
        };
        let opened = self.codec.open_with(sealed, binding(session, asked).as_bytes());
        let ticket = opened.map_err(|error| match error {
            RequestStateError::Expired => refuse("has expired: make the request anew"),
            _ => refuse("is not what was given for this request"),
        })?;
        let ticket = String::from_utf8(ticket).ok().and_then(|ticket| ticket.parse::<u64>().ok());
        let over = || refuse("was used already, or given up: make the request anew");
        let ticket = ticket.ok_or_else(over)?;
        let answer = asked.param("inputResponses").and_then(|all| all.member(QUESTION));
        let answer = answer.ok_or_else(|| {
            let message = format!("`inputResponses` has no `{QUESTION}`");
            Outcome::Error(error_object(INVALID_PARAMS, &message, None))
        })?;
        let store = session.app().gateways.store();
        store.take(&Key::Suspended(ticket)).await.ok_or_else(over)?;
        let waiting = self.waiting(|waiting| waiting.remove(&ticket));
        let Waiting { running, question, .. } = waiting.ok_or_else(over)?;
        question.answer(Outcome::Result(answer)).await;
        Ok(running)
    }
}

/// Returns `true` for what may be the name of a process.
fn is_replica(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The tickets of what waits for a caller's answers.
fn of(waiting: &HashMap<u64, Waiting>, payer: &Payer) -> impl Iterator<Item = u64> {
    let is_its =
        move |waiting: &Waiting| waiting.held.as_ref().is_some_and(|held| held.payer() == payer);
    waiting.iter().filter(move |(_, waiting)| is_its(waiting)).map(|(ticket, _)| *ticket)
}

/// The caller of whom most is waiting.
fn greediest(waiting: &HashMap<u64, Waiting>) -> Option<Payer> {
    let mut counts: HashMap<&Payer, usize> = HashMap::new();
    for held in waiting.values().filter_map(|waiting| waiting.held.as_ref()) {
        *counts.entry(held.payer()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(payer, _)| payer.clone())
}

/// The requests that a state is good for: those of the same caller, of the same method and about
/// the same thing. The ticket in it leads to one call, so the rest of the request does not matter.
fn binding(session: &Session, asked: &Asked) -> String {
    let of = |key| asked.param(key).map(|value| value.as_str().into_owned()).unwrap_or_default();
    let caller = session.caller();
    // Quoted as they are, no two callers are spelled alike.
    format!(
        "{:?} {:?} {} {}{}",
        caller.agent.as_ref().map(AgentName::as_str),
        caller.toolbox.as_ref().map(ToolboxName::as_str),
        asked.method,
        of("name"),
        of("uri")
    )
}
