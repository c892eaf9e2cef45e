//! Shortening of results: the agent gets selected fields or the first part, and the remainder is
//! stored as a resource that it reads in pieces.
//!
//! A result is shortened last, when it is sent to the agent ([`selection`], then
//! [`cut`](mod@cut)). The remainder has an unguessable name ([`TruncatedResults`]) and is in no list.
//! Only the session that got the result can read it or, without sessions, any request of the same
//! agent.

mod cut;
pub(crate) mod selection;

use std::sync::Arc;

use serde_json::json;

use crate::backend::RpcOutcome;
use crate::gateway::request_context::RequestContext;
use crate::gateway::truncation::cut::{SplitResult, cut, json_prefix_len};
use crate::gateway::truncation::selection::{FieldsOfResult, SelectedBy, select_fields};
use crate::state::{
    Capacity, PutOutcome, RecordKey, RecordKind, ResultRemainder, StateRecord, StateStore,
};
use crate::telemetry::QuotaKind;
use mcp_workbench_settings::Config;
use mcp_workbench_wire::code::INTERNAL_ERROR;
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::select::Selection;
use mcp_workbench_wire::json::{self, EditError, RawJson};
use mcp_workbench_wire::offload::offload;

/// Maximum bytes of one piece of a whole result, without `limits.maxResultBytes`.
const PIECE: usize = 50_000;
const PREFIX: &str = "mcp-workbench://results/";
const OFFSET: &str = "?offset=";
/// Truncates the results of a gateway's calls, and keeps the remainders.
pub struct TruncatedResults {
    store: Arc<dyn StateStore>,
    config: Arc<Config>,
}

impl TruncatedResults {
    pub(crate) fn new(store: Arc<dyn StateStore>, config: Arc<Config>) -> Self {
        Self { store, config }
    }

