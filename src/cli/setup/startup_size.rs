//! Measures the definitions that a client reads at startup, by starting the workbench.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::cli::demo::stdio_client::StdioClient;
use crate::cli::units::ContextSize;
use crate::cli::{PROGRAM_NAME, block_on, pool_options};
use crate::settings::StdioLaunch;

const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn measure_startup_size(config: &Path) -> Result<ContextSize, String> {
    let seen = async { timeout(TIMEOUT, look(config)).await };
    match block_on(seen) {
        Ok(Ok(seen)) => seen,
        Ok(Err(_)) => Err(format!("no response within {} s", TIMEOUT.as_secs())),
        Err(error) => Err(error.into_root_cause()),
    }
}

async fn look(config: &Path) -> Result<ContextSize, String> {
    let tasks = TaskTracker::new();
    let args = ["--log-level", "warn", "--config"].map(str::to_owned);
    let launch = StdioLaunch {
        secret_refs: [].into(),
        command: PROGRAM_NAME.to_owned(),
        args: args.into_iter().chain([config.display().to_string()]).collect(),
        env: [].into(),
        cwd: config.parent().unwrap_or(Path::new("/")).to_owned(),
        // The child process is this program, so it can have the whole environment.
        inherit_env: true,
        has_own_folder: false,
        sandbox: None,
        withheld: [].into(),
    };
    let client = StdioClient::start(&launch, &pool_options(None), &tasks).await?;
    let tools = client.tools().await;
    let instructions = ContextSize::of(client.instructions().len());
    client.end().await;
    let tools: ContextSize = tools?.iter().map(|tool| ContextSize::of(tool.raw.len())).sum();
    Ok(tools + instructions)
}
