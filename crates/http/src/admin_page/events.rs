//! The events that show the status of workbenches, shared by all watchers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::admin_page::workbenches::AdminBackend;
use mcp_workbench_core::telemetry::FinishedCall;
use mcp_workbench_serve::admin::WorkbenchStatus;

/// How long a status is shared with other watchers.
const CACHE_TTL: Duration = Duration::from_millis(900);
#[derive(Default)]
pub(crate) struct StatusCache(Mutex<Option<StatusSnapshot>>);

#[derive(Clone)]
pub(super) struct StatusSnapshot {
    at: Instant,
    views: Arc<[WorkbenchStatus]>,
    pub(super) number: u64,
    /// For each access level, in their order.
    pub(super) events: [Bytes; 3],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusEvent<'a> {
    may_act: bool,
    asks_passphrase: bool,
    workbenches: &'a [WorkbenchStatus],
}

impl StatusCache {
    /// Returns the current status, or one that another watcher got a moment ago.
    pub(super) async fn look<W: AdminBackend>(&self, workbenches: &W) -> StatusSnapshot {
        let mut last = self.0.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < CACHE_TTL) {
            return last.clone();
        }
        let views = Arc::<[WorkbenchStatus]>::from(workbenches.statuses().await);
        let is_same = last.as_ref().is_some_and(|last| is_same(&last.views, &views));
        let number = last.as_ref().map_or(0, |last| last.number + u64::from(!is_same));
        let details = without_reasons(&views, |call| call.agent.is_none());
        let events = [
            event::<W>(false, &without_words(&views)),
            event::<W>(false, &details),
            event::<W>(true, &views),
        ];
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
    shows: impl Fn(&FinishedCall) -> bool,
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

fn event<W: AdminBackend>(may_act: bool, workbenches: &[WorkbenchStatus]) -> Bytes {
    // Serialization can't fail: it is plain data.
    let text = serde_json::to_string(&StatusEvent {
        may_act,
        asks_passphrase: W::ASKS_PASSPHRASE,
        workbenches,
    })
    .unwrap_or_default();
    format!("data:{text}\n\n").into()
}
