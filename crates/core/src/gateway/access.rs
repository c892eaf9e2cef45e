//! Access control for resources, prompts and completions.
//!
//! If rules or the lock hide some resources of a server, the server's own error for a missing
//! resource would let an agent tell hidden ones from missing ones. Such errors are replaced by the
//! gateway's own.

use std::sync::Arc;

use crate::backend::{AgentHandle, RpcOutcome};
use crate::catalog::Listing;
use crate::gateway::error::server_error;
use crate::gateway::{CallError, Caller, Gateway, RequestContext};
use crate::json;
use crate::name::{ServerRef, namespaced_name};
use crate::policy::{Admission, Denial};
use crate::telemetry::{PrimitiveReadGuard, ReadableKind};

/// Error code of a URL elicitation (MCP 2025-11-25, client/elicitation).
const URL_ELICITATION_REQUIRED: &[u8] = b"-32042";

/// The primitive that a request accesses, by the server's own name.
#[derive(Debug)]
pub(crate) enum AdmissionTarget {
    Resource(String),
    /// Completion of an argument of a resource or template.
    ResourceCompletion(String),
    Prompt(String),
    PromptCompletion(String),
    Server,
}

impl AdmissionTarget {
    pub(crate) fn of(method: &str, params: &[json::Member]) -> Self {
        let param = |key: &str| params.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let text = |key: &str| param(key).and_then(|value| value.parse::<String>().ok());
        match method {
            "completion/complete" => {
                let of = |key: &str| param("ref")?.member(key)?.parse::<String>().ok();
                match (of("name"), of("uri")) {
                    (Some(name), _) => Self::PromptCompletion(name),
                    (None, Some(uri)) => Self::ResourceCompletion(uri),
                    (None, None) => Self::Server,
                }
            }
            _ if method.starts_with("resources/") => {
                Self::Resource(text("uri").unwrap_or_default())
            }
            _ if method.starts_with("prompts/") => Self::Prompt(text("name").unwrap_or_default()),
            _ => Self::Server,
        }
    }
}

fn unknown(what: &'static str, wanted: &str) -> CallError {
    CallError::UnknownPrimitive { what, wanted: wanted.to_owned() }
}

impl Gateway {
    /// Decides on a request. Starts the server if its listing is needed and unknown.
    pub(crate) async fn admit(
        &self,
        at: &ServerRef,
        target: &AdmissionTarget,
        context: &RequestContext<'_>,
        mut read: Option<&mut PrimitiveReadGuard<'_>>,
    ) -> Result<Admission, CallError> {
        let is_of_resource =
            matches!(target, AdmissionTarget::Resource(_) | AdmissionTarget::ResourceCompletion(_));
        if is_of_resource && self.policy.restricts_resources(at) {
            let server = self.require_server(at)?;
            if self.snapshot().version(server.shared.id()) == 0 {
                self.ensure_server_listed(at, server, context).await?;
            }
            // A server that isn't opened has no listing to decide by.
            self.snapshot().check_open(at)?;
            if let AdmissionTarget::ResourceCompletion(uri) = target {
                self.check_completed(at, uri)?;
            }
        }
        let decided = self.decide_on(at, target);
        let denial = match decided {
            Ok(admission) => return Ok(admission),
            Err(denial) => denial,
        };
        if let Some(read) = &mut read {
            read.set_rule(denial.rule().map(ToString::to_string));
        }
        let (what, name, error) = match target {
            AdmissionTarget::Server => return Err(unknown_server(at)),
            _ if denial.rule().is_none() => return Err(unknown_server(at)),
            AdmissionTarget::Resource(uri) => {
                (ReadableKind::Resource, uri, unknown("resource", uri))
            }
            AdmissionTarget::ResourceCompletion(uri) => {
                (ReadableKind::Resource, uri, unknown("resource template", uri))
            }
            AdmissionTarget::Prompt(name) | AdmissionTarget::PromptCompletion(name) => {
                (ReadableKind::Prompt, name, unknown("prompt", name))
            }
        };
        if read.is_none() {
            self.note_denied(at, what, name, &denial, context);
        }
        Err(error)
    }

    /// Rejects the completion of unlisted templates. A server completes any URI, so its values
    /// would disclose hidden resources.
    pub(crate) fn check_completed(&self, at: &ServerRef, uri: &str) -> Result<(), CallError> {
        let is_shown = lists_uri(&self.shown_listing(at), uri);
        if is_shown { Ok(()) } else { Err(unknown("resource template", uri)) }
    }

