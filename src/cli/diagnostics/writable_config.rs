//! Servers that can write to the configuration, the catalog, the audit log or the workbench's
//! cache.
//!
//! An agent that can use such a server could change its own rules. A folder among the arguments of
//! a server is assumed to be writable.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cli::args::GlobalArgs;
use mcp_workbench_config::Finding;
use mcp_workbench_core::backend::launch::named_paths;
use mcp_workbench_settings::{Config, Launch, Sandbox};

const HINT: &str = "give the server another folder, or move the configuration out of its reach, \
    such as to `~/.config/mcp-workbench/config.json`";

struct ProtectedPath {
    what: &'static str,
    path: PathBuf,
}

/// Returns a remark on each server with an argument or variable that leads to a protected path or a
/// folder above it, and one if other users can write the configuration file.
pub(crate) fn findings(global: &GlobalArgs, config: &Config) -> Vec<Finding> {
    let file = global.source_file().ok().flatten();
    let mut protected = Vec::new();
    let paths = [
        ("this configuration", file.clone()),
        ("the catalog folder", config.navigator.folder.clone()),
        ("the audit log", config.audit.as_ref().map(|audit| audit.file.clone())),
        ("the workbench's cache", global.resolve_cache_dir().ok()),
    ];
    for (what, path) in paths {
        let Some(path) = path else { continue };
        protected.extend(path.canonicalize().ok().map(|path| ProtectedPath { what, path }));
        protected.push(ProtectedPath { what, path });
    }
    let mut findings: Vec<Finding> =
        file.iter().filter_map(|file| writable_by_others_finding(file)).collect();
    for toolbox in &config.toolboxes {
        for server in &toolbox.servers {
            let Launch::Stdio(launch) = &server.launch else { continue };
            let granted_paths = launch.sandbox.as_ref().and_then(Sandbox::granted_paths);
            let granted = granted_paths.into_iter().flatten().flatten();
            let granted =
                granted.filter_map(|path| Some((path.to_str()?, path.canonicalize().ok()?)));
            // In a sandbox, variables grant only reading.
            let variables = granted_paths.is_none().then(|| named_paths::in_variables(launch));
            let named = named_paths::in_arguments(launch).chain(variables.into_iter().flatten());
            let named = named.filter_map(|(text, path)| Some((text, path.canonicalize().ok()?)));
            let found: BTreeSet<_> = named
                .chain(granted)
                .filter_map(|(text, path)| Some((reached(&path, &protected)?, text)))
                .collect();
            findings.extend(found.into_iter().map(|(what, text)| {
                let path = format!("toolboxes.{}.mcpServers.{}", toolbox.name, server.name);
                let message = format!("`{}` can modify {what} (through `{text}`)", server.name);
                Finding::warning(path, message, Some(HINT.to_owned()))
            }));
        }
    }
    findings
}

fn writable_by_others_finding(file: &Path) -> Option<Finding> {
    let file = file.canonicalize().ok()?;
    let message = format!("other users can write or replace `{}`", file.display());
    let hint = "run `chmod go-w` on the file and its folder".to_owned();
    mcp_workbench_os::is_writable_by_others(&file)
        .then(|| Finding::warning(String::new(), message, Some(hint)))
}

/// Returns the first protected path that is `path` or lies below it.
fn reached(path: &Path, protected: &[ProtectedPath]) -> Option<&'static str> {
    protected.iter().find(|protected| protected.path.starts_with(path)).map(|found| found.what)
}
