//! `dynamic`: opening a toolbox registers its tools in the agent's own tool list, where its client
//! follows that.

use crate::exposure::mode::Mode;
use crate::exposure::opening;
use crate::exposure::profile::{Profile, Relisting};
use crate::exposure::request::Surface;

/// Returns how a client of which this is known is given tools.
pub(crate) fn for_client(surface: Surface, client: &Profile) -> &'static dyn Mode {
    match (client.relisting, surface) {
        (Relisting::Never, _) => &opening::TELL_ALL_THE_SAME,
        (_, Surface::Constant) => &opening::TELL,
        _ if client.has_tool_search => &opening::REGISTER_AND_TELL,
        _ => &opening::REGISTER,
    }
}
