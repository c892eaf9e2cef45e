//! Reads the complete lists of a server.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::backend::handshake::HandshakeResult;
use crate::backend::server_quota::ServerQuota;
use crate::catalog::{
    Definition, InvalidEntry, Listing, Prompt, Resource, ResourceTemplate, ToolDefinition, shorten,
};
use crate::telemetry::QuotaKind;
use mcp_workbench_names::untrusted_text;
use mcp_workbench_settings::ServerLimits;
use mcp_workbench_wire::code::METHOD_NOT_FOUND;
use mcp_workbench_wire::http_client::HttpTransportError;
use mcp_workbench_wire::json::{self, Member, RawJson};
use mcp_workbench_wire::server::{RequestError, RpcOutcome, ServerConnection};

const MAX_ERROR: usize = 1000;
/// Maximum malformed entries of one list that are reported one by one.
const MAX_VIOLATIONS: usize = 50;
/// How long to wait for a list that the server doesn't declare.
const UNDECLARED_TIMEOUT: Duration = Duration::from_secs(2);
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

/// How to read one list of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListPlan {
    /// Keep the last one.
    Keep,
    /// The server doesn't declare the list, but may have it.
    Try,
    Read,
}

/// A list, and lines about its violations of the specification if it was read.
type CheckedList<T> = (Vec<Arc<T>>, Option<Vec<String>>);

/// Reads the selected lists that the server supports, and takes the others from `last`. Fails if
/// the tool list is unreadable; other unreadable lists only cause a warning. Repairs or leaves out
/// malformed entries, and leaves out the rest of a list that exceeds a limit of `quota`.
///
/// A server that declares no tools may have some, so its list is tried; and so are all lists of a
/// server that declares none.
pub async fn read(
    connection: &ServerConnection,
    handshake: &HandshakeResult,
    last: &Listing,
    kinds: ListKinds,
    quota: &ServerQuota,
) -> Result<Listing, ListError> {
    let label = &quota.label;
    let reader = ListReader { connection, meta: &handshake.meta, quota };
    let declared = &handshake.capabilities;
    let declares_none =
        declared.tools.is_none() && declared.resources.is_none() && declared.prompts.is_none();
    let plan = |is_wanted: bool, ability: &Option<RawJson>, may_be_undeclared: bool| {
        if !is_wanted {
            ListPlan::Keep
        } else if ability.is_some() {
            ListPlan::Read
        } else if may_be_undeclared {
            ListPlan::Try
        } else {
            ListPlan::Keep
        }
    };
    let plan_of_tools = plan(kinds.tools, &declared.tools, true);
    let plan_of_resources = plan(kinds.resources, &declared.resources, declares_none);
    let plan_of_prompts = plan(kinds.prompts, &declared.prompts, declares_none);
    let (tools, resources, templates, prompts) = tokio::join!(
        reader.kind::<ToolDefinition>(plan_of_tools, &last.tools),
        reader.kind::<Resource>(plan_of_resources, &last.resources),
        reader.kind::<ResourceTemplate>(plan_of_resources, &last.templates),
        reader.kind::<Prompt>(plan_of_prompts, &last.prompts),
    );
    let mut listing = Listing {
        violations: last.violations.clone(),
        instructions: handshake.instructions.clone(),
        capabilities: declared.clone(),
        ..Listing::default()
    };
    let violations = &mut listing.violations;
    listing.tools = with_violations(violations, tools?);
    let resources = resources.unwrap_or_else(|error| or_last(label, &error, &last.resources));
    listing.resources = with_violations(violations, resources);
    let templates = templates.unwrap_or_else(|error| {
        // Many servers with resources don't implement templates.
        if error.is_unsupported {
            (Vec::new(), Some(Vec::new()))
        } else {
            or_last(label, &error, &last.templates)
        }
    });
    listing.templates = with_violations(violations, templates);
    let prompts = prompts.unwrap_or_else(|error| or_last(label, &error, &last.prompts));
    listing.prompts = with_violations(violations, prompts);
    declare_found(&mut listing);
    Ok(listing)
}

/// Keeps the last list after an error.
fn or_last<T: Definition>(server: &str, error: &ListError, last: &[Arc<T>]) -> CheckedList<T> {
    let error = &error.why;
    tracing::warn!(server, "failed to list {}s: {error}", T::KIND.word());
    (last.to_vec(), None)
}

fn with_violations<T: Definition>(
    all: &mut BTreeMap<&'static str, Vec<String>>,
    (list, violations): CheckedList<T>,
) -> Vec<Arc<T>> {
    if let Some(violations) = violations {
        all.insert(T::METHOD, violations);
    }
    list
}

/// Declares the capabilities of lists that the server has but doesn't declare.
fn declare_found(listing: &mut Listing) {
    let has_resources = !listing.resources.is_empty() || !listing.templates.is_empty();
    let (has_tools, has_prompts) = (!listing.tools.is_empty(), !listing.prompts.is_empty());
    let declared = &mut listing.capabilities;
    let found = [
        ("tools", has_tools, &mut declared.tools),
        ("resources", has_resources, &mut declared.resources),
        ("prompts", has_prompts, &mut declared.prompts),
    ];
    let mut violations = Vec::new();
    for (name, has_entries, ability) in found {
        if has_entries && ability.is_none() {
            *ability = Some(json::object([]));
            violations.push(format!("has {name} without declaring the capability `{name}`"));
        }
    }
    listing.violations.insert("capabilities", violations);
}

