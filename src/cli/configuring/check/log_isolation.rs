//! Finds servers whose log messages agents will miss. Once several agents have used a process, its
//! messages can't be attributed to one of them, so no agent receives them.

use std::collections::BTreeSet;

use mcp_workbench_config::Finding;
use mcp_workbench_core::gateway::Snapshot;
use mcp_workbench_settings::{Config, Isolation};

/// Covers only servers that have declared the `logging` capability.
pub(super) fn findings(config: &Config, snapshot: &Snapshot) -> Vec<Finding> {
    if !serves_several(config) {
        return Vec::new();
    }
    let servers = config.toolboxes.iter().flat_map(|toolbox| {
        let view = snapshot.view(&toolbox.name);
        let keeps_log = move |name: &_| {
            view.abilities_of(name).is_some_and(|capabilities| capabilities.logging.is_some())
        };
        let shared = toolbox.servers.iter().filter(|s| s.isolation != Isolation::Session);
        let talking = shared.filter(move |server| keeps_log(&server.name));
        talking.map(move |server| format!("{}/{}", toolbox.name, server.name))
    });
    let finding = |server: String| {
        let message = format!(
            "`{server}` sends log messages, but agents stop receiving them once several share its \
             process, because a message cannot be attributed to one agent"
        );
        let hint = "to start one process per session, set `\"isolation\": \"session\"`";
        Finding::warning(String::new(), message, Some(hint.to_owned()))
    };
    servers.map(finding).collect()
}

/// Returns `true` if `auth` can identify more than one agent.
fn serves_several(config: &Config) -> bool {
    config.auth.as_ref().is_some_and(|auth| {
        let names: BTreeSet<_> = auth.tokens.iter().map(|token| &token.agent).collect();
        names.len() > 1 || auth.jwt.is_some()
    })
}
