//! Who may see and do what at the page of whoever runs the workbench.

use hyper::http::request::Parts;

use crate::frontend::http::identity::bearer::{self, Presented};
use crate::frontend::http::identity::{
    Identity, Pass, Rules, check_origin, check_rules, forbidden, holder, holder_in,
};
use crate::frontend::http::response::{Denial, Reply};
use crate::gateway::Caller;
use crate::observe::DeniedFor;
use crate::settings::{Anonymous, AuthConfig};

/// How much somebody sees of the workbench, and what may be done; each has what those before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sight {
    /// Names and figures, as in `/metrics`, and calls without what was said.
    Figures,
    /// The words of servers, too: why they failed, their last lines, their tools.
    Words,
    /// Everything, and it may be acted.
    Acts,
}

impl Identity {
    /// Checks that a request is meant for us and comes from no page of others.
    pub(crate) fn may_come(&self, head: &Parts) -> Result<(), Denial> {
        check_origin(head, &self.gateways.config())
    }

    /// How much the one who asks may see, and for how long; or what is said instead of an answer. The
    /// token is taken out of the request. A token that is wrong is refused, also where none is needed.
    pub(crate) async fn sight(&self, head: &mut Parts) -> Result<(Sight, Pass), Reply> {
        let presented = bearer::take(&mut head.headers);
        let config = self.gateways.config();
        check_origin(head, &config).map_err(Denial::reply)?;
        let rules = self.rules(&config);
        if let Presented::Token(token) = &presented
            && let Some(pass) = rules.operator(token)
        {
            return Ok((Sight::Acts, pass));
        }
        if self.is_local && presented == Presented::Nothing {
            return Ok((self.of_anybody(&rules), Pass::default()));
        }
        let resource = rules.resource(head);
        let (agent, pass) = match self.agent(&rules, presented, &resource, holder_in(head)).await {
            Ok(found) => found,
            Err(denied) => return Err(resource.refuse(denied)),
        };
        if let Some(agent) = &agent {
            check_rules(agent, &config).map_err(Denial::reply)?;
        }
        if self.is_local {
            return Ok((self.of_anybody(&rules), pass));
        }
        let caller = Caller { agent, toolbox: None };
        if self.gateways.shows_every_server(&caller) {
            return Ok((Sight::Figures, pass));
        }
        let message = "there are servers that this agent may not know of";
        Err(forbidden(message, caller.agent, DeniedFor::Figures).reply())
    }

    /// How much anybody of this machine sees: where everybody of it may use the servers, also what
    /// they say.
    fn of_anybody(&self, rules: &Rules) -> Sight {
        let is_served = |auth: &AuthConfig| auth.anonymous != Anonymous::Refused;
        let is_served = rules.auth.as_ref().map_or(self.door.is_open, is_served);
        if is_served { Sight::Words } else { Sight::Figures }
    }
}

impl Rules {
    /// For how long a token is good, if it is an operator's.
    fn operator(&self, token: &str) -> Option<Pass> {
        let auth = self.auth.as_ref()?;
        let (index, _) = holder(&auth.operators, token)?;
        let revoked = self.revoked.get(auth.tokens.len() + index).cloned();
        Some(Pass { until: None, revoked })
    }
}
