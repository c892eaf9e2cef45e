//! What is known of an agent's program, as far as it decides what the agent is shown.

use crate::config::ClientConfig;

/// What a client does with what it is shown; by default what is safe with any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// How many bytes of a tool's description it shows; all, if there is no limit.
    pub description_limit: Option<usize>,
    /// How long a tool's name may be for it, in bytes.
    pub name_limit: Option<usize>,
    /// Whether it lists tools again in time for the model's next step.
    pub relists_in_time: bool,
    /// Whether it hides tools behind a search of its own.
    pub has_tool_search: bool,
}

impl Profile {
    /// The same, but for what the user knows better.
    pub(crate) fn corrected(self, by: &ClientConfig) -> Self {
        Self {
            description_limit: by.description_limit.or(self.description_limit),
            name_limit: by.name_limit.or(self.name_limit),
            relists_in_time: by.relists_in_time.unwrap_or(self.relists_in_time),
            has_tool_search: by.tool_search.unwrap_or(self.has_tool_search),
        }
    }
}

/// Whether a client of this name is meant by `key`: by its name, or by the first words of it, for
/// some put the name of their server behind it.
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
        let known =
            Profile { description_limit: Some(2048), relists_in_time: true, ..Profile::default() };
        let by = ClientConfig { relists_in_time: Some(false), ..ClientConfig::default() };
        let corrected = known.corrected(&by);
        assert_eq!(corrected, Profile { relists_in_time: false, ..known });
    }
}
