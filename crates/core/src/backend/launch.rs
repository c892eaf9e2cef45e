//! The launcher: spawns server processes and ends them.
//!
//! Each child leads its own process group, so that its descendants (npx starts node) can be ended
//! with it. On Linux the kernel kills a child when the thread that spawned it ends, so one
//! long-lived thread spawns all children (`spawn_thread`). If the workbench is killed, the watchdog
//! kills the rest of each group. `process_reaper` ends processes that left their group.

pub mod capture;
pub mod container;
pub mod detached;
mod environment;
pub mod grants;
pub mod named_paths;
pub mod program_files;
pub mod sandbox;
mod spawn_thread;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::backend::StartError;
use crate::backend::launch::container::{ContainerCleanup, ContainerCommand};
use crate::backend::launch::environment::is_for_linker;
use crate::backend::launch::grants::{Grant, GrantRegistry};
use crate::backend::launch::sandbox::ServerHome;
use crate::backend::process_reaper::LaunchGuard;
use crate::backend::watchdog::LAUNCH_ID_VAR;
use mcp_workbench_names::PROGRAM;
use mcp_workbench_os::{
    Child, ChildGuard, CommandSpec, PinnedPath, Pipe, check_sandbox_support, kill_group,
    lead_session, restore_file_limit, terminate_group, widen,
};
use mcp_workbench_settings::{Confinement, Sandbox, StdioLaunch};

pub use crate::backend::launch::environment::{ChildEnvironment, is_passed_on};
pub(crate) use crate::backend::launch::environment::{
    absent_interpreter as missing_interpreter, find as find_program, first_line,
};

/// Time for a child to exit after its stdin is closed.
const LEAVE: Duration = Duration::from_millis(700);
/// Time for a child to exit after a termination request, before it is killed.
const TERMINATE: Duration = Duration::from_millis(500);
/// Maximum time to remove the container of a child that did not exit by itself.
const CONTAINER_CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Streams {
    pub stdin: Pipe<ChildStdin>,
    pub stdout: Pipe<ChildStdout>,
    pub stderr: ChildStderr,
}

/// A running child and its process group. Dropping it kills both.
pub struct Process {
    child: Child,
    group: Option<u32>,
    launched: Option<LaunchGuard>,
    /// Removes the container that the child is the client of.
    cleanup: Option<ContainerCleanup>,
}

/// Spawns a child. The command `mcp-workbench` means `ourselves`, not a program on `PATH`. Dropping
/// the future kills the child.
pub async fn spawn(
    launch: &StdioLaunch,
    environment: &ChildEnvironment,
    ourselves: Option<&Path>,
) -> Result<(Process, Streams), StartError> {
    spawn_as(launch, environment, ourselves, None).await
}

pub(crate) struct SpawnOptions {
    pub(crate) launched: LaunchGuard,
    /// Home of a sandboxed server. `None` makes its start fail.
    pub(crate) home: Option<PathBuf>,
    pub(crate) grants: Arc<GrantRegistry>,
}

/// Like [`spawn`], with options for servers that are sandboxed and whose descendants are tracked.
pub(crate) async fn spawn_as(
    launch: &StdioLaunch,
    environment: &ChildEnvironment,
    ourselves: Option<&Path>,
    custody: Option<SpawnOptions>,
) -> Result<(Process, Streams), StartError> {
    let StdioLaunch { command, cwd, .. } = launch;
    if !cwd.is_dir() {
        return Err(no_folder(cwd));
    }
    let (mut launched, place) = match custody {
        Some(SpawnOptions { launched, home, grants }) => {
            (Some(launched), home.map(|home| (home, grants)))
        }
        None => (None, None),
    };
    let mark = launched.as_ref().map(LaunchGuard::mark);
    let (mut program, cleanup) = match &launch.sandbox {
        None | Some(Sandbox::Off) => (unconfined_program(launch, environment, ourselves), None),
        Some(Sandbox::Process(confinement)) => {
            (confined(launch, confinement, environment, (ourselves, place))?, None)
        }
        Some(Sandbox::Container(container)) => {
            let (home, registry) = place.ok_or_else(no_home)?;
            let source = sandbox::make_home(&home, &registry)?.pinned;
            let mut grants = registry.grants(launch, environment)?;
            grants.push(Grant { source, target: home.clone(), is_writable: true });
            let place = (&*home, &*grants);
            let mark = (LAUNCH_ID_VAR, mark.as_deref().unwrap_or_default());
            let ContainerCommand { program: name, args, env, cleanup } =
                container::container_command(launch, container, environment, place, mark)?;
            if registry.is_replaceable(Path::new(&name)) {
                return Err(changeable_engine(&name));
            }
            (CommandSpec { name, args, env, ..CommandSpec::default() }, Some(cleanup))
        }
    };
    program.env.extend(mark.map(|mark| (LAUNCH_ID_VAR.into(), mark.into())));
    program.folder.clone_from(cwd);
    program.has_input = true;
    let process = spawn_thread::start(program).await;
    let not_started = |error| {
        find_launch_problem(launch, environment, ourselves)
            .unwrap_or_else(|| spawn_failure(command, &error))
    };
    let mut process = process.map_err(not_started)?;
    if let Some((launched, group)) = launched.as_mut().zip(process.group) {
        launched.set_process_group(group, cleanup.as_ref());
    }
    process.launched = launched;
    process.cleanup = cleanup;
    let child = &mut process.child;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(StartError::new(
            "cannot open its stdin, stdout or stderr".to_owned(),
            "this is a bug in MCP Workbench; please report it".to_owned(),
        ));
    };
    let (stdin, stdout) = (Pipe::new(stdin, widen), Pipe::new(stdout, widen));
    Ok((process, Streams { stdin, stdout, stderr }))
}

