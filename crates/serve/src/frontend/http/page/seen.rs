//! Telling pages what is seen: found out once a second for all who look, and for nobody if nobody looks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::desk::View;
use crate::frontend::http::identity::Sight;
use crate::frontend::http::page::{Page, Workbenches, private};
use crate::frontend::http::response::{self, Refusal, Reply};

/// How often it is looked, and for how long what was seen is good enough for others.
const EVERY: Duration = Duration::from_secs(1);
const GOOD: Duration = Duration::from_millis(900);
/// After how long pages are told again of what has not changed.
const AGAIN: Duration = Duration::from_secs(5);

/// The last look.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Option<Look>>);

/// A look at one moment. Clones are the same.
#[derive(Clone)]
struct Look {
    at: Instant,
    views: Arc<[View]>,
    /// Counts what differed from what was seen before.
    number: u64,
    /// The events that tell it, for each [`Sight`].
    events: [Bytes; 3],
}

/// An event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    may_act: bool,
    workbenches: &'a [View],
}

impl<W: Workbenches> Page<W> {
    /// A stream of all that is seen. It ends with the page, or when we end.
    pub(crate) fn events(self: &Arc<Self>, sight: Sight) -> Reply {
        let Ok(place) = Arc::clone(&self.watchers).try_acquire_owned() else {
            let message = "as many pages as may be look already; close one of them";
            return private(Refusal::for_now(message).reply(None));
        };
        let (events, receiver) = mpsc::channel(1);
        let page = Arc::clone(self);
        let leaving = self.leaving.clone();
        self.tasks.spawn(async move {
            let _place = place;
            tokio::select! {
                () = leaving.cancelled() => {}
                () = events.closed() => {}
                () = page.tell(sight, &events) => {}
            }
        });
        private(response::events(receiver))
    }

    async fn tell(&self, sight: Sight, events: &mpsc::Sender<Bytes>) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told: Option<(u64, Instant)> = None;
        loop {
            ticks.tick().await;
            let look = self.look().await;
            let is_new =
                told.is_none_or(|(number, at)| number != look.number || at.elapsed() >= AGAIN);
            if !is_new {
                continue;
            }
            told = Some((look.number, Instant::now()));
            let [figures, words, acts] = look.events;
            let event = match sight {
                Sight::Figures => figures,
                Sight::Words => words,
                Sight::Acts => acts,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
    }

    /// Looks, or returns the look of a moment ago.
    async fn look(&self) -> Look {
        let mut last = self.seen.0.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < GOOD) {
            return last.clone();
        }
        let views = Arc::<[View]>::from(self.workbenches.seen().await);
        let is_same = last.as_ref().is_some_and(|last| is_same(&last.views, &views));
        let number = last.as_ref().map_or(0, |last| last.number + u64::from(!is_same));
        let events =
            [event(false, &without_words(&views)), event(false, &views), event(true, &views)];
        let look = Look { at: Instant::now(), views, number, events };
        *last = Some(look.clone());
        look
    }
}

/// Returns `true` if nothing but the time has changed.
fn is_same(old: &[View], new: &[View]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|(old, new)| View { at: new.at, ..old.clone() } == *new)
}

/// Views as those see them who may see figures alone.
fn without_words(views: &[View]) -> Vec<View> {
    let mut views = views.to_vec();
    let toolboxes = views.iter_mut().flat_map(|view| &mut view.toolboxes);
    for server in toolboxes.flat_map(|toolbox| &mut toolbox.servers) {
        server.reason = None;
        server.last_words.clear();
        if let Some(drift) = &mut server.drift {
            drift.what.clear();
            drift.accept.clear();
        }
    }
    views
}

fn event(may_act: bool, workbenches: &[View]) -> Bytes {
    // A view is plain data, which can always be written.
    let text = serde_json::to_string(&Told { may_act, workbenches }).unwrap_or_default();
    format!("data:{text}\n\n").into()
}
