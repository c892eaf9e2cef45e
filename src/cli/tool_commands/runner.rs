//! Decides where a command runs: in a running workbench, or else in this process.

use crate::cli::args::GlobalArgs;
use crate::cli::gateways::{with_gateway, with_recording_gateway};
use crate::cli::output::CommandError;
use crate::cli::tool_commands::client::run_at_workbench;
use crate::cli::tool_commands::command::{CommandContext, ToolCommand};
use crate::cli::tool_commands::events;
use crate::cli::tool_commands::user::UserInterface;
use mcp_workbench_core::gateway::{AgentHandle, Caller, Gateway};
use mcp_workbench_settings::{ApprovalKey, Config};

// Without a doc comment, which would replace the description of the commands.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct RunnerArgs {
    /// Don't use a running workbench
    #[arg(long)]
    pub(crate) standalone: bool,
}

/// Runs a command. `looked` is the configuration without fetched values; `read_for_start` reads the
/// configuration to start servers in this process.
pub(crate) fn run<C: ToolCommand>(
    global: &GlobalArgs,
    args: &RunnerArgs,
    looked: &Config,
    command: &C,
    read_for_start: impl FnOnce() -> Result<Config, CommandError>,
) -> Result<C::Report, CommandError> {
    if !args.standalone
        && let Some(report) = run_at_workbench(global, looked, command)?
    {
        return Ok(report);
    }
    let config = read_for_start()?;
    let caller = global.caller();
    let key = config.approvals.key;
    let work = async |gateway: &Gateway| run_here(gateway, &caller, command, key).await;
    if C::HAS_EFFECTS {
        with_recording_gateway(global, config, work)?
    } else {
        with_gateway(global, config, work)?
    }
}

async fn run_here<C: ToolCommand>(
    gateway: &Gateway,
    caller: &Caller,
    command: &C,
    key: Option<ApprovalKey>,
) -> Result<C::Report, CommandError> {
    let (sender, mut events) = events::channel();
    let agent = AgentHandle::new(None);
    let context =
        CommandContext { gateway, caller, agent: &agent, events: &sender, is_shared: false };
    let work = command.execute(&context);
    tokio::pin!(work);
    let mut user = UserInterface::new(key);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Some(event) = events.recv() => user.handle(event).await,
        }
    }
}
