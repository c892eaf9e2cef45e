//! The record of a call, and the line that it becomes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::catalog::Listing;
use crate::config::KeptArguments;
use crate::name::{AgentName, ServerName, ToolboxName};
use crate::observe::Secrets;
use crate::observe::answered::Answered;
use crate::raw::{self, Raw};

/// How many bytes of the hash of arguments are kept.
const HASH: usize = 16;
/// Larger arguments are never kept whole.
const MAX_WHOLE: usize = 64 * 1024;
/// The most bytes of a name that an agent has made up.
const MAX_NAME: usize = 200;

/// The ways in which a call can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server's result.
    Ok,
    /// The server's result, which says that the tool failed.
    ToolError,
    /// The server answered with an error of the protocol.
    ProtocolError,
    /// The server wants to know something first; the call is made again with the answer.
    InputRequired,
    /// There is no such tool, or the agent may not know of it.
    Unknown,
    /// The arguments are no JSON object, or do not fit a macro.
    BadArguments,
    /// It was not let through.
    Refused,
    /// The agent gave it up, or left.
    Cancelled,
    /// No answer in time.
    TimedOut,
    /// The server died of it, or while it ran.
    ServerDied,
    /// The server could not be started.
    StartFailed,
    /// The answer was too long.
    Oversized,
    /// The workbench ended.
    ShuttingDown,
    /// An error of ours.
    Panicked,
}

impl Ending {
    /// Every one.
    pub const ALL: [Self; 14] = [
        Self::Ok,
        Self::ToolError,
        Self::ProtocolError,
        Self::InputRequired,
        Self::Unknown,
        Self::BadArguments,
        Self::Refused,
        Self::Cancelled,
        Self::TimedOut,
        Self::ServerDied,
        Self::StartFailed,
        Self::Oversized,
        Self::ShuttingDown,
        Self::Panicked,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::ProtocolError => "protocol_error",
            Self::InputRequired => "input_required",
            Self::Unknown => "unknown",
            Self::BadArguments => "bad_arguments",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::ServerDied => "server_died",
            Self::StartFailed => "start_failed",
            Self::Oversized => "oversized",
            Self::ShuttingDown => "shutting_down",
            Self::Panicked => "panicked",
        }
    }
}

/// The word for a call that was running when the program was killed.
pub(crate) const LOST: &str = "lost";
/// The word for a tool that is there, but not for this agent.
pub(crate) const DENIED: &str = "denied";

/// The part of a record that is known when the call begins.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Counts the calls of this process.
    pub(crate) serial: u64,
    pub(crate) at: SystemTime,
    pub(crate) agent: Option<AgentName>,
    /// Counts the agents of this process.
    pub(crate) session: u64,
    pub(crate) toolbox: Option<ToolboxName>,
    pub(crate) server: Option<ServerName>,
    pub(crate) tool: String,
    pub(crate) arguments: Option<Raw>,
}

/// The part of a record that is known when the call has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    /// How long it took, if it did not end with the program.
    pub(crate) took: Duration,
    pub(crate) result_bytes: Option<usize>,
    /// The rule that decided, if one did.
    pub(crate) rule: Option<Cow<'static, str>>,
    /// Why it was not let through.
    pub(crate) reason: Option<String>,
    /// The tools of its server, where a tool was not found among those that the agent may know of.
    pub(crate) listing: Option<Arc<Listing>>,
    /// How it went.
    pub(crate) notes: Notes,
}

/// How many bytes of definitions one agent's model was shown while it was there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) agent: Option<AgentName>,
    pub(crate) session: u64,
    /// The program that the agent is.
    pub(crate) program: ClientProgram,
    /// The bytes that the program would have shown without us.
    pub(crate) without_us: usize,
    /// The bytes that came from us.
    pub(crate) received: usize,
}

