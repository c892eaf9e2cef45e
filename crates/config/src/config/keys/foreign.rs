//! The keys of other clients in a server block: understood where they mean something here, and else
//! reported in one line.

use crate::config::keys::environment::environment;
use crate::config::keys::numbers;
use crate::config::syntax::checks::within;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::Entries;
use crate::config::syntax::reader::{Fields, Located, Reader, did_you_mean, listed};

/// The keys of other clients in one server block.
#[derive(Default)]
pub struct Foreign {
    /// `enabled` (opencode, Codex): the opposite of `disabled`.
    pub enabled: Option<Located<bool>>,
    /// `type` (Claude Code, VS Code, Cursor, opencode).
    pub kind: Option<Located<String>>,
    /// `serverUrl` (Windsurf) and `httpUrl` (Gemini): the same as `url`.
    pub url: Option<Located<String>>,
    /// `timeout`, read as milliseconds.
    pub timeout_ms: Option<Located<u64>>,
    /// `environment` (opencode): the same as `env`.
    pub environment: Entries<String>,
    /// The only tools to show (Gemini, Codex, Copilot).
    pub include: Option<Vec<Located<String>>>,
    /// Tools to leave out (Gemini, Codex, Windsurf, Roo).
    pub exclude: Vec<Located<String>>,
}

impl Foreign {
    /// Takes the keys that are left of a block once ours are gone; `call_timeout` is the value of ours
    /// that a foreign key would set too.
    pub(crate) fn read(
        fields: &mut Fields<'_>,
        reader: &mut Reader<'_>,
        call_timeout: Option<&Located<u64>>,
    ) -> Self {
        let mut foreign = Self::default();
        let mut ignored: Vec<Located<String>> = Vec::new();
        let known = fields.known().to_vec();
        for entry in fields.take_all(|_| true) {
            let (key, node) = (entry.key, entry.node);
            if node.is_null() {
                continue;
            }
            match key.value.as_str() {
                "enabled" => foreign.enabled = reader.boolean(&node),
                "type" => foreign.kind = reader.string(&node),
                "serverUrl" | "httpUrl" => foreign.url = reader.string(&node),
                "timeout" if call_timeout.is_some() => {
                    reader.warn(&key.spot, "ignored: `callTimeoutMs` says it", None);
                }
                "timeout" => foreign.timeout_ms = timeout(&node, reader),
                "environment" => foreign.environment = environment(&node, reader),
                "includeTools" | "enabled_tools" | "enabledTools" | "allowedTools" => {
                    foreign.include = reader.strings(&node);
                }
                "tools" if node.value.as_array().is_some() => {
                    foreign.include = reader.strings(&node);
                }
                "excludeTools" | "disabled_tools" | "disabledTools" => {
                    foreign.exclude.extend(reader.strings(&node).unwrap_or_default());
                }
                "envFile" => reader.warn(
                    &key.spot,
                    "ignored: files of variables are not read",
                    Some("put the variables under `env`".to_owned()),
                ),
                other => match misspelled(other, &known) {
                    Some(hint) => reader.warn(&key.spot, "unknown key, ignored", Some(hint)),
                    None => ignored.push(key),
                },
            }
        }
        if let Some(first) = ignored.first() {
            let keys: Vec<&str> = ignored.iter().map(|key| key.value.as_str()).collect();
            let verb = if keys.len() == 1 { "has" } else { "have" };
            let message = format!("ignored: {} {verb} no meaning here", listed(&keys, "and"));
            let spot = fields.spot().at(first.spot.offset);
            reader.warn(&spot, message, None);
        }
        foreign
    }
}

/// Reads `timeout`, which is milliseconds for some clients and seconds for others.
fn timeout(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Located<u64>> {
    const LEAST_MS: u64 = 1000;
    let mut timeout = reader.number(node)?;
    if timeout.value == 0 {
        reader.warn(&node.spot, "ignored: expected a time, found 0", None);
        return None;
    }
    let written = timeout.value;
    let unit = if written < LEAST_MS {
        timeout.value = written * LEAST_MS;
        "seconds"
    } else {
        "milliseconds"
    };
    reader.warn(
        &node.spot,
        format!("read as a call timeout of {written} {unit}"),
        Some(format!("write `\"callTimeoutMs\": {}`", timeout.value)),
    );
    within(timeout, (1, numbers::MAX_TIMEOUT_MS), reader)
}

/// A hint, if the key looks like one of ours that is written wrongly.
fn misspelled(key: &str, known: &[&str]) -> Option<String> {
    match key {
        "startup_timeout_sec" => Some("did you mean `startupTimeoutMs`?".to_owned()),
        "tool_timeout_sec" => Some("did you mean `callTimeoutMs`?".to_owned()),
        key if ELSEWHERE.contains(&key) => None,
        key => did_you_mean(key, known),
    }
}

/// Keys that other clients have for matters of their own.
const ELSEWHERE: &[&str] = &[
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
