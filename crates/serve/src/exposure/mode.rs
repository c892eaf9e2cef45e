//! A mode: how an agent gets at tools, and what it is shown and asked for that. Each stands in the
//! file of its name; `modes` chooses one.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Outcome;
use crate::exposure::profile::Profile;
use crate::exposure::request::{Refusal, Reply, Request, Surface};
use crate::exposure::uris;
use crate::gateway::{Gateway, Presence, Snapshot};
use crate::name::{ServerRef, ToolId};
use crate::raw::Raw;
use crate::settings::Config;
use crate::state::{Active, Chosen};
use crate::toolbox::Kind;

/// Work that a mode does, boxed: most of it is larger than the call that begins it.
pub(crate) type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Returns the mode that a client meets, of which this is known and whose lists may be like this.
pub(crate) type Choose = fn(Surface, &Profile) -> &'static dyn Mode;

/// The tools of a gateway as agents see them.
#[derive(Clone)]
pub struct Exposure {
    pub(super) gateway: Arc<Gateway>,
    pub(super) profile: Profile,
    pub(super) choose: Choose,
}

/// The agent that is shown something, and the moment of which it is shown.
#[derive(Clone, Copy)]
pub(crate) struct Audience<'a> {
    pub(crate) exposure: &'a Exposure,
    /// Tells whether the lists of this agent may change, and its client follows that.
    pub(crate) surface: Surface,
    pub(crate) chosen: &'a Chosen,
    pub(crate) at: &'a Snapshot,
}

impl<'a> Audience<'a> {
    pub(crate) fn config(&self) -> &'a Config {
        self.exposure.gateway().config()
    }

    /// Returns what is active for the agent: where lists are constant, what is so from the start.
    pub(crate) fn active(&self) -> Cow<'a, Active> {
        match self.surface {
            Surface::Changing => Cow::Borrowed(&self.chosen.active),
            Surface::Constant => Cow::Owned(Active::default()),
        }
    }
}

/// The words that lead a model to its tools.
pub(crate) struct Guide {
    /// The end of the first line of the instructions: which tool to call.
    pub(crate) call: &'static str,
    /// The tool of ours whose `toolbox` parameter lists all toolboxes, if one has it.
    pub(crate) lists_toolboxes: Option<&'static str>,
    /// How the tools of toolboxes are called; may be empty.
    pub(crate) usage: String,
}

/// Where the tools of an opened toolbox are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giving {
    /// In the agent's tool list.
    List,
    /// In its tool list and in the answer: `use_tool` calls those that the model does not find in
    /// its list.
    Both,
    /// In the answer, and `use_tool` calls them; the list stays as it is.
    Answer,
}

impl Giving {
    /// Tells whether opening a toolbox adds tools to the agent's list.
    pub(crate) fn registers(self) -> bool {
        self != Self::Answer
    }
}

/// A way of giving tools to an agent. It holds nothing: what belongs to an agent is in its
/// [`Audience`], and everything else in the gateway.
pub(crate) trait Mode: Sync {
    /// Returns the words of the instructions, where lists are like this.
    fn guide(&self, _config: &Config, _surface: Surface) -> Guide {
        let call = "Their tools are in your tool list.";
        Guide { call, lists_toolboxes: None, usage: String::new() }
    }

    /// Returns the instructions, where they are not made of the [`Guide`].
    fn instructions(&self, _config: &Config) -> Option<String> {
        None
    }

    /// Returns how an error goes on that says that there is no such tool.
    fn where_tools_are(&self) -> &'static str;

    /// Returns the definitions of the tools of our own.
    fn own_tools(&self, audience: Audience<'_>) -> Vec<Raw>;

    /// Returns the definitions of the servers' tools in the agent's list.
    fn server_tools(&self, _audience: Audience<'_>) -> Vec<Raw> {
        Vec::new()
    }

    /// Returns the definitions of what else the agent sees, where that is not all of the toolboxes
    /// that it is shown.
    fn primitives(&self, _audience: Audience<'_>, _kind: Kind) -> Option<Vec<Raw>> {
        None
    }

    /// Answers a call of a name that means something of its own in this mode. For all others, which
    /// are understood in every mode, it is `None`.
    fn call<'a>(
        &'a self,
        _exposure: &'a Exposure,
        _request: Request<'a>,
    ) -> Option<Doing<'a, Reply>> {
        None
    }

    /// Returns how the tools of a toolbox are given that is opened.
    fn giving(&self) -> Giving {
        Giving::Answer
    }

    /// Returns the tool that is listed under this name, where lists have tools from the start.
    fn listed(&self, _exposure: &Exposure, _at: &Snapshot, _name: &str) -> Option<ToolId> {
        None
    }

    /// Returns the server of a primitive that is no tool, and its own name for it.
    fn find(&self, at: &Snapshot, kind: Kind, name: &str) -> Option<(ServerRef, String)> {
        let names = match kind {
            Kind::Tool => at.tools(),
            Kind::Resource => at.uris(),
            Kind::Template => at.templates(),
            Kind::Prompt => at.prompts(),
        };
        names.resolve(name).map(|primitive| (primitive.server_ref.clone(), primitive.name.clone()))
    }

    /// Returns the servers that an address may lead to, each with its own address, where addresses
    /// are known by other names than their servers'.
    fn addressed(
        &self,
        _audience: Audience<'_>,
        _uri: &str,
    ) -> Option<Result<Vec<(ServerRef, String)>, Refusal>> {
        None
    }

    /// Returns a server's result with the addresses in it as agents know them.
    fn with_addresses(&self, at: &Snapshot, server: &ServerRef, outcome: Outcome) -> Outcome {
        uris::in_result(uris::Addresses::Unique(at), server, outcome)
    }

    /// Tells whether calls change the agent's list of tools in a way that its client is to follow.
    fn changes_lists(&self, _client: &Profile) -> bool {
        false
    }

    /// Tells whether the file asks for lists that change, and the client does not follow that.
    fn falls_back(&self, _client: &Profile) -> bool {
        false
    }

    /// Tells whether `search_tools` is there.
    fn offers_search(&self, _config: &Config) -> bool {
        false
    }

    /// Tells whether everything is there from the start, and so is started first.
    fn starts_everything(&self) -> bool {
        false
    }

    /// Tells whether tools of servers can be in the agent's list.
    fn lists_tools(&self) -> bool {
        false
    }

    /// Tells whether our own tools speak of servers, and so change with them.
    fn tells_of_servers(&self) -> bool {
        false
    }

    /// Tells whether our own tools speak of what servers listed when they last ran, to a client
    /// that is shown signatures.
    fn tells_of_known_tools(&self) -> bool {
        false
    }

    /// Tells whether one server is served as if there were nothing between it and the agent.
    fn stands_for_server(&self) -> bool {
        false
    }

    /// Returns how long a list waits for servers that nothing is known of, if it does.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Starts what has to be started before anything can be told; at once when that has been done.
    fn start<'a>(&'a self, _exposure: &'a Exposure, _agent: &'a Presence) -> Option<Doing<'a, ()>> {
        None
    }

    /// Does the same, and waits for servers that are known of old, for what they say is wanted.
    fn run<'a>(&'a self, exposure: &'a Exposure, agent: &'a Presence) -> Option<Doing<'a, ()>> {
        self.start(exposure, agent)
    }
}
