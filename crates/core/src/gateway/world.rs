//! The world: all that is the same for several agents, kept once.
//!
//! Each writer of snapshots works out what policy lets its agents see ([`crate::gateway::snapshot`]).
//! What comes of that is often the same for many of them: the tools of one server that all may use,
//! then the views of all servers, with their names, then the index that they are searched by. Whoever
//! has made such a thing is given the one that there is, if there is an equal one, and its own goes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foldhash::HashMap;

use crate::backend::{ClientAbilities, Spec, StartFailure};
use crate::gateway::judged::Locks;
use crate::gateway::lens::Lens;
use crate::gateway::searching::Indexes;
use crate::login::Place;
use crate::name::ServerRef;
use crate::toolbox::Part;

/// A server, for agents that can do this and sign in there.
type SpecKey = (ServerRef, ClientAbilities, Option<Place>);
/// The specification of a server, or why there is none.
type Made = Result<Arc<Spec>, Arc<StartFailure>>;

/// All that the agents of one configuration have in common, each thing once.
#[derive(Default)]
pub(crate) struct World {
    parts: Mutex<HashMap<ServerRef, Vec<Weak<Part>>>>,
    lenses: Mutex<Vec<Weak<Lens>>>,
    specs: Mutex<HashMap<SpecKey, Made>>,
    /// The listings that are not as the lock has them.
    pub(crate) locks: Locks,
    /// The indexes that are in use.
    pub(crate) indexes: Indexes,
}

impl World {
    /// The part that shows the same, which may be this one.
    pub(crate) fn part(&self, part: Part) -> Arc<Part> {
        let mut parts = lock(&self.parts);
        let known = parts.entry(part.server_ref.clone()).or_default();
        shared(known, part, Part::is_same)
    }

    /// The specification of this server for agents that can do this and sign in there; `make` makes it
    /// the first time.
    pub(crate) fn spec(
        &self,
        at: ServerRef,
        abilities: ClientAbilities,
        login: Option<Place>,
        make: impl FnOnce() -> Result<Spec, StartFailure>,
    ) -> Made {
        let mut specs = lock(&self.specs);
        let made = specs.entry((at, abilities, login));
        made.or_insert_with(|| make().map(Arc::new).map_err(Arc::new)).clone()
    }

    /// The lens that shows the same, which may be this one.
    pub(crate) fn lens(&self, lens: Lens) -> Arc<Lens> {
        shared(&mut lock(&self.lenses), lens, Lens::is_same)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first that is the same and in use, else this one, which is from now on.
fn shared<T>(known: &mut Vec<Weak<T>>, new: T, is_same: impl Fn(&T, &T) -> bool) -> Arc<T> {
    known.retain(|one| one.strong_count() > 0);
    let same = known.iter().filter_map(Weak::upgrade).find(|one| is_same(one, &new));
    same.unwrap_or_else(|| {
        let new = Arc::new(new);
        known.push(Arc::downgrade(&new));
        new
    })
}
