//! The state of all workbenches, and of what their user looks at. Nothing here waits or draws.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::cli::top::link::{Deed, Heard, What};
use crate::desk::{Act, Server, View};

/// Everything that is shown.
#[derive(Default)]
pub(super) struct State {
    /// The workbenches by their processes.
    pub(super) benches: BTreeMap<u32, Bench>,
    /// The processes that cannot be watched.
    pub(super) unseen: Vec<u32>,
    /// The row that is chosen, if it is there.
    chosen: Option<Key>,
    /// Which of the panes the keys are for.
    pub(super) pane: Pane,
    /// How many calls are scrolled past.
    pub(super) scrolled: usize,
    /// Only servers whose names have this are shown.
    pub(super) filter: String,
    pub(super) attention: Attention,
    /// The end of the last deed, in words.
    pub(super) note: Option<String>,
    /// The words about a page that is to be opened.
    pub(super) page: Vec<String>,
    pub(super) has_color: bool,
    /// `true` once it was looked for workbenches.
    pub(super) has_looked: bool,
}

/// A workbench, and where it is asked.
pub(super) struct Bench {
    pub(super) socket: PathBuf,
    pub(super) view: View,
}

/// The meaning of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Attention {
    /// They choose and act.
    #[default]
    Rows,
    /// They write the filter.
    Filter,
    /// The next one puts the help away.
    Help,
    /// The next one puts away what is said of a page to open.
    Page,
}

/// The parts of the screen that keys go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Servers,
    Calls,
}

/// The thing that a row is of: a workbench, a toolbox or a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) pid: u32,
    pub(super) toolbox: Option<String>,
    pub(super) server: Option<String>,
}

/// A row of the tree.
pub(super) struct Row<'a> {
    pub(super) key: Key,
    pub(super) view: &'a View,
    pub(super) server: Option<&'a Server>,
}

impl State {
    /// A state in which nothing is known.
    pub(super) fn new(has_color: bool) -> Self {
        Self { has_color, ..Self::default() }
    }

    /// Takes note of something that is no key.
    pub(super) fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::View(socket, view) => {
                self.benches.insert(view.pid, Bench { socket, view: *view });
            }
            Heard::Running(running) => {
                self.has_looked = true;
                self.benches.retain(|pid, _| running.iter().any(|(other, _)| other == pid));
                let unseen = running.iter().filter(|(_, is_seen)| !is_seen);
                self.unseen = unseen.map(|(pid, _)| *pid).collect();
            }
            Heard::Done(said) => self.note = Some(said),
            Heard::Page(lines) => {
                (self.note, self.page) = (None, lines);
                self.attention = Attention::Page;
            }
            Heard::Key(_) | Heard::Nothing | Heard::End => {}
        }
    }

    /// The rows that are shown, in their order.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for (pid, bench) in &self.benches {
            let view = &bench.view;
            let key = |toolbox: Option<&str>, server: Option<&str>| Key {
                pid: *pid,
                toolbox: toolbox.map(str::to_owned),
                server: server.map(str::to_owned),
            };
            rows.push(Row { key: key(None, None), view, server: None });
            for toolbox in &view.toolboxes {
                let is_wanted = |server: &&Server| {
                    self.filter.is_empty()
                        || has(&server.name, &self.filter)
                        || has(&toolbox.name, &self.filter)
                };
                let servers: Vec<_> = toolbox.servers.iter().filter(is_wanted).collect();
                if servers.is_empty() && !self.filter.is_empty() {
                    continue;
                }
                rows.push(Row { key: key(Some(&toolbox.name), None), view, server: None });
                rows.extend(servers.into_iter().map(|server| Row {
                    key: key(Some(&toolbox.name), Some(&server.name)),
                    view,
                    server: Some(server),
                }));
            }
        }
        rows
    }

    /// Where the chosen row is. What was never chosen is the first server.
    pub(super) fn place(&self, rows: &[Row<'_>]) -> usize {
        let chosen = self.chosen.as_ref();
        let place = chosen.and_then(|chosen| rows.iter().position(|row| row.key == *chosen));
        place.or_else(|| rows.iter().position(|row| row.server.is_some())).unwrap_or_default()
    }

    /// Chooses another row, so many further.
    pub(super) fn step(&mut self, by: isize) {
        match self.pane {
            Pane::Servers => {
                let rows = self.rows();
                let last = rows.len().saturating_sub(1);
                let next = self.place(&rows).saturating_add_signed(by).min(last);
                self.chosen = rows.get(next).map(|row| row.key.clone());
            }
            Pane::Calls => {
                let most = self.calls().len().saturating_sub(1);
                self.scrolled = self.scrolled.saturating_add_signed(by).min(most);
            }
        }
    }

    /// The calls of all workbenches that fit the filter, the newest first, each with when it ended.
    pub(super) fn calls(&self) -> Vec<(&View, &crate::desk::Call)> {
        let of = |view| -> Vec<(&View, &crate::desk::Call)> {
            let view: &View = view;
            view.calls.iter().map(|call| (view, call)).collect()
        };
        let mut all: Vec<_> = self.benches.values().flat_map(|bench| of(&bench.view)).collect();
        all.retain(|(_, call)| {
            let named = [&call.toolbox, &call.server].into_iter().flatten();
            self.filter.is_empty()
                || has(&call.tool, &self.filter)
                || named.into_iter().any(|name| has(name, &self.filter))
        });
        let ended = |call: &crate::desk::Call| call.at.saturating_add(whole(call.ms));
        all.sort_by_key(|(_, call)| std::cmp::Reverse((ended(call), call.number)));
        all
    }

    /// Something to be done with what is chosen, if that can be.
    pub(super) fn deed(&self, act: Act) -> Option<Deed> {
        let rows = self.rows();
        let row = rows.get(self.place(&rows))?;
        let bench = self.benches.get(&row.key.pid)?;
        let is_muted = row.server.is_some_and(|server| server.is_muted);
        let act = if act == Act::Mute && is_muted { Act::Unmute } else { act };
        let (toolbox, server) = (row.key.toolbox.clone()?, row.key.server.clone());
        Some(Deed { socket: bench.socket.clone(), what: What::Act(act), toolbox, server })
    }

    /// The beginning of a sign-in at the chosen server, if that wants one.
    pub(super) fn sign_in(&self) -> Option<Deed> {
        let rows = self.rows();
        let row = rows.get(self.place(&rows))?;
        let bench = self.benches.get(&row.key.pid)?;
        row.server?.sign_in.as_ref()?;
        let (toolbox, server) = (row.key.toolbox.clone()?, row.key.server.clone());
        Some(Deed { socket: bench.socket.clone(), what: What::SignIn, toolbox, server })
    }
}

/// Whole milliseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what does not fit is nobody's call"
)]
pub(super) fn whole(ms: f64) -> u64 {
    ms.max(0.0) as u64
}

/// Returns `true` if a name has something in it, whichever case it is in.
fn has(name: &str, part: &str) -> bool {
    name.to_lowercase().contains(&part.to_lowercase())
}
