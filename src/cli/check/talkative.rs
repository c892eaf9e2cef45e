//! Servers that keep a log where several agents are served: whose a line of it is, is not certain once
//! more than one has used the process, and then no agent is told it.

use std::collections::BTreeSet;

use crate::config::{Finding, Severity};
use crate::gateway::Snapshot;
use crate::settings::{Config, Isolation};

/// Says of which servers agents may not hear the log, as far as they have said that they keep one.
pub(super) fn findings(config: &Config, snapshot: &Snapshot) -> Vec<Finding> {
    if !serves_several(config) {
        return Vec::new();
    }
    let servers = config.toolboxes.iter().flat_map(|toolbox| {
        let view = snapshot.view(&toolbox.name);
        let keeps_log = move |name: &_| {
            view.abilities_of(name).is_some_and(|abilities| abilities.logging.is_some())
        };
        let shared = toolbox.servers.iter().filter(|s| s.isolation != Isolation::Session);
        let talking = shared.filter(move |server| keeps_log(&server.name));
        talking.map(move |server| format!("{}/{}", toolbox.name, server.name))
    });
    let finding = |server: String| Finding {
        severity: Severity::Warning,
        file: None,
        path: String::new(),
        position: None,
        message: format!(
            "`{server}` keeps a log, and its agents hear nothing of that once several have used its \
             process, for nobody can say whose a line is"
        ),
        hint: Some("give each session its own: `\"isolation\": \"session\"`".to_owned()),
    };
    servers.map(finding).collect()
}

/// Returns `true` if the file lets in agents of more than one name.
fn serves_several(config: &Config) -> bool {
    config.auth.as_ref().is_some_and(|auth| {
        let names: BTreeSet<_> = auth.tokens.iter().map(|token| &token.agent).collect();
        names.len() > 1 || auth.jwt.is_some()
    })
}
