//! Names of servers in the lock.

use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::{Config, Launch};

/// Returns every server except macros, with its name in the lock.
pub(crate) fn names(config: &Config) -> Vec<(ServerRef, String)> {
    let launched =
        config.servers().filter(|(_, server)| !matches!(server.launch, Launch::Macros(_)));
    let named = launched.map(|(toolbox, server)| {
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        (at, config.lock_key(toolbox.name.as_str(), server))
    });
    named.collect()
}
