//! Assumptions about agents' clients (`clients.<name>`).

use std::time::Duration;

/// Assumptions about one client, in place of our own knowledge of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// How many bytes of a tool's description it shows (`descriptionLimit`).
    pub description_limit: Option<usize>,
    /// How many bytes of the instructions it shows (`instructionsLimit`).
    pub instructions_limit: Option<usize>,
    /// How many bytes of an answer it shows whole (`answerLimit`).
    pub answer_limit: Option<usize>,
    /// How long a tool's name may be for it, in bytes (`nameLimit`).
    pub name_limit: Option<usize>,
    /// `true` if it lists tools again in time for the model's next step (`relistsInTime`).
    pub relists_in_time: Option<bool>,
    /// How long it takes a list to reach its model (`settlingMs`).
    pub settling: Option<Duration>,
    /// `true` if it hides tools behind a search of its own (`toolSearch`).
    pub tool_search: Option<bool>,
}
