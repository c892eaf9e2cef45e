//! The path of a call: from a tool that is meant to what its server answers. Every other request
//! of a server goes the last part of the way.

use crate::backend::{self, Outcome, Urgency};
use crate::gateway::admitting::About;
use crate::gateway::bridge::{self, InputRequired};
use crate::gateway::error::server_error;
use crate::gateway::members::{Member, Server};
use crate::gateway::observing::{ended, rule};
use crate::gateway::opening::while_starting;
use crate::gateway::sending::Sending;
use crate::gateway::tasks::task_id;
use crate::gateway::{CallError, Gateway, RequestContext, listed};
use crate::name::{ServerRef, ToolId};
use crate::observe::{CallContext, Meters, ObservedRead};
use crate::policy::{Permit, Refusal};
use crate::raw::{self, Raw};
use crate::toolbox::{NotAnObject, ViewTool};

/// An agent's wish for a call of a tool.
struct Wanted<'a> {
    tool: &'a ToolId,
    /// The server that is to have it.
    at: &'a ServerRef,
    arguments: Option<&'a Raw>,
    rest: &'a [raw::Member],
}

/// Who answers a call.
enum Target<'a> {
    Server(&'a Server),
    /// We do; this is what is counted of it.
    Macros(&'a Meters),
}

impl<'a> Target<'a> {
    /// Returns what is counted of its calls.
    fn meters(&self) -> &'a Meters {
        match self {
            Self::Server(server) => &server.meters,
            Self::Macros(meters) => meters,
        }
    }
}

