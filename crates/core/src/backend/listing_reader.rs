//! Reads the complete lists of a server.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::backend::handshake::HandshakeResult;
use crate::backend::server_quota::ServerQuota;
use crate::catalog::{
    Definition, InvalidEntry, Listing, Prompt, Resource, ResourceTemplate, ToolDefinition, shorten,
};
use crate::json::{Member, RawJson};
use crate::name::untrusted_text;
use crate::settings::ServerLimits;
use crate::telemetry::QuotaKind;
use crate::wire::code::METHOD_NOT_FOUND;
use crate::wire::http_client::HttpTransportError;
use crate::wire::server::{RequestError, RpcOutcome, ServerConnection};

const MAX_ERROR: usize = 1000;
/// Maximum skipped entries of one list that are logged one by one.
const MAX_WARNINGS: usize = 50;
/// Maximum pages read of one list.
const MAX_PAGES: usize = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListKinds {
    pub tools: bool,
    pub resources: bool,
    pub prompts: bool,
}

impl ListKinds {
    pub(crate) const ALL: Self = Self { tools: true, resources: true, prompts: true };

    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            resources: self.resources || other.resources,
            prompts: self.prompts || other.prompts,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Reads the selected lists that the server supports, and takes the others from `last`. Fails if
/// the tool list is unreadable; other unreadable lists only cause a warning. Skips malformed
/// entries, and the rest of a list that exceeds a limit of `quota`.
pub async fn read(
    connection: &ServerConnection,
    handshake: &HandshakeResult,
    last: &Listing,
    kinds: ListKinds,
    quota: &ServerQuota,
) -> Result<Listing, ListError> {
    let label = &quota.label;
    let reader = ListReader { connection, meta: &handshake.meta, quota };
    let abilities = &handshake.capabilities;
    let (tools, resources, templates, prompts) = tokio::join!(
        reader.kind::<ToolDefinition>(kinds.tools && abilities.tools.is_some(), &last.tools),
        reader.kind::<Resource>(kinds.resources && abilities.resources.is_some(), &last.resources),
        reader.kind::<ResourceTemplate>(
            kinds.resources && abilities.resources.is_some(),
            &last.templates
        ),
        reader.kind::<Prompt>(kinds.prompts && abilities.prompts.is_some(), &last.prompts),
    );
    let or_last = |what: &str, error: ListError| {
        let error = error.why;
        tracing::warn!(server = label, "failed to list {what}: {error}");
    };
    Ok(Listing {
        tools: tools?,
        resources: resources.unwrap_or_else(|error| {
            or_last("resources", error);
            last.resources.clone()
        }),
        templates: match templates {
            Ok(templates) => templates,
            // Many servers with resources don't implement templates.
            Err(error) if error.is_unsupported => Vec::new(),
            Err(error) => {
                or_last("resource templates", error);
                last.templates.clone()
            }
        },
        prompts: prompts.unwrap_or_else(|error| {
            or_last("prompts", error);
            last.prompts.clone()
        }),
        instructions: handshake.instructions.clone(),
        capabilities: handshake.capabilities.clone(),
    })
}

struct ListReader<'a> {
    connection: &'a ServerConnection,
    meta: &'a [Member],
    quota: &'a ServerQuota,
}

impl ListReader<'_> {
    async fn kind<T: Definition>(
        &self,
        is_wanted: bool,
        last: &[std::sync::Arc<T>],
    ) -> Result<Vec<std::sync::Arc<T>>, ListError> {
        if !is_wanted {
            return Ok(last.to_vec());
        }
        let (definitions, bad) = T::read_all(self.pages(T::METHOD, T::MEMBER).await?);
        let more = bad.len().saturating_sub(MAX_WARNINGS);
        for InvalidEntry { what, why } in bad.into_iter().take(MAX_WARNINGS) {
            let (what, why) =
                (untrusted_text::single_line(&what), untrusted_text::single_line(&why));
            let (what, why) = (shorten(&what, MAX_ERROR), shorten(&why, MAX_ERROR));
            tracing::warn!(server = self.quota.label, "skipped {} {what}: {why}", T::KIND_NAME);
        }
        if more > 0 {
            tracing::warn!(server = self.quota.label, "skipped {more} more of {}", T::METHOD);
        }
        Ok(definitions)
    }

    async fn pages(&self, method: &str, member: &str) -> Result<Vec<RawJson>, ListError> {
        let label = &self.quota.label;
        let mut list = BoundedList::new(&self.quota.limits);
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let encoded = cursor.as_ref().map(RawJson::encode);
            let params: Vec<_> = encoded.iter().map(|cursor| ("cursor", cursor)).collect();
            let result = ask(self.connection, method, &params, self.meta).await?;
            let page = result.member(member);
            page.and_then(|entries| entries.take_items(|entry| list.add(&entry)))
                .ok_or_else(|| format!("the response to `{method}` has no `{member}` array"))?;
            let next =
                result.member("nextCursor").filter(|next| next.as_bytes().starts_with(b"\""));
            if let Some(next) = &next {
                list.reserve(next.len());
            }
            if let Some(exceeded) = &list.exceeded {
                tracing::warn!(server = label, "{}", exceeded.describe(method, &list.limits));
                self.quota.report_limit_reached(exceeded.quota());
                return Ok(list.entries);
            }
            let Some(next) = next else { return Ok(list.entries) };
            match next.decode_string().map(Cow::into_owned) {
                None => {
                    let why = "is not valid Unicode";
                    return Err(format!("the `nextCursor` of `{method}` {why}").into());
                }
                Some(next) if !seen.insert(next.clone()) => {
                    tracing::warn!(
                        server = label,
                        "`{method}` repeated a cursor, later pages were not read"
                    );
                    return Ok(list.entries);
                }
                Some(next) => cursor = Some(next),
            }
        }
        tracing::warn!(
            server = label,
            "`{method}` has more than {MAX_PAGES} pages, the rest was not read"
        );
        Ok(list.entries)
    }
}

