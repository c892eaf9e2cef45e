//! Encodes the lines of the audit log: calls, reads, LLM requests, sessions, rejections, logins,
//! reloads and certificates.

pub(crate) mod definitions;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::catalog::{Listing, PrimitiveKind};
use crate::telemetry::context::CallStart;
use crate::telemetry::event::{
    ApprovalContext, ApprovalOutcome, Approver, CertificateExpiry, LlmContext, ReadContext,
    SessionContext, SignInChange, SignInContext,
};
use crate::telemetry::llm_outcome::LlmOutcome;
use crate::telemetry::outcome::{CallDecision, CallEnd, CallOutcome, CallStopReason};
use crate::telemetry::quota::QuotaOwner;
use crate::telemetry::redaction::Redactor;
use crate::telemetry::rejections::{Rejection, RejectionCause};
use mcp_workbench_names::{AgentName, ServerRef, ToolId};
use mcp_workbench_settings::ArgumentCapture;
use mcp_workbench_wire::json;

/// Length of the recorded hash of arguments, in bytes.
const HASH: usize = 16;
/// Maximum size of arguments that are recorded in full, in bytes.
const MAX_WHOLE: usize = 64 * 1024;
/// Maximum size of a description of changes or of a reason, in bytes.
const MAX_CHANGES: usize = 4_000;
/// Maximum size of a name that an agent can choose, in bytes.
const MAX_NAME: usize = 200;

/// The outcome of a call that was in flight when the process was killed.
pub(crate) const LOST: &str = "lost";
/// The decision on a call or read that was let through. Only these have an outcome.
pub(crate) const ALLOWED: &str = "allowed";
/// The decision on a call or read that was stopped. `rule` or `reason` says why.
pub(crate) const DENIED: &str = "denied";
/// The decision on a call of a tool that doesn't exist, or a read of a missing primitive.
pub(crate) const UNKNOWN: &str = "unknown";

#[derive(Debug)]
pub(crate) struct LlmRecord {
    /// Shared with the numbers of calls.
    pub(crate) number: u64,
    pub(crate) at: SystemTime,
    pub(crate) agent: Option<AgentName>,
    pub(crate) session: u64,
    pub(crate) model: String,
    pub(crate) purpose: &'static str,
    pub(crate) outcome: LlmOutcome,
    pub(crate) took: Duration,
    pub(crate) tokens: [u64; 2],
    pub(crate) attempts: u32,
}

