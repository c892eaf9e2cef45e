//! The queue of calls that wait for an approval outside the client.
//!
//! A call waits here if it needs a confirmation and its client can't ask, or isn't asked first. The
//! queue is shared by all gateways of the process and is open only if someone can answer: the holder
//! of the approval key through the admin socket, or operators over HTTP. The caller of
//! [`ApprovalQueue::answer`] must have verified who answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::gateway::confirmation::message::{shown_name, whole_arguments};
use crate::policy::RiskReason;
use crate::telemetry::{
    ApprovalContext, ApprovalOutcome, Approver, Event, QuotaOwner, Redactor, Telemetry,
};
use mcp_workbench_names::untrusted_text::display_name;
use mcp_workbench_names::{AgentName, ToolId};
use mcp_workbench_settings::{ApprovalKey, Config};
use mcp_workbench_wire::json::RawJson;

/// Maximum number of waiting calls. Beyond it, the newest call of the largest caller makes room.
const MAX_WAITING: usize = 256;
/// Maximum number of waiting calls of one caller.
const MAX_OF_CALLER: usize = 32;
/// Maximum length of the name that a client program reports, in characters.
const MAX_CLIENT: usize = 60;
/// How long before the client's own timeout a call ends, so that the response arrives in time.
const MARGIN: Duration = Duration::from_secs(5);

/// A call that waits for an approval, as the user sees it. All texts are free of control characters
/// and other invisible ones. Times are in Unix milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PendingCall {
    /// Unguessable, and unique among all workbenches.
    pub id: String,
    /// The agent's name in policy; `None` for an agent without a name.
    pub agent: Option<String>,
    /// The name that the client program reports; empty if it reports none.
    pub client: String,
    pub toolbox: String,
    pub server: String,
    /// The tool's name at its server.
    pub tool: String,
    /// Why the call needs an approval.
    pub reason: String,
    /// All arguments as JSON, with escapes for invisible characters and without secrets of the
    /// configuration.
    pub arguments: String,
    pub since: u64,
    /// When the call is denied.
    pub until: u64,
}

/// A call to put into the queue.
pub(crate) struct ApprovalQuestion<'a> {
    pub(crate) agent: Option<&'a AgentName>,
    pub(crate) client: &'a str,
    pub(crate) session: u64,
    pub(crate) owner: QuotaOwner,
    pub(crate) tool: &'a ToolId,
    pub(crate) concern: RiskReason,
    pub(crate) arguments: Option<&'a RawJson>,
    pub(crate) secrets: &'a Redactor,
    pub(crate) timeout: Duration,
    /// When the client stops waiting.
    pub(crate) client_deadline: Option<Instant>,
}

/// Why a call wasn't approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalFailure {
    NotShown(String),
    Full,
    Denied,
    /// No answer arrived within this time.
    Expired(Duration),
}

/// Why an answer wasn't accepted.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum AnswerError {
    #[error("no call with this ID is waiting: it was answered, cancelled or has expired")]
    Unknown,
    #[error("an operator can't approve a call of the agent with the same name")]
    OwnCall,
}

pub struct ApprovalQueue {
    telemetry: Arc<Telemetry>,
    /// The key at the start of the process. A changed file doesn't replace it.
    key: Option<ApprovalKey>,
    has_socket: AtomicBool,
    has_operators: AtomicBool,
    waiting: Mutex<Vec<WaitingCall>>,
}

struct WaitingCall {
    call: PendingCall,
    agent: Option<AgentName>,
    owner: QuotaOwner,
    /// Receives whether the call is approved, and by whom.
    answer: oneshot::Sender<(bool, Approver)>,
}

