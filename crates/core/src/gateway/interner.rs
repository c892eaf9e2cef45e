//! Interner for data that several agents share.
//!
//! Each snapshot writer derives what its agents may see ([`crate::gateway::snapshot`]). The results
//! are often equal: one server's tools, the views and name tables, and the search index. A writer
//! that builds an equal value gets the existing one instead.

use std::sync::{Arc, Weak};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::backend::{BackendSpec, ClientCapabilities, StartError};
use crate::gateway::drift::DriftTracker;
use crate::gateway::lens::Lens;
use crate::gateway::search::index::Indexes;
use crate::toolbox::ServerView;
use mcp_workbench_login::LoginTarget;
use mcp_workbench_names::ServerRef;

type SpecKey = (ServerRef, ClientCapabilities, Option<LoginTarget>);
type Made = Result<Arc<BackendSpec>, Arc<StartError>>;

/// Data shared by the agents of one configuration.
#[derive(Default)]
pub(crate) struct Interner {
    parts: Mutex<HashMap<ServerRef, Vec<Weak<ServerView>>>>,
    lenses: Mutex<Vec<Weak<Lens>>>,
    specs: Mutex<HashMap<SpecKey, Made>>,
    pub(crate) locks: DriftTracker,
    pub(crate) indexes: Indexes,
}

impl Interner {
    pub(crate) fn intern_part(&self, part: ServerView) -> Arc<ServerView> {
        let mut parts = self.parts.lock();
        let known = parts.entry(part.server_ref.clone()).or_default();
        intern(known, part, ServerView::is_same)
    }

    /// Returns the backend spec of a server for these capabilities and login. `make` runs once for
    /// each.
    pub(crate) fn spec(
        &self,
        at: ServerRef,
        capabilities: ClientCapabilities,
        login: Option<LoginTarget>,
        make: impl FnOnce() -> Result<BackendSpec, StartError>,
    ) -> Made {
        let mut specs = self.specs.lock();
        let made = specs.entry((at, capabilities, login));
        made.or_insert_with(|| make().map(Arc::new).map_err(Arc::new)).clone()
    }

    pub(crate) fn lens(&self, lens: Lens) -> Arc<Lens> {
        intern(&mut self.lenses.lock(), lens, Lens::is_same)
    }
}

/// Returns an equal value that is still in use, or else stores `new`.
fn intern<T>(known: &mut Vec<Weak<T>>, new: T, is_same: impl Fn(&T, &T) -> bool) -> Arc<T> {
    known.retain(|one| one.strong_count() > 0);
    let same = known.iter().filter_map(Weak::upgrade).find(|one| is_same(one, &new));
    same.unwrap_or_else(|| {
        let new = Arc::new(new);
        known.push(Arc::downgrade(&new));
        new
    })
}