impl Gateway {
    fn target(&self, at: &ServerRef) -> Result<Target<'_>, CallError> {
        match self.members.get(at) {
            Some(Member::Server(server)) => Ok(Target::Server(server)),
            Some(Member::Macros(meters)) => Ok(Target::Macros(meters)),
            _ => self.server(at).map(Target::Server),
        }
    }

    /// Calls a tool, starting its server if need be. The answer is the server's own, untouched,
    /// be it a result or an error of the protocol. Dropping the future cancels the call.
    ///
    /// `rest` is what the parameters have besides the name, the arguments and `_meta`.
    pub async fn call(
        &self,
        tool: &ToolId,
        arguments: Option<&Raw>,
        rest: &[raw::Member],
        context: &RequestContext<'_>,
    ) -> Result<Outcome, CallError> {
        let at = tool.server_ref();
        let target = self.target(&at);
        let meters = target.as_ref().map(Target::meters);
        let mut call = self.begin_call(tool, meters, arguments, context);
        let call_context = &mut call.context;
        let meta = call_context.take_meta();
        let context = &RequestContext { meta: meta.as_deref().unwrap_or(context.meta), ..*context };
        let called = match target {
            Err(error) => Err(error),
            Ok(Target::Macros(_)) => self.take_macro(tool, arguments, context, call_context).await,
            Ok(Target::Server(server)) => {
                let wanted = Wanted { tool, at: &at, arguments, rest };
                self.take(&wanted, server, context, call_context).await
            }
        };
        if let Err(CallError::Refused { reason, .. }) = &called {
            call_context.refused_for(reason);
        }
        let (ending, bytes) = ended(&called, context);
        call.end(ending, bytes);
        called
    }

    /// The steps of a call. How it went is in its context then, whatever came of it.
    async fn take(
        &self,
        wanted: &Wanted<'_>,
        server: &Server,
        context: &RequestContext<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<Outcome, CallError> {
        let Wanted { tool, at, arguments: given, rest } = *wanted;
        if server.is_isolated() && context.agent.learns_of_loss(at) {
            return Err(lost(tool));
        }
        let mut may_sign_in = true;
        // What it listed when it last ran may not be true any more, nor the tool's schema.
        let mut snapshot = self.snapshot();
        if self.is_to_list(at, server, context.agent, &snapshot) {
            may_sign_in = !Box::pin(self.list_signed_in(at, server, context)).await?;
            snapshot = self.snapshot();
        }
        snapshot.check_open(at)?;
        let view = snapshot.view(&tool.toolbox);
        let Some(shown) = view.tool(tool.server.as_str(), &tool.tool) else {
            self.not_found(tool, call);
            return Err(self.unknown_tool(tool));
        };
        if self.is_locked(at) {
            let own = shown.own_id().tool;
            let apart = Box::pin(self.judged_apart(at, server, context)).await?;
            if apart.is_some_and(|judged| judged.keeps_back("tool", |kept| kept == own)) {
                self.not_found(tool, call);
                return Err(self.unknown_tool(tool));
            }
        }
        let (permit, arguments) = self.permit(tool, shown, given, call)?;
        let sending = Sending::Call { permit: &permit, arguments: arguments.as_ref(), rest };
        let key = self.asked_before(server, shown, sending, context);
        if let Some(answer) = key.as_deref().and_then(|(answers, key)| answers.get(key)) {
            call.details.is_cached = true;
            return Ok(Outcome::Result(answer));
        }
        if self.has_rates(server) {
            Box::pin(self.count(tool, server, call)).await?;
        }
        if let Some(concern) = permit.confirmation() {
            Box::pin(self.confirm(tool, concern, given, context, call)).await?;
        }
        let outcome = loop {
            let places = if self.has_places(server) {
                Some(Box::pin(self.take_places(tool, server, context, call)).await?)
            } else {
                None
            };
            let passed =
                Box::pin(self.pass(at, server, context, sending, &mut call.has_asked)).await;
            let error = match passed {
                Err(error) if may_sign_in => error,
                passed => break passed?,
            };
            may_sign_in = false;
            // Others need not wait for the user.
            drop(places);
            Box::pin(self.sign_in_after(error, at, "the call", context)).await?;
        };
        if let Some(kept) = key
            && !call.has_asked
            && !server.shared.asks()
            && !self.may_be_cut(&outcome)
        {
            let (answers, key) = *kept;
            answers.keep(key, &outcome);
        }
        Ok(outcome)
    }

    /// Starts a server that has not listed anything since we run, and waits until it has.
    pub(crate) async fn list_first(
        &self,
        at: &ServerRef,
        server: &Server,
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        let failed = |error| server_error(at, error);
        server.backend(context.agent, &self.pool).map_err(failed)?.attach(context.agent);
        let agent = context.agent.clone();
        let started = listed(&server.shared, self.snapshots(), agent, Urgency::Call);
        Box::pin(while_starting(&at.server, context, started)).await.map_err(failed)
    }

    /// Has a server list as [`Self::list_first`] does, if need be after the user has signed in; returns
    /// `true` if they had to.
    async fn list_signed_in(
        &self,
        at: &ServerRef,
        server: &Server,
        context: &RequestContext<'_>,
    ) -> Result<bool, CallError> {
        let Err(error) = self.list_first(at, server, context).await else { return Ok(false) };
        self.sign_in_after(error, at, "the call", context).await?;
        self.list_first(at, server, context).await?;
        Ok(true)
    }

    /// Goes on after an error, if all that was missing is a sign-in and the user now has signed in; else
    /// the error stands. `what` goes on, in the words of the question.
    async fn sign_in_after(
        &self,
        error: CallError,
        at: &ServerRef,
        what: &str,
        context: &RequestContext<'_>,
    ) -> Result<(), CallError> {
        if error.wants_sign_in() && self.ask_to_sign_in(at, what, context).await {
            return Ok(());
        }
        Err(error)
    }

    /// Returns the permit for a call, and the arguments that the server is to get. It is the server
    /// that decides whether they are right.
    pub(crate) fn permit(
        &self,
        tool: &ToolId,
        shown: &ViewTool,
        given: Option<&Raw>,
        call: &mut CallContext<'_>,
    ) -> Result<(Permit, Option<Raw>), CallError> {
        // The view shows nothing that policy denies; so denied and missing look alike.
        let grant = self.policy.decide(&shown.own_id(), shown.traits, || self.clock.now());
        call.decided_by(|| rule(grant.as_ref()));
        let grant = grant.map_err(|_| self.unknown_tool(tool))?;
        let arguments = shown
            .arguments(given)
            .map_err(|NotAnObject(found)| CallError::NotAnObject { tool: tool.clone(), found })?;
        let permit = grant.permit(arguments.as_ref().map(Raw::as_bytes));
        let permit = permit.map_err(|Refusal { rule, reason, hint }| {
            call.decided_by(|| Some(rule.to_string().into()));
            CallError::Refused { tool: tool.clone(), reason, hint }
        })?;
        call.details.is_dangerous = permit.danger().is_some();
        Ok((permit, arguments))
    }

    /// Returns `true` if a tool is dangerous, as the configuration or its server says.
    pub fn is_dangerous(&self, shown: &ViewTool) -> bool {
        let grant = self.policy.decide(&shown.own_id(), shown.traits, || self.clock.now());
        grant.is_ok_and(|grant| grant.is_dangerous())
    }

    /// Makes any other request of one server, starting it if need be, with these members of
    /// `params`; everything else as for [`Gateway::call`].
    pub async fn request(
        &self,
        at: &ServerRef,
        method: &str,
        params: &[raw::Member],
        context: &RequestContext<'_>,
    ) -> Result<Outcome, CallError> {
        let mut read = self.begin_read(at, method, params, context);
        let about = About::of(method, params);
        let passed =
            self.admit_and_pass(at, (method, params), &about, context, read.as_mut()).await;
        if let Some(read) = read {
            let (ending, bytes) = ended(&passed, context);
            read.end(ending, bytes);
        }
        self.as_for_all(at, &about, passed, context).await
    }

    async fn admit_and_pass(
        &self,
        at: &ServerRef,
        (method, params): (&str, &[raw::Member]),
        about: &About,
        context: &RequestContext<'_>,
        mut read: Option<&mut ObservedRead<'_>>,
    ) -> Result<Outcome, CallError> {
        let server = self.server(at)?;
        let mut may_sign_in = self.may_ask_within(at, method, context);
        loop {
            let passed = async {
                let admission = self.admit_to(at, about, context, read.as_deref_mut()).await?;
                self.check_definitions(at, method, params, context).await?;
                let sending = Sending::Other { admission: &admission, method, params };
                self.pass(at, server, context, sending, &mut false).await
            };
            match passed.await {
                Err(error) if may_sign_in => {
                    may_sign_in = false;
                    Box::pin(self.sign_in_after(error, at, "the request", context)).await?;
                }
                passed => return passed,
            }
        }
    }

    /// Makes a request through the agent's own connection, again for as long as the server wants
    /// to know more of an agent that has to be asked, which is noted then.
    async fn pass(
        &self,
        at: &ServerRef,
        server: &Server,
        context: &RequestContext<'_>,
        sending: Sending<'_>,
        has_asked: &mut bool,
    ) -> Result<Outcome, CallError> {
        let failed = |error| server_error(at, error);
        let backend = server.backend(context.agent, &self.pool).map_err(failed)?;
        let seat = backend.enter(context.agent, context.log, context.events);
        if backend.running().is_none() {
            let ready = backend.ready(Some(context.agent), Urgency::Call);
            Box::pin(while_starting(&at.server, context, ready)).await.map_err(failed)?;
        }
        let mut added = Vec::new();
        for _ in 0..bridge::MAX_ROUNDS {
            let sent = sending.send(&backend, &added, context, server.patience, &seat);
            let outcome = sent.await.map_err(failed)?;
            if matches!(sending, Sending::Call { .. })
                && let Some(task) = task_id(&outcome)
            {
                let holder = self.tasks.holder(context.agent, context.session);
                backend.claim_task(context.agent, &task, &holder);
                Box::pin(self.tasks.learn(&task, &holder, at)).await;
            }
            let Outcome::Result(result) = &outcome else { return Ok(outcome) };
            if !backend::may_ask(result) {
                return Ok(outcome);
            }
            if !server.has_roots() && backend::asks_for_roots(result) {
                return Ok(bridge::no_roots());
            }
            if context.is_modern {
                return Ok(outcome);
            }
            let Some(wanted) = InputRequired::read(result) else { return Ok(outcome) };
            *has_asked = true;
            added = match Box::pin(wanted.resolve(context.events)).await {
                Ok(added) => added,
                Err(outcome) => return Ok(outcome),
            };
        }
        Ok(bridge::too_many_rounds())
    }
}

/// The error for the first call of a server whose state of the session was lost.
fn lost(tool: &ToolId) -> CallError {
    CallError::Refused {
        tool: tool.clone(),
        reason: format!(
            "this session goes on at another replica of the workbench, and the state that server `{}` had \
             of it was lost with the one before",
            tool.server
        ),
        hint: "do again what that state was made of; the next call starts the server anew"
            .to_owned(),
    }
}
