//! Listings that are not as the lock has them: in what they differ, and what is shown in their place.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use foldhash::HashMap;

use crate::backend::StartFailure;
use crate::catalog::{Comparison, Drifted, Listing, accepting};
use crate::name::ServerRef;
use crate::observe::{Drift, Event};
use crate::policy::{Heed, Policy};
use crate::settings::{Definitions, LockedServer, ServerConfig};

/// A listing that is not as the lock has it.
#[derive(Debug)]
pub struct Judged {
    /// In what it differs.
    pub drift: Vec<Drifted>,
    /// The fate of that.
    pub heed: Heed,
    /// The name of its server in the lock.
    server: String,
    /// The listing that is shown in its place, if it is not shown itself.
    instead: Option<Arc<Listing>>,
}

/// The listings that differ from the lock, for all who look at one configuration.
#[derive(Default)]
pub(crate) struct Locks(Mutex<HashMap<ServerRef, OfServer>>);

/// Listings of one server; those that it gives clients of different abilities differ.
#[derive(Default)]
struct OfServer {
    comparison: Comparison,
    /// The judgment of each, for those for whom what differs has this fate.
    judged: Vec<(Weak<Listing>, Heed, Option<Arc<Judged>>)>,
    /// The drift that was told of last.
    told: Vec<Drifted>,
}

impl Locks {
    /// Judges a listing; none if it is as the lock has it, or nobody looks. `tell` hears of each drift
    /// once for as long as it lasts.
    pub(crate) fn judged(
        &self,
        (at, server): (&ServerRef, &ServerConfig),
        listing: &Arc<Listing>,
        policy: &Policy,
        name_in_lock: impl FnOnce() -> String,
        tell: impl FnOnce(&Judged),
    ) -> Option<Arc<Judged>> {
        if server.definitions() == Definitions::Off {
            return None;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(at.clone()).or_default();
        own.judged.retain(|(listing, ..)| listing.strong_count() > 0);
        // A server that is not there for one agent is for another.
        let heed = policy.heed(at);
        let is_it = |(known, other, _): &&(Weak<Listing>, Heed, _)| {
            *other == heed && std::ptr::eq(known.as_ptr(), &raw const **listing)
        };
        if let Some((.., judged)) = own.judged.iter().find(is_it) {
            return judged.clone();
        }
        let nothing = LockedServer::default();
        let locked = server.locked.as_deref().unwrap_or(&nothing);
        let drift = own.comparison.drift(locked, listing);
        let judged = (!drift.is_empty()).then(|| {
            let instead = match heed {
                Heed::Serve => None,
                Heed::LeaveOut => Some(Arc::new(listing.without(&drift))),
                Heed::Close => Some(Arc::default()),
            };
            Arc::new(Judged { drift, heed, server: name_in_lock(), instead })
        });
        let is_of_the_file = heed.word() == server.definitions().as_str();
        match &judged {
            Some(judged) if is_of_the_file && judged.drift != own.told => {
                own.told.clone_from(&judged.drift);
                tell(judged);
            }
            Some(_) => {}
            None => own.told.clear(),
        }
        own.judged.push((Arc::downgrade(listing), heed, judged.clone()));
        judged
    }
}

impl Judged {
    /// Returns the command that takes over what differs.
    pub fn accepting(&self) -> String {
        match &self.drift[..] {
            [one] => one.accepting(&self.server),
            _ => accepting(&self.server, None),
        }
    }

    /// The event of it; `accept` is the command that takes it over.
    pub(crate) fn event<'a>(&'a self, server: &'a ServerRef, accept: &'a str) -> Event<'a> {
        let (found, becomes) = (&self.drift[..], self.heed.word());
        Event::DefinitionsDrifted(Drift { server, found, becomes, accept })
    }

    /// The failure of a server that is not opened for it. Nothing that it says is in the text.
    pub(crate) fn closed(&self) -> StartFailure {
        StartFailure::new(
            "what it says of its tools is not what `workbench.lock` has, and `definitions` is `deny`"
                .to_owned(),
            format!(
                "see with `mcp-workbench lock --diff` what differs, and take it over with `{}`",
                accepting(&self.server, None)
            ),
        )
    }

    /// The listing that is shown for one of which this is the judgment.
    pub(crate) fn shown<'a>(&'a self, listing: &'a Arc<Listing>) -> &'a Arc<Listing> {
        self.instead.as_ref().unwrap_or(listing)
    }

    /// Returns `true` if something is kept from agents that a server has, by its kind and name.
    pub(crate) fn keeps_back(&self, word: &str, is_meant: impl Fn(&str) -> bool) -> bool {
        self.heed == Heed::LeaveOut
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
    use crate::config;
    use crate::name::AgentName;
    use crate::policy::Policies;
    use crate::raw::Raw;
    use crate::settings::Lock;

    #[test]
    fn one_agents_judgment_is_no_other_agents() {
        let file = json!({
            "definitions": "quarantine",
            "mcpServers": {"calc": {"command": "x"}},
            "agentPolicies": {"ann": {}, "bob": {"allowedServers": []}},
            "defaultPolicy": {"allowUnknownTools": true},
        });
        let env = BTreeMap::<String, String>::new();
        let read = config::parse(&file.to_string(), Path::new("x.json"), Path::new("/"), &env);
        let mut config = read.unwrap().config;
        config.attach_lock(&Lock::default());
        let config = Arc::new(config);
        let (toolbox, server) = config.servers().next().unwrap();
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let tool = Raw::encode(&json!({"name": "add", "inputSchema": {"type": "object"}}));
        let tools = ToolDefinition::read_all([tool]).0;
        let listing = Arc::new(Listing { tools, ..Listing::default() });
        let policies = Policies::new(Arc::clone(&config));
        let (locks, told) = (Locks::default(), RefCell::new(Vec::new()));
        let heed = |agent: &str| {
            let policy = policies.of(Some(&AgentName::new(agent)));
            let tell = |judged: &Judged| told.borrow_mut().push(judged.heed);
            let name = || "calc".to_owned();
            locks.judged((&at, server), &listing, &policy, name, tell).unwrap().heed
        };
        let heeds = ["bob", "ann", "bob", "ann"].map(heed);
        assert_eq!(heeds, [Heed::Close, Heed::LeaveOut, Heed::Close, Heed::LeaveOut]);
        assert_eq!(told.into_inner(), [Heed::LeaveOut], "as the configuration says, and once");
    }
}
