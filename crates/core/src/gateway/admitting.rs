//! Resources, prompts and completions before they come to their server: whether the agent may have what
//! a request is about.
//!
//! Where rules or the lock keep some resources of a server from an agent, what it is told of others that are not
//! there must not differ: a server's own words for that would. So they are replaced by ours.

use std::sync::Arc;

use crate::backend::{Outcome, Presence};
use crate::catalog::Listing;
use crate::gateway::error::server_error;
use crate::gateway::{CallError, Caller, Gateway, RequestContext};
use crate::name::{ServerRef, in_namespace};
use crate::observe::{ObservedRead, Readable};
use crate::policy::{Admission, Denial};
use crate::raw;

/// The code of an error that has the user open an address first (2025-11-25, client/elicitation).
const URL_ELICITATION_REQUIRED: &[u8] = b"-32042";

/// The primitive that a request is about, by its server's own name for it.
#[derive(Debug)]
pub(crate) enum About {
    /// A resource that is read or heard of.
    Resource(String),
    /// A resource, or a template, an argument of which is completed.
    Completed(String),
    /// A prompt that is got.
    Prompt(String),
    /// A prompt, an argument of which is completed.
    CompletedPrompt(String),
    /// The server itself.
    Server,
}

impl About {
    /// Finds out what a request is about.
    pub(crate) fn of(method: &str, params: &[raw::Member]) -> Self {
        let param = |key: &str| params.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let text = |key: &str| param(key).and_then(|value| value.parse::<String>().ok());
        match method {
            "completion/complete" => {
                let of = |key: &str| param("ref")?.member(key)?.parse::<String>().ok();
                match (of("name"), of("uri")) {
                    (Some(name), _) => Self::CompletedPrompt(name),
                    (None, Some(uri)) => Self::Completed(uri),
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
    /// Decides on a request. Where it depends on what a server lists, the server is started if it has not
    /// listed anything since we run.
    pub(crate) async fn admit_to(
        &self,
        at: &ServerRef,
        about: &About,
        context: &RequestContext<'_>,
        mut read: Option<&mut ObservedRead<'_>>,
    ) -> Result<Admission, CallError> {
        let is_of_resource = matches!(about, About::Resource(_) | About::Completed(_));
        if is_of_resource && self.policy.judges_resources(at) {
            let server = self.server(at)?;
            if self.snapshot().version(server.shared.id()) == 0 {
                self.list_first(at, server, context).await?;
            }
            // One that is not opened lists nothing, by which nothing can be decided.
            self.snapshot().check_open(at)?;
            if let About::Completed(uri) = about {
                self.check_completed(at, uri)?;
            }
        }
        let decided = self.decide_on(at, about);
        let denial = match decided {
            Ok(admission) => return Ok(admission),
            Err(denial) => denial,
        };
        if let Some(read) = &mut read {
            read.decided_by(denial.rule().map(ToString::to_string));
        }
        let (what, name, error) = match about {
            About::Server => return Err(unknown_server(at)),
            _ if denial.rule().is_none() => return Err(unknown_server(at)),
            About::Resource(uri) => (Readable::Resource, uri, unknown("resource", uri)),
            About::Completed(uri) => (Readable::Resource, uri, unknown("resource template", uri)),
            About::Prompt(name) | About::CompletedPrompt(name) => {
                (Readable::Prompt, name, unknown("prompt", name))
            }
        };
        if read.is_none() {
            self.note_denied(at, what, name, &denial, context);
        }
        Err(error)
    }

    /// Refuses to have completed what is not shown of a server of which something is kept back. It may complete
    /// whatever it is asked for, so that an agent could tell by its answers what that is.
    pub(crate) fn check_completed(&self, at: &ServerRef, uri: &str) -> Result<(), CallError> {
        let is_shown = lists(&self.shown_listing(at), uri);
        if is_shown { Ok(()) } else { Err(unknown("resource template", uri)) }
    }

    fn decide_on(&self, at: &ServerRef, about: &About) -> Result<Admission, Denial> {
        match about {
            About::Resource(uri) | About::Completed(uri) => {
                self.policy.admit_resource(at, uri, &self.shown_listing(at))
            }
            About::Prompt(name) | About::CompletedPrompt(name) => {
                self.policy.admit_prompt(at, name)
            }
            About::Server => self.policy.admit(&at.toolbox, &at.server),
        }
    }

    /// Makes the answer to a request of what its server said, so that it tells nothing of what rules or
    /// the lock keep from the agent: see above.
    pub(crate) async fn as_for_all(
        &self,
        at: &ServerRef,
        about: &About,
        passed: Result<Outcome, CallError>,
        context: &RequestContext<'_>,
    ) -> Result<Outcome, CallError> {
        let Ok(Outcome::Error(error)) = &passed else { return passed };
        let (what, uri) = match about {
            About::Resource(uri) => ("resource", uri),
            About::Completed(uri) => ("resource template", uri),
            About::Prompt(_) | About::CompletedPrompt(_) | About::Server => return passed,
        };
        let asks =
            error.member("code").is_some_and(|code| code.as_bytes() == URL_ELICITATION_REQUIRED);
        if asks || lists(&self.shown_listing(at), uri) {
            return passed;
        }
        let is_kept_back = self.policy.judges_resources(at)
            || Box::pin(self.keeps_templates_back(at, context)).await;
        if !is_kept_back {
            return passed;
        }
        tracing::debug!(server = %at.server, uri, "says: {}", error.as_str());
        Err(unknown(what, uri))
    }

    /// Everything that a server has listed, as far as is known and nothing of it is kept back.
    fn shown_listing(&self, at: &ServerRef) -> Arc<Listing> {
        let view = self.snapshot().view(&at.toolbox);
        view.part(at.server.as_str()).map(|part| Arc::clone(part.listing())).unwrap_or_default()
    }

    /// Hears of changes of a resource for an agent, which knows it as `as_known`.
    pub async fn subscribe(
        &self,
        at: &ServerRef,
        uri: &str,
        as_known: &str,
        (agent, caller): (&Presence, &Caller),
    ) -> Result<Outcome, CallError> {
        let (server, about) = (self.server(at)?, About::Resource(uri.to_owned()));
        let context = RequestContext { caller, ..RequestContext::nobody(agent) };
        let admission = self.admit_to(at, &about, &context, None).await?;
        self.check_subscription(at, uri, &context).await?;
        let backend = server.backend(agent, &self.pool).map_err(|error| server_error(at, error))?;
        let subscribed = backend.subscribe(&admission, agent, uri, as_known).await;
        let subscribed = subscribed.map_err(|error| server_error(at, error));
        self.as_for_all(at, &about, subscribed, &context).await
    }

    /// Decides on a subscription that was taken under other rules.
    pub(crate) fn admit_subscription(&self, at: &ServerRef, uri: &str) -> Option<Admission> {
        self.decide_on(at, &About::Resource(uri.to_owned())).ok()
    }

    /// Tells of a prompt that an agent has asked for by this name, if a rule keeps it from the agent.
    pub fn note_unknown_prompt(&self, wanted: &str, context: &RequestContext<'_>) {
        let snapshot = self.snapshot();
        for part in snapshot.parts() {
            let at = &part.server_ref;
            let toolbox = self.config.toolbox(at.toolbox.as_str());
            let namespace = toolbox.map(|toolbox| &*toolbox.namespace).unwrap_or_default();
            let is_meant = |own: &str| {
                own == wanted
                    || in_namespace(namespace, own) == wanted
                    || snapshot.full_prompt(at, own) == wanted
            };
            for prompt in part.listing().prompts.iter().filter(|prompt| is_meant(&prompt.name)) {
                if let Err(denial) = self.policy.admit_prompt(at, &prompt.name) {
                    self.note_denied(at, Readable::Prompt, &prompt.name, &denial, context);
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

/// Returns `true` if a server lists a resource or a template by this address.
fn lists(listing: &Listing, uri: &str) -> bool {
    listing.resources.iter().any(|resource| resource.uri == uri)
        || listing.templates.iter().any(|template| template.uri == uri)
}
