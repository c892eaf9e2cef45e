//! Other clients' keys in a server entry. Keys with an equivalent are converted; the rest is
//! ignored with one warning per entry.

use crate::sections::environment::read_env_vars;
use crate::sections::ranges;
use crate::syntax::checks::check_range;
use crate::syntax::document::Node;
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located, ObjectFields, did_you_mean, quoted_list};
use crate::syntax::renamed::renamed_hint;

/// The client-specific keys of a server entry.
#[derive(Default)]
pub struct ClientKeys {
    /// `enabled` (opencode, Codex): the inverse of `disabled`.
    pub enabled: Option<Located<bool>>,
    /// `type`: the transport (Claude Code, VS Code, Cursor, opencode).
    pub transport_type: Option<Located<String>>,
    /// `serverUrl` (Windsurf) or `httpUrl` (Gemini): equivalent to `url`.
    pub url: Option<Located<String>>,
    /// `timeout`, converted to milliseconds.
    pub timeout_ms: Option<Located<u64>>,
    /// `environment` (opencode): equivalent to `env`.
    pub environment: LocatedMap<String>,
    /// The only tools to show (Gemini, Codex, Copilot). `None` shows all.
    pub include: Option<Vec<Located<String>>>,
    /// Tools to hide (Gemini, Codex, Windsurf, Roo).
    pub exclude: Vec<Located<String>>,
}

impl ClientKeys {
    /// Reads the entry's remaining keys after the native ones were taken. `timeout` is ignored if
    /// `call_timeout`, the native equivalent, is set.
    pub(crate) fn read(
        fields: &mut ObjectFields<'_>,
        reader: &mut ConfigReader<'_>,
        call_timeout: Option<&Located<u64>>,
    ) -> Self {
        let mut foreign = Self::default();
        let mut ignored: Vec<Located<String>> = Vec::new();
        let known = fields.known().to_vec();
        for entry in fields.take_keys_if(|_| true) {
            let (key, node) = (entry.key, entry.node);
            if node.is_null() {
                continue;
            }
            match key.value.as_str() {
                "enabled" => foreign.enabled = reader.read_bool(&node),
                "type" => foreign.transport_type = reader.read_string(&node),
                "serverUrl" | "httpUrl" => foreign.url = reader.read_string(&node),
                "timeout" if call_timeout.is_some() => {
                    reader.report_warning(
                        &key.location,
                        "ignored: `callTimeoutMs` overrides it",
                        None,
                    );
                }
                "timeout" => foreign.timeout_ms = timeout(&node, reader),
                "environment" => foreign.environment = read_env_vars(&node, reader),
                "includeTools" | "enabled_tools" | "enabledTools" | "allowedTools" => {
                    foreign.include = reader.read_strings(&node);
                }
                "tools" if node.value.as_array().is_some() => {
                    foreign.include = reader.read_strings(&node);
                }
                "excludeTools" | "disabled_tools" | "disabledTools" => {
                    foreign.exclude.extend(reader.read_strings(&node).unwrap_or_default());
                }
                "envFile" => reader.report_warning(
                    &key.location,
                    "ignored: `envFile` is not supported",
                    Some("put the variables into `env`".to_owned()),
                ),
                // Ignoring the old name of a native key could grant access.
                other => match (renamed_hint(other, &known), misspelling_hint(other, &known)) {
                    (Some(hint), _) => {
                        reader.report_error(&key.location, "unknown key", Some(hint));
                    }
                    (None, Some(hint)) => {
                        reader.report_warning(&key.location, "unknown key; ignored", Some(hint));
                    }
                    (None, None) => ignored.push(key),
                },
            }
        }
        if let Some(first) = ignored.first() {
            let keys: Vec<&str> = ignored.iter().map(|key| key.value.as_str()).collect();
            let message = format!("ignored: {} (not supported)", quoted_list(&keys, "and"));
            let location = fields.location().with_offset(first.location.offset);
            reader.report_warning(&location, message, None);
        }
        foreign
    }
}

/// Reads `timeout`, in seconds for some clients and in milliseconds for others. Values below 1000
/// count as seconds.
fn timeout(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Located<u64>> {
    const LEAST_MS: u64 = 1000;
    let mut timeout = reader.read_u64(node)?;
    if timeout.value == 0 {
        reader.report_warning(&node.location, "ignored: expected a positive number, found 0", None);
        return None;
    }
    let written = timeout.value;
    let unit = if written < LEAST_MS {
        timeout.value = written * LEAST_MS;
        "seconds"
    } else {
        "milliseconds"
    };
    reader.report_warning(
        &node.location,
        format!("read as a call timeout of {written} {unit}"),
        Some(format!("write `\"callTimeoutMs\": {}`", timeout.value)),
    );
    check_range(timeout, (1, ranges::MAX_TIMEOUT_MS), reader)
}

fn misspelling_hint(key: &str, known: &[&str]) -> Option<String> {
    match key {
        "startup_timeout_sec" => Some("did you mean `startupTimeoutMs`?".to_owned()),
        "tool_timeout_sec" => Some("did you mean `callTimeoutMs`?".to_owned()),
        key if CLIENT_ONLY_KEYS.contains(&key) => None,
        key => did_you_mean(key, known),
    }
}

/// Client keys that are not misspellings, even if similar to a native key.
const CLIENT_ONLY_KEYS: &[&str] = &[
    "alwaysAllow",
    "auth",
    "authProviderType",
    "autoApprove",
    "autoStart",
    "dev",
    "gallery",
    "icon",
    "id",
    "name",
    "registry",
    "required",
    "sandbox",
    "sandboxEnabled",
    "settings",
    "source",
    "tools",
    "trust",
    "version",
    "watchPaths",
];
