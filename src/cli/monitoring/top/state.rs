//! The state of all workbenches and of the user interface. No I/O, no drawing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::cli::monitoring::top::connection::{ActionKind, ActionRequest, TopEvent};
use mcp_workbench_core::telemetry::FinishedCall;
use mcp_workbench_serve::admin::{ServerAction, ServerStatus, WorkbenchStatus};

#[derive(Default)]
pub(super) struct TopState {
    /// By process ID.
    pub(super) workbenches: BTreeMap<u32, WatchedWorkbench>,
    pub(super) unreachable_pids: Vec<u32>,
    selection: Selection,
    pub(super) pane: Pane,
    /// Case-insensitive substring of server, toolbox and tool names. Empty shows all.
    pub(super) filter: String,
    pub(super) input_mode: InputMode,
    pub(super) note: Option<String>,
    pub(super) page: Vec<String>,
    pub(super) has_color: bool,
    /// `true` after the first scan for workbenches.
    pub(super) has_looked: bool,
}

#[derive(Default)]
struct Selection {
    /// The row; it may have disappeared.
    row: Option<RowKey>,
    /// The process ID of its workbench and the number of the call; by default the newest.
    call: Option<(u32, u64)>,
}

pub(super) struct WatchedWorkbench {
    pub(super) socket: PathBuf,
    pub(super) view: WorkbenchStatus,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum InputMode {
    #[default]
    Rows,
    Filter,
    /// The next key closes the help, or shows `Words`.
    Help,
    /// The next key closes the explanation of the words.
    Words,
    /// The next key closes the page with a sign-in or a call.
    Page,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Servers,
    Calls,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowKey {
    pub(super) pid: u32,
    pub(super) toolbox: Option<String>,
    pub(super) server: Option<String>,
}

pub(super) struct TreeRow<'a> {
    pub(super) key: RowKey,
    pub(super) view: &'a WorkbenchStatus,
    pub(super) server: Option<&'a ServerStatus>,
}

impl TopState {
    pub(super) fn new(has_color: bool) -> Self {
        Self { has_color, ..Self::default() }
    }

    /// Applies an event. Keys are handled in `keys::press`.
    pub(super) fn apply(&mut self, heard: TopEvent) {
        match heard {
            TopEvent::View(socket, view) => {
                self.workbenches.insert(view.pid, WatchedWorkbench { socket, view: *view });
            }
            TopEvent::Running(running) => {
                self.has_looked = true;
                self.workbenches.retain(|pid, _| running.iter().any(|(other, _)| other == pid));
                let unseen = running.iter().filter(|(_, is_seen)| !is_seen);
                self.unreachable_pids = unseen.map(|(pid, _)| *pid).collect();
            }
            TopEvent::ActionFinished(said) => self.note = Some(said),
            TopEvent::Page(lines) => self.show_page(lines),
            TopEvent::Key(_) | TopEvent::Redraw | TopEvent::InputClosed => {}
        }
    }

    pub(super) fn show_page(&mut self, lines: Vec<String>) {
        (self.note, self.page) = (None, lines);
        self.input_mode = InputMode::Page;
    }

    pub(super) fn sockets(&self) -> Vec<(u32, PathBuf)> {
        self.workbenches.iter().map(|(pid, bench)| (*pid, bench.socket.clone())).collect()
    }

    pub(super) fn rows(&self) -> Vec<TreeRow<'_>> {
        let mut rows = Vec::new();
        for (pid, bench) in &self.workbenches {
            let view = &bench.view;
            let key = |toolbox: Option<&str>, server: Option<&str>| RowKey {
                pid: *pid,
                toolbox: toolbox.map(str::to_owned),
                server: server.map(str::to_owned),
            };
            rows.push(TreeRow { key: key(None, None), view, server: None });
            for toolbox in &view.toolboxes {
                let is_wanted = |server: &&ServerStatus| {
                    self.filter.is_empty()
                        || has(&server.name, &self.filter)
                        || has(&toolbox.name, &self.filter)
                };
                let servers: Vec<_> = toolbox.servers.iter().filter(is_wanted).collect();
                if servers.is_empty() && !self.filter.is_empty() {
                    continue;
                }
                rows.push(TreeRow { key: key(Some(&toolbox.name), None), view, server: None });
                rows.extend(servers.into_iter().map(|server| TreeRow {
                    key: key(Some(&toolbox.name), Some(&server.name)),
                    view,
                    server: Some(server),
                }));
            }
        }
        rows
    }