/// The entries of a list up to its limits.
struct BoundedList {
    limits: ServerLimits,
    entries: Vec<RawJson>,
    /// Bytes of the entries and cursors.
    bytes: usize,
    exceeded: Option<ListLimit>,
}

#[derive(Debug, PartialEq, Eq)]
enum ListLimit {
    Entries,
    Bytes,
}

impl BoundedList {
    fn new(limits: &ServerLimits) -> Self {
        Self { limits: *limits, entries: Vec::new(), bytes: 0, exceeded: None }
    }

    /// Adds a copy of an entry, which doesn't keep its page in memory. Returns `false` once a limit
    /// is exceeded.
    fn add(&mut self, entry: &RawJson) -> bool {
        if self.entries.len() == self.limits.max_list_entries {
            self.exceeded = Some(ListLimit::Entries);
        } else if self.reserve(entry.len()) {
            self.entries.push(entry.to_detached());
        }
        self.exceeded.is_none()
    }

    /// Counts bytes. Returns `false` if they exceed the limit.
    fn reserve(&mut self, bytes: usize) -> bool {
        let all = self.bytes.saturating_add(bytes);
        if all > self.limits.max_list_bytes {
            self.exceeded.get_or_insert(ListLimit::Bytes);
            return false;
        }
        self.bytes = all;
        true
    }
}

impl ListLimit {
    fn quota(&self) -> QuotaKind {
        match self {
            Self::Entries => QuotaKind::ListingEntries,
            Self::Bytes => QuotaKind::ListingBytes,
        }
    }

    fn describe(&self, method: &str, limits: &ServerLimits) -> String {
        let (most, unit, key) = match self {
            Self::Entries => (limits.max_list_entries, "entries", "maxListEntries"),
            Self::Bytes => (limits.max_list_bytes, "bytes", "maxListBytes"),
        };
        format!(
            "`{method}` has more than {most} {unit} (limits.perServer.{key}); the rest is left out"
        )
    }
}

pub async fn ask(
    connection: &ServerConnection,
    method: &str,
    params: &[(&str, &RawJson)],
    meta: &[Member],
) -> Result<RawJson, ListError> {
    let answer = match connection.send_request(method, params, meta, false).await {
        Ok(mut asked) => asked.response().await,
        Err(error) => Err(error),
    };
    match answer {
        // The reader of the entries leaves out those with unreadable names.
        Ok(RpcOutcome::Result(result))
        | Err(RequestError::UnreadableName(RpcOutcome::Result(result))) => Ok(result),
        Ok(RpcOutcome::Error(error))
        | Err(RequestError::UnreadableName(RpcOutcome::Error(error))) => Err(ListError {
            why: format!(
                "`{method}` failed: {}",
                shorten(&untrusted_text::single_line(&error.as_str()), MAX_ERROR)
            ),
            wants_sign_in: HttpTransportError::from_error_object(&error)
                == Some(HttpTransportError::SignIn),
            is_unsupported: error.member("code").and_then(|code| code.parse().ok())
                == Some(METHOD_NOT_FOUND),
        }),
        Err(RequestError::NotSent | RequestError::Closed) => {
            Err("the server closed the connection".to_owned().into())
        }
        Err(RequestError::Malformed(why)) => {
            let why = untrusted_text::single_line(&why);
            Err(format!("malformed response to `{method}`: {why}").into())
        }
        Err(RequestError::Oversized(length)) => {
            Err(format!("response of {length} bytes exceeds `limits.maxMessageBytes`").into())
        }
    }
}

#[derive(Debug)]
pub struct ListError {
    pub why: String,
    /// `true` if only a sign-in is missing.
    pub wants_sign_in: bool,
    /// `true` if the server doesn't know the method.
    is_unsupported: bool,
}

impl From<String> for ListError {
    fn from(why: String) -> Self {
        Self { why, wants_sign_in: false, is_unsupported: false }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(max_list_entries: usize, max_list_bytes: usize) -> BoundedList {
        let usual = ServerLimits::default();
        BoundedList::new(&ServerLimits { max_list_entries, max_list_bytes, ..usual })
    }

    #[test]
    fn entries_beyond_the_limits_are_left_out() {
        let page = RawJson::encode(&json!(["a", "b", "c"]));
        let mut exact = list(3, 9);
        assert_eq!(page.take_items(|entry| exact.add(&entry)), Some(()));
        assert_eq!((exact.entries.len(), exact.exceeded), (3, None));
        let mut short = list(2, 100);
        page.take_items(|entry| short.add(&entry)).unwrap();
        assert_eq!((short.entries.len(), short.exceeded), (2, Some(ListLimit::Entries)));
        let mut small = list(100, 8);
        page.take_items(|entry| small.add(&entry)).unwrap();
        assert_eq!((small.entries.len(), small.exceeded), (2, Some(ListLimit::Bytes)));
    }

    #[test]
    fn cursors_count_like_entries() {
        let mut list = list(100, 10);
        assert!(list.reserve(10) && !list.reserve(1));
        assert_eq!(list.exceeded, Some(ListLimit::Bytes));
        assert!(!list.add(&RawJson::encode(&1)));
    }

    #[test]
    fn entries_do_not_keep_their_page() {
        let page = RawJson::encode(&json!([1, "x".repeat(1000)]));
        let mut list = list(10, 100);
        page.take_items(|entry| list.add(&entry)).unwrap();
        assert_eq!(list.entries.len(), 1);
        assert!(!page.as_bytes().as_ptr_range().contains(&list.entries[0].as_bytes().as_ptr()));
    }
}
