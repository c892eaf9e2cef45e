//! Lists the servers of `npx` and `uvx` with the way they start.

use mcp_workbench_core::gateway::{Gateway, StartMethod};
use mcp_workbench_names::ServerRef;

/// Returns a line for each server whose command is a package runner.
pub(super) fn lines(gateway: &Gateway) -> Vec<String> {
    let servers = gateway.config().servers().filter_map(|(toolbox, server)| {
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let how = match gateway.servers().start_method(&at)? {
            Ok(StartMethod::OwnProgram) => return None,
            Ok(StartMethod::AsWritten(reason)) => {
                format!("starts through its package runner: {reason}")
            }
            Ok(StartMethod::Direct(program)) => {
                format!("starts directly: `{}` in `{}`", program.package, program.path.display())
            }
            Err(failure) => format!("does not start: {failure}"),
        };
        Some(format!("`{}/{}` {how}", toolbox.name, server.name))
    });
    servers.collect()
}
