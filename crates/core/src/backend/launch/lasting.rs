//! The thread that starts children, where the workbench runs on several.
//!
//! The kernel ends a child when the thread ends that started it, and of a runtime's threads none is
//! promised to last. Starting a process holds its thread up besides until the child has become the other
//! program, and nobody else's call should wait for that.

use std::io;
use std::sync::{LazyLock, mpsc};
use std::thread;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::backend::launch::Process;
use crate::os::Program;

/// A child to be started for a task of a runtime.
struct Job {
    program: Program,
    runtime: Handle,
    /// A child that nobody waits for any more is killed.
    started: oneshot::Sender<io::Result<Process>>,
}

/// Where the thread takes what it is to start.
static JOBS: LazyLock<io::Result<mpsc::Sender<Job>>> = LazyLock::new(|| {
    let (jobs, taken) = mpsc::channel::<Job>();
    let start_all = move || {
        // The sender is never dropped, so this never ends.
        for Job { program, runtime, started } in taken {
            let _inside = runtime.enter();
            let _nobody_waits = started.send(Process::start(&program));
        }
    };
    thread::Builder::new().name("launcher".to_owned()).spawn(start_all)?;
    Ok(jobs)
});

/// Starts a child from a thread that lasts as long as we do.
pub(super) async fn start(program: Program) -> io::Result<Process> {
    let runtime = Handle::current();
    if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
        // The thread that runs it is the one that the program began with.
        return Process::start(&program);
    }
    let jobs = JOBS.as_ref().map_err(|error| io::Error::from(error.kind()))?;
    let (started, child) = oneshot::channel();
    let gone = || io::Error::other("the thread that starts servers is gone");
    jobs.send(Job { program, runtime, started }).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

#[cfg(test)]
mod tests;