fn unconfined_program(
    launch: &StdioLaunch,
    environment: &ChildEnvironment,
    ourselves: Option<&Path>,
) -> CommandSpec {
    let inherited = environment.for_launch(launch);
    let inherited = inherited.map(|(name, value)| (name.clone(), value.clone()));
    CommandSpec {
        name: name_of(launch, ourselves).to_owned(),
        args: launch.args.iter().map(OsString::from).collect(),
        env: inherited.chain(own_variables(launch)).collect(),
        ..CommandSpec::default()
    }
}

fn confined(
    launch: &StdioLaunch,
    confinement: &Confinement,
    environment: &ChildEnvironment,
    (ourselves, place): (Option<&Path>, Option<(PathBuf, Arc<GrantRegistry>)>),
) -> Result<CommandSpec, StartError> {
    // A confined process can't report why it fails to start.
    if let Some(failure) = find_launch_problem(launch, environment, ourselves) {
        return Err(failure);
    }
    let (home, registry) = place.ok_or_else(no_home)?;
    let executable = ourselves.ok_or_else(not_ourselves)?;
    check_sandbox_support().map_err(|reason| cannot_confine(&reason))?;
    let ServerHome { pinned, temporary } = sandbox::make_home(&home, &registry)?;
    let mut cell = sandbox::rules(confinement, registry.grants(launch, environment)?);
    cell.write.push(pinned);
    // An `mcp-workbench` server, whose executable is outside the readable folders.
    if launch.command == PROGRAM {
        let program = executable.canonicalize().and_then(|program| PinnedPath::new(&program));
        cell.read.extend(program.ok());
    }
    let args = launch.args.iter().map(AsRef::as_ref);
    let inherited = environment
        .for_launch(launch)
        .filter(|(name, _)| !sandbox::OF_THE_HOME.iter().any(|of_the_home| *name == of_the_home))
        .map(|(name, value)| (name.clone(), value.clone()));
    let of_the_home = [("HOME".into(), home.into()), ("TMPDIR".into(), temporary.into())];
    let env: BTreeMap<_, _> = inherited.chain(of_the_home).chain(own_variables(launch)).collect();
    let (for_linker, env) =
        env.into_iter().partition(|(name, _)| name.to_str().is_some_and(is_for_linker));
    Ok(CommandSpec {
        name: executable.into(),
        args: sandbox::arguments(&cell, for_linker, name_of(launch, ourselves), args),
        env,
        ..CommandSpec::default()
    })
}

fn own_variables(launch: &StdioLaunch) -> impl Iterator<Item = (OsString, OsString)> {
    launch.env.iter().map(|(name, value)| (name.into(), value.into()))
}

fn name_of<'a>(launch: &'a StdioLaunch, ourselves: Option<&'a Path>) -> &'a OsStr {
    let ourselves = ourselves.filter(|_| launch.command == PROGRAM);
    ourselves.map_or(launch.command.as_ref(), Path::as_os_str)
}

fn cannot_confine(reason: &str) -> StartError {
    StartError::new(
        format!("cannot start the sandbox: {reason}"),
        "run it in a `container`, or set `\"sandbox\": \"off\"` if you trust it".to_owned(),
    )
}

fn changeable_engine(engine: &OsStr) -> StartError {
    StartError::new(
        format!(
            "container engine `{}` is in a folder that a sandboxed server can change",
            Path::new(engine).display()
        ),
        "set `engine` to the full path of another program".to_owned(),
    )
}

fn no_home() -> StartError {
    StartError::new(
        "no cache directory for the home folder of its sandbox".to_owned(),
        "set one with `--cache-dir` or `WORKBENCH_CACHE_DIR`".to_owned(),
    )
}

fn not_ourselves() -> StartError {
    cannot_confine("the executable of mcp-workbench was not found")
}

