//! Results that are too long to be given at once: their first part is given, and the rest is kept
//! for a while as a resource, which is read in pieces.
//!
//! *Theory of operation.* What an agent gets is cut where its result leaves for it, when everything
//! else has been done with it ([`cut`]). The rest goes by a random name that nobody can guess
//! ([`Results`]). It is read by the session that got the result, and where each request is a
//! session of its own, by the agent of that name. It is in no list.

mod cut;

use std::fmt::Write;
use std::sync::Arc;

use serde_json::json;

use crate::backend::Outcome;
use crate::gateway::results::cut::{Cut, cut, fitting};
use crate::gateway::{Gateway, RequestContext};
use crate::raw::{self, Raw};
use crate::state::{Key, Kind, Record, Rest, Room, Store};

/// The beginning of addresses of such resources.
const PREFIX: &str = "mcp-workbench://results/";
/// The mark in an address before where a piece begins.
const OFFSET: &str = "?offset=";
/// The rests of results, of all agents.
pub(crate) struct Results(pub(crate) Arc<dyn Store>);

impl Results {
    /// Keeps what is left of a result; the name that it goes by, unless there are no random numbers.
    async fn keep(
        &self,
        text: &str,
        piece: usize,
        room: Room,
        context: &RequestContext<'_>,
    ) -> Option<String> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).ok()?;
        let mut id = String::with_capacity(2 * random.len());
        for byte in random {
            // Writing to a string does not fail.
            let _ = write!(id, "{byte:02x}");
        }
        // Where it is for a session, there is one.
        let session = if context.is_modern { None } else { Some(context.session?.clone()) };
        let agent = context.caller.agent.clone();
        let payer = context.agent.purse().map(|purse| purse.payer().to_string());
        let rest = Rest { agent, session, payer, text: text.into(), piece };
        self.0.put(Key::Rest(id.clone()), Record::Rest(rest), room).await;
        Some(id)
    }

    /// Returns the rest of this name, if it is for whoever asks.
    async fn find(&self, id: &str, context: &RequestContext<'_>) -> Option<(Arc<str>, usize)> {
        let Record::Rest(rest) = self.0.get(&Key::Rest(id.to_owned())).await? else { return None };
        let is_theirs = rest.agent == context.caller.agent
            && rest.session.is_none_or(|session| Some(&session) == context.session);
        is_theirs.then_some((rest.text, rest.piece))
    }
}

impl Gateway {
    /// Makes the outcome of a call what is given to the agent: as much of a long result as it may be
    /// given at once, and where to read the rest. `of` is what it is the result of.
    pub async fn hand_out(&self, of: &str, outcome: &mut Outcome, context: &RequestContext<'_>) {
        if let (Some(most), Outcome::Result(result)) =
            (self.config.limits.max_result_bytes, outcome)
            && result.len() > most
            && let Some(given) = Box::pin(self.first_part(of, result, most, context)).await
        {
            *result = given;
        }
    }

    /// Returns `true` if an outcome may be too long to be given at once.
    pub(crate) fn may_be_cut(&self, outcome: &Outcome) -> bool {
        let most = self.config.limits.max_result_bytes;
        most.is_some_and(|most| matches!(outcome, Outcome::Result(result) if result.len() > most))
    }

    /// The first part of a result with its rest kept, if the result is too long.
    async fn first_part(
        &self,
        of: &str,
        result: &Raw,
        most: usize,
        context: &RequestContext<'_>,
    ) -> Option<Raw> {
        let Cut { mut content, rest, is_structured } = cut(result, most)?;
        let limits = &self.config.limits.per_caller;
        let room = Room { count: limits.max_kept_results, bytes: limits.max_kept_bytes };
        let kept = &rest[..rest.floor_char_boundary(room.bytes)];
        let id = self.results.keep(kept, most, room, context).await?;
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
            Kind::Rest.lifetime().map_or(0, |lifetime| lifetime.as_secs() / 60),
        );
        if context.reads_links {
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
    pub async fn read_rest(&self, uri: &str, context: &RequestContext<'_>) -> Option<Option<Raw>> {
        let (id, offset) = address(uri)?;
        let Some((text, most)) = self.results.find(id, context).await else { return Some(None) };
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
