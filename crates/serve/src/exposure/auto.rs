//! `auto`: the cheapest of the ways of opening toolboxes that works in the agent's client.

use crate::exposure::mode::Mode;
use crate::exposure::opening;
use crate::exposure::profile::{Profile, Relisting};
use crate::exposure::request::Surface;

/// Returns how a client of which this is known is given tools.
pub(crate) fn for_client(surface: Surface, client: &Profile) -> &'static dyn Mode {
    match client.relisting {
        _ if surface == Surface::Constant => &opening::TELL,
        Relisting::InTime if !client.has_tool_search => &opening::REGISTER,
        // A tool that is added has to be looked for first, and is announced by its name besides:
        // what `use_tool` calls costs a request less.
        Relisting::InTime | Relisting::Never => &opening::TELL,
        Relisting::Unknown => &opening::REGISTER_AND_TELL_STRANGERS,
    }
}
