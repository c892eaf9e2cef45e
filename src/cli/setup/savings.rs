//! The size of what a client reads at the start with the workbench, measured by starting it.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::cli::demo::client::Client;
use crate::cli::size::Size;
use crate::cli::{NAME, block_on, pool_options};
use crate::settings::StdioLaunch;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The tools and instructions of a workbench that serves this configuration.
pub(super) fn at_the_start(config: &Path) -> Result<Size, String> {
    let seen = async { timeout(PATIENCE, look(config)).await };
    match block_on(seen) {
        Ok(Ok(seen)) => seen,
        Ok(Err(_)) => Err(format!("it did not answer within {} s", PATIENCE.as_secs())),
        Err(error) => Err(error.cause()),
    }
}

async fn look(config: &Path) -> Result<Size, String> {
    let tasks = TaskTracker::new();
    let args = ["--log-level", "warn", "--config"].map(str::to_owned);
    let launch = StdioLaunch {
        referred: [].into(),
        command: NAME.to_owned(),
        args: args.into_iter().chain([config.display().to_string()]).collect(),
        env: [].into(),
        cwd: config.parent().unwrap_or(Path::new("/")).to_owned(),
        // It is ourselves.
        inherit_env: true,
        has_own_folder: false,
        sandbox: None,
        withheld: [].into(),
    };
    let client = Client::start(&launch, &pool_options(None), &tasks).await?;
    let tools = client.tools().await;
    let instructions = Size::of(client.instructions().len());
    client.end().await;
    let tools: Size = tools?.iter().map(|tool| Size::of(tool.raw.len())).sum();
    Ok(tools + instructions)
}