    /// Stores as much of a remainder as fits the caller's quota. Returns its id and the number of
    /// bytes stored, or `None` without a source of randomness.
    async fn keep(
        &self,
        text: &str,
        piece: usize,
        context: &RequestContext<'_>,
    ) -> Option<(String, usize)> {
        let limits = &self.config.limits.per_caller;
        let capacity =
            Capacity { count: limits.max_stored_results, bytes: limits.max_stored_bytes };
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).ok()?;
        let id = hex::encode(random);
        // A legacy request always has a session.
        let session = if context.is_modern { None } else { Some(context.session?.clone()) };
        let (agent, subject) = (context.caller.agent.clone(), context.caller.subject.clone());
        let quota = context.agent.purse();
        let owner = quota.map(|quota| quota.payer().to_string());
        let kept = &text[..text.floor_char_boundary(capacity.bytes)];
        let rest = ResultRemainder { agent, subject, session, owner, text: kept.into(), piece };
        let key = RecordKey::Rest(id.clone());
        let put = self.store.put(key, StateRecord::Remainder(rest), capacity).await;
        let is_over = put == PutOutcome::StoredWithEviction || kept.len() < text.len();
        if let Some(quota) = quota.filter(|_| is_over) {
            quota.report_limit_reached(QuotaKind::StoredBytes);
        }
        Some((id, kept.len()))
    }

    /// Returns the text and piece size of a remainder, if the caller may read it.
    async fn find(&self, id: &str, context: &RequestContext<'_>) -> Option<(Arc<str>, usize)> {
        let StateRecord::Remainder(rest) = self.store.get(&RecordKey::Rest(id.to_owned())).await?
        else {
            return None;
        };
        let is_theirs = (&rest.agent, &rest.subject)
            == (&context.caller.agent, &context.caller.subject)
            && rest.session.is_none_or(|session| Some(&session) == context.session);
        is_theirs.then_some((rest.text, rest.piece))
    }

    /// Truncates a result longer than `limits.maxResultBytes` and adds a link to its remainder,
    /// which is stored for 15 minutes. `of` names the source in that link.
    pub async fn truncate(&self, of: &str, outcome: &mut RpcOutcome, context: &RequestContext<'_>) {
        if let (Some(most), RpcOutcome::Result(result)) =
            (self.config.limits.max_result_bytes, &*outcome)
            && result.len() > most
        {
            let given = self.build_truncated_result(of, result, most, context);
            let given = Box::pin(given).await.map(RpcOutcome::Result);
            *outcome = given.unwrap_or_else(|why| {
                let message = format!(
                    "the result exceeds limits.maxResultBytes and cannot be truncated: {why}"
                );
                RpcOutcome::Error(error_object(INTERNAL_ERROR, &message, None))
            });
        }
    }

    async fn build_truncated_result(
        &self,
        of: &str,
        result: &RawJson,
        most: usize,
        context: &RequestContext<'_>,
    ) -> Result<RawJson, String> {
        // A client could use the second of repeated members, whose length wasn't checked.
        let result = only_members(result, &["content", "structuredContent"]);
        let result = result.map_err(|error| error.to_string())?;
        let Some(SplitResult { mut content, rest, is_structured }) = cut(&result, most) else {
            return Ok(result);
        };
        let stored = self.keep(&rest, most, context).await;
        let (id, kept) = stored.ok_or("the operating system has no random numbers")?;
        let uri = format!("{PREFIX}{id}");
        let structured = if is_structured { ", including `structuredContent`," } else { "" };
        let of_which = if kept < rest.len() {
            format!(" The first {kept} of them")
        } else {
            " They".to_owned()
        };
        let note = format!(
            "This result was truncated: {} bytes{structured} were left out.{of_which} can be read \
             for {} minutes as a resource, in pieces of up to {most} bytes that each name the \
             next: {uri}",
            rest.len(),
            lifetime_in_minutes(),
        );
        if context.supports_resource_links {
            content.push(RawJson::encode(&json!({
                "type": "resource_link",
                "uri": uri,
                "name": format!("rest of the result of {of}"),
                "mimeType": "text/plain",
                "size": kept,
            })));
        }
        content.push(RawJson::encode(&json!({"type": "text", "text": note})));
        let given = result.with_member("content", &json::array(&content));
        let given = given.and_then(|given| {
            if is_structured { given.without_member("structuredContent") } else { Ok(given) }
        });
        given.map_err(|error| error.to_string())
    }

    /// Selects fields of a result and appends a note on how to read the whole result, which is
    /// stored for 15 minutes.
    pub async fn select(
        &self,
        selection: &Arc<Selection>,
        by: SelectedBy,
        outcome: RpcOutcome,
        context: &RequestContext<'_>,
    ) -> RpcOutcome {
        let RpcOutcome::Result(result) = &outcome else { return outcome };
        let (from, selection) = (result.clone(), Arc::clone(selection));
        let selected = offload(result.len(), move || select_fields(&from, &selection, by)).await;
        let FieldsOfResult { result, missing, whole } = match selected {
            Ok(Some(fields)) => fields,
            Ok(None) => return outcome,
            Err(error) => return RpcOutcome::from_edit(Err(error)),
        };
        let mut notes: Vec<String> = missing.into_iter().collect();
        if !whole.is_empty() {
            let piece = self.config.limits.max_result_bytes.unwrap_or(PIECE);
            // Without a source of randomness, nothing is left out.
            let Some((id, kept)) = self.keep(&whole, piece, context).await else { return outcome };
            let part = (kept < whole.len()).then(|| format!("the first {kept} of "));
            notes.push(format!(
                "Only selected fields. The whole result ({}{} bytes) is readable for {} minutes as \
                 resource {PREFIX}{id}",
                part.unwrap_or_default(),
                whole.len(),
                lifetime_in_minutes(),
            ));
        }
        RpcOutcome::from_edit(with_note(&result, &notes.join("\n")))
    }

    /// Reads a piece of a remainder. Returns `None` for other URIs, `Some(None)` if this agent has
    /// no such remainder.
    pub async fn read_remainder(
        &self,
        uri: &str,
        context: &RequestContext<'_>,
    ) -> Option<Option<RawJson>> {
        let (id, offset) = address(uri)?;
        let Some((text, most)) = self.find(id, context).await else { return Some(None) };
        let Some(rest) = text.get(offset..) else { return Some(None) };
        let (piece, later) = rest.split_at(json_prefix_len(rest, most));
        let mut contents = vec![json!({"uri": uri, "mimeType": "text/plain", "text": piece})];
        if !later.is_empty() {
            let next = format!("{PREFIX}{id}{OFFSET}{}", text.len() - later.len());
            let note = format!("{} more bytes; the next piece is the resource {next}", later.len());
            let uri = format!("{uri}#next");
            contents.push(json!({"uri": uri, "mimeType": "text/plain", "text": note}));
        }
        Some(Some(RawJson::encode(&json!({"contents": contents}))))
    }
}

/// Appends a text block.
fn with_note(result: &RawJson, note: &str) -> Result<RawJson, EditError> {
    if note.is_empty() {
        return Ok(result.clone());
    }
    let note = RawJson::encode(&json!({"type": "text", "text": note}));
    let content = result.member("content").unwrap_or_else(|| json::array([]));
    result.with_member("content", &content.with_item(&note)?)
}

fn lifetime_in_minutes() -> u64 {
    RecordKind::Rest.lifetime().map_or(0, |lifetime| lifetime.as_secs() / 60)
}

/// Returns the object with only the first of repeated members called `keys`.
fn only_members(object: &RawJson, keys: &[&str]) -> Result<RawJson, EditError> {
    let members = object.members().unwrap_or_default();
    let mut only = object.clone();
    for key in keys {
        let mut values = members.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
        if let (Some(first), Some(_)) = (values.next(), values.next()) {
            only = only.with_member(key, first)?;
        }
    }
    Ok(only)
}

fn address(uri: &str) -> Option<(&str, usize)> {
    let rest = uri.strip_prefix(PREFIX)?;
    let (id, offset) = match rest.split_once(OFFSET) {
        Some((id, offset)) => (id, offset.parse().ok()?),
        None => (rest, 0),
    };
    // A toolbox may be named `results` too; its URIs have more segments.
    let is_name = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then_some((id, offset))
}

#[cfg(test)]
mod tests;
