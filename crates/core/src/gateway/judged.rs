//! Listings that are not as the lock has them: in what they differ, and what is shown in their place.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use foldhash::HashMap;

use crate::backend::StartFailure;
use crate::catalog::{Comparison, Drifted, Listing, accepting};
use crate::name::ServerRef;
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
    judged: Vec<(Weak<Listing>, Option<Arc<Judged>>)>,
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
        own.judged.retain(|(listing, _)| listing.strong_count() > 0);
        let is_it =
            |(known, _): &&(Weak<Listing>, _)| std::ptr::eq(known.as_ptr(), &raw const **listing);
        if let Some((_, judged)) = own.judged.iter().find(is_it) {
            return judged.clone();
        }
        let nothing = LockedServer::default();
        let locked = server.locked.as_deref().unwrap_or(&nothing);
        let drift = own.comparison.drift(locked, listing);
        let judged = (!drift.is_empty()).then(|| {
            let heed = policy.heed(at);
            let instead = match heed {
                Heed::Serve => None,
                Heed::LeaveOut => Some(Arc::new(listing.without(&drift))),
                Heed::Close => Some(Arc::default()),
            };
            Arc::new(Judged { drift, heed, server: name_in_lock(), instead })
        });
        match &judged {
            Some(judged) if judged.drift != own.told => {
                own.told.clone_from(&judged.drift);
                tell(judged);
            }
            Some(_) => {}
            None => own.told.clear(),
        }
        own.judged.push((Arc::downgrade(listing), judged.clone()));
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
