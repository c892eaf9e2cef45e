//! The launcher: the one place that spawns processes, and the way they end.
//!
//! Every child leads a process group of its own, so that what it starts (npx starts node) can be
//! ended with it. On Linux the kernel kills the child itself when we die, or rather when the thread
//! ends that started it: so a thread that lasts as long as we do starts them all (`lasting`). The
//! rest of the group is the guard's business then, and whatever has left the group that of `strays`.

pub mod cell;
pub mod container;
pub mod detached;
mod environment;
mod lasting;
pub mod printed;

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::backend::StartFailure;
use crate::backend::guard::MARK;
use crate::backend::launch::container::{Contained, Farewell};
use crate::backend::strays::Launched;
use crate::name::PROGRAM;
use crate::os::{
    self, Child, Pipe, Program, Started, can_confine, keep_file_limit, kill_group, lead_group,
    terminate_group, widen,
};
use crate::settings::{Confinement, Sandbox, StdioLaunch};

pub use crate::backend::launch::environment::{ChildEnvironment, is_passed_on};

/// After the end of its input a child may take this long to leave by itself.
const LEAVE: Duration = Duration::from_millis(700);
/// After being asked to terminate it may take this long; then it is killed.
const TERMINATE: Duration = Duration::from_millis(500);
/// The removal of the container of a child that did not leave by itself may take this long.
const FAREWELL: Duration = Duration::from_secs(5);

/// The streams of a child.
pub struct Streams {
    pub stdin: Pipe<ChildStdin>,
    pub stdout: Pipe<ChildStdout>,
    pub stderr: ChildStderr,
}

/// A running child and its process group. Dropping it kills both.
pub struct Process {
    child: Child,
    /// The id of the child and of the group it leads.
    group: Option<u32>,
    /// The launch that it is of, if what it leaves behind is looked after.
    launched: Option<Launched>,
    /// The end of the container that it is the client of.
    farewell: Option<Farewell>,
}

/// Starts a child. The command `mcp-workbench` means `ourselves`, whatever is on `PATH`. If it is not
/// waited for, the child is killed.
pub async fn spawn(
    launch: &StdioLaunch,
    environment: &ChildEnvironment,
    ourselves: Option<&Path>,
) -> Result<(Process, Streams), StartFailure> {
    spawn_as(launch, environment, ourselves, None).await
}

/// The hold on a server that is started.
pub(crate) struct Custody {
    /// The launch, by which what it leaves behind is found.
    pub(crate) launched: Launched,
    /// The folder that is its home where it is confined; `None`: there is none.
    pub(crate) home: Option<PathBuf>,
}

/// Starts a child as [`spawn`] does, in custody: one that is to be confined is, and what it leaves behind
/// is ended.
pub(crate) async fn spawn_as(
    launch: &StdioLaunch,
    environment: &ChildEnvironment,
    ourselves: Option<&Path>,
    custody: Option<Custody>,
) -> Result<(Process, Streams), StartFailure> {
    let StdioLaunch { command, cwd, .. } = launch;
    if !cwd.is_dir() {
        return Err(no_folder(cwd));
    }
    let (mut launched, home) = custody.map(|Custody { launched, home }| (launched, home)).unzip();
    let home = home.flatten();
    let mark = launched.as_ref().map(Launched::mark);
    let (mut program, farewell) = match &launch.sandbox {
        None | Some(Sandbox::Off) => (free(launch, environment, ourselves), None),
        Some(Sandbox::On(confinement)) => {
            (confined(launch, confinement, environment, (ourselves, home))?, None)
        }
        Some(Sandbox::In(container)) => {
            let home = home.ok_or_else(no_home)?;
            cell::make_home(&home)?;
            let mark = (MARK, mark.as_deref().unwrap_or_default());
            let Contained { program: name, args, env, farewell } =
                container::contained(launch, container, environment, &home, mark)?;
            (Program { name, args, env, ..Program::default() }, Some(farewell))
        }
    };
    program.env.extend(mark.map(|mark| (MARK.into(), mark.into())));
    program.folder.clone_from(cwd);
    program.has_input = true;
    let process = lasting::start(program).await;
    let not_started = |error| {
        missing(launch, environment, ourselves).unwrap_or_else(|| spawn_failure(command, &error))
    };
    let mut process = process.map_err(not_started)?;
    if let Some((launched, group)) = launched.as_mut().zip(process.group) {
        launched.runs_as(group, farewell.as_ref());
    }
    process.launched = launched;
    process.farewell = farewell;
    let child = &mut process.child;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(StartFailure::new(
            "its streams could not be opened".to_owned(),
            "this is a defect of the workbench; please report it".to_owned(),
        ));
    };
    let (stdin, stdout) = (Pipe::new(stdin, widen), Pipe::new(stdout, widen));
    Ok((process, Streams { stdin, stdout, stderr }))
}