fn spawn_failure(command: &str, error: &io::Error) -> StartError {
    let is_path = command.contains(std::path::MAIN_SEPARATOR);
    match error.kind() {
        io::ErrorKind::NotFound if is_path => {
            StartError::new(format!("program `{command}` not found"), "fix `command`".to_owned())
        }
        io::ErrorKind::NotFound => StartError::new(
            format!("command `{command}` not found on PATH"),
            format!("install it, or set `command` to its full path (`which {command}`)"),
        ),
        io::ErrorKind::PermissionDenied => StartError::new(
            format!("permission denied: `{command}` is not executable"),
            format!("make it executable (`chmod +x {command}`) or fix `command`"),
        ),
        _ => StartError::new(
            format!("failed to start `{command}`: {error}"),
            "check `command` and `args`".to_owned(),
        ),
    }
}

/// Returns why a child can't start: its folder, program or container engine is missing. Searches
/// the child's own `PATH`, as [`spawn`] does.
pub fn find_launch_problem(
    launch: &StdioLaunch,
    environment: &ChildEnvironment,
    ourselves: Option<&Path>,
) -> Option<StartError> {
    let StdioLaunch { command, cwd, .. } = launch;
    if !cwd.is_dir() {
        return Some(no_folder(cwd));
    }
    if let Some(container) = launch.container() {
        return container::engine(container, cwd, environment).err();
    }
    if ourselves.is_some() && command == PROGRAM {
        return None;
    }
    missing_program(command, cwd, &environment.path_for(launch))
}

fn missing_program(command: &str, cwd: &Path, path: &OsStr) -> Option<StartError> {
    let program = match environment::find(command, cwd, path) {
        Ok(program) => program,
        Err(kind) => return Some(spawn_failure(command, &kind.into())),
    };
    let interpreter = environment::absent_interpreter(&program)?;
    Some(StartError::new(
        format!("`{command}` is a script for `{interpreter}`, which does not exist"),
        format!("reinstall `{}`: its interpreter was moved or removed", program.display()),
    ))
}

fn no_folder(cwd: &Path) -> StartError {
    StartError::new(
        format!("working directory `{}` does not exist", cwd.display()),
        "fix `cwd` (default: the folder of the configuration file)".to_owned(),
    )
}

impl Process {
    fn start(program: &CommandSpec) -> io::Result<Self> {
        let child = Child::spawn(program)?;
        Ok(Self { group: child.id(), child, launched: None, cleanup: None })
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.group
    }

    pub(crate) async fn exited(&mut self) {
        // An error means that there is nothing to wait for.
        let _ = self.child.wait().await;
    }

    /// Waits for the child to exit, kills what it left behind, and returns its exit status.
    ///
    /// The caller must have closed stdin. A child that doesn't exit is terminated, then killed,
    /// within about 1.3 s. Removing its container can take [`CONTAINER_CLEANUP_TIMEOUT`] more.
    pub async fn end(mut self) -> Option<ExitStatus> {
        let mut status = self.left_within(LEAVE).await;
        if status.is_none() {
            self.group.into_iter().for_each(terminate_group);
            status = self.left_within(TERMINATE).await;
        }
        // An engine client that exits by itself has seen its container end.
        if status.is_some_and(|status| status.code().is_some()) {
            self.cleanup = None;
        }
        if let Some(cleanup) = self.cleanup.clone() {
            let said = tokio::task::spawn_blocking(move || cleanup.run());
            if timeout(CONTAINER_CLEANUP_TIMEOUT, said).await.is_ok() {
                self.cleanup = None;
            }
        }
        self.kill();
        if status.is_none() {
            status = self.left_within(TERMINATE).await;
        }
        status
    }

    /// Kills the rest of the group, once: without the child, the ID may be reused.
    fn kill(&mut self) {
        self.group.into_iter().for_each(kill_group);
        // Needed only on systems without process groups.
        self.child.kill();
        self.group = None;
        let launched = self.launched.take();
        if let Some(cleanup) = self.cleanup.take() {
            // If the workbench ends first, the watchdog runs the cleanup.
            let say = move || {
                cleanup.run();
                drop(launched);
            };
            let _ = thread::Builder::new().name("cleanup".to_owned()).spawn(say);
        }
    }

    async fn left_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        timeout(patience, self.child.wait()).await.ok()?.ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Spawns the watchdog in its own session, so that it outlives the workbench and its terminal.
pub(crate) fn spawn_watchdog(
    program: &Path,
    input: PipeReader,
) -> io::Result<(std::process::Child, Option<ChildGuard>)> {
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns processes")]
    let mut builder = std::process::Command::new(program);
    // The watchdog needs no environment, and other processes could read secrets in it.
    builder.arg("guard").env_clear();
    builder.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
    lead_session(&mut builder);
    restore_file_limit(&mut builder);
    mcp_workbench_os::spawn_tracked(|| builder.spawn(), |child| Some(child.id()))
}
