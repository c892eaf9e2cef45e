//! Profiles of client programs, which decide how tools are presented to them.

use std::time::Duration;

use crate::exposure::tool_call::ListMutability;
use mcp_workbench_settings::ClientConfig;

/// Default for unknown clients, as measured with most known ones.
const SETTLING: Duration = Duration::from_millis(50);
/// Default of the MCP SDKs.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// The known behavior of a client program. The default is safe with any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientProfile {
    /// Bytes of a tool's description that the client shows its model. `None` means no limit.
    pub description_limit: Option<usize>,
    /// Bytes of the instructions that the client shows its model, if it is known to show any.
    pub instructions_limit: Option<usize>,
    /// Bytes of a tool result that the client shows its model in full. `None` means no limit.
    pub answer_limit: Option<usize>,
    /// The longest tool name that the client accepts, in bytes.
    pub name_limit: Option<usize>,
    pub relisting: RelistBehavior,
    /// How long a tool list takes from the client to its model.
    pub settling: Duration,
    /// How long the client waits for the result of a call that reports progress. `None` if longer
    /// than a call can take.
    pub call_timeout: Option<Duration>,
    /// `true` if the client hides tools behind a search of its own.
    pub has_tool_search: bool,
    /// `true` if the client can exclude the workbench's own tools from its search. Otherwise its
    /// model would have to search for `use_tool` and then for a tool of a toolbox.
    pub keeps_own_tools_loaded: bool,
    /// `true` if the client's model calls tools from scripts, as typed functions. Definitions of
    /// tools aren't in the model's context then.
    pub has_code_mode: bool,
}

/// When a client lists tools again after a change notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelistBehavior {
    /// In time for its model's next step.
    InTime,
    /// Never, or too late.
    Never,
    #[default]
    Unknown,
}

impl Default for ClientProfile {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl ClientProfile {
    /// The profile of an unknown client.
    pub(crate) const UNKNOWN: Self = Self {
        description_limit: None,
        instructions_limit: None,
        answer_limit: None,
        name_limit: None,
        relisting: RelistBehavior::Unknown,
        settling: SETTLING,
        call_timeout: Some(CALL_TIMEOUT),
        has_tool_search: false,
        keeps_own_tools_loaded: true,
        has_code_mode: false,
    };

    pub(crate) fn with_overrides(self, by: &ClientConfig) -> Self {
        Self {
            description_limit: by.description_limit.or(self.description_limit),
            instructions_limit: by.instructions_limit.or(self.instructions_limit),
            answer_limit: by.answer_limit.or(self.answer_limit),
            name_limit: by.name_limit.or(self.name_limit),
            relisting: by.refreshes_tool_list.map_or(self.relisting, |is_in_time| {
                if is_in_time { RelistBehavior::InTime } else { RelistBehavior::Never }
            }),
            settling: by.tool_list_delay.unwrap_or(self.settling),
            call_timeout: by.call_timeout.or(self.call_timeout),
            has_tool_search: by.has_tool_search.unwrap_or(self.has_tool_search),
            keeps_own_tools_loaded: self.keeps_own_tools_loaded,
            has_code_mode: by.has_code_mode.unwrap_or(self.has_code_mode),
        }
    }

    /// Returns `true` if definitions of tools aren't in the model's context.
    pub fn hides_definitions(&self) -> bool {
        self.has_tool_search || self.has_code_mode
    }

    /// Returns `true` if the description of `use_tool` has signatures. Clients without known
    /// behavior could reject or truncate such a description.
    pub(super) fn shows_signatures(&self) -> bool {
        self.has_tool_search || !self.is_relisting_unknown()
    }

    pub(super) fn is_relisting_unknown(&self) -> bool {
        self.relisting == RelistBehavior::Unknown
    }

    /// `Fixed` if the client never lists again, otherwise `allowed`.
    pub(super) fn effective_mutability(&self, allowed: ListMutability) -> ListMutability {
        match self.relisting {
            RelistBehavior::Never => ListMutability::Fixed,
            RelistBehavior::InTime | RelistBehavior::Unknown => allowed,
        }
    }
}

/// Returns `true` if `key` is the client's name or its leading words. Some clients append the name
/// of the configured server to their own.
pub(crate) fn matches_client(key: &str, client: &str) -> bool {
    client.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_clients_by_name_or_leading_words() {
        assert!(matches_client("gemini-cli", "gemini-cli"));
        assert!(matches_client("gemini-cli", "gemini-cli-mcp-client-workbench"));
        assert!(!matches_client("gemini-cli", "gemini-client"));
        assert!(!matches_client("gemini-cli", "other"));
    }

    #[test]
    fn user_settings_override_the_profile() {
        let known = ClientProfile {
            description_limit: Some(2048),
            answer_limit: Some(50_000),
            relisting: RelistBehavior::InTime,
            ..ClientProfile::default()
        };
        let by = ClientConfig {
            answer_limit: Some(9000),
            refreshes_tool_list: Some(false),
            tool_list_delay: Some(Duration::from_millis(300)),
            has_code_mode: Some(true),
            ..ClientConfig::default()
        };
        let corrected = ClientProfile {
            answer_limit: Some(9000),
            relisting: RelistBehavior::Never,
            settling: Duration::from_millis(300),
            has_code_mode: true,
            ..known
        };
        assert_eq!(known.with_overrides(&by), corrected);
        let by = ClientConfig { refreshes_tool_list: Some(true), ..ClientConfig::default() };
        assert_eq!(ClientProfile::default().with_overrides(&by).relisting, RelistBehavior::InTime);
    }
}
