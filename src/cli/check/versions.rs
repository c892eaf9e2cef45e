//! Servers that may be another program tomorrow: their entries name a package and no version.

use crate::cli::packages::identify;
use crate::config::Finding;
use crate::config::env::ProcessEnv;
use crate::settings::{Config, Ecosystem, Launch, Package, StdioLaunch};

/// Returns a remark on each server whose package has no version, with the words to write instead.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let servers = config.toolboxes.iter().flat_map(|toolbox| {
        toolbox.servers.iter().filter_map(move |server| {
            let Launch::Stdio(launch) = &server.launch else { return None };
            let (message, hint) = remark(launch)?;
            let path = format!("toolboxes.{}.mcpServers.{}", toolbox.name, server.name);
            Some(Finding::remark(path, message, Some(hint)))
        })
    });
    servers.collect()
}

fn remark(launch: &StdioLaunch) -> Option<(String, String)> {
    let package = match launch.container() {
        Some(container) => Package::of_image(&container.image),
        None => Package::of(&launch.command, &launch.args)?,
    };
    if !package.is_loose() {
        return None;
    }
    let Package { ecosystem, runner, name, spec, .. } = &package;
    let message =
        format!("`{runner} {spec}` names no version of `{name}`, so another one may start any day");
    let known = identify(launch, &ProcessEnv).and_then(|identity| identity.version);
    let hint = match (known, ecosystem) {
        (Some(version), _) => {
            format!("write `{}` for `{spec}`, which is what is here now", package.pinned(&version))
        }
        (None, Ecosystem::Image) => {
            format!("write `{name}@sha256:…`, with the digest that you trust")
        }
        (None, _) => format!("write `{}` for `{spec}`", package.pinned("VERSION")),
    };
    Some((message, hint))
}
