//! The profile of an agent's program, as far as it decides what the agent is shown.

use std::time::Duration;

use crate::settings::ClientConfig;

/// Where a client's behaviour is not known, what was measured with most of the others.
const SETTLING: Duration = Duration::from_millis(50);

/// The behaviour of a client, as far as it is known; by default what is safe with any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// How many bytes of a tool's description it shows its model; all, if there is no limit.
    pub description_limit: Option<usize>,
    /// How many bytes of the instructions it shows its model, if it is known to show them.
    pub instructions_limit: Option<usize>,
    /// How many bytes of an answer it shows its model whole; all, if there is no limit.
    pub answer_limit: Option<usize>,
    /// How long a tool's name may be for it, in bytes.
    pub name_limit: Option<usize>,
    /// The way in which its model gets to see tools that are added within a turn.
    pub relisting: Relisting,
    /// How long it takes a list of tools to reach its model, once it has been given the list.
    pub settling: Duration,
    /// `true` if it hides tools behind a search of its own.
    pub has_tool_search: bool,
}

/// When a client lists tools again, once it is told that they have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relisting {
    /// In time for its model's next step.
    InTime,
    /// Never, or too late.
    Never,
    /// Nobody knows.
    #[default]
    Unknown,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            description_limit: None,
            instructions_limit: None,
            answer_limit: None,
            name_limit: None,
            relisting: Relisting::Unknown,
            settling: SETTLING,
            has_tool_search: false,
        }
    }
}

impl Profile {
    /// Returns it with what the user knows better.
    pub(crate) fn corrected(self, by: &ClientConfig) -> Self {
        Self {
            description_limit: by.description_limit.or(self.description_limit),
            instructions_limit: by.instructions_limit.or(self.instructions_limit),
            answer_limit: by.answer_limit.or(self.answer_limit),
            name_limit: by.name_limit.or(self.name_limit),
            relisting: by.relists_in_time.map_or(self.relisting, |is_in_time| {
                if is_in_time { Relisting::InTime } else { Relisting::Never }
            }),
            settling: by.settling.unwrap_or(self.settling),
            has_tool_search: by.tool_search.unwrap_or(self.has_tool_search),
        }
    }
}

/// Returns `true` if `key` means a client of this name: by the whole name, or by its first words,
/// for some clients put the name of their server behind it.
pub(crate) fn is_meant(key: &str, client: &str) -> bool {
    client.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_meant_by_its_name_or_its_first_words() {
        assert!(is_meant("gemini-cli", "gemini-cli"));
        assert!(is_meant("gemini-cli", "gemini-cli-mcp-client-workbench"));
        assert!(!is_meant("gemini-cli", "gemini-client"));
        assert!(!is_meant("gemini-cli", "other"));
    }

    #[test]
    fn what_the_user_knows_better_counts() {
        let known = Profile {
            description_limit: Some(2048),
            answer_limit: Some(50_000),
            relisting: Relisting::InTime,
            ..Profile::default()
        };
        let by = ClientConfig {
            answer_limit: Some(9000),
            relists_in_time: Some(false),
            settling: Some(Duration::from_millis(300)),
            ..ClientConfig::default()
        };
        let corrected = Profile {
            answer_limit: Some(9000),
            relisting: Relisting::Never,
            settling: Duration::from_millis(300),
            ..known
        };
        assert_eq!(known.corrected(&by), corrected);
        let by = ClientConfig { relists_in_time: Some(true), ..ClientConfig::default() };
        assert_eq!(Profile::default().corrected(&by).relisting, Relisting::InTime);
    }
}
