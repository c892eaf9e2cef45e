//! What a user knows better of a client's program (`clients.<name>`).

use std::time::Duration;

use schemars::JsonSchema;

use crate::config::keys::limits;
use crate::config::syntax::bounds::bounded;
use crate::config::syntax::reader::{Fields, Located, Reader};

/// What is to be assumed of one client's program, in place of what is known of it.
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
    /// Whether it lists tools again in time for the model's next step (`relistsInTime`).
    pub relists_in_time: Option<bool>,
    /// How long it takes a list to reach its model (`settlingMs`).
    pub settling: Option<Duration>,
    /// Whether it hides tools behind a search of its own (`toolSearch`).
    pub tool_search: Option<bool>,
}

/// What is to be assumed of one client's program, in place of what is known of it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Client")]
pub(crate) struct RawClient {
    /// How many bytes of a tool's description it shows.
    #[schemars(range(min = limits::DESCRIPTION_BYTES.0, max = limits::DESCRIPTION_BYTES.1))]
    pub(crate) description_limit: Option<Located<u64>>,

    /// How many bytes of the instructions it shows its model.
    #[schemars(range(min = limits::INSTRUCTIONS_BYTES.0, max = limits::INSTRUCTIONS_BYTES.1))]
    pub(crate) instructions_limit: Option<Located<u64>>,

    /// How many bytes of an answer it shows its model whole. Lists of tools are no longer than
    /// that, nor than `maxListingBytes`.
    #[schemars(range(min = limits::LISTING_BYTES.0, max = limits::LISTING_BYTES.1))]
    pub(crate) answer_limit: Option<Located<u64>>,

    /// How long a tool's name may be for it, in bytes. Where `maxToolNameLength` is more, that is
    /// said in the log.
    #[schemars(range(min = limits::CLIENT_NAME_BYTES.0, max = limits::CLIENT_NAME_BYTES.1))]
    pub(crate) name_limit: Option<Located<u64>>,

    /// Whether it lists tools again when they change, in time for the model's next step. Where it
    /// does not, its tool list stays as it is, and `use_tool` calls the tools of toolboxes.
    pub(crate) relists_in_time: Option<Located<bool>>,

    /// How long it takes a list of tools to reach its model, once it has been given the list. An
    /// answer that adds tools waits for it.
    #[schemars(range(min = limits::SETTLING_MS.0, max = limits::SETTLING_MS.1))]
    pub(crate) settling_ms: Option<Located<u64>>,

    /// Whether it hides tools behind a search of its own. The workbench's own tools ask to be kept
    /// out of it, and `use_tool` is there from the start, with the signatures of all tools where
    /// they have room.
    pub(crate) tool_search: Option<Located<bool>>,
}

impl RawClient {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            description_limit: fields
                .take("descriptionLimit")
                .and_then(|node| reader.number(&node)),
            instructions_limit: fields
                .take("instructionsLimit")
                .and_then(|node| reader.number(&node)),
            answer_limit: fields.take("answerLimit").and_then(|node| reader.number(&node)),
            name_limit: fields.take("nameLimit").and_then(|node| reader.number(&node)),
            relists_in_time: fields.take("relistsInTime").and_then(|node| reader.boolean(&node)),
            settling_ms: fields.take("settlingMs").and_then(|node| reader.number(&node)),
            tool_search: fields.take("toolSearch").and_then(|node| reader.boolean(&node)),
        }
    }

    pub(crate) fn checked(self, reader: &mut Reader<'_>) -> ClientConfig {
        fn within<T: TryFrom<u64>>(
            number: Option<Located<u64>>,
            (least, most): (u64, u64),
            reader: &mut Reader<'_>,
        ) -> Option<T> {
            bounded(number, least..=most, reader)
        }

        ClientConfig {
            description_limit: within(self.description_limit, limits::DESCRIPTION_BYTES, reader),
            instructions_limit: within(self.instructions_limit, limits::INSTRUCTIONS_BYTES, reader),
            answer_limit: within(self.answer_limit, limits::LISTING_BYTES, reader),
            name_limit: within(self.name_limit, limits::CLIENT_NAME_BYTES, reader),
            relists_in_time: self.relists_in_time.map(|flag| flag.value),
            settling: within(self.settling_ms, limits::SETTLING_MS, reader)
                .map(Duration::from_millis),
            tool_search: self.tool_search.map(|flag| flag.value),
        }
    }
}
