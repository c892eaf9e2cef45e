//! Calls suspended until a modern agent answers a request of a legacy server.
//!
//! The server waits for the response within the call. The agent gets an `input_required` result
//! with a `requestState`, and repeats its request with the response (2026-07-28,
//! basic/patterns/mrtr). The state is signed, bound to caller, method and target, usable once, and
//! expires; the call is then cancelled. The call itself lives in this process, and a record in the
//! state store ensures single use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rmcp::model::{RequestStateCodec, RequestStateError, SealOptions};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::frontend::forwarding::{InFlightCall, QUESTION, input_required};
use crate::frontend::request::AgentRequest;
use crate::frontend::session::AgentSession;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{QuotaGuard, ServerRequest};
use mcp_workbench_core::state::{Capacity, RecordKey, RecordKind, StateRecord, Suspended};
use mcp_workbench_core::telemetry::{QuotaKind, QuotaOwner};
use mcp_workbench_names::{AgentName, ToolboxName};
use mcp_workbench_wire::code::INVALID_PARAMS;
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::RawJson;

/// Maximum number of suspended calls. Beyond it, the oldest call of the largest holder is
/// cancelled.
const MAX_SUSPENDED: usize = 1000;
/// Marks states of the workbench. Others come from servers and are forwarded.
const PREFIX: &str = "workbench.";
pub(crate) struct SuspendedCalls {
    codec: RequestStateCodec,
    /// The process id in each state, unencrypted, so that another replica can report it.
    replica: Arc<str>,
    waiting: Mutex<HashMap<u64, SuspendedCall>>,
}

struct SuspendedCall {
    running: InFlightCall,
    request: ServerRequest,
    guard: Option<QuotaGuard>,
    /// Cancels the call when the state expires.
    _expiry: AbortOnDropHandle<()>,
}

impl SuspendedCalls {
    /// Creates the table. States sealed with `key` are valid only in this process.
    pub(crate) fn new(key: [u8; 32], replica: Arc<str>) -> Self {
        // The key always has the length that the codec requires.
        Self { codec: RequestStateCodec::new_unchecked(key), replica, waiting: Mutex::default() }
    }

    fn waiting<T>(&self, f: impl FnOnce(&mut HashMap<u64, SuspendedCall>) -> T) -> T {
        f(&mut self.waiting.lock())
    }

    pub(crate) async fn suspend(
        &self,
        session: &AgentSession,
        request: &AgentRequest,
        running: InFlightCall,
        server_request: ServerRequest,
    ) -> RawJson {
        let ticket = session.app().next_ticket();
        let lifetime = RecordKind::Suspended.lifetime().unwrap_or(Duration::MAX);
        let until_deadline =
            server_request.deadline.map(|deadline| deadline.duration_since(Instant::now()));
        let patience = until_deadline.map_or(lifetime, |until| until.min(lifetime));
        let options = SealOptions::new().ttl(patience);
        let binding = binding(session, request);
        let sealed = self
            .codec
            .seal_with(ticket.to_string().as_bytes(), &options.associated_data(binding.as_bytes()));
        let state = format!("{PREFIX}{}.{sealed}", self.replica);
        let required = input_required(&server_request, &state);
        let agent = session.caller().agent.clone();
        let record = Suspended {
            agent,
            method: request.method.clone(),
            expires_at: Some(unix_millis().saturating_add(millis(patience))),
        };
        let store = session.app().gateways.store();
        store
            .put(RecordKey::Suspended(ticket), StateRecord::Suspended(record), Capacity::UNLIMITED)
            .await;
        let suspended = Arc::clone(&session.app().suspended);
        let expiry = session.app().tasks.spawn(async move {
            sleep(patience).await;
            drop(suspended.waiting(|waiting| waiting.remove(&ticket)));
        });
        let expiry = AbortOnDropHandle::new(expiry);
        let most = session.app().gateways.config().limits.per_caller.max_input_requests;
        let quota = session.quota();
        let given_up = self.waiting(|waiting| {
            let given_up = if tickets_of(waiting, quota.payer()).count() >= most {
                quota.report_limit_reached(QuotaKind::InputRequests);
                tickets_of(waiting, quota.payer()).min()
            } else if waiting.len() >= MAX_SUSPENDED {
                largest_holder(waiting).and_then(|owner| tickets_of(waiting, &owner).min())
            } else {
                None
            };
            let given_up = given_up.map(|oldest| (oldest, waiting.remove(&oldest)));
            // No limit: the quota was enforced above by removing the oldest call.
            let guard = quota.try_acquire(QuotaKind::InputRequests, usize::MAX).ok();
            waiting.insert(
                ticket,
                SuspendedCall { running, request: server_request, guard, _expiry: expiry },
            );
            given_up
        });
        if let Some((oldest, _work)) = given_up {
            store.remove(&RecordKey::Suspended(oldest));
        }
        required
    }

