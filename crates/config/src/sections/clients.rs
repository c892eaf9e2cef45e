//! The `clients.<name>` section: overrides of the built-in facts about client programs.

use crate::sections::ranges;
use crate::syntax::checks::{duration_from_millis, narrow_number};
use crate::syntax::reader::Located;
use crate::syntax::section::section;
use mcp_workbench_settings::ClientConfig;

section! {
    /// Overrides of the built-in facts about one client.
    #[schemars(rename = "Client")]
    pub(crate) struct RawClient {
        /// Bytes of a tool description that the client shows its model.
        "descriptionLimit" as pub(crate) description_limit: Located<u64> [ranges::DESCRIPTION_BYTES],

        /// Bytes of the instructions that the client shows its model.
        "instructionsLimit" as pub(crate) instructions_limit: Located<u64> [ranges::INSTRUCTIONS_BYTES],

        /// Bytes of a tool result that the client shows untruncated. Tool listings stay below this
        /// and `limits.maxListingBytes`.
        "answerLimit" as pub(crate) answer_limit: Located<u64> [ranges::LISTING_BYTES],

        /// Maximum length of a tool name, in bytes. The log has a warning if `maxToolNameLength` is
        /// larger.
        "nameLimit" as pub(crate) name_limit: Located<u64> [ranges::CLIENT_NAME_BYTES],

        /// `true` if the client fetches a changed tool list before its model's next step. If
        /// `false`, the tool list never changes, and `use_tool` calls the tools of opened
        /// toolboxes.
        "refreshesToolList" as pub(crate) refreshes_tool_list: Located<bool>,

        /// Time until a fetched tool list reaches the model, in milliseconds. Results that add
        /// tools wait for it.
        "toolListDelayMs" as pub(crate) tool_list_delay_ms: Located<u64> [ranges::TOOL_LIST_DELAY_MS],

        /// How long the client waits for the result of a call that reports progress, in
        /// milliseconds. A call that waits for an approval ends before.
        "callTimeoutMs" as pub(crate) call_timeout_ms: Located<u64> [ranges::CLIENT_CALL_TIMEOUT_MS],

        /// `true` if the client hides tools behind its own tool search. The workbench then asks it
        /// to always show the workbench's own tools, and offers `use_tool` with all signatures from
        /// the start, if they fit.
        "hasToolSearch" as pub(crate) has_tool_search: Located<bool>,

        /// `true` if the client's model calls tools from scripts, as typed functions, and doesn't
        /// get their definitions in its context. In `auto`, the tool list then has all known tools.
        "hasCodeMode" as pub(crate) has_code_mode: Located<bool>,
    }
}

impl RawClient {
    pub(crate) fn checked(self) -> ClientConfig {
        ClientConfig {
            description_limit: narrow_number(self.description_limit),
            instructions_limit: narrow_number(self.instructions_limit),
            answer_limit: narrow_number(self.answer_limit),
            name_limit: narrow_number(self.name_limit),
            refreshes_tool_list: self.refreshes_tool_list.map(|flag| flag.value),
            tool_list_delay: duration_from_millis(self.tool_list_delay_ms),
            call_timeout: duration_from_millis(self.call_timeout_ms),
            has_tool_search: self.has_tool_search.map(|flag| flag.value),
            has_code_mode: self.has_code_mode.map(|flag| flag.value),
        }
    }
}
