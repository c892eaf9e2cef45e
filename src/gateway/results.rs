//! Results that are too long to be given at once: their first part is given, and the rest is kept
//! for a while as a resource, which is read in pieces.
//!
//! *Theory of operation.* What an agent gets is cut where its result leaves for it, when everything
//! else has been done with it ([`cut`]). The rest goes by a random name that nobody can guess
//! ([`Results`]). It is read by the session that got the result, and where each request is a
//! session of its own, by the agent of that name. It is in no list.

mod cut;

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::backend::{AgentId, Outcome};
use crate::gateway::results::cut::{Cut, cut, fitting};
use crate::gateway::{Gateway, Origin};
use crate::name::AgentName;
use crate::raw::{self, Raw};

/// What addresses of such resources begin with.
const PREFIX: &str = "mcp-workbench://results/";
/// What stands in an address before where a piece begins.
const OFFSET: &str = "?offset=";
/// How long what is left of a result can be read.
const LIFETIME: Duration = Duration::from_mins(15);
/// How many of them are kept, and how many bytes, of one agent and of all; the oldest go first.
const PER_AGENT: Room = Room { count: 100, bytes: 16 * 1024 * 1024 };
const IN_ALL: Room = Room { count: 1000, bytes: 64 * 1024 * 1024 };

#[derive(Clone, Copy)]
struct Room {
    count: usize,
    bytes: usize,
}

/// What is left of results, of all agents.
#[derive(Default)]
pub(crate) struct Results(Mutex<State>);

#[derive(Default)]
struct State {
    kept: HashMap<String, Kept>,
    /// The oldest first.
    order: VecDeque<String>,
}

struct Kept {
    agent: Option<AgentName>,
    /// The session that it is for; `None`: any of that agent.
    session: Option<AgentId>,
    text: Arc<str>,
    /// How many bytes of it are given at once.
    piece: usize,
    until: Instant,
}

impl Results {
    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps what is left of a result; the name that it goes by, unless there are no random numbers.
    fn keep(&self, text: &str, piece: usize, origin: Origin<'_>) -> Option<String> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).ok()?;
        let mut id = String::with_capacity(2 * random.len());
        for byte in random {
            // Writing to a string does not fail.
            let _ = write!(id, "{byte:02x}");
        }
        let kept = Kept {
            agent: origin.caller.agent.clone(),
            session: (!origin.is_modern).then_some(origin.agent.id),
            text: text.into(),
            piece,
            until: Instant::now() + LIFETIME,
        };
        self.state(|state| {
            state.forget(|kept| kept.until <= Instant::now());
            state.make_room(PER_AGENT, kept.text.len(), |other| other.agent == kept.agent);
            state.make_room(IN_ALL, kept.text.len(), |_| true);
            state.order.push_back(id.clone());
            state.kept.insert(id.clone(), kept);
        });
        Some(id)
    }

    /// What goes by this name, if it is for whoever asks.
    fn find(&self, id: &str, origin: Origin<'_>) -> Option<(Arc<str>, usize)> {
        self.state(|state| {
            let kept = state.kept.get(id)?;
            let is_theirs = kept.agent == origin.caller.agent
                && kept.session.is_none_or(|session| session == origin.agent.id)
                && kept.until > Instant::now();
            is_theirs.then(|| (Arc::clone(&kept.text), kept.piece))
        })
    }

    /// Forgets what a session that has ended could read.
    pub(crate) fn leave(&self, session: AgentId) {
        self.state(|state| state.forget(|kept| kept.session == Some(session)));
    }
}

impl State {
    fn forget(&mut self, is_over: impl Fn(&Kept) -> bool) {
        if self.kept.is_empty() {
            return;
        }
        self.kept.retain(|_, kept| !is_over(kept));
        self.order.retain(|id| self.kept.contains_key(id));
    }

