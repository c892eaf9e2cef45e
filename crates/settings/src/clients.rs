//! Assumptions about MCP clients (`clients.<name>`).

use std::time::Duration;

/// Assumptions about one client. Set fields override the built-in profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientConfig {
    /// Bytes of a tool description that the client shows (`descriptionLimit`).
    pub description_limit: Option<usize>,
    /// Bytes of the instructions that the client shows (`instructionsLimit`).
    pub instructions_limit: Option<usize>,
    /// Bytes of a tool result that the client shows untruncated (`answerLimit`).
    pub answer_limit: Option<usize>,
    /// Maximum length of a tool name in bytes (`nameLimit`).
    pub name_limit: Option<usize>,
    /// `true` if the client lists changed tools before the model's next step
    /// (`refreshesToolList`).
    pub refreshes_tool_list: Option<bool>,
    /// Delay until a tool list reaches the model (`toolListDelayMs`).
    pub tool_list_delay: Option<Duration>,
    /// How long the client waits for the result of a call that reports progress
    /// (`callTimeoutMs`).
    pub call_timeout: Option<Duration>,
    /// `true` if the client hides tools behind its own tool search (`hasToolSearch`).
    pub has_tool_search: Option<bool>,
    /// `true` if the client's model calls tools from scripts (`hasCodeMode`).
    pub has_code_mode: Option<bool>,
}
