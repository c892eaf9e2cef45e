//! `auto`: the cheapest way to the tools that the client supports.

use crate::exposure::client_profile::{ClientProfile, RelistBehavior};
use crate::exposure::mode::Mode;
use crate::exposure::tool_call::ListMutability;
use crate::exposure::{direct, toolbox_mode};

pub(crate) fn for_client(mutability: ListMutability, client: &ClientProfile) -> &'static dyn Mode {
    match client.relisting {
        _ if client.has_code_mode => &direct::FOR_SCRIPTS,
        _ if client.has_tool_search && !client.keeps_own_tools_loaded => &direct::FOR_SEARCH,
        _ if mutability == ListMutability::Fixed => &toolbox_mode::ANSWER,
        RelistBehavior::InTime if !client.has_tool_search => &toolbox_mode::LIST_AND_SIGNATURES,
        // A client with its own tool search announces an added tool by name and then has to search
        // for it. `use_tool` saves that request.
        RelistBehavior::InTime | RelistBehavior::Never => &toolbox_mode::ANSWER,
        RelistBehavior::Unknown => &toolbox_mode::LIST_AND_ANSWER_UNKNOWN,
    }
}
