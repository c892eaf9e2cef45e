//! `dynamic`: opening a toolbox adds its tools to the client's tool list, if the client supports
//! that.

use crate::exposure::client_profile::{ClientProfile, RelistBehavior};
use crate::exposure::mode::Mode;
use crate::exposure::tool_call::ListMutability;
use crate::exposure::toolbox_mode;

pub(crate) fn for_client(mutability: ListMutability, client: &ClientProfile) -> &'static dyn Mode {
    match (client.relisting, mutability) {
        (RelistBehavior::Never, _) => &toolbox_mode::ANSWER_FALLBACK,
        (_, ListMutability::Fixed) => &toolbox_mode::ANSWER,
        _ if client.has_tool_search => &toolbox_mode::LIST_AND_ANSWER,
        _ => &toolbox_mode::LIST,
    }
}
