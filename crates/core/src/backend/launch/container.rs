//! Servers in Docker or Podman containers.
//!
//! The spawned process is the engine's client, which relays the streams. A container outlives a
//! killed client. So it gets a unique name, and the launcher or the watchdog removes it by that
//! name ([`ContainerCleanup`]).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::backend::StartError;
use crate::backend::launch::environment::{ChildEnvironment, find, is_for_engine};
use crate::backend::launch::sandbox;
use crate::os;
use crate::settings::{Container, StdioLaunch};

/// Engines to look for, in this order, if none is configured.
const ENGINES: [&str; 2] = ["docker", "podman"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub source: PathBuf,
    pub is_writable: bool,
}

/// Returns the mounts of a launch by their path in the container, which is the one used in
/// arguments. `home` is the server's home.
pub fn mounts(
    launch: &StdioLaunch,
    container: &Container,
    environment: &ChildEnvironment,
    home: &Path,
) -> BTreeMap<PathBuf, Mount> {
    let mut all = BTreeMap::new();
    let mut put = |target: PathBuf, source: PathBuf, is_writable: bool| {
        let mount = all.entry(target).or_insert(Mount { source, is_writable });
        mount.is_writable |= is_writable;
    };
    put(home.to_owned(), home.to_owned(), true);
    // The default `cwd` is the configuration's folder, which isn't mounted.
    if launch.has_own_folder {
        put(launch.cwd.clone(), launch.cwd.clone(), true);
    }
    for (text, source) in sandbox::referenced_paths(launch) {
        // The image has its own system.
        if sandbox::is_system_path(&source) {
            continue;
        }
        if !source.is_dir() {
            let package = sandbox::code_of(&source, environment, launch);
            for path in package {
                put(path.clone(), path, false);
            }
        }
        put(cleaned(&launch.cwd.join(text)), source.clone(), source.is_dir());
    }
    for (paths, is_writable) in [(&container.read, false), (&container.write, true)] {
        for path in paths.iter().filter(|path| path.exists()) {
            put(cleaned(path), path.clone(), is_writable);
        }
    }
    all
}

/// Removes `.` and `..` lexically: inside the container no part of the path is a symbolic link.
fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

pub(crate) struct ContainerCommand {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// Complete environment of the client.
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) cleanup: ContainerCleanup,
}

/// Returns the command that runs a server in a container. `mark` is the launch ID variable and its
/// value. The server's `home` must exist.
pub(crate) fn container_command(
    launch: &StdioLaunch,
    container: &Container,
    environment: &ChildEnvironment,
    home: &Path,
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
    if let Some((user, group)) = os::user().filter(|(user, _)| *user != 0) {
        args.extend(if is_podman {
            ["--userns".into(), "keep-id".into()]
        } else {
            ["--user".into(), OsString::from(format!("{user}:{group}"))]
        });
    }
    let mounts = mounts(launch, container, environment, home);
    let is_there = mounts.keys().any(|target| target.starts_with(&launch.cwd));
    args.extend(["--workdir".into(), if is_there { &launch.cwd } else { home }.into()]);
    for (target, Mount { source, is_writable }) in &mounts {
        args.extend(["--mount".into(), mount(source, target, *is_writable)]);
    }
    // All users can see command lines, so values go through the client's environment, unless the
    // client uses the variable itself.
    let mut env = of_client.clone();
    let of_launch = launch.env.iter().map(|(key, value)| (key.as_str(), OsStr::new(value)));
    let own = [("HOME", home.as_os_str()), (mark.0, OsStr::new(mark.1))];
    for (key, value) in own.into_iter().chain(of_launch) {
        let mut variable = OsString::from(key);
        if of_client.contains_key(OsStr::new(key)) || is_for_engine(key) {
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

pub(crate) fn engine(
    container: &Container,
    cwd: &Path,
    environment: &ChildEnvironment,
) -> Result<OsString, StartError> {
    let path = environment.path_for_engine();
    let is_there = |name: &str| find(name, cwd, &path).is_ok();
    if let Some(engine) = &container.engine {
        return is_there(engine).then(|| engine.into()).ok_or_else(|| {
            StartError::new(
                format!("container engine `{engine}` not found"),
                "install it or fix `engine`".to_owned(),
            )
        });
    }
    let found = ENGINES.into_iter().find(|name| is_there(name));
    found.map(OsString::from).ok_or_else(|| {
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
        let done = os::spawn_tracked(|| command.spawn(), |child| Some(child.id()))
            .and_then(|(mut child, _started)| child.wait());
        if let Err(error) = done {
            tracing::warn!(%error, engine = self.program, "failed to remove the container");
        }
    }
}

#[cfg(test)]
mod tests;