impl LlmRecord {
    pub(crate) fn new(request: &LlmContext<'_>, outcome: LlmOutcome, number: u64) -> Self {
        Self {
            number,
            at: request.at,
            agent: request.agent.cloned(),
            session: request.session,
            model: request.reported_model.clone().unwrap_or_else(|| request.model.to_owned()),
            purpose: request.purpose,
            outcome,
            took: request.took,
            tokens: request.tokens,
            attempts: request.attempts,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ReadRecord {
    pub(crate) at: SystemTime,
    pub(crate) agent: Option<AgentName>,
    pub(crate) session: u64,
    pub(crate) server: ServerRef,
    pub(crate) what: PrimitiveKind,
    pub(crate) name: String,
    pub(crate) rule: Option<String>,
    pub(crate) end: CallEnd,
}

impl ReadRecord {
    pub(crate) fn new(read: &ReadContext<'_>, end: &CallEnd) -> Self {
        Self {
            at: read.at,
            agent: read.agent.cloned(),
            session: read.session,
            server: read.server.clone(),
            what: read.what,
            name: read.name.clone().into_owned(),
            rule: read.rule.clone().map(Cow::into_owned),
            end: end.clone(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ReloadRecord {
    pub(crate) at: SystemTime,
    pub(crate) outcome: &'static str,
    pub(crate) changes: String,
    pub(crate) difference: String,
    /// Why the configuration was refused; otherwise empty.
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(crate) struct SignInRecord {
    pub(crate) at: SystemTime,
    pub(crate) server: String,
    pub(crate) account: Option<String>,
    pub(crate) change: SignInChange,
    pub(crate) why: String,
}

impl SignInRecord {
    pub(crate) fn new(login: &SignInContext<'_>, change: SignInChange) -> Self {
        Self {
            at: SystemTime::now(),
            server: login.server.to_owned(),
            account: login.account.map(str::to_owned),
            change,
            why: login.why.to_owned(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ApprovalRecord {
    pub(crate) at: SystemTime,
    pub(crate) id: String,
    pub(crate) agent: Option<AgentName>,
    pub(crate) session: u64,
    pub(crate) tool: ToolId,
    pub(crate) outcome: ApprovalOutcome,
    pub(crate) by: Option<Approver>,
    pub(crate) waited: Duration,
}

impl ApprovalRecord {
    pub(crate) fn new(
        call: &ApprovalContext<'_>,
        outcome: ApprovalOutcome,
        by: Option<&Approver>,
    ) -> Self {
        Self {
            at: SystemTime::now(),
            id: call.id.to_owned(),
            agent: call.agent.cloned(),
            session: call.session,
            tool: call.tool.clone(),
            outcome,
            by: by.cloned(),
            waited: call.waited,
        }
    }
}

#[derive(Debug)]
pub(crate) struct CertificateRecord {
    pub(crate) at: SystemTime,
    /// The expiry dates, or why the certificates were refused.
    pub(crate) read: Result<CertificateExpiry, String>,
}

#[derive(Debug)]
pub(crate) struct AuditEncoder {
    /// Distinguishes this process from others that write to the same file.
    run: String,
    capture: ArgumentCapture,
    key: Vec<u8>,
    secrets: Redactor,
}

impl AuditEncoder {
    pub(crate) fn new(
        run: String,
        capture: ArgumentCapture,
        key: Vec<u8>,
        secrets: Redactor,
    ) -> Self {
        Self { run, capture, key, secrets }
    }

    pub(crate) fn encode_call(&self, line: &mut Vec<u8>, facts: &CallStart, end: &CallEnd) {
        let CallDecision { rule, reason, listing } = &end.decision;
        self.begin(line, facts);
        let decision = match end.outcome {
            CallOutcome::UnknownTool => {
                let has = |listing: &Arc<Listing>| {
                    listing.tools.iter().any(|tool| tool.name == facts.tool)
                };
                if listing.as_ref().is_some_and(has) { DENIED } else { UNKNOWN }
            }
            CallOutcome::Denied => DENIED,
            _ => ALLOWED,
        };
        text(line, "decision", decision);
        if let (Some(rule), true) = (rule, decision != UNKNOWN) {
            text(line, "rule", &self.secrets.redact(rule));
        }
        if decision == ALLOWED {
            text(line, "outcome", end.outcome.as_str());
        }
        if let Some(reason) = reason {
            text(line, "reason", &cut(&self.secrets.redact(reason)));
        }
        if let Some(stopped_by) = end.stop_reason.map(CallStopReason::as_str) {
            text(line, "stoppedBy", stopped_by);
        }
        let marks = [
            ("dangerous", end.is_dangerous),
            ("confirmed", end.is_confirmed),
            ("cached", end.is_cached),
        ];
        for (mark, _) in marks.into_iter().filter(|(_, is_set)| *is_set) {
            flag(line, mark);
        }
        if !end.queued.is_zero() {
            milliseconds(line, "waitedMs", end.queued);
        }
        milliseconds(line, "ms", end.took);
        if let Some(bytes) = end.result_bytes {
            number(line, "resultBytes", bytes);
        }
        line.extend_from_slice(b"}\n");
    }

    /// Writes the line that remains of the call if the process is killed while it is in flight.
    pub(crate) fn encode_in_flight(&self, line: &mut Vec<u8>, facts: &CallStart) {
        self.begin(line, facts);
        text(line, "outcome", LOST);
        line.extend_from_slice(b"}\n");
    }

    fn begin(&self, line: &mut Vec<u8>, facts: &CallStart) {
        head(line, facts.at, "call");
        text(line, "call", &format!("{}-{}", self.run, facts.number));
        self.who(line, facts.agent.as_ref(), facts.session);
        if let Some(toolbox) = &facts.toolbox {
            text(line, "toolbox", toolbox.as_str());
        }
        if let Some(server) = &facts.server {
            text(line, "server", server.as_str());
        }
        text(line, "tool", &cut(&self.secrets.redact(&facts.tool)));
        let Some(arguments) = &facts.arguments else { return };
        number(line, "argumentBytes", arguments.len());
        if self.capture == ArgumentCapture::None {
            return;
        }
        text(line, "argumentsHash", &self.hash(arguments.as_bytes()));
        if self.capture == ArgumentCapture::Whole && arguments.len() <= MAX_WHOLE {
            line.extend_from_slice(b",\"arguments\":");
            self.secrets.write_redacted(line, arguments);
        }
    }

    pub(crate) fn lost(line: &mut Vec<u8>, records: u64) {
        head(line, SystemTime::now(), "lost");
        line.extend_from_slice(b",\"records\":");
        json::push_number(line, records);
        line.extend_from_slice(b"}\n");
    }

    /// Writes how many bytes of definitions a session was shown.
    pub(crate) fn session(&self, line: &mut Vec<u8>, session: &SessionContext) {
        head(line, SystemTime::now(), "session");
        self.who(line, session.agent.as_ref(), session.session);
        if !session.program.name.is_empty() {
            text(line, "client", &cut(&self.secrets.redact(&session.program.name)));
        }
        if session.program.has_tool_search {
            flag(line, "hasToolSearch");
        }
        number(line, "withoutWorkbenchBytes", session.baseline_bytes);
        number(line, "shownBytes", session.served_bytes);
        line.extend_from_slice(b"}\n");
    }

    pub(crate) fn llm_request(&self, line: &mut Vec<u8>, request: &LlmRecord) {
        head(line, request.at, "llm");
        text(line, "request", &format!("{}-{}", self.run, request.number));
        self.who(line, request.agent.as_ref(), request.session);
        text(line, "model", &cut(&self.secrets.redact(&request.model)));
        text(line, "purpose", request.purpose);
        text(line, "outcome", request.outcome.as_str());
        milliseconds(line, "ms", request.took);
        let [read, written] = request.tokens;
        count(line, "tokensRead", read);
        count(line, "tokensWritten", written);
        if request.attempts > 1 {
            count(line, "attempts", request.attempts.into());
        }
        line.extend_from_slice(b"}\n");
    }

    /// Writes a rejection that occurred `times` times.
    pub(crate) fn encode_rejection(line: &mut Vec<u8>, incident: &Rejection, times: u64) {
        let (kind, key, word) = match incident.cause {
            RejectionCause::Denied(reason) => ("denied", "reason", reason.as_str()),
            RejectionCause::Limit(quota) => ("limit", "quota", quota.as_str()),
        };
        head(line, SystemTime::now(), kind);
        match &incident.who {
            Some(QuotaOwner::Agent(agent)) => text(line, "agent", &cut(agent.as_str())),
            Some(QuotaOwner::Address(address)) => text(line, "address", &address.to_string()),
            Some(QuotaOwner::Server(server)) => {
                if !server.toolbox.as_str().is_empty() {
                    text(line, "toolbox", server.toolbox.as_str());
                }
                text(line, "server", server.server.as_str());
            }
            Some(QuotaOwner::Local) | None => {}
        }
        text(line, key, word);
        count(line, "times", times);
        line.extend_from_slice(b"}\n");
    }

    pub(crate) fn read(&self, line: &mut Vec<u8>, read: &ReadRecord) {
        head(line, read.at, read.what.word());
        self.who(line, read.agent.as_ref(), read.session);
        text(line, "toolbox", read.server.toolbox.as_str());
        text(line, "server", read.server.server.as_str());
        text(line, "name", &cut(&self.secrets.redact(&read.name)));
        let decision = match (read.end.outcome, &read.rule) {
            (CallOutcome::UnknownTool, None) => UNKNOWN,
            (CallOutcome::UnknownTool | CallOutcome::Denied, _) => DENIED,
            _ => ALLOWED,
        };
        text(line, "decision", decision);
        if let Some(rule) = &read.rule {
            text(line, "rule", rule);
        }
        if decision == ALLOWED {
            text(line, "outcome", read.end.outcome.as_str());
        }
        milliseconds(line, "ms", read.end.took);
        if let Some(bytes) = read.end.result_bytes {
            number(line, "resultBytes", bytes);
        }
        line.extend_from_slice(b"}\n");
    }

    /// Writes that a session was adopted; `times` counts all its adoptions so far.
    pub(crate) fn encode_adoption(&self, line: &mut Vec<u8>, session: &SessionContext, times: u64) {
        head(line, SystemTime::now(), "session_adopted");
        self.who(line, session.agent.as_ref(), session.session);
        count(line, "times", times);
        line.extend_from_slice(b"}\n");
    }

    pub(crate) fn sign_in(&self, line: &mut Vec<u8>, login: &SignInRecord) {
        head(line, login.at, "sign_in");
        text(line, "server", &login.server);
        if let Some(account) = &login.account {
            text(line, "account", account);
        }
        text(line, "outcome", login.change.as_str());
        if !login.why.is_empty() {
            text(line, "reason", &cut_to(MAX_CHANGES, &self.secrets.redact(&login.why)));
        }
        line.extend_from_slice(b"}\n");
    }

    /// Writes the answer to a confirmation or an approval, and who gave it.
    pub(crate) fn approval(&self, line: &mut Vec<u8>, approval: &ApprovalRecord) {
        head(line, approval.at, "approval");
        self.who(line, approval.agent.as_ref(), approval.session);
        text(line, "toolbox", approval.tool.toolbox.as_str());
        text(line, "server", approval.tool.server.as_str());
        text(line, "tool", &cut(&self.secrets.redact(&approval.tool.tool)));
        if !approval.id.is_empty() {
            text(line, "id", &approval.id);
        }
        text(line, "outcome", approval.outcome.as_str());
        if let Some(by) = &approval.by {
            text(line, "by", by.as_str());
            if let Some(operator) = by.operator() {
                text(line, "operator", &cut(operator.as_str()));
            }
        }
        milliseconds(line, "ms", approval.waited);
        line.extend_from_slice(b"}\n");
    }

    pub(crate) fn reload(&self, line: &mut Vec<u8>, reload: &ReloadRecord) {
        head(line, reload.at, "reload");
        text(line, "outcome", reload.outcome);
        let ReloadRecord { changes, difference, reason, .. } = reload;
        for (key, said) in [("changes", changes), ("difference", difference), ("reason", reason)] {
            if !said.is_empty() {
                text(line, key, &cut_to(MAX_CHANGES, &self.secrets.redact(said)));
            }
        }
        line.extend_from_slice(b"}\n");
    }

    pub(crate) fn certificates(&self, line: &mut Vec<u8>, certificates: &CertificateRecord) {
        head(line, certificates.at, "certificate");
        match &certificates.read {
            Ok(CertificateExpiry { cert, client_ca }) => {
                text(line, "outcome", "loaded");
                text(line, "until", &date(*cert));
                if let Some(client_ca) = client_ca {
                    text(line, "clientCaUntil", &date(*client_ca));
                }
            }
            Err(reason) => {
                text(line, "outcome", "rejected");
                text(line, "reason", &cut_to(MAX_CHANGES, &self.secrets.redact(reason)));
            }
        }
        line.extend_from_slice(b"}\n");
    }

    fn who(&self, line: &mut Vec<u8>, agent: Option<&AgentName>, session: u64) {
        if let Some(agent) = agent {
            text(line, "agent", agent.as_str());
        }
        text(line, "session", &format!("{}-{session}", self.run));
    }

    /// Returns a keyed hash. Without the key, the arguments can't be found by trial.
    fn hash(&self, arguments: &[u8]) -> String {
        // HMAC accepts keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return String::new() };
        mac.update(arguments);
        hex::encode(&mac.finalize().into_bytes()[..HASH])
    }
}

fn head(line: &mut Vec<u8>, at: SystemTime, kind: &str) {
    line.extend_from_slice(b"{\"time\":");
    let time = DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Millis, true);
    json::push_text(line, &time);
    text(line, "kind", kind);
}

/// Formats seconds since the Unix epoch.
fn date(seconds: u64) -> String {
    let date = i64::try_from(seconds).ok().and_then(|at| DateTime::from_timestamp(at, 0));
    // Dates past the supported range are clamped to its end.
    let date = date.unwrap_or(DateTime::<Utc>::MAX_UTC);
    date.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn text(line: &mut Vec<u8>, key: &str, value: &str) {
    line.push(b',');
    json::push_text(line, key);
    line.push(b':');
    json::push_text(line, value);
}

fn flag(line: &mut Vec<u8>, key: &str) {
    line.push(b',');
    json::push_text(line, key);
    line.extend_from_slice(b":true");
}

fn number(line: &mut Vec<u8>, key: &str, value: usize) {
    count(line, key, value as u64);
}

fn count(line: &mut Vec<u8>, key: &str, value: u64) {
    line.push(b',');
    json::push_text(line, key);
    line.push(b':');
    json::push_number(line, value);
}

fn milliseconds(line: &mut Vec<u8>, key: &str, time: Duration) {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    line.push(b',');
    json::push_text(line, key);
    line.push(b':');
    line.extend_from_slice(format!("{}.{:03}", micros / 1000, micros % 1000).as_bytes());
}

/// Truncates a text to the maximum size of a name.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    cut_to(MAX_NAME, text)
}

pub(crate) fn cut_to(most: usize, text: &str) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(most)]))
}

#[cfg(test)]
mod tests;
