//! The admin page: event streams and requests. The status is polled once a second for all watchers,
//! and not at all without any.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin_page::events::StatusCache;
use crate::admin_page::request::PageRequest;
use crate::admin_page::viewers::{MAX_VIEWERS, ViewerTable};
use crate::admin_page::workbenches::{AdminBackend, PageSender};
use crate::auth::AccessLevel;
use crate::response::{self, HttpError, HttpResponse, with_private_headers};
use mcp_workbench_core::gateway::CallerQuota;
use mcp_workbench_names::AgentName;

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Unchanged status is sent again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Tells the page not to reconnect.
const REPLACED: Bytes = Bytes::from_static(b"data:{\"isReplaced\":true}\n\n");

pub(crate) struct AdminPage<W> {
    workbenches: W,
    seen: StatusCache,
    viewers: Arc<ViewerTable>,
    tasks: TaskTracker,
    leaving: CancellationToken,
}

impl<W: AdminBackend> AdminPage<W> {
    pub(crate) fn new(workbenches: W, tasks: &TaskTracker, leaving: &CancellationToken) -> Self {
        Self {
            workbenches,
            seen: StatusCache::default(),
            viewers: Arc::default(),
            tasks: tasks.clone(),
            leaving: leaving.clone(),
        }
    }

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
            let look = self.seen.look(&self.workbenches).await;
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

    /// Answers a request of an operator, or of someone else with the access it requires.
    pub(crate) async fn answer(
        &self,
        asked: PageRequest,
        operator: Option<AgentName>,
    ) -> HttpResponse {
        let PageRequest { to, ask, approval } = asked;
        let sender = PageSender { operator, approval };
        let answer = self.workbenches.handle(to, ask, sender).await;
        with_private_headers(response::json(StatusCode::OK, answer.into()))
    }
}
