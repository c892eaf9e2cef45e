//! Tasks: which server runs which, so that asking after one reaches the server that knows it.
//!
//! A server answers a call with a task's id (2026-07-28, the tasks extension; 2025-11-25, its
//! experimental forerunner). Ids stay as the server made them.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, PoisonError};

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::backend::Outcome;
use crate::name::Place;

/// How many tasks are remembered; the oldest is forgotten first.
const MAX_TASKS: usize = 10_000;

#[derive(Default)]
pub(crate) struct Tasks(Mutex<Known>);

#[derive(Default)]
struct Known {
    places: HashMap<String, Place>,
    order: VecDeque<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
}

impl Tasks {
    fn known<T>(&self, f: impl FnOnce(&mut Known) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers the task that an answer speaks of, if it does; gives the answer back.
    pub(crate) fn learn(&self, place: &Place, outcome: Outcome) -> Outcome {
        if let Some(id) = task_id(&outcome) {
            self.known(|known| {
                if known.places.contains_key(&id) {
                    return;
                }
                if known.order.len() == MAX_TASKS
                    && let Some(oldest) = known.order.pop_front()
                {
                    known.places.remove(&oldest);
                }
                known.order.push_back(id.clone());
                known.places.insert(id, place.clone());
            });
        }
        outcome
    }

    /// The server that runs a task.
    pub(crate) fn find(&self, id: &str) -> Option<Place> {
        self.known(|known| known.places.get(id).cloned())
    }
}

fn task_id(outcome: &Outcome) -> Option<String> {
    #[derive(Deserialize)]
    struct Nested {
        task: Task,
    }

    static TASK_ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"taskId\""));
    let Outcome::Result(result) = outcome else { return None };
    TASK_ID.find(result.as_bytes())?;
    let is_task = result.member("resultType").is_some_and(|kind| kind.as_bytes() == b"\"task\"");
    if is_task {
        return result.parse::<Task>().ok().map(|task| task.task_id);
    }
    result.parse::<Nested>().ok().map(|nested| nested.task.task_id)
}
