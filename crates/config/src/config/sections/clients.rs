//! The `clients.<name>` section: overrides of the built-in facts about client programs.

use crate::config::sections::ranges;
use crate::config::syntax::checks::{duration_from_millis, narrow_number};
use crate::config::syntax::reader::Located;
use crate::config::syntax::section::section;
use crate::settings::ClientConfig;

section! {
    /// Assumptions about one client's program, in place of what is known of it.
    #[schemars(rename = "Client")]
    pub(crate) struct RawClient {
        /// How many bytes of a tool's description it shows.
        "descriptionLimit" as pub(crate) description_limit: Located<u64> [ranges::DESCRIPTION_BYTES],

        /// How many bytes of the instructions it shows its model.
        "instructionsLimit" as pub(crate) instructions_limit: Located<u64> [ranges::INSTRUCTIONS_BYTES],

        /// How many bytes of an answer it shows its model whole. Lists of tools are no longer than
        /// that, nor than `maxListingBytes`.
        "answerLimit" as pub(crate) answer_limit: Located<u64> [ranges::LISTING_BYTES],

        /// How long a tool's name may be for it, in bytes. Where `maxToolNameLength` is more, that
        /// is said in the log.
        "nameLimit" as pub(crate) name_limit: Located<u64> [ranges::CLIENT_NAME_BYTES],

        /// `true` if it lists tools again when they change, in time for the model's next step.
        /// Where it does not, its tool list stays as it is, and `use_tool` calls the tools of
        /// toolboxes.
        "relistsInTime" as pub(crate) relists_in_time: Located<bool>,

        /// How long it takes a list of tools to reach its model, once it has been given the list.
        /// An answer that adds tools waits for it.
        "settlingMs" as pub(crate) settling_ms: Located<u64> [ranges::SETTLING_MS],

        /// `true` if it hides tools behind a search of its own. The workbench's own tools ask to be
        /// kept out of it, and `use_tool` is there from the start, with the signatures of all tools
        /// where they have room.
        "toolSearch" as pub(crate) tool_search: Located<bool>,
    }
}

impl RawClient {
    pub(crate) fn checked(self) -> ClientConfig {
        ClientConfig {
            description_limit: narrow_number(self.description_limit),
            instructions_limit: narrow_number(self.instructions_limit),
            answer_limit: narrow_number(self.answer_limit),
            name_limit: narrow_number(self.name_limit),
            relists_in_time: self.relists_in_time.map(|flag| flag.value),
            settling: duration_from_millis(self.settling_ms),
            tool_search: self.tool_search.map(|flag| flag.value),
        }
    }
}
