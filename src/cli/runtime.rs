//! What commands run on: async runtimes, the working folder and this executable.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::cli::output::CommandError;

pub(crate) const PROGRAM_NAME: &str = env!("CARGO_PKG_NAME");
pub(crate) const EMBEDDED_CONFIG: &str = include_str!("../../workbench-config.json");

/// Path of this executable, even if its file was replaced while it runs.
pub(crate) fn current_program() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    let file = std::env::current_exe().ok().filter(|path| path.exists());
    file.or_else(|| running.exists().then_some(running))
}

/// The working folder.
pub(crate) fn current_folder() -> Result<PathBuf, CommandError> {
    std::env::current_dir().map_err(CommandError::internal)
}

/// Keep-alive of blocking threads: long enough for a burst of file operations.
const THREAD_KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Upper bound on worker threads for HTTP: servers need processors, too.
const MAX_WORKERS: usize = 8;

/// Runs a future on a current-thread runtime, which needs the fewest system calls.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, CommandError> {
    run_on(tokio::runtime::Builder::new_current_thread(), future)
}

/// Runs a future on a multi-threaded runtime with one worker per available processor, up to
/// `MAX_WORKERS`.
pub(crate) fn block_on_workers<T>(future: impl Future<Output = T>) -> Result<T, CommandError> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    if processors == 1 {
        return block_on(future);
    }
    let workers = processors.min(MAX_WORKERS);
    let started = AtomicUsize::new(0);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(workers).thread_name_fn(move || {
        // Workers start first. Threads of the blocking pool come and go later.
        let is_worker = started.fetch_add(1, Ordering::Relaxed) < workers;
        if is_worker { "worker" } else { "files" }.to_owned()
    });
    run_on(runtime, future)
}

fn run_on<T>(
    mut runtime: tokio::runtime::Builder,
    future: impl Future<Output = T>,
) -> Result<T, CommandError> {
    let runtime = runtime
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .enable_all()
        .build()
        .map_err(CommandError::internal)?;
    let result = runtime.block_on(future);
    // A thread that blocks on stdin can't be stopped and must not delay the exit.
    runtime.shutdown_background();
    Ok(result)
}