    /// Returns the index of the selected row, by default the first server.
    pub(super) fn selected_index(&self, rows: &[TreeRow<'_>]) -> usize {
        let chosen = self.selection.row.as_ref();
        let place = chosen.and_then(|chosen| rows.iter().position(|row| row.key == *chosen));
        place.or_else(|| rows.iter().position(|row| row.server.is_some())).unwrap_or_default()
    }

    /// Moves the selection or scrolls the calls, depending on the pane.
    pub(super) fn step(&mut self, by: isize) {
        match self.pane {
            Pane::Servers => {
                let rows = self.rows();
                let last = rows.len().saturating_sub(1);
                let next = self.selected_index(&rows).saturating_add_signed(by).min(last);
                self.selection.row = rows.get(next).map(|row| row.key.clone());
            }
            Pane::Calls => {
                let calls = self.calls();
                let last = calls.len().saturating_sub(1);
                let next = self.selected_call_index(&calls).saturating_add_signed(by).min(last);
                // The newest call stays selected when others end.
                let next = calls.get(next).filter(|_| next > 0);
                self.selection.call = next.map(|(view, call)| (view.pid, call.number));
            }
        }
    }

    /// Returns the index of the selected call in `calls`.
    pub(super) fn selected_call_index(&self, calls: &[(&WorkbenchStatus, &FinishedCall)]) -> usize {
        let chosen = |(view, call): &(&WorkbenchStatus, &FinishedCall)| {
            self.selection.call == Some((view.pid, call.number))
        };
        calls.iter().position(chosen).unwrap_or_default()
    }

    /// Returns the calls of all workbenches that match the filter, newest first.
    pub(super) fn calls(&self) -> Vec<(&WorkbenchStatus, &FinishedCall)> {
        let of = |view| -> Vec<(&WorkbenchStatus, &FinishedCall)> {
            let view: &WorkbenchStatus = view;
            view.calls.iter().map(|call| (view, call)).collect()
        };
        let mut all: Vec<_> = self.workbenches.values().flat_map(|bench| of(&bench.view)).collect();
        all.retain(|(_, call)| {
            let named = [&call.toolbox, &call.server].into_iter().flatten();
            self.filter.is_empty()
                || has(&call.tool, &self.filter)
                || named.into_iter().any(|name| has(name, &self.filter))
        });
        let ended = |call: &FinishedCall| call.at.saturating_add(whole(call.ms));
        all.sort_by_key(|(_, call)| std::cmp::Reverse((ended(call), call.number)));
        all
    }

    /// Returns the request for an action on the selected row; `None` for a workbench.
    pub(super) fn action_for_selection(&self, act: ServerAction) -> Option<ActionRequest> {
        let rows = self.rows();
        let row = rows.get(self.selected_index(&rows))?;
        let bench = self.workbenches.get(&row.key.pid)?;
        let is_paused = row.server.is_some_and(|server| server.is_paused);
        let act = if act == ServerAction::Pause && is_paused { ServerAction::Resume } else { act };
        let (toolbox, server) = (row.key.toolbox.clone()?, row.key.server.clone());
        Some(ActionRequest {
            socket: bench.socket.clone(),
            what: ActionKind::Act(act),
            toolbox,
            server,
        })
    }

    pub(super) fn sign_in(&self) -> Option<ActionRequest> {
        let rows = self.rows();
        let row = rows.get(self.selected_index(&rows))?;
        let bench = self.workbenches.get(&row.key.pid)?;
        row.server?.sign_in.as_ref()?;
        let (toolbox, server) = (row.key.toolbox.clone()?, row.key.server.clone());
        Some(ActionRequest {
            socket: bench.socket.clone(),
            what: ActionKind::SignIn,
            toolbox,
            server,
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values that large don't occur"
)]
pub(super) fn whole(ms: f64) -> u64 {
    ms.max(0.0) as u64
}

/// Case-insensitive.
fn has(name: &str, part: &str) -> bool {
    name.to_lowercase().contains(&part.to_lowercase())
}
