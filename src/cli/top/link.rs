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
use crate::name::seen;
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
    /// A page that is to be opened in a browser, in lines for its user.
    Page(Vec<String>),
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
    pub(super) what: What,
    pub(super) toolbox: String,
    pub(super) server: Option<String>,
}

/// The kinds of deeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Something is done with a toolbox or a server.
    Act(Act),
    /// A sign-in at a server is begun.
    SignIn,
}

impl Deed {
    /// The name of the server, or else of the toolbox.
    pub(super) fn whom(&self) -> &str {
        self.server.as_deref().unwrap_or(&self.toolbox)
    }
}

/// An answer, as far as it matters here.
#[derive(Deserialize)]
struct Answered {
    answer: String,
    #[serde(default)]
    message: String,
    /// A page to be opened, and a code to type there.
    #[serde(default)]
    address: String,
    code: Option<String>,
}

impl Answered {
    /// The outcome for whoever looks on; `done` is the word for what was done.
    fn heard(self, whom: &str, done: &str) -> Heard {
        match &*self.answer {
            "done" => Heard::Done(format!("{whom}: {done}")),
            "open" => {
                let head = format!("To sign in at {whom}, open this in a browser on this machine:");
                let code = self.code.map(|code| format!("and type this code there: {code}"));
                let foot = "It is waited for 5 minutes. Any key goes back.".to_owned();
                let lines = [head, seen::line(&self.address)].into_iter().chain(code);
                Heard::Page(lines.chain([foot]).collect())
            }
            _ => Heard::Done(self.message),
        }
    }
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
    let whom = deed.whom().to_owned();
    let word = match deed.what {
        What::Act(Act::Open) => "started",
        What::Act(Act::Stop) => "stopped",
        What::Act(Act::Restart) => "restarted",
        What::Act(Act::Mute) => "switched off",
        What::Act(Act::Unmute) => "switched on",
        What::SignIn => "begun",
    };
    let heard = match timeout(PATIENCE, ask(deed)).await {
        Err(_) => Heard::Done(format!("{whom}: no answer in {} s", PATIENCE.as_secs())),
        Ok(Err(error)) => Heard::Done(format!("{whom}: {error}")),
        Ok(Ok((answered, view))) => {
            // The next key is for what is now.
            if let Some(view) = view {
                let _ = told.send(Heard::View(socket, Box::new(view))).await;
            }
            answered.heard(&whom, word)
        }
    };
    let _ = told.send(heard).await;
}

/// Asks for a deed, and for what is seen after it.
async fn ask(deed: Deed) -> std::io::Result<(Answered, Option<View>)> {
    let Deed { socket, what, toolbox, server } = deed;
    let (reader, mut writer) = split(connect_locally(&socket).await?);
    let asked = match what {
        What::Act(act) => Ask::Act { act, toolbox, server },
        What::SignIn => Ask::SignIn { toolbox, server: server.unwrap_or_default() },
    };
    let mut line = serde_json::to_vec(&asked)?;
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
