//! Lists the files and sockets that each server process can reach.

use std::path::{Path, PathBuf};

use crate::cli::args::GlobalArgs;
use crate::cli::configuring::check::report::{ProcessReach, ServerRow};
use crate::cli::output::{format_count, quoted};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::ChildEnvironment;
use mcp_workbench_core::backend::launch::grants::{self, Grant, GrantRegistry};
use mcp_workbench_core::backend::launch::{program_files, sandbox};
use mcp_workbench_settings::{Config, Confinement, Container, Launch, Sandbox, StdioLaunch};

/// The reach of all servers, in their order in the configuration.
pub(super) struct ServersReach {
    /// A line per sandboxed server and one for the rest.
    pub(super) lines: Vec<String>,
    by_server: Vec<Option<ProcessReach>>,
}

impl ServersReach {
    /// Must be called before the first server starts, as it resolves paths that servers can change.
    pub(super) fn resolve(global: &GlobalArgs, config: &Config, has_details: bool) -> Self {
        let environment = ChildEnvironment::new(ProcessEnv.vars());
        let homes = global.homes();
        let registry = GrantRegistry::new(homes.as_deref());
        registry.learn(config);
        let (mut lines, mut free, mut is_confined) = (Vec::new(), Vec::new(), false);
        let mut by_server = Vec::new();
        let servers = config.toolboxes.iter().flat_map(|toolbox| {
            toolbox
                .servers
                .iter()
                .map(|server| (format!("{}/{}", toolbox.name, server.name), server))
        });
        for (place, server) in servers {
            let Launch::Stdio(launch) = &server.launch else {
                by_server.push(None);
                continue;
            };
            let sandbox = launch.sandbox.as_ref().filter(|sandbox| **sandbox != Sandbox::Off);
            let (Some(homes), Some(sandbox)) = (&homes, sandbox) else {
                by_server.push(Some(ProcessReach::Everything));
                free.push(place);
                continue;
            };
            is_confined |= sandbox.confinement().is_some();
            let grants = registry.grants(launch, &environment);
            // The start fails with the same error.
            let reach = grants.ok().and_then(|grants| {
                let own = sandbox::home_of(homes, server.name.as_str());
                let (text, reach) = reach_of(&place, sandbox, &grants, own)?;
                lines.push(text);
                Some(reach)
            });
            lines.extend(read_only_hint(&place, launch));
            by_server.push(reach);
        }
        lines.extend(summary(&free, is_confined, has_details));
        Self { lines, by_server }
    }

    pub(super) fn annotate(&mut self, rows: &mut [ServerRow]) {
        for (row, reach) in rows.iter_mut().zip(self.by_server.drain(..)) {
            row.reach = reach;
        }
    }
}

fn summary(free: &[String], is_confined: bool, has_details: bool) -> Vec<String> {
    let mut texts = Vec::new();
    if is_confined && !mcp_workbench_os::supports_signal_scope() {
        texts.push(
            "warning: this kernel does not stop sandboxed servers from killing your other \
             processes (Linux 6.12 and newer do)"
                .to_owned(),
        );
    }
    if free.len() > 1 && !has_details {
        let servers = format_count(free.len(), "server");
        texts.push(format!(
            "{servers} run without a sandbox, with your permissions (see `--details`)"
        ));
    } else if !free.is_empty() {
        let place = quoted(free, ", ");
        texts.push(format!("not sandboxed, runs with your full permissions: {place}"));
    }
    texts
}

fn read_only_hint(place: &str, launch: &StdioLaunch) -> Option<String> {
    let variables = grants::read_only_variables(launch);
    if variables.is_empty() {
        return None;
    }
    let variables = variables.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    Some(format!(
        "`{place}` can only read the folders in its variables {}; if it must change them, add them \
         to `write` of its sandbox or container",
        variables.join(", ")
    ))
}

/// `own` is the server's home. `None` without a sandbox.
fn reach_of(
    place: &str,
    sandbox: &Sandbox,
    grants: &[Grant],
    own: PathBuf,
) -> Option<(String, ProcessReach)> {
    let is_container = sandbox.container().is_some();
    let shown = |is_writable| {
        let grants = grants.iter().filter(move |grant| grant.is_writable == is_writable);
        let paths = grants.map(|grant| grant.source.path().to_owned());
        // A container has its own system. Mounted files of this one are listed.
        paths.filter(move |path| {
            let is_usual = if is_writable {
                program_files::is_device(path)
            } else {
                program_files::is_system_path(path)
            };
            is_container || !is_usual
        })
    };
    let read: Vec<_> = shown(false).collect();
    let mut write: Vec<_> = shown(true).chain([own]).collect();
    write.sort();
    if let Some(Container { image, has_network: network, .. }) = sandbox.container() {
        let text = format!(
            "`{place}` runs in a container (`{image}`): on this machine reads {}, writes {}, {}",
            listed(&read),
            listed(&write),
            if *network { "has network access" } else { "no network" },
        );
        let (image, network) = (image.clone(), *network);
        return Some((text, ProcessReach::Container { image, read, write, network }));
    }
    let confinement = sandbox.confinement()?;
    let text = format!(
        "`{place}` is sandboxed: reads {} (plus system files), writes {}, {}",
        listed(&read),
        listed(&write),
        sockets(confinement),
    );
    let (network, unix_sockets) = (confinement.has_network, confinement.has_unix_sockets);
    Some((text, ProcessReach::Sandbox { read, write, network, unix_sockets }))
}

fn listed(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "nothing".to_owned();
    }
    let paths = paths.iter().map(|path| format!("`{}`", Path::display(path)));
    paths.collect::<Vec<_>>().join(", ")
}

fn sockets(confinement: &Confinement) -> &'static str {
    match (confinement.has_network, confinement.has_unix_sockets) {
        (true, true) => "has network access and Unix sockets",
        (true, false) => "has network access",
        (false, true) => "has Unix sockets, no network",
        (false, false) => "no network",
    }
}
