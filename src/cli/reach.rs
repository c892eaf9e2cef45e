//! Servers that can reach what decides over them: the configuration, and what the workbench keeps.
//!
//! An agent that may use such a server may change the rules that it lives under. Nothing is known of what
//! a server does with its arguments; a folder among them is taken for one that it can write to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::backend::launch::cell;
use crate::cli::Global;
use crate::config::Finding;
use crate::os;
use crate::settings::{Config, Launch, Sandbox};

/// The advice of each remark on a server.
const HINT: &str = "give it a folder of its own, or keep the file where no server comes: \
    `~/.config/mcp-workbench/config.json` is found too";

/// Something that no agent is to change.
struct Protected {
    /// Its name for users.
    what: &'static str,
    path: PathBuf,
}

/// Returns a remark on each server whose arguments or variables lead to the configuration, to what the
/// workbench keeps, or to a folder with it, and one on a file that others may write.
pub(crate) fn findings(global: &Global, config: &Config) -> Vec<Finding> {
    let file = global.own_file().ok().flatten();
    let mut protected = Vec::new();
    let paths = [
        ("this configuration", file.clone()),
        ("the catalog", config.navigator.folder.clone()),
        ("the audit", config.audit.as_ref().map(|audit| audit.file.clone())),
        ("what the workbench keeps", global.cache().ok()),
    ];
    for (what, path) in paths {
        let Some(path) = path else { continue };
        protected.extend(path.canonicalize().ok().map(|path| Protected { what, path }));
        protected.push(Protected { what, path });
    }
    let mut findings: Vec<Finding> =
        file.iter().filter_map(|file| written_by_others(file)).collect();
    for toolbox in &config.toolboxes {
        for server in &toolbox.servers {
            let Launch::Stdio(launch) = &server.launch else { continue };
            let besides = launch.sandbox.as_ref().and_then(Sandbox::named);
            let besides = besides.into_iter().flatten().flatten();
            let besides =
                besides.filter_map(|path| Some((path.to_str()?, path.canonicalize().ok()?)));
            let found: BTreeSet<_> = cell::named(launch)
                .chain(besides)
                .filter_map(|(text, path)| Some((reached(&path, &protected)?, text)))
                .collect();
            findings.extend(found.into_iter().map(|(what, text)| {
                let path = format!("toolboxes.{}.mcpServers.{}", toolbox.name, server.name);
                let message = format!("`{}` can reach {what}, by `{text}`", server.name);
                Finding::remark(path, message, Some(HINT.to_owned()))
            }));
        }
    }
    findings
}

fn written_by_others(file: &Path) -> Option<Finding> {
    let file = file.canonicalize().ok()?;
    let message = format!("others than its owner may write or replace `{}`", file.display());
    let hint = "take that away from them: `chmod go-w` on the file and its folder".to_owned();
    os::is_open_to_others(&file).then(|| Finding::remark(String::new(), message, Some(hint)))
}

/// The first of these that is `path`, or lies in it.
fn reached(path: &Path, protected: &[Protected]) -> Option<&'static str> {
    protected.iter().find(|protected| protected.path.starts_with(path)).map(|found| found.what)
}