/// The program of a server that may do what the user may.
fn free(launch: &StdioLaunch, environment: &ChildEnvironment, ourselves: Option<&Path>) -> Program {
    let inherited = environment.for_launch(launch);
    let inherited = inherited.map(|(name, value)| (name.clone(), value.clone()));
    Program {
        name: name_of(launch, ourselves).to_owned(),
        args: launch.args.iter().map(OsString::from).collect(),
        env: inherited.chain(own_variables(launch)).collect(),
        ..Program::default()
    }
}

/// The program of a server that is confined, whose home is `home`.
fn confined(
    launch: &StdioLaunch,
    confinement: &Confinement,
    environment: &ChildEnvironment,
    (ourselves, home): (Option<&Path>, Option<PathBuf>),
) -> Result<Program, StartFailure> {
    // Inside, nobody could tell us in words why it does not start.
    if let Some(failure) = missing(launch, environment, ourselves) {
        return Err(failure);
    }
    let home = home.ok_or_else(no_home)?;
    let executable = ourselves.ok_or_else(not_ourselves)?;
    can_confine().map_err(|reason| cannot_confine(&reason))?;
    let temporary = cell::make_home(&home)?;
    let mut cell = cell::of_launch(launch, confinement, environment, &home);
    // Where it is a server of ours, it may be in a folder that is nobody's to read.
    cell.read.extend((launch.command == PROGRAM).then(|| executable.to_owned()));
    let args = launch.args.iter().map(AsRef::as_ref);
    let inherited = environment
        .for_launch(launch)
        .filter(|(name, _)| !cell::OF_THE_HOME.iter().any(|of_the_home| *name == of_the_home))
        .map(|(name, value)| (name.clone(), value.clone()));
    let of_the_home = [("HOME".into(), home.into()), ("TMPDIR".into(), temporary.into())];
    Ok(Program {
        name: executable.into(),
        args: cell::arguments(&cell, name_of(launch, ourselves), args),
        env: inherited.chain(of_the_home).chain(own_variables(launch)).collect(),
        ..Program::default()
    })
}

/// The variables that a launch sets itself.
fn own_variables(launch: &StdioLaunch) -> impl Iterator<Item = (OsString, OsString)> {
    launch.env.iter().map(|(name, value)| (name.into(), value.into()))
}

/// The name of a launch's program: `mcp-workbench` means `ourselves`, whatever is on `PATH`.
fn name_of<'a>(launch: &'a StdioLaunch, ourselves: Option<&'a Path>) -> &'a OsStr {
    let ourselves = ourselves.filter(|_| launch.command == PROGRAM);
    ourselves.map_or(launch.command.as_ref(), Path::as_os_str)
}

fn cannot_confine(reason: &str) -> StartFailure {
    StartFailure::new(
        format!("it is to run in a sandbox, and {reason}"),
        "run it in a container, or write `\"sandbox\": \"off\"` if you trust it".to_owned(),
    )
}

fn no_home() -> StartFailure {
    StartFailure::new(
        "it is to run in a sandbox, and there is no folder for its home".to_owned(),
        "name one for what is kept with `--cache-dir` or `MCP_WORKBENCH_CACHE`".to_owned(),
    )
}

fn not_ourselves() -> StartFailure {
    cannot_confine("the file of this program, which does it, is not found")
}