/// Makes lines.
#[derive(Debug)]
pub(crate) struct Scribe {
    /// Tells this process from others that write to the same file.
    run: String,
    kept: KeptArguments,
    key: Vec<u8>,
    secrets: Secrets,
}

impl Scribe {
    pub(crate) fn new(run: String, kept: KeptArguments, key: Vec<u8>, secrets: Secrets) -> Self {
        Self { run, kept, key, secrets }
    }

    /// Writes the line of a call that has ended.
    pub(crate) fn call(&self, line: &mut Vec<u8>, begun: &Begun, ended: &Ended) {
        self.begin(line, begun);
        let decision = match ended.ending {
            Ending::Unknown => {
                let has = |listing: &Arc<Listing>| {
                    listing.tools.iter().any(|tool| tool.name == begun.tool)
                };
                if ended.listing.as_ref().is_some_and(has) { DENIED } else { "unknown" }
            }
            Ending::Refused => "refused",
            _ => "allowed",
        };
        text(line, "decision", decision);
        if let (Some(rule), true) = (&ended.rule, decision != "unknown") {
            text(line, "rule", &self.secrets.redact(rule));
        }
        let outcome = if decision == DENIED { decision } else { ended.ending.as_str() };
        text(line, "outcome", outcome);
        if let Some(reason) = &ended.reason {
            text(line, "reason", &cut(&self.secrets.redact(reason)));
        }
        if let Some(stopped_by) = ended.notes.stopped_by {
            text(line, "stoppedBy", stopped_by);
        }
        let Notes { is_dangerous, is_confirmed, is_cached, waited, stopped_by: _ } = ended.notes;
        let marks =
            [("dangerous", is_dangerous), ("confirmed", is_confirmed), ("cached", is_cached)];
        for (mark, _) in marks.into_iter().filter(|(_, is_set)| *is_set) {
            flag(line, mark);
        }
        if !waited.is_zero() {
            milliseconds(line, "waitedMs", waited);
        }
        milliseconds(line, "ms", ended.took);
        if let Some(bytes) = ended.result_bytes {
            number(line, "resultBytes", bytes);
        }
        line.extend_from_slice(b"}\n");
    }

    /// Writes what would be the line of a call if the program were killed now.
    pub(crate) fn unfinished(&self, line: &mut Vec<u8>, begun: &Begun) {
        self.begin(line, begun);
        text(line, "outcome", LOST);
        line.extend_from_slice(b"}\n");
    }

    fn begin(&self, line: &mut Vec<u8>, begun: &Begun) {
        head(line, begun.at, "call");
        text(line, "call", &format!("{}-{}", self.run, begun.serial));
        self.who(line, begun.agent.as_ref(), begun.session);
        if let Some(toolbox) = &begun.toolbox {
            text(line, "toolbox", toolbox.as_str());
        }
        if let Some(server) = &begun.server {
            text(line, "server", server.as_str());
        }
        text(line, "tool", &cut(&self.secrets.redact(&begun.tool)));
        let Some(arguments) = &begun.arguments else { return };
        number(line, "argumentBytes", arguments.len());
        if self.kept == KeptArguments::None {
            return;
        }
        text(line, "argumentsHash", &self.hash(arguments.as_bytes()));
        if self.kept == KeptArguments::Whole && arguments.len() <= MAX_WHOLE {
            line.extend_from_slice(b",\"arguments\":");
            self.secrets.write_redacted(line, arguments);
        }
    }

    /// Writes that records have been lost.
    pub(crate) fn lost(line: &mut Vec<u8>, records: u64) {
        head(line, SystemTime::now(), "lost");
        line.extend_from_slice(b",\"records\":");
        raw::push_number(line, records);
        line.extend_from_slice(b"}\n");
    }

