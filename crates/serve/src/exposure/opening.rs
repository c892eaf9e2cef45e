//! Toolboxes that are opened with `open_toolbox`: what `auto`, `dynamic` and `proxy` have in common.
//! They differ in how the tools of an opened toolbox are given.

use crate::exposure::meta::{OPEN_TOOLBOX, OpenToolbox};
use crate::exposure::mode::{Audience, Doing, Exposure, Giving, Guide, Mode};
use crate::exposure::profile::Profile;
use crate::exposure::proxy::{Calls, Telling};
use crate::exposure::request::{Reply, Request, Surface};
use crate::exposure::{answer, guidance, meta, proxy, registering, search};
use crate::raw::Raw;
use crate::settings::Config;

/// For clients that follow changes of their lists.
pub(crate) static REGISTER: Opening = Opening { is_followed: true, ..Opening::of(Giving::List) };
/// For clients that follow them, and hide tools behind a search of their own.
pub(crate) static REGISTER_AND_TELL: Opening =
    Opening { is_followed: true, ..Opening::of(Giving::Both) };
/// For clients of which nobody knows whether they follow.
pub(crate) static REGISTER_AND_TELL_STRANGERS: Opening = Opening::of(Giving::Both);
/// For clients whose lists stay as they are, or had better.
pub(crate) static TELL: Opening = Opening::of(Giving::Answer);
/// For clients that never list again, although the file wants lists that change.
pub(crate) static TELL_ALL_THE_SAME: Opening =
    Opening { falls_back: true, ..Opening::of(Giving::Answer) };

/// A mode in which toolboxes are opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    giving: Giving,
    /// Set where an answer waits for the client to list again.
    is_followed: bool,
    falls_back: bool,
}

impl Opening {
    const fn of(giving: Giving) -> Self {
        Self { giving, is_followed: false, falls_back: false }
    }
}

impl Mode for Opening {
    fn guide(&self, config: &Config, _: Surface) -> Guide {
        const NAMED: &str =
            "When one is open, its tools are in your tool list as <toolbox>__<server>__<tool>";
        let use_tool = guidance::USE_TOOL;
        let usage = match self.giving {
            Giving::List => format!("{NAMED}."),
            Giving::Both => {
                format!("{NAMED}; those that you do not find there are called with {use_tool}.")
            }
            Giving::Answer => format!("Your tool list stays as it is: call {use_tool}."),
        };
        let more = if self.offers_search(config) {
            " search_tools finds tools in all of them."
        } else {
            ""
        };
        Guide {
            call: if self.giving.registers() {
                "Call open_toolbox to use one."
            } else {
                "open_toolbox shows the tools of one, use_tool calls them."
            },
            lists_toolboxes: Some(OPEN_TOOLBOX),
            usage: usage + more,
        }
    }

    fn where_tools_are(&self) -> &'static str {
        "open_toolbox shows all tools of a toolbox."
    }

    fn own_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        let showing = audience.exposure.showing();
        match self.giving {
            Giving::List => registering::own(audience.config(), showing.reads_instructions),
            giving => proxy::own(audience.config(), audience.at, giving, showing),
        }
    }

    fn server_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        if !self.giving.registers() {
            return Vec::new();
        }
        registering::registered(audience.config(), audience.at, &audience.chosen.opened)
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: Request<'a>,
    ) -> Option<Doing<'a, Reply>> {
        search::call(self, exposure, request)
    }

    fn giving(&self) -> Giving {
        self.giving
    }

    fn changes_lists(&self, _: &Profile) -> bool {
        self.is_followed
    }

    fn falls_back(&self, _: &Profile) -> bool {
        self.falls_back
    }

    fn offers_search(&self, config: &Config) -> bool {
        config.search.is_offered
    }

    fn lists_tools(&self) -> bool {
        self.giving.registers()
    }

    fn tells_of_known_tools(&self) -> bool {
        self.giving != Giving::List
    }
}

impl Exposure {
    /// Answers a call of `open_toolbox`, which is understood in every mode but `activate`.
    pub(super) async fn open(&self, request: Request<'_>) -> Reply {
        let wanted = match OpenToolbox::parse(request.arguments) {
            Ok(wanted) => wanted,
            Err(problem) => return Reply::plain(answer::error(&problem)),
        };
        let toolbox = match self.gateway.toolbox(&wanted.toolbox) {
            Ok(toolbox) => toolbox,
            Err(error) => return Reply::plain(self.call_error(&error)),
        };
        let opened = self.gateway.open(toolbox, request.context).await;
        let max = self.listing_bytes();
        let giving = self.mode(request.surface).giving();
        let calls = match giving {
            Giving::Both => Calls::ByNameIfListed,
            _ if self.falls_back() => Calls::WithUseToolAlone,
            _ => Calls::WithUseTool,
        };
        let detail = if self.profile.has_tool_search {
            meta::Detail::Signatures
        } else {
            meta::Detail::Full
        };
        let told = |calls| {
            let telling = Telling { detail, calls, max };
            proxy::opened(toolbox, &opened, &wanted, telling)
        };
        let outcome = match giving {
            Giving::List => registering::opened(toolbox, &opened, max),
            _ => told(calls),
        };
        let may_be_unread = giving == Giving::List && self.may_not_list_again();
        let unread = || Box::new(told(Calls::Unread { is_told: request.chosen.is_told }));
        Reply {
            outcome,
            opened: Some(toolbox.name.clone()),
            switched: Vec::new(),
            awaits_relisting: giving.registers(),
            unread: may_be_unread.then(unread),
        }
    }
}
