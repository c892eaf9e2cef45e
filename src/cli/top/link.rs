//! The workbenches of this user: found by their files, watched and asked through their sockets.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use ratatui::crossterm::event::KeyEvent;
use serde::Deserialize;
use tokio::io::{AsyncWriteExt, split};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::desk::{Act, Ask, View};
use crate::observe::running;
use crate::os::connect_locally;
use crate::wire::line::{Line, LineReader};

/// How often is looked for workbenches.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest line that a workbench is listened to.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// How long a deed may take: a server may be long in starting.
const PATIENCE: Duration = Duration::from_mins(2);

/// Something that is heard.
pub(super) enum Heard {
    /// A workbench as it is now, and where it is asked.
    View(PathBuf, Box<View>),
    /// These workbenches run, each with whether it can be watched.
    Running(Vec<(u32, bool)>),
    /// The end of a deed, in words for its user.
    Done(String),
    /// A key.
    Key(KeyEvent),
    /// Nothing but that it is to be drawn again.
    Nothing,
    /// Nobody can type any more.
    End,
}

/// Something that is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deed {
    pub(super) socket: PathBuf,
    pub(super) act: Act,
    pub(super) toolbox: String,
    pub(super) server: Option<String>,
}

/// An answer, as far as it matters here.
#[derive(Deserialize)]
struct Answered {
    answer: String,
    #[serde(default)]
    message: String,
}

/// Looks for workbenches for ever, and watches each.
pub(super) async fn find(cache: PathBuf, told: mpsc::Sender<Heard>, tasks: TaskTracker) {
    let mut watched: HashSet<u32> = HashSet::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    loop {
        while let Ok(pid) = ends.try_recv() {
            watched.remove(&pid);
        }
        let all = running::told(&cache).unwrap_or_default();
        for workbench in &all {
            let Some(socket) = workbench.socket.clone() else { continue };
            if watched.insert(workbench.pid) {
                let (told, ended, pid) = (told.clone(), ended.clone(), workbench.pid);
                tasks.spawn(async move {
                    // Whether it is gone is seen by its file.
                    let _ = watch(socket, &told).await;
                    let _ = ended.send(pid);
                });
            }
        }
        let running = all.iter().map(|told| (told.pid, told.socket.is_some())).collect();
        if told.send(Heard::Running(running)).await.is_err() {
            return;
        }
        // Others come and go without telling us; their files say so.
        sleep(PAUSE).await;
    }
}

async fn watch(socket: PathBuf, told: &mpsc::Sender<Heard>) -> std::io::Result<()> {
    let (reader, mut writer) = split(connect_locally(&socket).await?);
    writer.write_all(b"{\"watch\":true}\n").await?;
    let mut lines = LineReader::new(reader, MAX_LINE);
    while let Some(line) = lines.next().await {
        let Line::Message(line) = line else { continue };
        let Ok(view) = serde_json::from_slice::<View>(&line) else { continue };
        if told.send(Heard::View(socket.clone(), Box::new(view))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Does something, and tells what became of it.
pub(super) async fn act(deed: Deed, told: mpsc::Sender<Heard>) {
    let socket = deed.socket.clone();
    let whom = deed.server.clone().unwrap_or_else(|| deed.toolbox.clone());
    let word = match deed.act {
        Act::Open => "started",
        Act::Stop => "stopped",
        Act::Restart => "restarted",
        Act::Mute => "switched off",
        Act::Unmute => "switched on",
    };
    let said = match timeout(PATIENCE, ask(deed)).await {
        Err(_) => format!("{whom}: no answer in {} s", PATIENCE.as_secs()),
        Ok(Err(error)) => format!("{whom}: {error}"),
        Ok(Ok((answered, view))) => {
            // The next key is for what is now.
            if let Some(view) = view {
                let _ = told.send(Heard::View(socket, Box::new(view))).await;
            }
            if answered.answer == "done" { format!("{whom}: {word}") } else { answered.message }
        }
    };
    let _ = told.send(Heard::Done(said)).await;
}

/// Asks for a deed, and for what is seen after it.
async fn ask(deed: Deed) -> std::io::Result<(Answered, Option<View>)> {
    let Deed { socket, act, toolbox, server } = deed;
    let (reader, mut writer) = split(connect_locally(&socket).await?);
    let mut line = serde_json::to_vec(&Ask::Act { act, toolbox, server })?;
    line.extend_from_slice(b"\n{\"ask\":\"view\"}\n");
    writer.write_all(&line).await?;
    let mut lines = LineReader::new(reader, MAX_LINE);
    let Some(Line::Message(answered)) = lines.next().await else {
        return Err(std::io::Error::other("the workbench is gone"));
    };
    let view = match lines.next().await {
        Some(Line::Message(view)) => serde_json::from_slice(&view).ok(),
        _ => None,
    };
    Ok((serde_json::from_slice(&answered)?, view))
}
