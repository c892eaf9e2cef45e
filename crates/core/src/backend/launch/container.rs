//! Servers in Docker or Podman containers.
//!
//! The spawned process is the engine's client, which relays the streams. A container outlives a
//! killed client. So it gets a unique name, and the launcher or the watchdog removes it by that
//! name ([`ContainerCleanup`]).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::backend::StartError;
use crate::backend::launch::environment::{ChildEnvironment, find, is_for_engine, is_for_linker};
use crate::backend::launch::grants::Grant;
use mcp_workbench_settings::{Container, StdioLaunch};

/// Engines to look for, in this order, if none is configured.
const ENGINES: [&str; 2] = ["docker", "podman"];

pub(crate) struct ContainerCommand {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// Complete environment of the client.
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) cleanup: ContainerCleanup,
}

/// Returns the command that runs a server in a container. `mark` is the launch ID variable and its
/// value. `grants` include the server's `home`.
pub(crate) fn container_command(
    launch: &StdioLaunch,
    container: &Container,
    environment: &ChildEnvironment,
    (home, grants): (&Path, &[Grant]),
    mark: (&str, &str),
) -> Result<ContainerCommand, StartError> {
    let program = engine(container, &launch.cwd, environment)?;
    let is_podman = Path::new(&program).file_stem().is_some_and(|name| name == "podman");
    let name = format!("mcp-workbench-{}", mark.1);
    let of_client: BTreeMap<OsString, OsString> =
        environment.for_engine().map(|(key, value)| (key.clone(), value.clone())).collect();

    let mut args: Vec<OsString> =
        ["run", "--rm", "--interactive", "--log-driver", "none", "--name"]
            .map(OsString::from)
            .to_vec();
    args.push(name.clone().into());
    args.extend(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"].map(OsString::from));
    if !container.has_network {
        args.extend(["--network", "none"].map(OsString::from));
    }
    // Files that the server writes must belong to the user.
    if let Some((user, group)) = mcp_workbench_os::user().filter(|(user, _)| *user != 0) {
        args.extend(if is_podman {
            ["--userns".into(), "keep-id".into()]
        } else {
            ["--user".into(), OsString::from(format!("{user}:{group}"))]
        });
    }
    // A folder that is part of a larger one has no mount of its own.
    let is_there = grants.iter().any(|grant| {
        grant.target.starts_with(&launch.cwd) || launch.cwd.starts_with(&grant.target)
    });
    args.extend(["--workdir".into(), if is_there { &launch.cwd } else { home }.into()]);
    for Grant { source, target, is_writable } in grants {
        args.extend(["--mount".into(), mount(source.path(), target, *is_writable)]);
    }
    // All users can see command lines, so values go through the client's environment, unless the
    // client or its linker uses the variable itself.
    let mut env = of_client.clone();
    let of_launch = launch.env.iter().map(|(key, value)| (key.as_str(), OsStr::new(value)));
    let own = [("HOME", home.as_os_str()), (mark.0, OsStr::new(mark.1))];
    for (key, value) in own.into_iter().chain(of_launch) {
        let mut variable = OsString::from(key);
        if of_client.contains_key(OsStr::new(key)) || is_for_engine(key) || is_for_linker(key) {
            variable.push("=");
            variable.push(value);
        } else {
            env.insert(key.into(), value.to_owned());
        }
        args.extend(["--env".into(), variable]);
    }
    args.extend(["--entrypoint".into(), OsString::from(&launch.command)]);
    args.push(OsString::from(&container.image));
    args.extend(launch.args.iter().map(OsString::from));

    let mut end = vec!["rm".to_owned(), "--force".to_owned()];
    if is_podman {
        // Podman would wait 10 s otherwise.
        end.extend(["--time".to_owned(), "0".to_owned()]);
    }
    end.push(name);
    let cleanup = ContainerCleanup {
        program: program.to_string_lossy().into_owned(),
        args: end,
        env: of_client
            .into_iter()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
    };
    Ok(ContainerCommand { program, args, env, cleanup })
}

/// Returns the value of `--mount`, a CSV record.
fn mount(source: &Path, target: &Path, is_writable: bool) -> OsString {
    let field = |key: &str, path: &Path| {
        let mut field = OsString::from(key);
        let path = path.as_os_str();
        let is_plain = !path.as_encoded_bytes().iter().any(|byte| b",\"\r\n".contains(byte));
        if is_plain {
            field.push(path);
            return field;
        }
        OsString::from(format!("\"{key}{}\"", path.to_string_lossy().replace('"', "\"\"")))
    };
    let mut all = OsString::from("type=bind,");
    all.push(field("source=", source));
    all.push(",");
    all.push(field("target=", target));
    if !is_writable {
        all.push(",readonly");
    }
    all
}

/// Returns the program of the container engine.
pub(crate) fn engine(
    container: &Container,
    cwd: &Path,
    environment: &ChildEnvironment,
) -> Result<OsString, StartError> {
    // A relative folder would start in `cwd`, which servers may change.
    let path = environment.path_for_engine();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let path = std::env::join_paths(folders).unwrap_or_default();
    let program = |name: &str| {
        let program = find(name, cwd, &path).ok()?;
        // On Windows the file has an extension that only the system knows.
        Some(if program.is_file() { program.into_os_string() } else { name.into() })
    };
    if let Some(engine) = &container.engine {
        return program(engine).ok_or_else(|| {
            StartError::new(
                format!("container engine `{engine}` not found"),
                "install it or fix `engine`".to_owned(),
            )
        });
    }
    ENGINES.into_iter().find_map(program).ok_or_else(|| {
        StartError::new(
            "no container engine found: neither `docker` nor `podman` is on PATH".to_owned(),
            "install one, set `engine`, or use a `sandbox` instead".to_owned(),
        )
    })
}

/// The command that removes a container, even while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerCleanup {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

impl ContainerCleanup {
    pub(crate) fn run(&self) {
        #[expect(clippy::disallowed_methods, reason = "stops containers that the launcher started")]
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let done = mcp_workbench_os::spawn_tracked(|| command.spawn(), |child| Some(child.id()))
            .and_then(|(mut child, _started)| child.wait());
        if let Err(error) = done {
            tracing::warn!(%error, engine = self.program, "failed to remove the container");
        }
    }
}

#[cfg(test)]
mod tests;
