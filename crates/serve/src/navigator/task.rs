//! A task and its outcome.

use crate::navigator::error::TaskError;
use crate::navigator::tree::{SelectedTool, ToolNode};
use mcp_workbench_wire::json::RawJson;

/// A task of an agent.
#[derive(Clone, Copy, Debug)]
pub struct NavigationTask<'a> {
    pub text: &'a str,
    /// `<service>.<tool>`, if the agent named the tool.
    pub tool: Option<&'a str>,
    /// Arguments that the agent gave, a JSON object.
    pub arguments: Option<&'a RawJson>,
    /// `true` to stop before the call.
    pub is_dry_run: bool,
}

#[derive(Debug)]
pub struct TaskOutcome {
    /// `None` if no tool was found.
    pub tool: Option<SelectedTool>,
    pub outcome: ToolOutcome,
}

#[derive(Debug)]
pub enum ToolOutcome {
    /// The result as the server wrote it.
    Result(RawJson),
    Failed(TaskError),
    /// The arguments that the call would have had.
    DryRun(Option<RawJson>),
}

impl TaskOutcome {
    pub(super) fn failed(tool: Option<&ToolNode>, failure: TaskError) -> Self {
        Self { tool: tool.map(ToolNode::used), outcome: ToolOutcome::Failed(failure) }
    }
}
