//! Summarizes access, audit and telemetry settings, one line each.

use std::fmt::Display;

use crate::settings::{AnonymousPolicy, AuthConfig, Config};

const MAX_NAMED: usize = 8;

pub(super) fn lines(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let agents = &config.policy.agents;
    if !agents.is_empty() {
        let whose = join_names(agents.keys());
        lines.push(format!("agents: {whose} with rules of their own, which `--agent` shows"));
    }
    if let Some(auth) = &config.auth {
        lines.push(format!("over HTTP: {}", asked(auth)));
    }
    if let Some(audit) = &config.audit {
        lines.push(format!("audit: every call is recorded in `{}`", audit.file.display()));
    }
    if let Some(collector) = &config.telemetry.otlp {
        // The rest of a URL may contain a secret.
        let origin = collector.origin().ascii_serialization();
        lines.push(format!("telemetry: every call is told to {origin}"));
    }
    lines
}

fn asked(auth: &AuthConfig) -> String {
    let mut agents: Vec<_> = auth.tokens.iter().map(|token| &token.agent).collect();
    agents.sort();
    agents.dedup();
    let mut served = Vec::new();
    if !agents.is_empty() {
        served.push(format!("tokens of {}", join_names(agents.into_iter())));
    }
    if let Some(jwt) = &auth.jwt {
        served.push(format!("signed tokens of {}", jwt.issuer));
    }
    let others = match &auth.anonymous {
        AnonymousPolicy::Refused => "who has none is refused".to_owned(),
        AnonymousPolicy::Nameless => "who has none is an agent without a name".to_owned(),
        AnonymousPolicy::Named(agent) => format!("who has none is agent `{agent}`"),
    };
    served.push(others);
    served.join("; ")
}

fn join_names(names: impl ExactSizeIterator<Item: Display>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let mut shown: Vec<_> = names.take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}