    /// Resumes the call that `requestState` refers to. `None` for a request without a state of the
    /// workbench, and an error if the state is invalid, used or expired.
    pub(crate) async fn resume(
        &self,
        session: &AgentSession,
        request: &AgentRequest,
    ) -> Option<Result<InFlightCall, RpcOutcome>> {
        let state: String = request.param("requestState")?.parse().ok()?;
        let sealed = state.strip_prefix(PREFIX)?;
        Some(self.take(session, request, sealed).await)
    }

    async fn take(
        &self,
        session: &AgentSession,
        asked: &AgentRequest,
        sealed: &str,
    ) -> Result<InFlightCall, RpcOutcome> {
        let refuse = |reason: &str| {
            RpcOutcome::Error(error_object(
                INVALID_PARAMS,
                &format!("`requestState` {reason}"),
                None,
            ))
        };
        let sealed = match sealed.split_once('.') {
            Some((replica, sealed)) if replica == &*self.replica => sealed,
            Some((replica, _)) if is_replica(replica) => {
                return Err(refuse(
                    "belongs to another replica that is gone or unreachable; nothing was done, \
                     send the request again without it",
                ));
            }
            _ => return Err(refuse("does not belong to this request")),
        };
        let opened = self.codec.open_with(sealed, binding(session, asked).as_bytes());
        let ticket = opened.map_err(|error| match error {
            RequestStateError::Expired => refuse("has expired; send the request again without it"),
            _ => refuse("does not belong to this request"),
        })?;
        let ticket = String::from_utf8(ticket).ok().and_then(|ticket| ticket.parse::<u64>().ok());
        let over = || refuse("was already used or cancelled; send the request again without it");
        let ticket = ticket.ok_or_else(over)?;
        let answer = asked.param("inputResponses").and_then(|all| all.member(QUESTION));
        let answer = answer.ok_or_else(|| {
            let message = format!("`inputResponses` has no `{QUESTION}`");
            RpcOutcome::Error(error_object(INVALID_PARAMS, &message, None))
        })?;
        let store = session.app().gateways.store();
        let record = store.take(&RecordKey::Suspended(ticket)).await.ok_or_else(over)?;
        let waiting = self.waiting(|waiting| waiting.remove(&ticket));
        if !is_current(&record) {
            return Err(refuse("has expired; send the request again without it"));
        }
        let SuspendedCall { running, request: question, .. } = waiting.ok_or_else(over)?;
        question.answer(RpcOutcome::Result(answer)).await;
        Ok(running)
    }
}

/// Returns `true` if the question of a record can still be answered.
fn is_current(record: &StateRecord) -> bool {
    let StateRecord::Suspended(record) = record else { return false };
    record.expires_at.is_some_and(|end| unix_millis() < end)
}

fn unix_millis() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn is_replica(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn tickets_of(
    waiting: &HashMap<u64, SuspendedCall>,
    owner: &QuotaOwner,
) -> impl Iterator<Item = u64> {
    let is_its = move |waiting: &SuspendedCall| {
        waiting.guard.as_ref().is_some_and(|guard| guard.payer() == owner)
    };
    waiting.iter().filter(move |(_, waiting)| is_its(waiting)).map(|(ticket, _)| *ticket)
}

fn largest_holder(waiting: &HashMap<u64, SuspendedCall>) -> Option<QuotaOwner> {
    let mut counts: HashMap<&QuotaOwner, usize> = HashMap::new();
    for guard in waiting.values().filter_map(|waiting| waiting.guard.as_ref()) {
        *counts.entry(guard.payer()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner.clone())
}

/// The data that a state is bound to: caller, method and target. The ticket identifies the call, so
/// other parameters don't matter.
fn binding(session: &AgentSession, request: &AgentRequest) -> String {
    let of = |key| request.param(key).map(|value| value.as_str().into_owned()).unwrap_or_default();
    let caller = session.caller();
    // `Debug` quotes the names, so that no two callers yield the same text.
    format!(
        "{:?} {:?} {:?} {} {}{}",
        caller.subject,
        caller.agent.as_ref().map(AgentName::as_str),
        caller.toolbox.as_ref().map(ToolboxName::as_str),
        request.method,
        of("name"),
        of("uri")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_without_a_deadline_or_past_it_are_refused() {
        let record = |expires_at| {
            let method = "tools/call".to_owned();
            StateRecord::Suspended(Suspended { agent: None, method, expires_at })
        };
        assert!(is_current(&record(Some(u64::MAX))));
        assert!(!is_current(&record(Some(unix_millis()))));
        // A version without deadlines wrote this.
        let old = r#"{"version":1,"record":{"suspended":{"agent":null,"method":"tools/call"}}}"#;
        let old = StateRecord::decode(old);
        assert_eq!(old, Some(record(None)));
        assert!(!old.is_some_and(|old| is_current(&old)));
    }
}
