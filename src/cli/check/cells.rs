//! The files and sockets that the process of each server could reach.

use std::path::{Path, PathBuf};

use crate::backend::ChildEnvironment;
use crate::backend::launch::cell;
use crate::backend::launch::container::{self, Mount};
use crate::cli::Global;
use crate::cli::check::report::{Reach, Row};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::os::{self, Cell};
use crate::settings::{Config, Container, Launch, Sandbox};

/// Notes in the rows what each server could reach, and says it: a text for each that is confined, and
/// one for all others.
pub(super) fn mark(global: &Global, config: &Config, rows: &mut [Row]) -> Vec<String> {
    let environment = ChildEnvironment::new(ProcessEnv.vars());
    let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let (mut texts, mut free, mut is_confined) = (Vec::new(), Vec::new(), false);
    for (row, server) in rows.iter_mut().zip(servers) {
        let Launch::Stdio(launch) = &server.launch else { continue };
        let place = format!("{}/{}", row.toolbox, row.server);
        let own = global.homes().map(|homes| cell::home_of(&homes, server.name.as_str()));
        let (text, reach) = match (own, &launch.sandbox) {
            (Some(own), Some(Sandbox::On(confinement))) => {
                is_confined = true;
                in_sandbox(&place, &cell::of_launch(launch, confinement, &environment, &own))
            }
            (Some(own), Some(Sandbox::In(container))) => {
                let mounts = container::mounts(launch, container, &environment, &own);
                in_container(&place, container, mounts.into_values())
            }
            _ => {
                row.reach = Some(Reach::Everything);
                free.push(place);
                continue;
            }
        };
        row.reach = Some(reach);
        texts.push(text);
    }
    if is_confined && !os::hides_from_signals() {
        texts.push(
            "warning: this kernel does not keep servers in a sandbox from ending other processes of \
             yours (Linux 6.12 and newer do)"
                .to_owned(),
        );
    }
    if !free.is_empty() {
        let place = free.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ");
        texts.push(format!("without a sandbox, and so with all your rights: {place}"));
    }
    texts
}

fn in_sandbox(place: &str, cell: &Cell) -> (String, Reach) {
    let besides = |paths: &[PathBuf]| -> Vec<PathBuf> {
        paths.iter().filter(|path| !cell::is_of_the_system(path)).cloned().collect()
    };
    let (read, write) = (besides(&cell.read), besides(&cell.write));
    let text = format!(
        "`{place}` is in a sandbox: beside the system's programs it may read {}, change {}, and has {}",
        listed(&read),
        listed(&write),
        sockets(cell),
    );
    let (network, unix_sockets) = (cell.has_network, cell.has_unix_sockets);
    (text, Reach::Cell { read, write, network, unix_sockets })
}

fn in_container(
    place: &str,
    container: &Container,
    mounts: impl Iterator<Item = Mount>,
) -> (String, Reach) {
    let Container { image, has_network: network, .. } = container;
    let (write, read): (Vec<_>, Vec<_>) = mounts.partition(|mount| mount.is_writable);
    let [read, write] = [read, write]
        .map(|mounts| mounts.into_iter().map(|mount| mount.source).collect::<Vec<PathBuf>>());
    let text = format!(
        "`{place}` is in a container of `{image}`: of this machine it may read {}, change {}, and has {}",
        listed(&read),
        listed(&write),
        if *network { "the network" } else { "no network" },
    );
    (text, Reach::Container { image: image.clone(), read, write, network: *network })
}

fn listed(paths: &[PathBuf]) -> String {
    if paths.is_empty() {
        return "nothing".to_owned();
    }
    let paths = paths.iter().map(|path| format!("`{}`", Path::display(path)));
    paths.collect::<Vec<_>>().join(", ")
}

fn sockets(cell: &Cell) -> &'static str {
    match (cell.has_network, cell.has_unix_sockets) {
        (true, true) => "the network and the sockets of other programs",
        (true, false) => "the network",
        (false, true) => "no network, but the sockets of other programs",
        (false, false) => "no network",
    }
}