struct ListReader<'a> {
    connection: &'a ServerConnection,
    meta: &'a [Member],
    quota: &'a ServerQuota,
}

impl ListReader<'_> {
    async fn kind<T: Definition>(
        &self,
        plan: ListPlan,
        last: &[Arc<T>],
    ) -> Result<CheckedList<T>, ListError> {
        match plan {
            ListPlan::Keep => Ok((last.to_vec(), None)),
            ListPlan::Read => self.list().await,
            ListPlan::Try => match timeout(UNDECLARED_TIMEOUT, self.list()).await {
                Ok(Err(error)) if error.wants_sign_in => Err(error),
                Ok(Ok(list)) => Ok(list),
                Ok(Err(_)) | Err(_) => Ok((last.to_vec(), None)),
            },
        }
    }

    async fn list<T: Definition>(&self) -> Result<CheckedList<T>, ListError> {
        let (definitions, bad) = T::read_all(self.pages(T::METHOD, T::MEMBER).await?);
        let more = bad.len().saturating_sub(MAX_VIOLATIONS);
        let mut violations: Vec<_> = bad.iter().take(MAX_VIOLATIONS).map(describe::<T>).collect();
        if more > 0 {
            violations.push(format!("{more} more malformed entries of `{}`", T::METHOD));
        }
        Ok((definitions, Some(violations)))
    }

    async fn pages(&self, method: &str, member: &str) -> Result<Vec<RawJson>, ListError> {
        let label = &self.quota.label;
        let mut list = BoundedList::new(&self.quota.limits);
        let mut seen = HashSet::new();
        let mut cursor: Option<RawJson> = None;
        for _ in 0..MAX_PAGES {
            let params: Vec<_> = cursor.iter().map(|cursor| ("cursor", cursor)).collect();
            let result = ask(self.connection, method, &params, self.meta).await?;
            entries_of(&result, member)
                .and_then(|entries| entries.take_items(|entry| list.add(&entry)))
                .ok_or_else(|| format!("the response to `{method}` has no `{member}` array"))?;
            // Some servers send an empty cursor on the last page.
            let is_end = |next: &RawJson| matches!(next.as_bytes(), b"null" | b"false" | b"\"\"");
            let next = result.member("nextCursor").filter(|next| !is_end(next));
            if let Some(next) = &next {
                list.reserve(next.len());
            }
            if let Some(exceeded) = &list.exceeded {
                tracing::warn!(server = label, "{}", exceeded.describe(method, &list.limits));
                self.quota.report_limit_reached(exceeded.quota());
                return Ok(list.entries);
            }
            let Some(next) = next else { return Ok(list.entries) };
            if next.without_unpaired_surrogates().is_some() {
                let why = "is not valid Unicode";
                return Err(format!("the `nextCursor` of `{method}` {why}").into());
            }
            if !seen.insert(next.as_bytes().to_vec()) {
                tracing::warn!(
                    server = label,
                    "`{method}` repeated a cursor, later pages were not read"
                );
                return Ok(list.entries);
            }
            cursor = Some(next.to_detached());
        }
        tracing::warn!(
            server = label,
            "`{method}` has more than {MAX_PAGES} pages, the rest was not read"
        );
        Ok(list.entries)
    }
}

/// Returns the list of a page. `null`, a missing member and an empty object, as some languages
/// write an empty array, are an empty list. Returns `None` for anything else but a list.
fn entries_of(result: &RawJson, member: &str) -> Option<RawJson> {
    let is_nothing = |value: &RawJson| {
        value.as_bytes() == b"null" || value.members().is_some_and(|members| members.is_empty())
    };
    if !is_nothing(result) && result.entries().is_none() {
        return None;
    }
    match result.member(member) {
        Some(entries) if !is_nothing(&entries) => Some(entries),
        _ => Some(json::array([])),
    }
}

/// Describes a malformed entry on one line.
fn describe<T: Definition>(entry: &InvalidEntry) -> String {
    let shown = |text: &str| shorten(&untrusted_text::single_line(text), MAX_ERROR);
    let verb = if entry.is_repaired { "repaired" } else { "skipped" };
    format!("{verb} {} {}: {}", T::KIND.word(), shown(&entry.what), shown(&entry.why))
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
    use serde_json::{Value, json};

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
    fn null_and_nothing_are_empty_lists() {
        let count = |result: Value| {
            let entries = entries_of(&RawJson::encode(&result), "tools")?;
            entries.items().map(|items| items.len())
        };
        for empty in [
            json!({"tools": null}),
            json!({"tools": []}),
            json!({"tools": {}}),
            json!({}),
            json!(null),
        ] {
            assert_eq!(count(empty.clone()), Some(0), "{empty}");
        }
        assert_eq!(count(json!({"tools": [1, null]})), Some(2));
        for malformed in [json!({"tools": 5}), json!({"tools": {"a": {}}}), json!([]), json!("ok")]
        {
            assert_eq!(count(malformed.clone()), None, "{malformed}");
        }
    }

    #[test]
    fn lists_without_a_declared_capability_are_declared_and_reported() {
        let (tools, _) = ToolDefinition::read_all([RawJson::encode(&json!({"name": "a"}))]);
        let mut listing = Listing { tools, ..Listing::default() };
        declare_found(&mut listing);
        assert!(listing.capabilities.tools.is_some() && listing.capabilities.prompts.is_none());
        assert_eq!(
            listing.violations["capabilities"],
            ["has tools without declaring the capability `tools`"]
        );
        declare_found(&mut listing);
        assert_eq!(listing.violations["capabilities"], [""; 0]);
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
