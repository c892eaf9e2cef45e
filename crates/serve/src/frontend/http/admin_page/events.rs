//! Event streams of the admin page. The status is polled once a second for all watchers, and not at
//! all without any.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::admin::{CallStatus, WorkbenchStatus};

use crate::frontend::http::admin_page::viewers::MAX_VIEWERS;
use crate::frontend::http::admin_page::{AdminBackend, AdminPage, with_private_headers};
use crate::frontend::http::auth::AccessLevel;
use crate::frontend::http::response::{self, HttpError, HttpResponse};
use crate::gateway::CallerQuota;

/// The polling interval, and how long its result is shared with other watchers.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const CACHE_TTL: Duration = Duration::from_millis(900);
/// Unchanged status is sent again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Tells the page not to reconnect.
const REPLACED: Bytes = Bytes::from_static(b"data:{\"isReplaced\":true}\n\n");

#[derive(Default)]
pub(crate) struct StatusCache(Mutex<Option<StatusSnapshot>>);

#[derive(Clone)]
struct StatusSnapshot {
    at: Instant,
    views: Arc<[WorkbenchStatus]>,
    number: u64,
    events: [Bytes; 3],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusEvent<'a> {
    may_act: bool,
    workbenches: &'a [WorkbenchStatus],
}

impl<W: AdminBackend> AdminPage<W> {
    /// Opens an event stream of a caller, who can have `most`. It ends when the client leaves, a
    /// newer one replaces it, or the server shuts down. 503 if there are too many.
    pub(crate) fn events(
        self: &Arc<Self>,
        access: AccessLevel,
        quota: &Arc<CallerQuota>,
        most: usize,
    ) -> HttpResponse {
        let Some(slot) = self.viewers.enter(quota, access == AccessLevel::Operate, most) else {
            let message = format!(
                "the limit of {MAX_VIEWERS} open dashboards is reached; an operator token gets in"
            );
            return with_private_headers(HttpError::unavailable(&message).into_response(None));
        };
        let (events, receiver) = mpsc::channel(1);
        let page = Arc::clone(self);
        let leaving = self.leaving.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = leaving.cancelled() => {}
                // A client that doesn't read misses the reason.
                () = slot.replaced.cancelled() => drop(events.try_send(REPLACED)),
                () = events.closed() => {}
                () = page.tell(access, &events) => {}
            }
        });
        with_private_headers(response::event_stream(receiver))
    }

    async fn tell(&self, access: AccessLevel, events: &mpsc::Sender<Bytes>) {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told: Option<(u64, Instant)> = None;
        loop {
            ticks.tick().await;
            let look = self.look().await;
            let is_new = told.is_none_or(|(number, at)| {
                number != look.number || at.elapsed() >= REPEAT_INTERVAL
            });
            if !is_new {
                continue;
            }
            told = Some((look.number, Instant::now()));
            let [figures, words, acts] = look.events;
            let event = match access {
                AccessLevel::Metrics => figures,
                AccessLevel::Details => words,
                AccessLevel::Operate => acts,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
    }

    async fn look(&self) -> StatusSnapshot {
        let mut last = self.seen.0.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < CACHE_TTL) {
            return last.clone();
        }
        let views = Arc::<[WorkbenchStatus]>::from(self.workbenches.statuses().await);
        let is_same = last.as_ref().is_some_and(|last| is_same(&last.views, &views));
        let number = last.as_ref().map_or(0, |last| last.number + u64::from(!is_same));
        let details = without_reasons(&views, |call| call.agent.is_none());
        let events =
            [event(false, &without_words(&views)), event(false, &details), event(true, &views)];
        let look = StatusSnapshot { at: Instant::now(), views, number, events };
        *last = Some(look.clone());
        look
    }
}

fn is_same(old: &[WorkbenchStatus], new: &[WorkbenchStatus]) -> bool {
    old.len() == new.len()
        && old
            .iter()
            .zip(new)
            .all(|(old, new)| WorkbenchStatus { at: new.at, ..old.clone() } == *new)
}

/// Removes the reasons of failed calls, which can quote the call, except where `shows` them.
fn without_reasons(
    views: &[WorkbenchStatus],
    shows: impl Fn(&CallStatus) -> bool,
) -> Vec<WorkbenchStatus> {
    let mut views = views.to_vec();
    for call in views.iter_mut().flat_map(|view| &mut view.calls).filter(|call| !shows(call)) {
        call.reason = None;
    }
    views
}

fn without_words(views: &[WorkbenchStatus]) -> Vec<WorkbenchStatus> {
    let mut views = without_reasons(views, |_| false);
    let toolboxes = views.iter_mut().flat_map(|view| &mut view.toolboxes);
    for server in toolboxes.flat_map(|toolbox| &mut toolbox.servers) {
        server.reason = None;
        server.stderr_tail.clear();
        if let Some(drift) = &mut server.drift {
            drift.differences.clear();
            drift.accept.clear();
        }
    }
    views
}

fn event(may_act: bool, workbenches: &[WorkbenchStatus]) -> Bytes {
    // Serialization can't fail: it is plain data.
    let text = serde_json::to_string(&StatusEvent { may_act, workbenches }).unwrap_or_default();
    format!("data:{text}\n\n").into()
}
