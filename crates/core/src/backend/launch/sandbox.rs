//! Sandbox of a confined server: the files it can access, and its start.
//!
//! A process confines itself before it executes the server, so the launcher spawns this program's
//! own executable first. Each server has its own home folder. In a shared package cache, a confined
//! server could plant programs that other servers run outside its sandbox.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest, Sha256};

use crate::backend::StartError;
use crate::backend::launch::grants::{Grant, GrantRegistry};
use mcp_workbench_os::{PinnedPath, SandboxRules};
use mcp_workbench_settings::Confinement;

/// Variables that point into the user's home, which a confined server doesn't get.
pub(crate) const OF_THE_HOME: &[&str] = &[
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "TEMP",
    "TMP",
];

pub fn home_of(homes: &Path, server: &str) -> PathBuf {
    // Names may contain anything, so only the digest is unique; the rest is for people.
    let digest = Sha256::digest(server.as_bytes());
    let readable = server.chars().filter(char::is_ascii_alphanumeric).take(24);
    let name: String = readable.collect();
    let [a, b, c, d, ..] = digest[..] else { return homes.join(name) };
    homes.join(format!("{name}-{a:02x}{b:02x}{c:02x}{d:02x}"))
}

/// Returns the rules for a server with these grants.
pub fn rules(confinement: &Confinement, grants: Vec<Grant>) -> SandboxRules {
    let (write, read): (Vec<_>, Vec<_>) = grants.into_iter().partition(|grant| grant.is_writable);
    let [read, write] =
        [read, write].map(|grants| grants.into_iter().map(|grant| grant.source).collect());
    SandboxRules {
        read,
        write,
        has_network: confinement.has_network,
        has_unix_sockets: confinement.has_unix_sockets,
    }
}

/// A server's home folder and the folder for its temporary files.
pub(crate) struct ServerHome {
    pub(crate) pinned: PinnedPath,
    pub(crate) temporary: PathBuf,
}

/// Creates the home of a confined server, unless it exists. A folder that another user or a server
/// could have put there is an error.
pub(crate) fn make_home(own: &Path, registry: &GrantRegistry) -> Result<ServerHome, StartError> {
    private_home(own, registry).map_err(|error| {
        StartError::new(
            format!("failed to create its home folder `{}`: {error}", own.display()),
            "remove the folder or link, or choose another cache folder with `--cache-dir`"
                .to_owned(),
        )
    })
}

fn private_home(own: &Path, registry: &GrantRegistry) -> io::Result<ServerHome> {
    let (Some(homes), Some(name)) = (own.parent(), own.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let resolved = registry.resolve(homes)?.join(name);
    mcp_workbench_os::make_private_folder(&resolved)?;
    mcp_workbench_os::check_private_dir(&resolved)?;
    // Fails if the home itself is a link.
    let pinned = PinnedPath::new(&resolved)?;
    let temporary = own.join("tmp");
    // The server may have replaced the folder.
    if temporary.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        fs::remove_file(&temporary)?;
    }
    fs::create_dir_all(&temporary)?;
    Ok(ServerHome { pinned, temporary })
}

/// Returns the arguments that make this executable confine itself and run `program`. `for_linker`
/// are variables of the program that this executable must not get.
pub(crate) fn arguments<'a>(
    cell: &SandboxRules,
    for_linker: BTreeMap<OsString, OsString>,
    program: &'a OsStr,
    args: impl IntoIterator<Item = &'a OsStr>,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["cell".into()];
    let paths = [("--read", &cell.read), ("--write", &cell.write)];
    for (option, paths) in paths {
        all.extend(paths.iter().flat_map(|pinned| {
            [option.into(), pinned.path().into(), pinned.identity_text().into()]
        }));
    }
    let variables = for_linker.into_iter();
    all.extend(variables.flat_map(|(name, value)| ["--variable".into(), name, value]));
    all.extend(cell.has_network.then(|| "--network".into()));
    all.extend(cell.has_unix_sockets.then(|| "--unix-sockets".into()));
    all.extend(["--".into(), program.to_owned()]);
    all.extend(args.into_iter().map(OsStr::to_owned));
    all
}

/// Confines this process and executes `program`. Returns only on failure, with a message.
pub fn confine_and_exec<'a>(
    cell: &SandboxRules,
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    program: &OsStr,
    args: &[OsString],
) -> String {
    if let Err(reason) = mcp_workbench_os::enter_sandbox(cell) {
        return format!("server not started: cannot enter the sandbox: {reason}");
    }
    #[expect(clippy::disallowed_methods, reason = "the one place that starts servers")]
    let mut command = std::process::Command::new(program);
    let error = mcp_workbench_os::exec(command.args(args).envs(variables));
    format!("failed to start `{}` in its sandbox: {error}", program.to_string_lossy())
}

#[cfg(test)]
mod tests;