impl ApprovalQueue {
    pub(crate) fn new(telemetry: Arc<Telemetry>, key: Option<ApprovalKey>) -> Self {
        Self {
            telemetry,
            key,
            has_socket: AtomicBool::new(false),
            has_operators: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Returns the key that verifies approvals through the admin socket.
    pub fn key(&self) -> Option<&ApprovalKey> {
        self.key.as_ref()
    }

    /// From now on, the holder of the approval key can answer through the admin socket.
    pub fn open_socket(&self) {
        self.has_socket.store(true, Ordering::Relaxed);
    }

    /// From now on, operators can answer over HTTP.
    pub fn open_http(&self) {
        self.has_operators.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if anyone could approve a call.
    pub(crate) fn is_open(&self, config: &Config) -> bool {
        let has_operators = || config.auth.as_ref().is_some_and(|auth| !auth.operators.is_empty());
        (self.key.is_some() && self.has_socket.load(Ordering::Relaxed))
            || (self.has_operators.load(Ordering::Relaxed) && has_operators())
    }

    /// Returns the waiting calls. The oldest call of each caller comes before any second one, so
    /// that no caller hides the others.
    pub fn pending(&self) -> Vec<PendingCall> {
        let waiting = self.waiting.lock();
        let mut counts: HashMap<&QuotaOwner, usize> = HashMap::new();
        let ranked = waiting.iter().map(|waiting| {
            let rank = counts.entry(&waiting.owner).or_default();
            *rank += 1;
            (*rank, &waiting.call)
        });
        let mut ranked: Vec<_> = ranked.collect();
        // Stable, so calls of the same rank stay in the order of their age.
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, call)| call.clone()).collect()
    }

    /// Returns the number of waiting calls.
    pub fn count(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Returns the waiting call with this id.
    pub fn find(&self, id: &str) -> Option<PendingCall> {
        self.waiting.lock().iter().find(|it| it.call.id == id).map(|it| it.call.clone())
    }

    /// Answers a waiting call. The caller has verified `by`.
    pub fn answer(&self, id: &str, is_approved: bool, by: Approver) -> Result<(), AnswerError> {
        let waiting = {
            let mut all = self.waiting.lock();
            let at = all.iter().position(|it| it.call.id == id).ok_or(AnswerError::Unknown)?;
            let is_own = |operator| all[at].agent.as_ref() == Some(operator);
            if is_approved && by.operator().is_some_and(is_own) {
                return Err(AnswerError::OwnCall);
            }
            all.remove(at)
        };
        // Fails if the call was cancelled at this moment.
        waiting.answer.send((is_approved, by)).map_err(|_| AnswerError::Unknown)
    }

    /// Waits until the call is approved. Dropping the future removes the call from the queue.
    pub(crate) async fn wait(&self, asked: &ApprovalQuestion<'_>) -> Result<(), ApprovalFailure> {
        let arguments = whole_arguments(asked.arguments, asked.secrets);
        let arguments = arguments.map_err(ApprovalFailure::NotShown)?;
        let patience = asked.patience();
        let id = random_id().map_err(ApprovalFailure::NotShown)?;
        let (answer, mut answered) = oneshot::channel();
        self.add(WaitingCall {
            call: asked.call(&id, arguments, patience),
            agent: asked.agent.cloned(),
            owner: asked.owner.clone(),
            answer,
        })?;
        let began = Instant::now();
        let mut guard = WaitGuard { queue: self, asked, id, began, is_reported: false };
        self.telemetry.bus().emit(Event::ApprovalRequested(&asked.context(&guard.id, began)));
        let answer = match timeout_at(began + patience, &mut answered).await {
            Ok(answer) => answer,
            Err(_) if self.remove(&guard.id) => {
                guard.report(ApprovalOutcome::Expired, None);
                return Err(ApprovalFailure::Expired(patience));
            }
            // Answered at the last moment, and the operator was told that it worked.
            Err(_) => answered.await,
        };
        match answer {
            Ok((true, by)) => {
                guard.report(ApprovalOutcome::Approved, Some(&by));
                Ok(())
            }
            Ok((false, by)) => {
                guard.report(ApprovalOutcome::Denied, Some(&by));
                Err(ApprovalFailure::Denied)
            }
            // Removed to make room for another caller.
            Err(_) => Err(ApprovalFailure::Full),
        }
    }

    fn add(&self, new: WaitingCall) -> Result<(), ApprovalFailure> {
        let mut all = self.waiting.lock();
        let of = |owner: &QuotaOwner| all.iter().filter(|it| it.owner == *owner).count();
        let own = of(&new.owner);
        if own >= MAX_OF_CALLER {
            return Err(ApprovalFailure::Full);
        }
        if all.len() >= MAX_WAITING {
            let largest = all.iter().map(|it| &it.owner).max_by_key(|owner| of(owner));
            let largest = largest.filter(|owner| of(owner) > own + 1).cloned();
            let newest = all.iter().rposition(|it| Some(&it.owner) == largest.as_ref());
            all.remove(newest.ok_or(ApprovalFailure::Full)?);
        }
        all.push(new);
        Ok(())
    }

    /// Removes a call; `false` if it has already been answered or removed.
    fn remove(&self, id: &str) -> bool {
        let mut all = self.waiting.lock();
        let found = all.iter().position(|it| it.call.id == id);
        found.map(|at| all.remove(at)).is_some()
    }
}

impl ApprovalQuestion<'_> {
    fn patience(&self) -> Duration {
        let until = self.client_deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let until = until.map(|until| until.saturating_sub(MARGIN.min(until / 4)));
        until.map_or(self.timeout, |until| until.min(self.timeout))
    }

    fn call(&self, id: &str, arguments: String, patience: Duration) -> PendingCall {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        PendingCall {
            id: id.to_owned(),
            agent: self.agent.map(|agent| shown_name(agent.as_str())),
            client: display_name(self.client, MAX_CLIENT),
            toolbox: shown_name(self.tool.toolbox.as_str()),
            server: shown_name(self.tool.server.as_str()),
            tool: shown_name(&self.tool.tool),
            reason: self.concern.to_string(),
            arguments,
            since: millis(since),
            until: millis(since + patience),
        }
    }

    fn context<'a>(&'a self, id: &'a str, began: Instant) -> ApprovalContext<'a> {
        let (agent, session, tool) = (self.agent, self.session, self.tool);
        ApprovalContext { id, agent, session, tool, waited: began.elapsed() }
    }
}

/// Removes a call from the queue when its wait ends, and reports how it ended.
struct WaitGuard<'a> {
    queue: &'a ApprovalQueue,
    asked: &'a ApprovalQuestion<'a>,
    id: String,
    began: Instant,
    is_reported: bool,
}

impl WaitGuard<'_> {
    fn report(&mut self, outcome: ApprovalOutcome, by: Option<&Approver>) {
        if !std::mem::replace(&mut self.is_reported, true) {
            let context = self.asked.context(&self.id, self.began);
            self.queue.telemetry.bus().emit(Event::ApprovalEnded(&context, outcome, by));
        }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.queue.remove(&self.id);
        self.report(ApprovalOutcome::Withdrawn, None);
    }
}

fn random_id() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| format!("no random number for it: {error}"))?;
    Ok(hex::encode(random))
}

#[cfg(test)]
mod tests;
