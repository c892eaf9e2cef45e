//! Modes with `open_toolbox`: `auto`, `dynamic` and `proxy`. They differ in how the tools of an
//! opened toolbox are delivered.

use crate::exposure::answer_delivery::{CallHint, OpenReplyOptions, ToolPresentation};
use crate::exposure::meta_tools::{OPEN_TOOLBOX, OpenToolbox};
use crate::exposure::mode::{
    BoxFuture, ExposedTools, Exposure, Instructions, ListChanges, ListContext, Mode, ModeTraits,
    OwnToolsInput, SearchOffer, ToolDelivery, UsageHints,
};
use crate::exposure::tool_call::{ListMutability, ToolCallReply, ToolCallRequest};
use crate::exposure::{
    answer_delivery, instructions, list_delivery, meta_tools, search, tool_results,
};
use mcp_workbench_names::ToolboxName;
use mcp_workbench_settings::Config;

/// For clients that follow list changes.
pub(crate) static LIST: ToolboxMode = ToolboxMode::new(ToolDelivery::List, ListChanges::Followed);
/// For clients that follow list changes. Known tools can be called without opening their toolbox,
/// which saves a request for each toolbox that a task needs.
pub(crate) static LIST_AND_SIGNATURES: ToolboxMode = ToolboxMode(ModeTraits {
    own_tools_depend_on: OwnToolsInput::KnownTools,
    ..ToolboxMode::new(ToolDelivery::List, ListChanges::Followed).0
});
/// For clients that follow list changes and hide tools behind a search of their own.
pub(crate) static LIST_AND_ANSWER: ToolboxMode =
    ToolboxMode::new(ToolDelivery::Both, ListChanges::Followed);
/// For clients whose reaction to list changes is unknown.
pub(crate) static LIST_AND_ANSWER_UNKNOWN: ToolboxMode =
    ToolboxMode::new(ToolDelivery::Both, ListChanges::None);
/// For clients whose lists can't change or shouldn't.
pub(crate) static ANSWER: ToolboxMode = ToolboxMode::new(ToolDelivery::Answer, ListChanges::None);
/// For clients that never list again although the configuration asks for a dynamic list.
pub(crate) static ANSWER_FALLBACK: ToolboxMode =
    ToolboxMode::new(ToolDelivery::Answer, ListChanges::Unsupported);

pub(crate) struct ToolboxMode(ModeTraits);

impl ToolboxMode {
    const fn new(delivery: ToolDelivery, list_changes: ListChanges) -> Self {
        let is_in_list = matches!(delivery, ToolDelivery::List);
        Self(ModeTraits {
            delivery,
            list_changes,
            search: SearchOffer::IfConfigured,
            own_tools_depend_on: if is_in_list {
                OwnToolsInput::Nothing
            } else {
                OwnToolsInput::KnownTools
            },
            lists_server_tools: !matches!(delivery, ToolDelivery::Answer),
            ..ModeTraits::new("open_toolbox shows all tools of a toolbox.")
        })
    }
}

impl Mode for ToolboxMode {
    fn traits(&self) -> &ModeTraits {
        &self.0
    }

    fn instructions(&self, config: &Config, _: ListMutability) -> Instructions {
        const NAMED: &str =
            "Tools of open toolboxes are in your tool list as <toolbox>__<server>__<tool>";
        let ModeTraits { delivery, search, own_tools_depend_on, .. } = self.0;
        let use_tool = instructions::USE_TOOL;
        let usage = match delivery {
            ToolDelivery::List => format!("{NAMED}."),
            ToolDelivery::Both => {
                format!("{NAMED}; if one is missing there, call {use_tool}.")
            }
            ToolDelivery::Answer => format!("Your tool list never changes: call {use_tool}."),
        };
        let more = if search.is_made(config) { " search_tools searches all of them." } else { "" };
        Instructions::Hints(UsageHints {
            call: match (delivery, own_tools_depend_on) {
                (ToolDelivery::List, OwnToolsInput::KnownTools) => {
                    "Call open_toolbox to use one, unless use_tool has its tools."
                }
                (ToolDelivery::Answer, _) => {
                    "open_toolbox shows the tools of one, use_tool calls them."
                }
                _ => "Call open_toolbox to use one.",
            },
            lists_toolboxes: Some(OPEN_TOOLBOX),
            usage: usage + more,
        })
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        let showing = ctx.exposure.showing();
        let own = match self.0.delivery {
            ToolDelivery::List => {
                // A client that doesn't list again gets another result.
                let has_shape = !ctx.exposure.profile.is_relisting_unknown();
                let tells_tools = self.0.own_tools_depend_on == OwnToolsInput::KnownTools;
                let signatures = showing.signatures.filter(|_| tells_tools);
                list_delivery::meta_tools(
                    ctx,
                    ToolPresentation { signatures, ..showing },
                    has_shape,
                )
            }
            giving => answer_delivery::meta_tools(ctx.config(), ctx.at, giving, showing),
        };
        let adds = self.0.delivery.adds_to_list();
        let is_listed = |toolbox: &ToolboxName| adds && ctx.chosen.opened.contains(toolbox);
        ExposedTools { own, servers: ctx.registered_tools(is_listed) }
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        search::call(self.0.search, exposure, request)
    }
}

/// Handles `open_toolbox`, which works in every mode but `activate`.
pub(super) async fn open_toolbox(
    exposure: &Exposure,
    request: ToolCallRequest<'_>,
) -> ToolCallReply {
    let wanted = match OpenToolbox::parse(request.arguments) {
        Ok(wanted) => wanted,
        Err(problem) => {
            return ToolCallReply::from_outcome(tool_results::error_result(&problem));
        }
    };
    let toolbox = match exposure.gateway.scope().toolbox(&wanted.toolbox) {
        Ok(toolbox) => toolbox,
        Err(error) => {
            return ToolCallReply::from_outcome(tool_results::call_error(
                &error,
                exposure.traits().unknown_tool_hint,
            ));
        }
    };
    let opened = exposure.gateway.startup().open_toolbox(toolbox, request.context).await;
    let (max, shows_apps) = (exposure.listing_bytes(), exposure.shows_apps());
    let giving = exposure.mode(request.lists).traits().delivery;
    let calls = match giving {
        ToolDelivery::Both => CallHint::ByNameOrUseTool,
        _ if exposure.is_fallback() => CallHint::WithUseToolAlone,
        _ => CallHint::WithUseTool,
    };
    let detail = if exposure.profile.has_tool_search {
        meta_tools::Detail::Signatures
    } else {
        meta_tools::Detail::Full
    };
    let told = |calls| {
        let telling = OpenReplyOptions { detail, calls, shows_apps, max };
        answer_delivery::open_result(toolbox, &opened, &wanted, telling)
    };
    let outcome = match giving {
        ToolDelivery::List => list_delivery::open_result(toolbox, &opened, shows_apps, max),
        _ => told(calls),
    };
    let may_be_unread = giving == ToolDelivery::List && exposure.profile.is_relisting_unknown();
    let unread = || Box::new(told(CallHint::NotRelisted { is_told: request.chosen.is_told }));
    ToolCallReply {
        outcome,
        opened: Some(toolbox.name.clone()),
        switched: Vec::new(),
        awaits_relisting: giving.adds_to_list(),
        if_not_relisted: may_be_unread.then(unread),
    }
}