fn spawn_failure(command: &str, error: &io::Error) -> StartFailure {
    let is_path = command.contains(std::path::MAIN_SEPARATOR);
    match error.kind() {
        io::ErrorKind::NotFound if is_path => StartFailure::new(
            format!("there is no program `{command}`"),
            "correct `command`".to_owned(),
        ),
        io::ErrorKind::NotFound => StartFailure::new(
            format!("the command `{command}` was not found on PATH"),
            format!("install it, or give `command` as a whole path (`which {command}`)"),
        ),
        io::ErrorKind::PermissionDenied => StartFailure::new(
            format!("`{command}` may not be executed"),
            format!("make it executable (`chmod +x {command}`) or correct `command`"),
        ),
        _ => StartFailure::new(
            format!("`{command}` could not be started: {error}"),
            "correct `command` and `args`".to_owned(),
        ),
    }
}

/// Says why a child could not be started, where its folder or its program is not there. The program
/// is looked for as [`spawn`] does, on the child's own `PATH`.
pub fn missing(
    launch: &StdioLaunch,
    environment: &ChildEnvironment,
    ourselves: Option<&Path>,
) -> Option<StartFailure> {
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

/// Says why a program could not be started that is looked for in the folders of `path`.
fn missing_program(command: &str, cwd: &Path, path: &OsStr) -> Option<StartFailure> {
    let program = match environment::find(command, cwd, path) {
        Ok(program) => program,
        Err(kind) => return Some(spawn_failure(command, &kind.into())),
    };
    let interpreter = environment::absent_interpreter(&program)?;
    Some(StartFailure::new(
        format!("`{command}` is a script for `{interpreter}`, which is not there"),
        format!(
            "install `{}` anew: what it was installed with has been moved or removed",
            program.display()
        ),
    ))
}

fn no_folder(cwd: &Path) -> StartFailure {
    StartFailure::new(
        format!("its folder `{}` does not exist", cwd.display()),
        "correct `cwd`; where it is not set, it is the folder of the config file".to_owned(),
    )
}

impl Process {
    /// Starts one, whose end is nobody else's business.
    fn start(program: &Program) -> io::Result<Self> {
        let child = Child::start(program)?;
        Ok(Self { group: child.id(), child, launched: None, farewell: None })
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> Option<u32> {
        self.group
    }

    /// Resolves when the child itself has left, whatever it may have left behind.
    pub(crate) async fn left(&mut self) {
        // An error means that there is nothing to wait for.
        let _ = self.child.wait().await;
    }

    /// Waits until the child has left, ends what it left behind, and says how it left.
    ///
    /// Its input must have been closed before. A child that stays is terminated, then killed;
    /// all in all that takes no longer than 1.3 s, and [`FAREWELL`] besides where it runs in a container.
    pub async fn end(mut self) -> Option<ExitStatus> {
        let mut status = self.left_within(LEAVE).await;
        if status.is_none() {
            self.group.into_iter().for_each(terminate_group);
            status = self.left_within(TERMINATE).await;
        }
        // A client that leaves by itself has seen the end of its container.
        if status.is_some_and(|status| status.code().is_some()) {
            self.farewell = None;
        }
        if let Some(farewell) = self.farewell.clone() {
            let said = tokio::task::spawn_blocking(move || farewell.say());
            if timeout(FAREWELL, said).await.is_ok() {
                self.farewell = None;
            }
        }
        self.kill();
        if status.is_none() {
            status = self.left_within(TERMINATE).await;
        }
        status
    }

    /// Kills what is left of the group, once: afterwards its id may become somebody else's.
    fn kill(&mut self) {
        self.group.into_iter().for_each(kill_group);
        // It is dead already where there are process groups.
        self.child.kill();
        self.group = None;
        let launched = self.launched.take();
        if let Some(farewell) = self.farewell.take() {
            // If we end before, the guard says it.
            let say = move || {
                farewell.say();
                drop(launched);
            };
            let _ = thread::Builder::new().name("farewell".to_owned()).spawn(say);
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

/// Starts the guard (see `guard`), in a group of its own so that it outlives us.
pub(crate) fn spawn_guard(
    program: &Path,
    input: PipeReader,
) -> io::Result<(std::process::Child, Option<Started>)> {
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns processes")]
    let mut builder = std::process::Command::new(program);
    // It needs nothing of our environment, which others could read there.
    builder.arg("guard").env_clear();
    builder.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
    lead_group(&mut builder);
    keep_file_limit(&mut builder);
    os::start(|| builder.spawn(), |child| Some(child.id()))
}
