//! The thread that spawns children on a multi-threaded runtime.
//!
//! The kernel kills a child when the thread that spawned it ends, and a runtime may end any of its
//! threads. Spawning also blocks the thread until the child has executed its program, which would
//! delay other tasks.

use std::io;
use std::sync::{LazyLock, mpsc};
use std::thread;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::backend::launch::Process;
use mcp_workbench_os::CommandSpec;

struct Job {
    program: CommandSpec,
    runtime: Handle,
    /// Without a receiver the child is dropped, which kills it.
    started: oneshot::Sender<io::Result<Process>>,
}

static JOBS: LazyLock<io::Result<mpsc::Sender<Job>>> = LazyLock::new(|| {
    let (jobs, taken) = mpsc::channel::<Job>();
    let start_all = move || {
        for Job { program, runtime, started } in taken {
            let _inside = runtime.enter();
            let _nobody_waits = started.send(Process::start(&program));
        }
    };
    thread::Builder::new().name("launcher".to_owned()).spawn(start_all)?;
    Ok(jobs)
});

/// Spawns a child from a thread that lives as long as this process.
pub(super) async fn start(program: CommandSpec) -> io::Result<Process> {
    let runtime = Handle::current();
    if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
        // The runtime's only thread is the main thread.
        return Process::start(&program);
    }
    let jobs = JOBS.as_ref().map_err(|error| io::Error::from(error.kind()))?;
    let (started, child) = oneshot::channel();
    let gone = || io::Error::other("the launcher thread has exited");
    jobs.send(Job { program, runtime, started }).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

#[cfg(test)]
mod tests;
