//! Which servers a lock is of, and what they are called there.

use crate::name::ServerRef;
use crate::settings::{Config, Launch};

/// Every server that is started, with its name in the lock.
pub(super) fn names(config: &Config) -> Vec<(ServerRef, String)> {
    let launched =
        config.servers().filter(|(_, server)| !matches!(server.launch, Launch::Macros(_)));
    let named = launched.map(|(toolbox, server)| {
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        (at, config.name_in_lock(toolbox.name.as_str(), server))
    });
    named.collect()
}