    /// Lets the oldest go among those that count, until there is room for one more.
    fn make_room(&mut self, room: Room, bytes: usize, counts: impl Fn(&Kept) -> bool) {
        let counted = self.kept.values().filter(|kept| counts(kept));
        let (mut count, mut total) =
            counted.fold((1, bytes), |(count, total), kept| (count + 1, total + kept.text.len()));
        let Self { kept, order } = self;
        order.retain(|id| {
            let is_too_much = count > room.count || total > room.bytes;
            let goes = is_too_much && kept.get(id).is_some_and(&counts);
            if goes && let Some(gone) = kept.remove(id) {
                count -= 1;
                total -= gone.text.len();
            }
            !goes
        });
    }
}

impl Gateway {
    /// The outcome of a call as it is given to the agent: as much of a long result as it may be
    /// given at once, and where to read the rest. `of` is what it is the result of.
    pub fn hand_out(&self, of: &str, outcome: Outcome, origin: Origin<'_>) -> Outcome {
        let Some(most) = self.config.limits.max_result_bytes else { return outcome };
        match outcome {
            Outcome::Result(result) if result.len() > most => {
                let given = self.first_part(of, &result, most, origin);
                Outcome::Result(given.unwrap_or(result))
            }
            other => other,
        }
    }

    /// Whether an outcome may be too long to be given at once.
    pub(crate) fn may_be_cut(&self, outcome: &Outcome) -> bool {
        let most = self.config.limits.max_result_bytes;
        most.is_some_and(|most| matches!(outcome, Outcome::Result(result) if result.len() > most))
    }

    /// The first part of a result with its rest kept, if the result is too long.
    fn first_part(&self, of: &str, result: &Raw, most: usize, origin: Origin<'_>) -> Option<Raw> {
        let Cut { mut content, rest, is_structured } = cut(result, most)?;
        let kept = &rest[..rest.floor_char_boundary(PER_AGENT.bytes)];
        let id = self.results.keep(kept, most, origin)?;
        let uri = format!("{PREFIX}{id}");
        let structured = if is_structured { ", `structuredContent` among them" } else { "" };
        let of_which = if kept.len() < rest.len() {
            format!(" The first {} bytes of that", kept.len())
        } else {
            " They".to_owned()
        };
        let note = format!(
            "This result is too long to be given at once: {} bytes of it are left \
             out{structured}.{of_which} can be read for {} minutes as a resource, in pieces of up \
             to {most} bytes, each of which names the next: {uri}",
            rest.len(),
            LIFETIME.as_secs() / 60,
        );
        if origin.reads_links {
            content.push(Raw::encode(&json!({
                "type": "resource_link",
                "uri": uri,
                "name": format!("rest of the result of {of}"),
                "mimeType": "text/plain",
                "size": kept.len(),
            })));
        }
        content.push(Raw::encode(&json!({"type": "text", "text": note})));
        let given = result.with_member("content", &raw::array(&content))?;
        if is_structured { given.without_member("structuredContent") } else { Some(given) }
    }

    /// A piece of what was left of a result; `None` if the address is that of something else, an
    /// inner `None` if nothing is there for this agent.
    pub fn read_rest(&self, uri: &str, origin: Origin<'_>) -> Option<Option<Raw>> {
        let (id, offset) = address(uri)?;
        let Some((text, most)) = self.results.find(id, origin) else { return Some(None) };
        let Some(rest) = text.get(offset..) else { return Some(None) };
        let (piece, later) = rest.split_at(fitting(rest, most));
        let mut contents = vec![json!({"uri": uri, "mimeType": "text/plain", "text": piece})];
        if !later.is_empty() {
            let next = format!("{PREFIX}{id}{OFFSET}{}", text.len() - later.len());
            let note = format!("{} bytes more; the next piece is the resource {next}", later.len());
            let uri = format!("{uri}#next");
            contents.push(json!({"uri": uri, "mimeType": "text/plain", "text": note}));
        }
        Some(Some(Raw::encode(&json!({"contents": contents}))))
    }
}

/// The name in such an address, and where the piece begins.
fn address(uri: &str) -> Option<(&str, usize)> {
    let rest = uri.strip_prefix(PREFIX)?;
    let (id, offset) = match rest.split_once(OFFSET) {
        Some((id, offset)) => (id, offset.parse().ok()?),
        None => (rest, 0),
    };
    // A toolbox may be called `results` too; what is in it has further parts.
    let is_name = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then_some((id, offset))
}

#[cfg(test)]
mod tests;