    /// Writes what the model of an agent that has left was shown of definitions.
    pub(crate) fn given(&self, line: &mut Vec<u8>, given: &Given) {
        head(line, SystemTime::now(), "session");
        self.who(line, given.agent.as_ref(), given.session);
        if !given.program.name.is_empty() {
            text(line, "client", &cut(&self.secrets.redact(&given.program.name)));
        }
        if given.program.has_tool_search {
            flag(line, "toolSearch");
        }
        number(line, "withoutBytes", given.without_us);
        number(line, "givenBytes", given.received);
        line.extend_from_slice(b"}\n");
    }

    /// Writes the line of a request to a model.
    pub(crate) fn answered(&self, line: &mut Vec<u8>, answered: &Answered) {
        head(line, answered.at, "llm");
        text(line, "request", &format!("{}-{}", self.run, answered.serial));
        self.who(line, answered.agent.as_ref(), answered.session);
        text(line, "model", &cut(&self.secrets.redact(&answered.model)));
        text(line, "purpose", answered.purpose);
        text(line, "outcome", answered.response.as_str());
        milliseconds(line, "ms", answered.took);
        count(line, "tokensRead", answered.read);
        count(line, "tokensWritten", answered.written);
        if answered.attempts > 1 {
            count(line, "attempts", answered.attempts.into());
        }
        line.extend_from_slice(b"}\n");
    }

    fn who(&self, line: &mut Vec<u8>, agent: Option<&AgentName>, session: u64) {
        if let Some(agent) = agent {
            text(line, "agent", agent.as_str());
        }
        text(line, "session", &format!("{}-{session}", self.run));
    }

    /// A hash that nobody can find the arguments by who does not have the key.
    fn hash(&self, arguments: &[u8]) -> String {
        use std::fmt::Write as _;

        // A key of any length is taken.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return String::new() };
        mac.update(arguments);
        let hash = mac.finalize().into_bytes();
        hash.iter().take(HASH).fold(String::with_capacity(2 * HASH), |mut hex, byte| {
            // Writing into memory does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

fn head(line: &mut Vec<u8>, at: SystemTime, kind: &str) {
    line.extend_from_slice(b"{\"time\":");
    let time = DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Millis, true);
    raw::push_text(line, &time);
    text(line, "kind", kind);
}

fn text(line: &mut Vec<u8>, key: &str, value: &str) {
    line.push(b',');
    raw::push_text(line, key);
    line.push(b':');
    raw::push_text(line, value);
}

fn flag(line: &mut Vec<u8>, key: &str) {
    line.push(b',');
    raw::push_text(line, key);
    line.extend_from_slice(b":true");
}

fn number(line: &mut Vec<u8>, key: &str, value: usize) {
    count(line, key, value as u64);
}

fn count(line: &mut Vec<u8>, key: &str, value: u64) {
    line.push(b',');
    raw::push_text(line, key);
    line.push(b':');
    raw::push_number(line, value);
}

fn milliseconds(line: &mut Vec<u8>, key: &str, time: Duration) {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    line.push(b',');
    raw::push_text(line, key);
    line.push(b':');
    line.extend_from_slice(format!("{}.{:03}", micros / 1000, micros % 1000).as_bytes());
}

/// A text that is not longer than a name has to be.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_NAME {
        return Cow::Borrowed(text);
    }
    let end = (0..=MAX_NAME).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    Cow::Owned(format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests;

/// An agent's program, as far as it decides what its model is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientProgram {
    /// The name that it gives itself; empty if it gives none.
    pub name: String,
    /// `true` if the program hides tools behind a search of its own.
    pub has_tool_search: bool,
}

/// How a call went, besides what came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes {
    /// `true` if the tool is dangerous, as the configuration or its server says.
    pub is_dangerous: bool,
    /// `true` if the user was asked and agreed.
    pub is_confirmed: bool,
    /// `true` if an earlier answer of the server was used again.
    pub is_cached: bool,
    /// How long it waited for other calls to end.
    pub waited: Duration,
    /// The reason why it was not let through though its tool is there.
    pub stopped_by: Option<&'static str>,
}
