//! Finds servers whose program or folder is missing, without starting anything.

use crate::cli::configuring::check::report::{CheckStatus, ServerRow};
use crate::cli::runtime::current_program;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::{self, ChildEnvironment};
use mcp_workbench_settings::{Config, Launch};

/// Marks the rows of servers that can't start. Returns a warning for each.
pub(super) fn mark_missing(config: &Config, rows: &mut [ServerRow]) -> Vec<String> {
    let environment = ChildEnvironment::new(ProcessEnv.vars());
    let ourselves = current_program();
    let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let mut failures = Vec::new();
    for (row, server) in rows.iter_mut().zip(servers) {
        let Launch::Stdio(launch) = &server.launch else { continue };
        let Some(failure) =
            backend::find_launch_problem(launch, &environment, ourselves.as_deref())
        else {
            continue;
        };
        failures.push(format!(
            "warning: `{}/{}` cannot start: {}\n  hint: {}",
            row.toolbox, row.server, failure.reason, failure.hint
        ));
        row.status = CheckStatus::Missing;
        row.reason = Some(failure.reason);
        row.hint = Some(failure.hint);
    }
    failures
}
