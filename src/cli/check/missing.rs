//! Servers whose program or folder is not there, found out without starting anything.

use crate::backend::{self, ChildEnvironment};
use crate::cli::check::report::{Row, Status};
use crate::cli::own_program;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::settings::{Config, Launch};

/// Marks the rows of servers that cannot be started, and says why: one text for each.
pub(super) fn mark(config: &Config, rows: &mut [Row]) -> Vec<String> {
    let environment = ChildEnvironment::new(ProcessEnv.vars());
    let ourselves = own_program();
    let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let mut failures = Vec::new();
    for (row, server) in rows.iter_mut().zip(servers) {
        let Launch::Stdio(launch) = &server.launch else { continue };
        let Some(failure) = backend::missing(launch, &environment, ourselves.as_deref()) else {
            continue;
        };
        failures.push(format!(
            "warning: `{}/{}` cannot be started: {}\n  hint: {}",
            row.toolbox, row.server, failure.reason, failure.hint
        ));
        row.status = Status::Missing;
        row.reason = Some(failure.reason);
        row.hint = Some(failure.hint);
    }
    failures
}
