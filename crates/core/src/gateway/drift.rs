//! Differences between servers' listings and the lock, and the listings shown instead.

use std::sync::{Arc, Weak};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::backend::StartError;
use crate::catalog::{DefinitionDrift, DriftDetector, Listing, accept_command};
use crate::policy::{DriftAction, Policy};
use crate::telemetry::{DriftEvent, Event};
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::{DriftPolicy, LockedServer, ServerConfig};

/// A listing that differs from the lock.
#[derive(Debug)]
pub struct ListingDrift {
    pub drift: Vec<DefinitionDrift>,
    pub action: DriftAction,
    server: String,
    /// Shown instead of the listing; `None` if the listing itself is shown.
    instead: Option<Arc<Listing>>,
}

#[derive(Default)]
pub(crate) struct DriftTracker(Mutex<HashMap<ServerRef, ServerDrift>>);

/// A server's listings; it may list differently for clients with other capabilities.
#[derive(Default)]
struct ServerDrift {
    comparison: DriftDetector,
    judged: Vec<(Weak<Listing>, DriftAction, Option<Arc<ListingDrift>>)>,
    told: Vec<DefinitionDrift>,
}

impl DriftTracker {
    /// Compares a listing with the lock. Returns `None` if they agree or the check is off. Calls
    /// `tell` once for each new drift.
    pub(crate) fn judged(
        &self,
        (at, server): (&ServerRef, &ServerConfig),
        listing: &Arc<Listing>,
        policy: &Policy,
        name_in_lock: impl FnOnce() -> String,
        tell: impl FnOnce(&ListingDrift),
    ) -> Option<Arc<ListingDrift>> {
        if server.effective_drift_policy() == DriftPolicy::Off {
            return None;
        }
        let mut all = self.0.lock();
        let own = all.entry(at.clone()).or_default();
        own.judged.retain(|(listing, ..)| listing.strong_count() > 0);
        // Policy decides per agent: a server that one can't use is blocked for it only.
        let action = policy.drift_action(at);
        let is_it = |(known, other, _): &&(Weak<Listing>, DriftAction, _)| {
            *other == action && std::ptr::eq(known.as_ptr(), &raw const **listing)
        };
        if let Some((.., judged)) = own.judged.iter().find(is_it) {
            return judged.clone();
        }
        let nothing = LockedServer::unreviewed();
        let locked = server.lock_entry.as_deref().unwrap_or(&nothing);
        let drift = own.comparison.detect(locked, listing);
        let judged = (!drift.is_empty()).then(|| {
            let instead = match action {
                DriftAction::Serve => None,
                DriftAction::Quarantine => Some(Arc::new(listing.without_drift(&drift))),
                DriftAction::Deny => Some(Arc::default()),
            };
            Arc::new(ListingDrift { drift, action, server: name_in_lock(), instead })
        });
        let is_of_the_file = action.as_str() == server.effective_drift_policy().as_str();
        match &judged {
            Some(judged) if is_of_the_file && judged.drift != own.told => {
                own.told.clone_from(&judged.drift);
                tell(judged);
            }
            Some(_) => {}
            None => own.told.clear(),
        }
        own.judged.push((Arc::downgrade(listing), action, judged.clone()));
        judged
    }
}

impl ListingDrift {
    /// Returns the command that accepts the changes.
    pub fn accepting(&self) -> String {
        match &self.drift[..] {
            [one] => one.accept_command(&self.server),
            _ => accept_command(&self.server, None),
        }
    }

    pub(crate) fn event<'a>(&'a self, server: &'a ServerRef, accept: &'a str) -> Event<'a> {
        Event::DefinitionsDrifted(DriftEvent {
            server,
            drift: &self.drift[..],
            action: self.action.as_str(),
            accept_command: accept,
        })
    }

    /// The error of a blocked server. Contains no text from the server.
    pub(crate) fn closed(&self) -> StartError {
        StartError::new(
            "its definitions differ from `workbench.lock` and `onDefinitionChange` is `deny`",
            format!(
                "review with `mcp-workbench lock --diff`, accept with `{}`",
                accept_command(&self.server, None)
            ),
        )
    }

    pub(crate) fn shown<'a>(&'a self, listing: &'a Arc<Listing>) -> &'a Arc<Listing> {
        self.instead.as_ref().unwrap_or(listing)
    }

    /// Returns `true` if the definition of this kind (`word`) and name is hidden because it
    /// drifted.
    pub(crate) fn withholds(&self, word: &str, is_meant: impl Fn(&str) -> bool) -> bool {
        self.action == DriftAction::Quarantine
            && self.drift.iter().any(|one| one.word == word && is_meant(&one.name))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::path::Path;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::catalog::{Definition, ToolDefinition};
    use crate::policy::Policies;
    use mcp_workbench_names::AgentName;
    use mcp_workbench_settings::Lockfile;
    use mcp_workbench_wire::json::RawJson;

    #[test]
    fn drift_is_judged_per_policy_and_reported_once() {
        let file = json!({
            "onDefinitionChange": "quarantine",
            "mcpServers": {"calc": {"command": "x"}},
            "agentPolicies": {"ann": {}, "bob": {"allowedServers": []}},
            "defaultPolicy": {"allowUnknownTools": true},
        });
        let env = BTreeMap::<String, String>::new();
        let read = mcp_workbench_config::parse(
            &file.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
        let mut config = read.unwrap().config;
        config.attach_lock(&Lockfile::default());
        let config = Arc::new(config);
        let (toolbox, server) = config.servers().next().unwrap();
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let tool = RawJson::encode(&json!({"name": "add", "inputSchema": {"type": "object"}}));
        let tools = ToolDefinition::read_all([tool]).0;
        let listing = Arc::new(Listing { tools, ..Listing::default() });
        let policies = Policies::new(Arc::clone(&config));
        let (locks, told) = (DriftTracker::default(), RefCell::new(Vec::new()));
        let action = |agent: &str| {
            let policy = policies.for_agent(Some(&AgentName::new(agent)));
            let tell = |judged: &ListingDrift| told.borrow_mut().push(judged.action);
            let name = || "calc".to_owned();
            locks.judged((&at, server), &listing, &policy, name, tell).unwrap().action
        };
        let heeds = ["bob", "ann", "bob", "ann"].map(action);
        assert_eq!(
            heeds,
            [
                DriftAction::Deny,
                DriftAction::Quarantine,
                DriftAction::Deny,
                DriftAction::Quarantine
            ]
        );
        assert_eq!(
            told.into_inner(),
            [DriftAction::Quarantine],
            "one report per definition, with the configured action"
        );
    }
}
