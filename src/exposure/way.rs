//! How an agent gets at tools: the mode that the file asks for, as far as the agent's client
//! lets it be.

use crate::config::ToolMode;
use crate::exposure::profile::{Profile, Relisting};
use crate::exposure::request::Surface;

/// A mode as one agent meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Opening a toolbox registers its tools in the agent's tool list.
    Register,
    /// Opening registers them and answers with them, and `use_tool` calls those that the model
    /// does not find in its list.
    RegisterAndTell,
    /// Opening answers with the tools, and `use_tool` calls them; the list stays as it is.
    Tell,
    /// Everything is in the list from the start.
    Direct,
    /// `toolman_activate` switches tools on and off.
    Activate,
    /// A pair of tools gives the definitions of a group and calls one of them.
    Modular,
    /// `search_tools` finds tools and `use_tool` calls them.
    Search,
    /// `execute_task` finds the tool for a task and calls it.
    Navigate,
}

impl Way {
    /// Returns how a client of which this is known gets at tools in this mode.
    pub(crate) fn of(mode: ToolMode, surface: Surface, client: &Profile) -> Self {
        let is_frozen = surface == Surface::Constant || client.relisting == Relisting::Never;
        match mode {
            ToolMode::Proxy => Self::Tell,
            ToolMode::Dynamic | ToolMode::Auto if is_frozen => Self::Tell,
            ToolMode::Dynamic if client.has_tool_search => Self::RegisterAndTell,
            ToolMode::Dynamic => Self::Register,
            ToolMode::Auto => match (client.relisting, client.has_tool_search) {
                (Relisting::InTime, false) => Self::Register,
                // A tool that is added has to be looked for first, and is announced by its name
                // besides: what `use_tool` calls costs a request less.
                (Relisting::InTime, true) => Self::Tell,
                (Relisting::Unknown | Relisting::Never, _) => Self::RegisterAndTell,
            },
            ToolMode::Direct => Self::Direct,
            ToolMode::Activate => Self::Activate,
            ToolMode::Modular => Self::Modular,
            ToolMode::Search => Self::Search,
            ToolMode::Navigate => Self::Navigate,
        }
    }

    /// Returns `true` if opening a toolbox adds tools to the agent's list.
    pub(crate) fn registers(self) -> bool {
        matches!(self, Self::Register | Self::RegisterAndTell)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const FOLLOWS: Profile = known(Relisting::InTime, false);
    const SEARCHES: Profile = known(Relisting::InTime, true);
    const IS_FROZEN: Profile = known(Relisting::Never, true);
    const STRANGER: Profile = known(Relisting::Unknown, false);

    const fn known(relisting: Relisting, has_tool_search: bool) -> Profile {
        Profile {
            description_limit: None,
            instructions_limit: None,
            answer_limit: None,
            name_limit: None,
            relisting,
            settling: std::time::Duration::ZERO,
            has_tool_search,
        }
    }

    #[test]
    fn auto_takes_what_works_in_each_client() {
        let way = |client| Way::of(ToolMode::Auto, Surface::Changing, client);
        assert_eq!(
            [&FOLLOWS, &SEARCHES, &IS_FROZEN, &STRANGER].map(way),
            [Way::Register, Way::Tell, Way::Tell, Way::RegisterAndTell]
        );
    }

    #[test]
    fn a_mode_asked_for_by_name_is_that_mode_where_it_works() {
        let way = |client| Way::of(ToolMode::Dynamic, Surface::Changing, client);
        assert_eq!(
            [&FOLLOWS, &SEARCHES, &IS_FROZEN, &STRANGER].map(way),
            [Way::Register, Way::RegisterAndTell, Way::Tell, Way::Register]
        );
        let way = |client| Way::of(ToolMode::Proxy, Surface::Changing, client);
        assert_eq!([&FOLLOWS, &SEARCHES, &IS_FROZEN, &STRANGER].map(way), [Way::Tell; 4]);
    }

    #[test]
    fn a_list_that_must_not_change_does_not() {
        for mode in [ToolMode::Auto, ToolMode::Dynamic, ToolMode::Proxy] {
            for client in [&FOLLOWS, &SEARCHES, &IS_FROZEN, &STRANGER] {
                assert_eq!(Way::of(mode, Surface::Constant, client), Way::Tell);
            }
        }
    }
}
