//! Translates the keys of other dialects to native keys.

use serde_json::{Map, Value, json};

use mcp_workbench_config::dialect::Dialect;
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_config::loader::toolman_server::default_audit_file;
use mcp_workbench_config::sections::root::RawConfig;
use mcp_workbench_config::syntax::section::{ConfigSection, SectionSpec};

/// The keys of `security_settings` that have a native equivalent.
const SECURITY: [&str; 3] = ["dangerous_tools", "require_confirmation", "audit_all_calls"];
const PERFORMANCE: [&str; 4] =
    ["tool_call_timeout", "max_concurrent_calls", "cache_tool_responses", "cache_duration_seconds"];

/// Native keys that are dropped from other programs' files.
const NATIVE: [&str; 2] = ["$schema", "toolboxes"];

/// Renames keys to their native spelling and drops keys that only another program reads. Warns
/// about dropped keys that mattered.
pub(super) fn to_native(
    root: Map<String, Value>,
    dialect: Dialect,
    warnings: &mut Vec<String>,
) -> Map<String, Value> {
    let top = RawConfig::SPEC;
    let mut root = rename_keys(root, dialect, warnings);
    if dialect != Dialect::Native {
        root.retain(|key, _| top.key(key).is_some() && !NATIVE.contains(&key.as_str()));
    }
    root
}

/// Renames keys to their native spelling and keeps all others.
pub(crate) fn rename_keys(
    root: Map<String, Value>,
    dialect: Dialect,
    warnings: &mut Vec<String>,
) -> Map<String, Value> {
    let mut root = renamed(root, RawConfig::SPEC);
    let inside = |key: &str| RawConfig::SPEC.key(key).and_then(|key| key.section);
    if let (Some(Value::Object(policy)), Some(section)) =
        (root.get_mut("defaultPolicy"), inside("defaultPolicy"))
    {
        *policy = renamed(std::mem::take(policy), section);
    }
    if let (Some(Value::Object(agents)), Some(section)) =
        (root.get_mut("agentPolicies"), inside("agentPolicies"))
    {
        for agent in agents.values_mut().filter_map(Value::as_object_mut) {
            *agent = renamed(std::mem::take(agent), section);
        }
    }
    match dialect {
        Dialect::ToolmanServer => translate_toolman_server(&mut root, warnings),
        Dialect::Native
        | Dialect::Toolman
        | Dialect::Modular
        | Dialect::Client
        | Dialect::Catalog => {}
    }
    root
}

/// Renames alternative spellings of the keys in `section`.
fn renamed(object: Map<String, Value>, section: &SectionSpec) -> Map<String, Value> {
    let members = object.into_iter().map(|(key, value)| {
        let ours = section.keys.iter().find(|ours| ours.alias == Some(&key));
        (ours.map_or(key, |ours| ours.name.to_owned()), value)
    });
    members.collect()
}

/// Translates the settings that only a Toolman server file has.
fn translate_toolman_server(root: &mut Map<String, Value>, warnings: &mut Vec<String>) {
    let mut servers = root.remove("servers").unwrap_or_default();
    let security = root.remove("security_settings").unwrap_or_default();
    for (theirs, ours) in
        [("dangerous_tools", "dangerousTools"), ("require_confirmation", "requireConfirmation")]
    {
        if let Some(tools) = security.get(theirs) {
            root.insert(ours.to_owned(), tools.clone());
        }
    }
    if security.get("audit_all_calls") == Some(&Value::Bool(true)) {
        root.entry("audit")
            .or_insert_with(|| json!({ "file": default_audit_file(Some(&ProcessEnv)) }));
    }
    let performance = root.remove("performance_settings").unwrap_or_default();
    if let Some(most) = performance.get("max_concurrent_calls") {
        let limits = root.entry("limits").or_insert_with(|| json!({}));
        if let Some(limits) = limits.as_object_mut() {
            limits.entry("maxConcurrentCalls").or_insert_with(|| most.clone());
        }
    }
    let is_cached = performance.get("cache_tool_responses") == Some(&Value::Bool(true));
    let seconds = performance.get("cache_duration_seconds").and_then(Value::as_u64);
    if let (true, Some(seconds)) = (is_cached, seconds) {
        let cache = || json!({ "ttlMs": seconds.saturating_mul(1000) });
        root.entry("resultCache").or_insert_with(cache);
    }
    let timeout = performance.get("tool_call_timeout");
    for block in servers.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let (Some(block), Some(timeout)) = (block.as_object_mut(), timeout) {
            let has_one = TIMEOUTS.iter().any(|key| block.contains_key(*key));
            if !has_one {
                block.insert("callTimeoutMs".to_owned(), timeout.clone());
            }
        }
    }
    let mut left = Vec::new();
    for (block, settings, carried) in [
        ("security_settings", &security, &SECURITY[..]),
        ("performance_settings", &performance, &PERFORMANCE[..]),
    ] {
        let keys = settings.as_object().into_iter().flat_map(Map::keys);
        let others = keys.filter(|key| !carried.contains(&key.as_str()));
        left.extend(others.map(|key| format!("{block}.{key}")));
    }
    warnings.extend(left.into_iter().map(|key| format!("not converted: `{key}`")));
    // `mcpServers` comes first, as usual in native files.
    let rest = std::mem::take(root);
    root.insert("mcpServers".to_owned(), servers);
    root.extend(rest);
}

const TIMEOUTS: [&str; 2] = ["callTimeoutMs", "timeout"];
