//! Calls by an agent: finds out what each means, does it and answers.

use crate::backend::Outcome;
use crate::exposure::meta::Within;
use crate::exposure::mode::Exposure;
use crate::exposure::request::{CalledBy, Reply, Request, Surface};
use crate::exposure::{answer, meta};
use crate::gateway::{CallError, RequestContext};
use crate::name::{ServerRef, ToolId};
use crate::raw::Raw;

impl Exposure {
    /// Does what a call means. `open_toolbox`, `use_tool` and every registered name are
    /// understood in every mode but `activate`, whether or not they are listed.
    pub async fn call(&self, request: &Request<'_>) -> Reply {
        self.start_everything(request.context.agent).await;
        let mode = self.mode(request.surface);
        let request = Request { surface: self.surface(request.surface), ..*request };
        if let Some(answering) = mode.call(self, request) {
            return answering.await;
        }
        if request.name == meta::OPEN_TOOLBOX {
            return Box::pin(self.open(request)).await;
        }
        let (tool, arguments) = match self.find_called(&request).await {
            Ok(found) => found,
            Err(why) => return Reply::plain(why),
        };
        let called_by = match request.name {
            meta::USE_TOOL => CalledBy::OurTool,
            _ => CalledBy::ItsName,
        };
        self.use_tool(&tool, arguments.as_ref(), called_by, &request).await
    }

    /// The tool that a call means, and the arguments for it; or why there is none.
    async fn find_called(&self, request: &Request<'_>) -> Result<(ToolId, Option<Raw>), Outcome> {
        let used = match request.name {
            meta::USE_TOOL => meta::UseTool::parse(request.arguments, self.gateway.config()),
            name => Ok(meta::UseTool {
                target: meta::Target::Registered(name.into()),
                arguments: meta::object_of(request.arguments),
            }),
        };
        let meta::UseTool { target, arguments } =
            used.map_err(|problem| answer::error(&problem))?;
        let context = request.context;
        let (name, found) = match target {
            meta::Target::Tool(tool) => return Ok((tool, arguments)),
            meta::Target::Within(within) => {
                let found = Box::pin(self.find_within(&within, context)).await;
                (within.tool, found)
            }
            meta::Target::Registered(name) => {
                let found = match self.resolve(&name) {
                    Some(tool) => Ok(tool),
                    // It may be a tool of a server that was never listed.
                    None => Box::pin(self.gateway.resolve(&name, context)).await,
                };
                (name.into_owned(), found)
            }
        };
        match found {
            Ok(tool) => Ok((tool, arguments)),
            Err(error) => {
                self.gateway.note_unresolved(&name, arguments.as_ref(), Some(&error), context);
                Err(self.call_error(&error))
            }
        }
    }

    pub(super) fn call_error(&self, error: &CallError) -> Outcome {
        answer::call_error(error, self.mode(Surface::Changing).where_tools_are())
    }

    /// The tool that is registered under a name, or is called so by its server alone: what a
    /// server's tools say of each other, they say by their own names.
    pub(super) fn resolve(&self, name: &str) -> Option<ToolId> {
        self.gateway.snapshot().find(name)
    }

    /// The tool that is named with a part of where it is. A server of a toolbox that was never listed
    /// may have it, and is started.
    async fn find_within(
        &self,
        within: &Within,
        context: &RequestContext<'_>,
    ) -> Result<ToolId, CallError> {
        self.gateway.recalled().await;
        let unknown = match self.within(within) {
            Ok(tool) => return Ok(tool),
            Err(error) => error,
        };
        let Some(toolbox) = &within.toolbox else { return Err(unknown) };
        let toolbox = self.gateway.toolbox(toolbox)?;
        if self.gateway.is_current(toolbox) {
            return Err(unknown);
        }
        Box::pin(self.gateway.open(toolbox, context)).await;
        self.within(within)
    }

    /// The tool that is named with a part of where it is, as far as is known: one of the toolbox, or
    /// of the server, and of no other.
    pub(super) fn within(&self, within: &Within) -> Result<ToolId, CallError> {
        let known = self.resolve(&within.tool).filter(|tool| within.has(&tool.server_ref()));
        if let Some(tool) = known {
            return Ok(tool);
        }
        let config = self.gateway.config();
        if let Some(toolbox) = &within.toolbox {
            self.gateway.toolbox(toolbox)?;
        }
        let snapshot = self.gateway.snapshot();
        let servers = config.servers().map(|(toolbox, server)| ServerRef {
            toolbox: toolbox.name.clone(),
            server: server.name.clone(),
        });
        let servers: Vec<_> = servers.filter(|at| within.has(at)).collect();
        let id = |at: &ServerRef| ToolId {
            toolbox: at.toolbox.clone(),
            server: at.server.clone(),
            tool: within.tool.clone(),
        };
        let has_it = |at: &&ServerRef| {
            snapshot.view(&at.toolbox).tool(at.server.as_str(), &within.tool).is_some()
        };
        let servers: Vec<&ServerRef> = servers.iter().collect();
        let having: Vec<_> = servers.iter().copied().filter(has_it).collect();
        match (having.as_slice(), servers.as_slice()) {
            // Whoever calls it finds out whether the only server has it.
            ([at], _) | ([], [at]) => Ok(id(at)),
            (several, _) => Err(CallError::UnknownTool {
                wanted: within.tool.clone(),
                nearest: several.iter().map(|at| id(at).to_string()).collect(),
            }),
        }
    }

    pub(super) async fn use_tool(
        &self,
        tool: &ToolId,
        arguments: Option<&Raw>,
        called_by: CalledBy,
        request: &Request<'_>,
    ) -> Reply {
        // Several small boxes cost a call less than a large one: the C library has small blocks at hand.
        let called = Box::pin(self.gateway.call(tool, arguments, request.rest, request.context));
        let outcome = match called.await {
            Ok(outcome) => outcome,
            Err(error) => {
                // Where the tool was found, its toolbox is open from then on, whatever came of the call.
                let is_found = matches!(
                    error,
                    CallError::BadArguments { .. }
                        | CallError::NotAnObject { .. }
                        | CallError::Server { .. }
                );
                let opened = is_found.then(|| tool.toolbox.clone());
                return Reply { opened, ..Reply::plain(self.call_error(&error)) };
            }
        };
        let outcome = match called_by {
            CalledBy::ItsName => outcome,
            CalledBy::OurTool => self.gateway.explained(tool, arguments, outcome),
        };
        let outcome = self.hand_out(tool, outcome, request.context).await;
        Reply { opened: Some(tool.toolbox.clone()), ..Reply::plain(outcome) }
    }

    /// Readies a tool's answer for an agent: with the addresses that the agent knows, and no longer
    /// than it may be given at once.
    pub(super) async fn hand_out(
        &self,
        tool: &ToolId,
        outcome: Outcome,
        context: &RequestContext<'_>,
    ) -> Outcome {
        let mut outcome = self.with_addresses(&self.gateway.answering(tool), outcome);
        self.gateway.hand_out(&tool.tool, &mut outcome, context).await;
        let written = self.gateway.config().macro_at(tool);
        let is_ours = written.is_some_and(|config| config.result.is_some());
        if is_ours && !context.is_modern { answer::structured_as_object(outcome) } else { outcome }
    }
}
