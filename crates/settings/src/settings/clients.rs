//! Assumptions about MCP clients (`clients.<name>`).

use std::time::Duration;

/// Assumptions about one client. Set fields override the built-in profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// Bytes of a tool description that the client shows (`descriptionLimit`).
    pub description_limit: Option<usize>,
    /// Bytes of the instructions that the client shows (`instructionsLimit`).
    pub instructions_limit: Option<usize>,
    /// Bytes of a tool result that the client shows untruncated (`answerLimit`).
    pub answer_limit: Option<usize>,
    /// Maximum length of a tool name in bytes (`nameLimit`).
    pub name_limit: Option<usize>,
    /// `true` if the client lists changed tools before the model's next step (`relistsInTime`).
    pub relists_in_time: Option<bool>,
    /// Delay until a tool list reaches the model (`settlingMs`).
    pub settling: Option<Duration>,
    /// `true` if the client hides tools behind its own tool search (`toolSearch`).
    pub tool_search: Option<bool>,
}
