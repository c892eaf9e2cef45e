//! The Toolman server's JSON, put in our words: servers, and which agent may use which of their
//! tools. Keys of ours may stand beside its own, such as `auth` and `http`, and go before what it says
//! of the same in other words.

use crate::config::keys::audit::RawAudit;
use crate::config::keys::limits::RawCache;
use crate::config::keys::numbers;
use crate::config::keys::policy::raw::RawConfirmation;
use crate::config::keys::raw::{RawConfig, RawServer};
use crate::config::keys::task_rules::RawTaskRules;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::{Entries, object};
use crate::config::syntax::reader::{Fields, Located, Reader};
use crate::config::syntax::section::{Described, FromNode};

/// Keys at the top of such a file, one of which it has beside its `servers`.
const KEYS: [&str; 6] = [
    "agent_policies",
    "exposed_tools",
    "default_policy",
    "task_based_tool_selection",
    "security_settings",
    "performance_settings",
];

/// Where calls are recorded: such a file says that they are, and not where.
pub const AUDIT: &str = "~/.local/state/mcp-workbench/audit.jsonl";

/// Returns `true` if these are the keys at the top of such a file.
pub fn is_one(root: &Node<'_>) -> bool {
    let servers = root.get("servers");
    servers.is_some_and(|servers| servers.value.as_object().is_some())
        && ["mcpServers", "toolboxes"].iter().all(|key| root.get(key).is_none())
        && KEYS.iter().any(|key| root.get(key).is_some())
}

/// How long a call may take of a server that says nothing of it, in milliseconds.
pub fn call_timeout(root: &Node<'_>) -> Option<u64> {
    let timeout = root.get("performance_settings")?.get("tool_call_timeout")?;
    let timeout = timeout.value.as_number_lit()?.value.parse().ok()?;
    (1..=numbers::MAX_TIMEOUT_MS).contains(&timeout).then_some(timeout)
}

/// Reads the file.
pub(crate) fn read(root: &Node<'_>, reader: &mut Reader<'_>) -> Option<RawConfig> {
    let mut fields = reader.fields(root)?;
    let servers = fields.take("servers");
    let mut servers: Option<Entries<RawServer>> =
        servers.and_then(|node| FromNode::from_node(&node, reader));
    let for_tasks = fields
        .take("task_based_tool_selection")
        .and_then(|node| RawTaskRules::from_node(&node, reader));
    // What that program does not know it ignores. Of rules, that would be to allow more than is
    // meant, so they are read as ours are, together with all other keys of ours.
    let mut raw = reader.strictly(|reader| RawConfig::read(&mut fields, reader));
    raw.task_based_tool_selection = raw.task_based_tool_selection.or(for_tasks);
    if let Some(node) = fields.take("security_settings") {
        reader.strictly(|reader| security(&node, &mut raw, reader));
    }
    let performance = fields.take("performance_settings");
    let performance = performance.and_then(|node| object(&node, reader, Performance::read));
    let Performance { timeout, concurrent_calls, answers_hold } = performance.unwrap_or_default();
    if let Some(calls) = concurrent_calls {
        let limits = raw.limits.get_or_insert_default();
        limits.concurrent_calls.get_or_insert(calls);
    }
    let cache = answers_hold.map(|ttl| RawCache { ttl_ms: Some(ttl), ..RawCache::default() });
    raw.cache = raw.cache.or(cache);
    for (_, server) in servers.iter_mut().flat_map(|servers| &mut servers.0) {
        if server.foreign.timeout_ms.is_none() && server.call_timeout_ms.is_none() {
            server.call_timeout_ms.clone_from(&timeout);
        }
    }
    fields.refuse_unknown(reader, |_| None);
    raw.mcp_servers = servers;
    Some(raw)
}

/// Reads what is said of security; a rule that a key of ours has too is an error.
fn security(node: &Node<'_>, raw: &mut RawConfig, reader: &mut Reader<'_>) {
    let Some(mut fields) = reader.fields(node) else { return };
    let refuse_twice = |key: &str, ours: bool, node: &Node<'_>, reader: &mut Reader<'_>| {
        if ours {
            let message = format!("`{key}` is at the top of the file too");
            reader.error(&node.spot, message, Some("remove one of the two".to_owned()));
        }
    };
    if let Some(node) = fields.take("dangerous_tools") {
        refuse_twice("dangerousTools", raw.dangerous_tools.is_some(), &node, reader);
        raw.dangerous_tools = reader.strings(&node);
    }
    if let Some(node) = fields.take("require_confirmation") {
        refuse_twice("requireConfirmation", raw.require_confirmation.is_some(), &node, reader);
        raw.require_confirmation = RawConfirmation::from_node(&node, reader);
    }
    let audit = fields.take("audit_all_calls").and_then(|node| reader.boolean(&node));
    let audit = audit.filter(|audit| audit.value).map(|Located { spot, .. }| RawAudit {
        file: Some(Located { value: AUDIT.to_owned(), spot }),
        ..RawAudit::default()
    });
    if raw.audit.is_none() {
        raw.audit = audit;
    }
    if let Some(level) = fields.take("log_level") {
        let hint = "`--log-level` and `WORKBENCH_LOG_LEVEL` say how much is logged".to_owned();
        reader.warn(&level.spot, "no effect", Some(hint));
    }
    fields.refuse_unknown(reader, |_| None);
}

/// The settings of performance.
#[derive(Default)]
struct Performance {
    /// How long a call may take, in milliseconds.
    timeout: Option<Located<u64>>,
    /// How many calls may run at once.
    concurrent_calls: Option<Located<u64>>,
    /// How long answers hold, in milliseconds, if they do.
    answers_hold: Option<Located<u64>>,
}

impl Performance {
    fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let mut number = |key, unit: u64, most: u64| {
            let mut number = fields.take(key).and_then(|node| reader.number(&node))?;
            if (1..=most / unit).contains(&number.value) {
                number.value *= unit;
                return Some(number);
            }
            let found = number.value;
            let message = format!("ignored: expected 1 to {}, found {found}", most / unit);
            reader.warn(&number.spot, message, None);
            None
        };
        let timeout = number("tool_call_timeout", 1, numbers::MAX_TIMEOUT_MS);
        let concurrent_calls = number("max_concurrent_calls", 1, numbers::MAX_CALLS);
        let answers_hold = number("cache_duration_seconds", 1000, numbers::MAX_TIMEOUT_MS);
        let is_cached = fields.take("cache_tool_responses").and_then(|node| reader.boolean(&node));
        let answers_hold = answers_hold.filter(|_| is_cached.is_some_and(|flag| flag.value));
        Self { timeout, concurrent_calls, answers_hold }
    }
}
