//! The files and sockets that the process of each server could reach.

use std::path::{Path, PathBuf};

use crate::backend::ChildEnvironment;
use crate::backend::launch::cell;
use crate::cli::Global;
use crate::cli::check::report::{Reach, Row};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::os::{self, Cell};
use crate::settings::{Config, Launch};

/// Notes in the rows what each server could reach, and says it: a text for each that is confined, and
/// one for all others.
pub(super) fn mark(global: &Global, config: &Config, rows: &mut [Row]) -> Vec<String> {
    let environment = ChildEnvironment::new(ProcessEnv.vars());
    let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let (mut texts, mut free) = (Vec::new(), Vec::new());
    for (row, server) in rows.iter_mut().zip(servers) {
        let Launch::Stdio(launch) = &server.launch else { continue };
        let place = format!("{}/{}", row.toolbox, row.server);
        let own = global.homes().map(|homes| cell::home_of(&homes, server.name.as_str()));
        let Some((confinement, own)) = launch.confinement().zip(own) else {
            row.reach = Some(Reach::Everything);
            free.push(place);
            continue;
        };
        let cell = cell::of_launch(launch, confinement, &environment, &own);
        let besides = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().filter(|path| !cell::is_of_the_system(path)).cloned().collect()
        };
        let (read, write) = (besides(&cell.read), besides(&cell.write));
        texts.push(format!(
            "`{place}` is in a sandbox: beside the system's programs it may read {}, change {}, and \
             has {}",
            listed(&read),
            listed(&write),
            sockets(&cell),
        ));
        row.reach = Some(Reach::Cell {
            read,
            write,
            network: cell.has_network,
            unix_sockets: cell.has_unix_sockets,
        });
    }
    if !texts.is_empty() && !os::hides_from_signals() {
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
