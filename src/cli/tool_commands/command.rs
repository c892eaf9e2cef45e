//! A command that runs at a gateway.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::output::CommandError;
use crate::cli::tool_commands::events::EventSender;
use mcp_workbench_core::gateway::{AgentHandle, Caller, Gateway};

/// The gateway and the caller of a command.
pub(crate) struct CommandContext<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) caller: &'a Caller,
    /// The agent of this command only.
    pub(super) agent: &'a AgentHandle,
    pub(super) events: &'a EventSender,
    /// `true` if other agents use the gateway's servers, too.
    pub(super) is_shared: bool,
}

pub(crate) trait ToolCommand: Serialize + DeserializeOwned + Send {
    type Report: Serialize + DeserializeOwned + Send;

    /// The command's name on the command line and between processes.
    const NAME: &'static str;

    /// `true` if the command calls a tool, which is recorded and never repeated.
    const HAS_EFFECTS: bool;

    fn execute(
        &self,
        context: &CommandContext<'_>,
    ) -> impl Future<Output = Result<Self::Report, CommandError>> + Send;
}
