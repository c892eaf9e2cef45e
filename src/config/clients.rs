//! What a user knows better of a client's program (`clients.<name>`).

use schemars::JsonSchema;

use crate::config::check::bounded;
use crate::config::limits;
use crate::config::reader::{Fields, Located, Reader};

/// What is to be assumed of one client's program, in place of what is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// How many bytes of a tool's description it shows (`descriptionLimit`).
    pub description_limit: Option<usize>,
    /// How long a tool's name may be for it, in bytes (`nameLimit`).
    pub name_limit: Option<usize>,
    /// Whether it lists tools again in time for the model's next step (`relistsInTime`).
    pub relists_in_time: Option<bool>,
    /// Whether it hides tools behind a search of its own (`toolSearch`).
    pub tool_search: Option<bool>,
}

/// What is to be assumed of one client's program, in place of what is known of it.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Client")]
pub(super) struct RawClient {
    /// How many bytes of a tool's description it shows.
    #[schemars(range(min = limits::DESCRIPTION_BYTES.0, max = limits::DESCRIPTION_BYTES.1))]
    pub(super) description_limit: Option<Located<u64>>,

    /// How long a tool's name may be for it, in bytes. Where `maxToolNameLength` is more, that is
    /// said in the log.
    #[schemars(range(min = limits::CLIENT_NAME_BYTES.0, max = limits::CLIENT_NAME_BYTES.1))]
    pub(super) name_limit: Option<Located<u64>>,

    /// Whether it lists tools again when they change, in time for the model's next step. With
    /// `"toolMode": "auto"` it is served in `dynamic` mode then, else in `proxy` mode.
    pub(super) relists_in_time: Option<Located<bool>>,

    /// Whether it hides tools behind a search of its own. The workbench's own tools ask to be kept
    /// out of it.
    pub(super) tool_search: Option<Located<bool>>,
}

impl RawClient {
    pub(super) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            description_limit: fields
                .take("descriptionLimit")
                .and_then(|node| reader.number(&node)),
            name_limit: fields.take("nameLimit").and_then(|node| reader.number(&node)),
            relists_in_time: fields.take("relistsInTime").and_then(|node| reader.boolean(&node)),
            tool_search: fields.take("toolSearch").and_then(|node| reader.boolean(&node)),
        }
    }

    pub(super) fn checked(self, reader: &mut Reader<'_>) -> ClientConfig {
        let Self { description_limit, name_limit, relists_in_time, tool_search } = self;
        let (least, most) = limits::DESCRIPTION_BYTES;
        let description_limit = bounded(description_limit, least..=most, reader);
        let (least, most) = limits::CLIENT_NAME_BYTES;
        ClientConfig {
            description_limit,
            name_limit: bounded(name_limit, least..=most, reader),
            relists_in_time: relists_in_time.map(|flag| flag.value),
            tool_search: tool_search.map(|flag| flag.value),
        }
    }
}
