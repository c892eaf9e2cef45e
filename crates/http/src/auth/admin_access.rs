//! Access levels of the admin page: which fields a request may read and which actions it may take.

use hyper::http::request::Parts;

use crate::auth::bearer::{self, PresentedToken};
use crate::auth::{
    AuthRules, Authenticated, Authenticator, CredentialLifetime, check_origin, find_token,
    forbidden, holder_in, require_known_agent,
};
use crate::response::{AccessDenied, HttpResponse};
use mcp_workbench_core::gateway::Caller;
use mcp_workbench_core::telemetry::AccessDenialReason;
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::{AnonymousPolicy, AuthConfig};

/// Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AccessLevel {
    /// Names and metrics, as in `/metrics`, and calls without their arguments.
    Metrics,
    /// Also text from servers: errors, stderr and tools, and why calls of anonymous agents failed.
    Details,
    /// Also all actions.
    Operate,
}

/// The permissions of a request to the admin page.
pub(crate) struct AdminAccess {
    pub(crate) level: AccessLevel,
    /// The name of the operator whose token the request has.
    pub(crate) operator: Option<AgentName>,
    /// How long the access lasts.
    pub(crate) lifetime: CredentialLifetime,
}

impl AdminAccess {
    fn reading(level: AccessLevel, lifetime: CredentialLifetime) -> Self {
        Self { level, operator: None, lifetime }
    }
}

impl Authenticator {
    pub(crate) fn check_origin(&self, head: &Parts) -> Result<(), AccessDenied> {
        check_origin(head, &self.gateways.config())
    }

    /// Returns the access of a request, or the error response. Removes the token from the request.
    /// An invalid token is rejected even if none is needed.
    pub(crate) async fn admin_access(&self, head: &mut Parts) -> Result<AdminAccess, HttpResponse> {
        let presented = bearer::take_bearer_token(&mut head.headers);
        let config = self.gateways.config();
        check_origin(head, &config).map_err(AccessDenied::reply)?;
        let rules = self.rules(&config);
        if let PresentedToken::Token(token) = &presented
            && let Some((operator, lifetime)) = rules.operator(token)
        {
            let operator = Some(operator.clone());
            return Ok(AdminAccess { level: AccessLevel::Operate, operator, lifetime });
        }
        if self.is_local && presented == PresentedToken::Absent {
            let lifetime = CredentialLifetime::default();
            return Ok(AdminAccess::reading(self.of_anybody(&rules), lifetime));
        }
        let resource = rules.resource(head);
        let Authenticated { agent, lifetime, .. } =
            match self.authenticate_agent(&rules, presented, &resource, holder_in(head)).await {
                Ok(found) => found,
                Err(denied) => return Err(resource.refuse(denied)),
            };
        if let Some(agent) = &agent {
            require_known_agent(agent, &config).map_err(AccessDenied::reply)?;
        }
        if self.is_local {
            return Ok(AdminAccess::reading(self.of_anybody(&rules), lifetime));
        }
        let caller = Caller { agent, ..Caller::default() };
        if self.gateways.shows_every_server(&caller) {
            return Ok(AdminAccess::reading(AccessLevel::Metrics, lifetime));
        }
        let message = "access denied: the metrics name servers that are hidden from this agent";
        Err(forbidden(message, caller.agent, AccessDenialReason::MetricsDenied).reply())
    }

    /// Anonymous callers of this machine may read server text only if they may use the servers.
    fn of_anybody(&self, rules: &AuthRules) -> AccessLevel {
        let is_served = |auth: &AuthConfig| auth.anonymous != AnonymousPolicy::Refused;
        let is_served = rules.auth.as_ref().map_or(self.default_access.serves_anonymous, is_served);
        if is_served { AccessLevel::Details } else { AccessLevel::Metrics }
    }
}

impl AuthRules {
    fn operator(&self, token: &str) -> Option<(&AgentName, CredentialLifetime)> {
        let auth = self.auth.as_ref()?;
        let (index, name) = find_token(&auth.operators, token)?;
        let revoked = self.revoked.get(auth.tokens.len() + index).cloned();
        Some((name, CredentialLifetime { expires_at: None, revoked }))
    }
}
