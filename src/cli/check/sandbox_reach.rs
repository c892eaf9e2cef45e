//! Lists the files and sockets that each server process can reach.

use std::path::{Path, PathBuf};

use crate::backend::ChildEnvironment;
use crate::backend::launch::container::{self, Mount};
use crate::backend::launch::sandbox;
use crate::cli::GlobalArgs;
use crate::cli::check::report::{ProcessReach, ServerRow};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::os::{self, SandboxRules};
use crate::settings::{Config, Container, Launch, Sandbox};

/// Sets the reach of each row. Returns a line per sandboxed server and one for the rest.
pub(super) fn annotate_reach(
    global: &GlobalArgs,
    config: &Config,
    rows: &mut [ServerRow],
) -> Vec<String> {
    let environment = ChildEnvironment::new(ProcessEnv.vars());
    let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let (mut texts, mut free, mut is_confined) = (Vec::new(), Vec::new(), false);
    for (row, server) in rows.iter_mut().zip(servers) {
        let Launch::Stdio(launch) = &server.launch else { continue };
        let place = format!("{}/{}", row.toolbox, row.server);
        let own = global.homes().map(|homes| sandbox::home_of(&homes, server.name.as_str()));
        let (text, reach) = match (own, &launch.sandbox) {
            (Some(own), Some(Sandbox::Process(confinement))) => {
                is_confined = true;
                in_sandbox(&place, &sandbox::of_launch(launch, confinement, &environment, &own))
            }
            (Some(own), Some(Sandbox::Container(container))) => {
                let mounts = container::mounts(launch, container, &environment, &own);
                in_container(&place, container, mounts.into_values())
            }
            _ => {
                row.reach = Some(ProcessReach::Everything);
                free.push(place);
                continue;
            }
        };
        row.reach = Some(reach);
        texts.push(text);
    }
    if is_confined && !os::supports_signal_scope() {
        texts.push(
            "warning: this kernel does not stop sandboxed servers from killing your other \
             processes (Linux 6.12 and newer do)"
                .to_owned(),
        );
    }
    if !free.is_empty() {
        let place = free.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ");
        texts.push(format!("not sandboxed, runs with your full permissions: {place}"));
    }
    texts
}

fn in_sandbox(place: &str, cell: &SandboxRules) -> (String, ProcessReach) {
    let other_than_system = |paths: &[PathBuf]| -> Vec<PathBuf> {
        paths.iter().filter(|path| !sandbox::is_system_path(path)).cloned().collect()
    };
    let (read, write) = (other_than_system(&cell.read), other_than_system(&cell.write));
    let text = format!(
        "`{place}` is sandboxed: reads {} (plus system files), writes {}, {}",
        listed(&read),
        listed(&write),
        sockets(cell),
    );
    let (network, unix_sockets) = (cell.has_network, cell.has_unix_sockets);
    (text, ProcessReach::Sandbox { read, write, network, unix_sockets })
}

fn in_container(
    place: &str,
    container: &Container,
    mounts: impl Iterator<Item = Mount>,
) -> (String, ProcessReach) {
    let Container { image, has_network: network, .. } = container;
    let (write, read): (Vec<_>, Vec<_>) = mounts.partition(|mount| mount.is_writable);
    let [read, write] = [read, write]
        .map(|mounts| mounts.into_iter().map(|mount| mount.source).collect::<Vec<PathBuf>>());
    let text = format!(
        "`{place}` runs in a container (`{image}`): on this machine reads {}, writes {}, {}",
        listed(&read),
        listed(&write),
        if *network { "has network access" } else { "no network" },
    );
    (text, ProcessReach::Container { image: image.clone(), read, write, network: *network })
}

fn listed(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "nothing".to_owned();
    }
    let paths = paths.iter().map(|path| format!("`{}`", Path::display(path)));
    paths.collect::<Vec<_>>().join(", ")
}

fn sockets(cell: &SandboxRules) -> &'static str {
    match (cell.has_network, cell.has_unix_sockets) {
        (true, true) => "has network access and Unix sockets",
        (true, false) => "has network access",
        (false, true) => "has Unix sockets, no network",
        (false, false) => "no network",
    }
}