    fn decide_on(&self, at: &ServerRef, target: &AdmissionTarget) -> Result<Admission, Denial> {
        match target {
            AdmissionTarget::Resource(uri) | AdmissionTarget::ResourceCompletion(uri) => {
                self.policy.admit_resource(at, uri, &self.shown_listing(at))
            }
            AdmissionTarget::Prompt(name) | AdmissionTarget::PromptCompletion(name) => {
                self.policy.admit_prompt(at, name)
            }
            AdmissionTarget::Server => self.policy.admit(&at.toolbox, &at.server),
        }
    }

    /// Replaces a server's error about an unlisted resource if some of its resources are hidden.
    pub(crate) async fn mask_missing_resource(
        &self,
        at: &ServerRef,
        target: &AdmissionTarget,
        passed: Result<RpcOutcome, CallError>,
        context: &RequestContext<'_>,
    ) -> Result<RpcOutcome, CallError> {
        let Ok(RpcOutcome::Error(error)) = &passed else { return passed };
        let (what, uri) = match target {
            AdmissionTarget::Resource(uri) => ("resource", uri),
            AdmissionTarget::ResourceCompletion(uri) => ("resource template", uri),
            AdmissionTarget::Prompt(_)
            | AdmissionTarget::PromptCompletion(_)
            | AdmissionTarget::Server => return passed,
        };
        let asks =
            error.member("code").is_some_and(|code| code.as_bytes() == URL_ELICITATION_REQUIRED);
        if asks || lists_uri(&self.shown_listing(at), uri) {
            return passed;
        }
        let is_kept_back = self.policy.restricts_resources(at)
            || Box::pin(self.has_withheld_templates(at, context)).await;
        if !is_kept_back {
            return passed;
        }
        tracing::debug!(server = %at.server, uri, "replaced an error about a hidden resource: {}", error.as_str());
        Err(unknown(what, uri))
    }

    /// Returns the visible listing of a server; empty if it is unknown or hidden.
    fn shown_listing(&self, at: &ServerRef) -> Arc<Listing> {
        let view = self.snapshot().view(&at.toolbox);
        view.part(at.server.as_str()).map(|part| Arc::clone(part.listing())).unwrap_or_default()
    }

    /// Subscribes an agent to a resource, which it knows as `as_known`.
    pub async fn subscribe(
        &self,
        at: &ServerRef,
        uri: &str,
        as_known: &str,
        (agent, caller): (&AgentHandle, &Caller),
    ) -> Result<RpcOutcome, CallError> {
        let (server, target) =
            (self.require_server(at)?, AdmissionTarget::Resource(uri.to_owned()));
        let context = RequestContext { caller, ..RequestContext::detached(agent) };
        let admission = self.admit(at, &target, &context, None).await?;
        self.check_subscription(at, uri, &context).await?;
        let backend = server.backend(agent, &self.pool).map_err(|error| server_error(at, error))?;
        let subscribed = backend.subscribe(&admission, agent, uri, as_known).await;
        let subscribed = subscribed.map_err(|error| server_error(at, error));
        self.mask_missing_resource(at, &target, subscribed, &context).await
    }

    pub(crate) fn admit_subscription(&self, at: &ServerRef, uri: &str) -> Option<Admission> {
        self.decide_on(at, &AdmissionTarget::Resource(uri.to_owned())).ok()
    }

    /// Records a denial if the prompt with this name exists and a rule hides it.
    pub fn record_denied_prompt(&self, wanted: &str, context: &RequestContext<'_>) {
        let snapshot = self.snapshot();
        for part in snapshot.parts() {
            let at = &part.server_ref;
            let toolbox = self.config.toolbox(at.toolbox.as_str());
            let namespace = toolbox.map(|toolbox| &*toolbox.namespace).unwrap_or_default();
            let is_meant = |own: &str| {
                own == wanted
                    || namespaced_name(namespace, own) == wanted
                    || snapshot.full_prompt(at, own) == wanted
            };
            for prompt in part.listing().prompts.iter().filter(|prompt| is_meant(&prompt.name)) {
                if let Err(denial) = self.policy.admit_prompt(at, &prompt.name) {
                    self.note_denied(at, ReadableKind::Prompt, &prompt.name, &denial, context);
                    return;
                }
            }
        }
    }
}

fn unknown_server(at: &ServerRef) -> CallError {
    CallError::UnknownServer {
        toolbox: at.toolbox.clone(),
        wanted: at.server.to_string(),
        known: Vec::new(),
    }
}

fn lists_uri(listing: &Listing, uri: &str) -> bool {
    listing.resources.iter().any(|resource| resource.uri == uri)
        || listing.templates.iter().any(|template| template.uri == uri)
}
