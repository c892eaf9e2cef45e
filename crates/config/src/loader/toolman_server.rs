//! Reads the Toolman server's JSON: servers, and the tools that each agent may use. Native keys
//! such as `auth` and `http` are also allowed, and take precedence over equivalent settings; a
//! duplicate policy key is an error.

use std::path::Path;

use crate::env::EnvSource;
use crate::sections::audit::RawAudit;
use crate::sections::limits::RawResultCache;
use crate::sections::policy::raw::RawConfirmation;
use crate::sections::ranges;
use crate::sections::root::{RawConfig, RawServer};
use crate::sections::task_rules::RawTaskRules;
use crate::syntax::document::Node;
use crate::syntax::objects::{LocatedMap, read_closed_object};
use crate::syntax::reader::{ConfigReader, Located, ObjectFields};
use crate::syntax::section::{ConfigSection, FromNode};

/// The keys that identify such a file if it also has `servers`.
const KEYS: [&str; 6] = [
    "agent_policies",
    "exposed_tools",
    "default_policy",
    "task_based_tool_selection",
    "security_settings",
    "performance_settings",
];

/// The audit log for `audit_all_calls`, which doesn't name a file.
const DEFAULT_AUDIT_FILE: &str = "~/.local/state/mcp-workbench/audit.jsonl";

/// Returns `true` for a Toolman server file, judging by the top-level keys.
pub fn is_toolman_server_file(root: &Node<'_>) -> bool {
    let servers = root.get("servers");
    servers.is_some_and(|servers| servers.value.as_object().is_some())
        && ["mcpServers", "toolboxes"].iter().all(|key| root.get(key).is_none())
        && KEYS.iter().any(|key| root.get(key).is_some())
}

/// Returns the default call timeout for all servers, in milliseconds.
pub fn call_timeout(root: &Node<'_>) -> Option<u64> {
    let timeout = root.get("performance_settings")?.get("tool_call_timeout")?;
    let timeout = timeout.value.as_number_lit()?.value.parse().ok()?;
    (1..=ranges::MAX_TIMEOUT_MS).contains(&timeout).then_some(timeout)
}

pub(crate) fn read(
    root: &Node<'_>,
    env: Option<&dyn EnvSource>,
    reader: &mut ConfigReader<'_>,
) -> Option<RawConfig> {
    let mut fields = reader.read_fields(root)?;
    let servers = fields.take("servers");
    let mut servers: Option<LocatedMap<RawServer>> =
        servers.and_then(|node| FromNode::from_node(&node, reader));
    let for_tasks = fields
        .take("task_based_tool_selection")
        .and_then(|node| RawTaskRules::from_node(&node, reader));
    // The Toolman server ignores unknown keys. An ignored policy key would grant more than
    // intended, so policy keys, and all native keys, are read strictly.
    let mut raw = reader.with_strict(|reader| RawConfig::read_keys(&mut fields, reader));
    raw.task_based_tool_selection = raw.task_based_tool_selection.or(for_tasks);
    if let Some(node) = fields.take("security_settings") {
        reader.with_strict(|reader| security(&node, &mut raw, default_audit_file(env), reader));
    }
    let performance = fields.take("performance_settings");
    let performance =
        performance.and_then(|node| read_closed_object(&node, reader, PerformanceSettings::read));
    let PerformanceSettings { timeout, concurrent_calls, cache_ttl: answers_hold } =
        performance.unwrap_or_default();
    if let Some(calls) = concurrent_calls {
        let limits = raw.limits.get_or_insert_default();
        limits.max_concurrent_calls.get_or_insert(calls);
    }
    let cache =
        answers_hold.map(|ttl| RawResultCache { ttl_ms: Some(ttl), ..RawResultCache::default() });
    raw.result_cache = raw.result_cache.or(cache);
    for (_, server) in servers.iter_mut().flat_map(|servers| &mut servers.0) {
        if server.client_keys.timeout_ms.is_none() && server.call_timeout_ms.is_none() {
            server.call_timeout_ms.clone_from(&timeout);
        }
    }
    fields.report_unknown_keys(reader, |_| None);
    raw.mcp_servers = servers;
    Some(raw)
}

