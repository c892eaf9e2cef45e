use std::time::Duration;

use pretty_assertions::assert_eq;

use crate::exposure::mode::{Audience, Choose, Guide, Mode};
use crate::exposure::modes;
use crate::exposure::profile::{Profile, Relisting};
use crate::exposure::{Surface, guidance};
use crate::raw::Raw;
use crate::settings::{Config, ToolMode};

const FOLLOWS: Profile = known(Relisting::InTime, false);
const SEARCHES: Profile = known(Relisting::InTime, true);
const IS_FROZEN: Profile = known(Relisting::Never, true);
const STRANGER: Profile = known(Relisting::Unknown, false);
const CLIENTS: [&Profile; 4] = [&FOLLOWS, &SEARCHES, &IS_FROZEN, &STRANGER];

const fn known(relisting: Relisting, has_tool_search: bool) -> Profile {
    Profile {
        description_limit: None,
        instructions_limit: None,
        answer_limit: None,
        name_limit: None,
        relisting,
        settling: Duration::ZERO,
        has_tool_search,
    }
}

/// How tools of an opened toolbox are given: in the list, in the answer, and whether the answer
/// waits for the client to list again.
fn given(mode: ToolMode, surface: Surface) -> [(bool, bool, bool); 4] {
    CLIENTS.map(|client| {
        let mode = modes::of(mode)(surface, client);
        let in_answer = mode.tells_of_known_tools();
        (mode.giving().registers(), in_answer, mode.changes_lists(client))
    })
}

const IN_LIST: (bool, bool, bool) = (true, false, true);
const IN_BOTH: (bool, bool, bool) = (true, true, true);
const IN_BOTH_UNAWAITED: (bool, bool, bool) = (true, true, false);
const IN_ANSWER: (bool, bool, bool) = (false, true, false);

#[test]
fn auto_takes_what_works_in_each_client() {
    assert_eq!(
        given(ToolMode::Auto, Surface::Changing),
        [IN_LIST, IN_ANSWER, IN_ANSWER, IN_BOTH_UNAWAITED]
    );
}

#[test]
fn a_mode_asked_for_by_name_is_that_mode_where_it_works() {
    assert_eq!(given(ToolMode::Dynamic, Surface::Changing), [IN_LIST, IN_BOTH, IN_ANSWER, IN_LIST]);
    assert_eq!(given(ToolMode::Proxy, Surface::Changing), [IN_ANSWER; 4]);
}

#[test]
fn a_list_that_must_not_change_does_not() {
    for mode in [ToolMode::Auto, ToolMode::Dynamic, ToolMode::Proxy] {
        assert_eq!(given(mode, Surface::Constant), [IN_ANSWER; 4]);
    }
}

#[test]
fn who_never_lists_again_falls_back_where_the_file_wants_lists_that_change() {
    let falls_back =
        |mode| CLIENTS.map(|client| modes::of(mode)(Surface::Changing, client).falls_back(client));
    for mode in [ToolMode::Dynamic, ToolMode::Activate] {
        assert_eq!(falls_back(mode), [false, false, true, false], "{mode:?}");
    }
    for mode in [ToolMode::Auto, ToolMode::Proxy, ToolMode::Direct, ToolMode::Search] {
        assert_eq!(falls_back(mode), [false; 4], "{mode:?}");
    }
}

/// A further mode: all that it takes is a value like this, and a line in [`mode::of`].
struct Menu;

impl Mode for Menu {
    fn guide(&self, _: &Config, _: Surface) -> Guide {
        Guide { call: "Call menu.", lists_toolboxes: None, usage: "One dish at a time.".to_owned() }
    }

    fn where_tools_are(&self) -> &'static str {
        "menu shows all dishes."
    }

    fn own_tools(&self, _: Audience<'_>) -> Vec<Raw> {
        vec![Raw::encode(&serde_json::json!({ "name": "menu" }))]
    }
}

#[test]
fn a_further_mode_says_what_is_its_own_and_has_the_rest() {
    let choose: Choose = |_, _| &Menu;
    let menu = choose(Surface::Changing, &FOLLOWS);
    let guide = menu.guide(&Config::default(), Surface::Changing);
    assert_eq!(
        guidance::instructions(&Config::default(), &guide, 2048),
        "No toolboxes are configured.\nOne dish at a time."
    );
    assert!(!menu.giving().registers());
    assert!(!menu.starts_everything());
    assert!(menu.patience().is_none());
}

#[test]
fn no_server_can_have_the_name_of_a_tool_of_ours() {
    let ours = [
        crate::exposure::meta::OPEN_TOOLBOX,
        crate::exposure::meta::USE_TOOL,
        crate::exposure::search::SEARCH_TOOLS,
        crate::exposure::navigate::EXECUTE_TASK,
        crate::toolbox::TOOLMAN_ACTIVATE,
        crate::exposure::modular::GET,
        crate::exposure::modular::CALL,
        crate::exposure::modular::GET_CATEGORY,
        crate::exposure::modular::CALL_CATEGORY,
    ];
    assert_eq!(crate::name::OWN_TOOLS, ours);
}
