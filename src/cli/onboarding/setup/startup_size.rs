//! Measures the definitions that a client reads at startup, by starting the workbench.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::cli::gateways::pool_options;
use crate::cli::output::ContextSize;
use crate::cli::runtime::{PROGRAM_NAME, block_on};
use crate::cli::servers::stdio_client::{StartupSize, StdioClient};
use mcp_workbench_settings::StdioLaunch;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Startup sizes by client ID. `None` if the definitions aren't in the model's context.
pub(super) type StartupSizes = BTreeMap<&'static str, Option<ContextSize>>;

/// Clients that show their model definitions only on demand. In `auto`, they get those of all tools.
const HIDE_DEFINITIONS: [&str; 3] = ["codex", "cursor", "vscode"];

/// Measures for the client with this ID. `None` if the definitions aren't in its model's context.
pub(super) fn measure_startup_size(
    config: &Path,
    client: &str,
) -> Result<Option<ContextSize>, String> {
    let seen = async { timeout(TIMEOUT, look(config, client)).await };
    match block_on(seen) {
        Ok(Ok(seen)) => {
            let StartupSize { bytes, has_own_tools } = seen?;
            let is_hidden = !has_own_tools && HIDE_DEFINITIONS.contains(&client);
            Ok((!is_hidden).then(|| ContextSize::of(bytes)))
        }
        Ok(Err(_)) => Err(format!("no response within {} s", TIMEOUT.as_secs())),
        Err(error) => Err(error.into_root_cause()),
    }
}

/// Returns the name and version with which a client introduces itself. The workbench shows some
/// clients more than others.
fn client_info(client: &str) -> (&str, &str) {
    match client {
        "claude-code" => ("claude-code", "2.1.332"),
        "codex" => ("codex-mcp-client", "0.171.0"),
        "gemini" => ("gemini-cli-mcp-client", "0.61.0"),
        "opencode" => ("opencode", "1.18.33"),
        "qwen" => ("qwen-cli-mcp-client-workbench", "0.0.1"),
        "copilot" => ("copilot-cli", "1.0.102"),
        "cursor" => ("cursor-vscode", "1.0.0"),
        "vscode" => ("Visual Studio Code", "1.110.0"),
        other => (other, "1.0.0"),
    }
}

async fn look(config: &Path, client: &str) -> Result<StartupSize, String> {
    let tasks = TaskTracker::new();
    let args = ["--log-level", "warn", "--config"].map(str::to_owned);
    let args = args.into_iter().chain([config.display().to_string()]).collect();
    let folder = config.parent().unwrap_or(Path::new("/")).to_owned();
    // The child process is this program, so it can have the whole environment.
    let launch = StdioLaunch {
        inherit_env: true,
        ..StdioLaunch::new(PROGRAM_NAME.to_owned(), args, folder)
    };
    StdioClient::startup_size(&launch, &pool_options(None), &tasks, client_info(client)).await
}
