//! Summarizes access, audit and telemetry settings, one line each.

use std::fmt::Display;

use mcp_workbench_settings::{AnonymousPolicy, AuthConfig, Config};

const MAX_NAMED: usize = 8;

pub(super) fn lines(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let agents = &config.policy.agents;
    if !agents.is_empty() {
        let names = join_names(agents.keys());
        lines.push(format!("agents with their own rules: {names} (see `--agent NAME`)"));
    }
    if let Some(auth) = &config.auth {
        lines.push(format!("HTTP access: {}", accepted_credentials(auth)));
    }
    if let Some(audit) = &config.audit {
        lines.push(format!("audit: calls are recorded in `{}`", audit.file.display()));
    }
    if let Some(collector) = &config.telemetry.otlp {
        // The rest of a URL may contain a secret.
        let origin = collector.origin().ascii_serialization();
        lines.push(format!("telemetry: calls are exported to {origin}"));
    }
    lines
}

fn accepted_credentials(auth: &AuthConfig) -> String {
    let mut agents: Vec<_> = auth.tokens.iter().map(|token| &token.agent).collect();
    agents.sort();
    agents.dedup();
    let mut served = Vec::new();
    if !agents.is_empty() {
        served.push(format!("tokens of {}", join_names(agents.into_iter())));
    }
    if let Some(jwt) = &auth.jwt {
        served.push(format!("JWTs from {}", jwt.issuer));
    }
    let others = match &auth.anonymous {
        AnonymousPolicy::Refused => "requests without a token are rejected".to_owned(),
        AnonymousPolicy::Nameless => "requests without a token act as an unnamed agent".to_owned(),
        AnonymousPolicy::Named(agent) => format!("requests without a token act as `{agent}`"),
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