/// Returns the audit log of `audit_all_calls`, in the state folder of `XDG_STATE_HOME` if set.
pub fn default_audit_file(env: Option<&dyn EnvSource>) -> String {
    let state = env.and_then(|env| env.get("XDG_STATE_HOME"));
    let state = state.filter(|folder| Path::new(folder).is_absolute());
    state.map_or(DEFAULT_AUDIT_FILE.to_owned(), |folder| {
        Path::new(&folder).join("mcp-workbench/audit.jsonl").display().to_string()
    })
}

/// Reads `security_settings`. A policy key that is also at the top level is an error.
fn security(
    node: &Node<'_>,
    raw: &mut RawConfig,
    audit_file: String,
    reader: &mut ConfigReader<'_>,
) {
    let Some(mut fields) = reader.read_fields(node) else { return };
    let refuse_twice = |key: &str, ours: bool, node: &Node<'_>, reader: &mut ConfigReader<'_>| {
        if ours {
            let message = format!("`{key}` is also set at the top level");
            reader.report_error(&node.location, message, Some("remove one of them".to_owned()));
        }
    };
    if let Some(node) = fields.take("dangerous_tools") {
        refuse_twice("dangerousTools", raw.dangerous_tools.is_some(), &node, reader);
        raw.dangerous_tools = reader.read_strings(&node);
    }
    if let Some(node) = fields.take("require_confirmation") {
        refuse_twice("requireConfirmation", raw.require_confirmation.is_some(), &node, reader);
        raw.require_confirmation = RawConfirmation::from_node(&node, reader);
    }
    let audit = fields.take("audit_all_calls").and_then(|node| reader.read_bool(&node));
    let audit = audit.filter(|audit| audit.value).map(|Located { location: spot, .. }| RawAudit {
        file: Some(Located { value: audit_file, location: spot }),
        ..RawAudit::default()
    });
    if raw.audit.is_none() {
        raw.audit = audit;
    }
    if let Some(level) = fields.take("log_level") {
        let hint = "set the log level with `--log-level` or `WORKBENCH_LOG_LEVEL`".to_owned();
        reader.report_warning(&level.location, "no effect", Some(hint));
    }
    fields.report_unknown_keys(reader, |_| None);
}

#[derive(Default)]
struct PerformanceSettings {
    /// Call timeout in milliseconds.
    timeout: Option<Located<u64>>,
    concurrent_calls: Option<Located<u64>>,
    /// Cache TTL in milliseconds, or `None` if responses aren't cached.
    cache_ttl: Option<Located<u64>>,
}

impl PerformanceSettings {
    fn read(fields: &mut ObjectFields<'_>, reader: &mut ConfigReader<'_>) -> Self {
        let mut number = |key, unit: u64, most: u64| {
            let mut number = fields.take(key).and_then(|node| reader.read_u64(&node))?;
            if (1..=most / unit).contains(&number.value) {
                number.value *= unit;
                return Some(number);
            }
            let found = number.value;
            let message = format!("ignored: expected 1 to {}, found {found}", most / unit);
            reader.report_warning(&number.location, message, None);
            None
        };
        let timeout = number("tool_call_timeout", 1, ranges::MAX_TIMEOUT_MS);
        let concurrent_calls = number("max_concurrent_calls", 1, ranges::MAX_CALLS);
        let answers_hold = number("cache_duration_seconds", 1000, ranges::MAX_TIMEOUT_MS);
        let is_cached =
            fields.take("cache_tool_responses").and_then(|node| reader.read_bool(&node));
        let cache_ttl = answers_hold.filter(|_| is_cached.is_some_and(|flag| flag.value));
        Self { timeout, concurrent_calls, cache_ttl }
    }
}
