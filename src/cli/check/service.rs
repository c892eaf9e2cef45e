//! To whom a configuration is served, and what is recorded of it: a line for each of these that the
//! file speaks of.

use std::fmt::Display;

use crate::settings::{Anonymous, AuthConfig, Config};

/// How many names stand in a line.
const MAX_NAMED: usize = 8;

/// The lines, of a configuration with all its rules.
pub(super) fn lines(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let agents = &config.policy.agents;
    if !agents.is_empty() {
        let whose = named(agents.keys());
        lines.push(format!("agents: {whose} with rules of their own, which `--agent` shows"));
    }
    if let Some(auth) = &config.auth {
        lines.push(format!("over HTTP: {}", asked(auth)));
    }
    if let Some(audit) = &config.audit {
        lines.push(format!("audit: every call is recorded in `{}`", audit.file.display()));
    }
    if let Some(collector) = &config.telemetry.otlp {
        // The rest of an address may hold a secret.
        let origin = collector.origin().ascii_serialization();
        lines.push(format!("telemetry: every call is told to {origin}"));
    }
    lines
}

/// The tokens that are taken, and how those who have none fare.
fn asked(auth: &AuthConfig) -> String {
    let mut agents: Vec<_> = auth.tokens.iter().map(|token| &token.agent).collect();
    agents.sort();
    agents.dedup();
    let mut served = Vec::new();
    if !agents.is_empty() {
        served.push(format!("tokens of {}", named(agents.into_iter())));
    }
    if let Some(jwt) = &auth.jwt {
        served.push(format!("signed tokens of {}", jwt.issuer));
    }
    let others = match &auth.anonymous {
        Anonymous::Refused => "who has none is refused".to_owned(),
        Anonymous::Nameless => "who has none is an agent without a name".to_owned(),
        Anonymous::Named(agent) => format!("who has none is agent `{agent}`"),
    };
    served.push(others);
    served.join("; ")
}

/// The first names, and how many more there are.
fn named(names: impl ExactSizeIterator<Item: Display>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let mut shown: Vec<_> = names.take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}
