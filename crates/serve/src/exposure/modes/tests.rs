use std::time::Duration;

use pretty_assertions::assert_eq;

use crate::exposure::client_profile::{ClientProfile, RelistBehavior};
use crate::exposure::mode::{
    ExposedTools, Instructions, ListChanges, ListContext, Mode, ModeSelector, ModeTraits,
    OwnToolsInput, Startup, UsageHints,
};
use crate::exposure::modes;
use crate::exposure::{ListMutability, instructions};
use mcp_workbench_settings::{Config, ToolMode};
use mcp_workbench_wire::json::RawJson;

const FOLLOWS: ClientProfile = known(RelistBehavior::InTime, false);
const SEARCHES: ClientProfile = known(RelistBehavior::InTime, true);
const IS_FROZEN: ClientProfile = known(RelistBehavior::Never, true);
const STRANGER: ClientProfile = known(RelistBehavior::Unknown, false);
const CLIENTS: [&ClientProfile; 4] = [&FOLLOWS, &SEARCHES, &IS_FROZEN, &STRANGER];

const fn known(relisting: RelistBehavior, has_tool_search: bool) -> ClientProfile {
    ClientProfile {
        description_limit: None,
        instructions_limit: None,
        answer_limit: None,
        name_limit: None,
        relisting,
        call_timeout: None,
        settling: Duration::ZERO,
        has_tool_search,
        keeps_own_tools_loaded: true,
        has_code_mode: false,
    }
}

/// For each client: whether opening adds tools to the list, whether the answer has them, and
/// whether the answer waits for the client to list again.
fn given(mode: ToolMode, mutability: ListMutability) -> [(bool, bool, bool); 4] {
    CLIENTS.map(|client| {
        let mode = modes::selector_for(mode)(mutability, client);
        let ModeTraits { delivery, own_tools_depend_on, list_changes, .. } = mode.traits();
        let in_answer = *own_tools_depend_on == OwnToolsInput::KnownTools;
        (delivery.adds_to_list(), in_answer, *list_changes == ListChanges::Followed)
    })
}

const IN_LIST: (bool, bool, bool) = (true, false, true);
/// In the list once a toolbox is open; until then, signatures.
const IN_LIST_OR_SIGNATURES: (bool, bool, bool) = (true, true, true);
const IN_BOTH: (bool, bool, bool) = (true, true, true);
const IN_BOTH_UNAWAITED: (bool, bool, bool) = (true, true, false);
const IN_ANSWER: (bool, bool, bool) = (false, true, false);

#[test]
fn auto_selects_the_delivery_that_each_client_supports() {
    assert_eq!(
        given(ToolMode::Auto, ListMutability::Mutable),
        [IN_LIST_OR_SIGNATURES, IN_ANSWER, IN_ANSWER, IN_BOTH_UNAWAITED]
    );
}

#[test]
fn auto_lists_all_tools_if_the_client_keeps_them_out_of_the_context() {
    let scripts = ClientProfile { has_code_mode: true, ..SEARCHES };
    let hides_ours = ClientProfile { keeps_own_tools_loaded: false, ..SEARCHES };
    for mutability in [ListMutability::Mutable, ListMutability::Fixed] {
        let chosen = |client| *modes::selector_for(ToolMode::Auto)(mutability, client).traits();
        let (scripted, hidden) = (chosen(&scripts), chosen(&hides_ours));
        assert!(scripted.lists_server_tools && hidden.lists_server_tools);
        assert_eq!(scripted.startup, Startup::UnlistedInBackground);
        assert_eq!((scripted.has_instructions, hidden.has_instructions), (false, true));
        assert!(!chosen(&SEARCHES).lists_server_tools || mutability == ListMutability::Mutable);
    }
    // A mode that the user chose is used in code mode, too.
    let proxy = modes::selector_for(ToolMode::Proxy)(ListMutability::Mutable, &scripts).traits();
    assert!(!proxy.lists_server_tools);
}

#[test]
fn a_named_mode_is_used_if_the_client_supports_it() {
    assert_eq!(
        given(ToolMode::Dynamic, ListMutability::Mutable),
        [IN_LIST, IN_BOTH, IN_ANSWER, IN_LIST]
    );
    assert_eq!(given(ToolMode::Proxy, ListMutability::Mutable), [IN_ANSWER; 4]);
}

#[test]
fn fixed_lists_deliver_tools_in_answers() {
    for mode in [ToolMode::Auto, ToolMode::Dynamic, ToolMode::Proxy] {
        assert_eq!(given(mode, ListMutability::Fixed), [IN_ANSWER; 4]);
    }
}

#[test]
fn clients_that_never_relist_fall_back() {
    let falls_back = |mode| {
        CLIENTS.map(|client| {
            let mode = modes::selector_for(mode)(ListMutability::Mutable, client);
            mode.traits().list_changes == ListChanges::Unsupported
        })
    };
    for mode in [ToolMode::Dynamic, ToolMode::Activate] {
        assert_eq!(falls_back(mode), [false, false, true, false], "{mode:?}");
    }
    for mode in [ToolMode::Auto, ToolMode::Proxy, ToolMode::Direct, ToolMode::Search] {
        assert_eq!(falls_back(mode), [false; 4], "{mode:?}");
    }
}

/// A minimal mode: adding one takes a value like this and a line in `modes::selector_for`.
struct Menu;

impl Mode for Menu {
    fn traits(&self) -> &ModeTraits {
        const TRAITS: ModeTraits = ModeTraits::new("menu shows all dishes.");
        &TRAITS
    }

    fn instructions(&self, _: &Config, _: ListMutability) -> Instructions {
        Instructions::Hints(UsageHints {
            call: "Call menu.",
            lists_toolboxes: None,
            usage: "One dish at a time.".to_owned(),
        })
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        let menu = RawJson::encode(&serde_json::json!({ "name": "menu" }));
        ExposedTools::of_mode(vec![menu], ctx)
    }
}

// invariant: one-place-for-choices
#[test]
fn a_minimal_mode_inherits_the_defaults() {
    let choose: ModeSelector = |_, _| &Menu;
    let menu = choose(ListMutability::Mutable, &FOLLOWS);
    let Instructions::Hints(guide) = menu.instructions(&Config::default(), ListMutability::Mutable)
    else {
        panic!("not its own text")
    };
    assert_eq!(
        instructions::render(&Config::default(), &guide, 2048),
        "No toolboxes are configured. To add a server, the user can run `mcp-workbench setup` or \
         `mcp-workbench add NAME -- COMMAND`.\nOne dish at a time."
    );
    assert!(!menu.traits().delivery.adds_to_list());
    assert_eq!(menu.traits().startup, Startup::OnDemand);
    assert_eq!(menu.traits().unlisted_timeout, None);
}

#[test]
fn own_tool_names_are_reserved() {
    let ours = [
        crate::exposure::meta_tools::OPEN_TOOLBOX,
        crate::exposure::meta_tools::USE_TOOL,
        crate::exposure::search::SEARCH_TOOLS,
        crate::exposure::navigate::EXECUTE_TASK,
        mcp_workbench_core::toolbox::TOOLMAN_ACTIVATE,
        crate::exposure::modular::GET_TOOLS,
        crate::exposure::modular::CALL_TOOL,
        crate::exposure::modular::GET_CATEGORY,
        crate::exposure::modular::CALL_CATEGORY,
    ];
    assert_eq!(mcp_workbench_names::BUILTIN_TOOL_NAMES, ours);
}
