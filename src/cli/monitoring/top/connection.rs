//! Finds the workbenches of this user by their process files, and watches and controls them through
//! their admin sockets.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use ratatui::crossterm::event::KeyEvent;
use serde::Deserialize;
use tokio::io::{AsyncWriteExt, split};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::cli::output::escape_to_line;
use crate::cli::servers::waiting_calls::read_queue;
use mcp_workbench_core::gateway::PendingCall;
use mcp_workbench_core::telemetry::process_registry;
use mcp_workbench_names::untrusted_text;
use mcp_workbench_os::connect_locally;
use mcp_workbench_serve::admin::{AdminRequest, ServerAction, WorkbenchStatus};
use mcp_workbench_wire::line::{InputLine, LineReader};

/// The interval between scans for workbenches.
const PAUSE: Duration = Duration::from_secs(1);
/// Limits a status line of a workbench. In bytes.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// Includes the time that a server takes to start.
const ACTION_TIMEOUT: Duration = Duration::from_mins(2);

pub(super) enum TopEvent {
    View(PathBuf, Box<WorkbenchStatus>),
    /// The running processes, with `true` for those that have a socket.
    Running(Vec<(u32, bool)>),
    ActionFinished(String),
    /// Lines of text to show until the next key.
    Page(Vec<String>),
    Key(KeyEvent),
    Redraw,
    InputClosed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActionRequest {
    pub(super) socket: PathBuf,
    pub(super) what: ActionKind,
    pub(super) toolbox: String,
    pub(super) server: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActionKind {
    Act(ServerAction),
    SignIn,
}

impl ActionRequest {
    pub(super) fn target(&self) -> &str {
        self.server.as_deref().unwrap_or(&self.toolbox)
    }
}

#[derive(Deserialize)]
struct ActionReply {
    answer: String,
    #[serde(default)]
    message: String,
    /// The URL to open, and the code to type there.
    #[serde(default)]
    address: String,
    code: Option<String>,
}

impl ActionReply {
    /// `done` is the verb for a successful action.
    fn into_event(self, whom: &str, done: &str) -> TopEvent {
        match &*self.answer {
            "done" => TopEvent::ActionFinished(format!("{whom}: {done}")),
            "open" => {
                let head =
                    format!("To sign in to {whom}, open this URL in a browser on this machine:");
                let code = self.code.map(|code| format!("and enter this code: {code}"));
                let foot = "Waiting up to 5 minutes. Press any key to go back.".to_owned();
                let lines =
                    [head, untrusted_text::single_line(&self.address)].into_iter().chain(code);
                TopEvent::Page(lines.chain([foot]).collect())
            }
            _ => TopEvent::ActionFinished(self.message),
        }
    }
}

/// Scans for workbenches until the receiver is dropped, and watches each.
pub(super) async fn find(cache: PathBuf, told: mpsc::Sender<TopEvent>, tasks: TaskTracker) {
    let mut watched: HashSet<u32> = HashSet::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    loop {
        while let Ok(pid) = ends.try_recv() {
            watched.remove(&pid);
        }
        let all = process_registry::read_processes(&cache).unwrap_or_default();
        for workbench in &all {
            let Some(socket) = workbench.socket.clone() else { continue };
            if watched.insert(workbench.pid) {
                let (told, ended, pid) = (told.clone(), ended.clone(), workbench.pid);
                tasks.spawn(async move {
                    // Errors don't matter: the process file tells whether it still runs.
                    let _ = watch(socket, &told).await;
                    let _ = ended.send(pid);
                });
            }
        }
        let running = all.iter().map(|record| (record.pid, record.socket.is_some())).collect();
        if told.send(TopEvent::Running(running)).await.is_err() {
            return;
        }
        // Workbenches start and stop without notice, so their files are polled.
        sleep(PAUSE).await;
    }
}

async fn watch(socket: PathBuf, told: &mpsc::Sender<TopEvent>) -> std::io::Result<()> {
    let (reader, mut writer) = split(connect_locally(&socket).await?);
    writer.write_all(b"{\"watch\":true}\n").await?;
    let mut lines = LineReader::new(reader, MAX_LINE);
    while let Some(line) = lines.next().await {
        let InputLine::Message(line) = line else { continue };
        let Ok(view) = serde_json::from_slice::<WorkbenchStatus>(&line) else { continue };
        if told.send(TopEvent::View(socket.clone(), Box::new(view))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

pub(super) async fn act(action: ActionRequest, told: mpsc::Sender<TopEvent>) {
    let socket = action.socket.clone();
    let whom = action.target().to_owned();
    let word = match action.what {
        ActionKind::Act(ServerAction::Start) => "started",
        ActionKind::Act(ServerAction::Stop) => "stopped",
        ActionKind::Act(ServerAction::Restart) => "restarted",
        ActionKind::Act(ServerAction::Pause) => "paused",
        ActionKind::Act(ServerAction::Resume) => "resumed",
        ActionKind::SignIn => "sign-in started",
    };
    let heard = match timeout(ACTION_TIMEOUT, ask(action)).await {
        Err(_) => {
            let seconds = ACTION_TIMEOUT.as_secs();
            TopEvent::ActionFinished(format!("{whom}: no response within {seconds} s"))
        }
        Ok(Err(error)) => TopEvent::ActionFinished(format!("{whom}: {error}")),
        Ok(Ok((answered, view))) => {
            // Send the new status first, so that the next key acts on it.
            if let Some(view) = view {
                let _ = told.send(TopEvent::View(socket, Box::new(view))).await;
            }
            answered.into_event(&whom, word)
        }
    };
    let _ = told.send(heard).await;
}

/// Shows the calls that wait for an approval, with all their arguments.
pub(super) async fn show_approvals(workbenches: Vec<(u32, PathBuf)>, told: mpsc::Sender<TopEvent>) {
    let mut lines = Vec::new();
    for (pid, socket) in workbenches {
        let Ok(queue) = read_queue(pid, socket).await else { continue };
        lines.extend(queue.calls.iter().flat_map(approval_lines));
    }
    let page = if lines.is_empty() {
        TopEvent::ActionFinished("no call waits for an approval".to_owned())
    } else {
        let last = "To answer, run `mcp-workbench approvals --watch`. Press any key to go back.";
        lines.push(last.to_owned());
        TopEvent::Page(lines)
    };
    let _ = told.send(page).await;
}

fn approval_lines(call: &PendingCall) -> [String; 4] {
    let line = |text: &str| untrusted_text::escape_invisible(text);
    let agent = call.agent.as_deref().unwrap_or("an agent without a name");
    [
        format!("{}  {}", line(&call.id.chars().take(8).collect::<String>()), line(agent)),
        format!("{} of {} in {}", line(&call.tool), line(&call.server), line(&call.toolbox)),
        // Escaped by the workbench; again, in case the socket isn't one's.
        escape_to_line(&call.arguments),
        String::new(),
    ]
}

async fn ask(action: ActionRequest) -> std::io::Result<(ActionReply, Option<WorkbenchStatus>)> {
    let ActionRequest { socket, what, toolbox, server } = action;
    let (reader, mut writer) = split(connect_locally(&socket).await?);
    let asked = match what {
        ActionKind::Act(act) => AdminRequest::Act { act, toolbox, server },
        ActionKind::SignIn => AdminRequest::SignIn { toolbox, server: server.unwrap_or_default() },
    };
    let mut line = serde_json::to_vec(&asked)?;
    line.extend_from_slice(b"\n{\"ask\":\"view\"}\n");
    writer.write_all(&line).await?;
    let mut lines = LineReader::new(reader, MAX_LINE);
    let Some(InputLine::Message(answered)) = lines.next().await else {
        return Err(std::io::Error::other("the workbench has exited"));
    };
    let view = match lines.next().await {
        Some(InputLine::Message(view)) => serde_json::from_slice(&view).ok(),
        _ => None,
    };
    Ok((serde_json::from_slice(&answered)?, view))
}
