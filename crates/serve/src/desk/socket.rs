//! The desk at a socket, for other processes of the same user: a line of JSON that asks, and a line that
//! answers. `{"watch": true}` is answered with a view each second until the other end goes.
//!
//! Whoever comes may be slow or hostile all the same: lines have a limit, and so have connections and the
//! time that a line may take to be taken.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncWrite, AsyncWriteExt, split};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::TaskTracker;

use crate::desk::{Answer, Ask, Desk, Failure, Refused};
use crate::os::{LocalListener, LocalStream, remove_dead_socket};
use crate::wire::line::{Line, LineReader};

/// The most bytes of a line that asks.
const MAX_LINE: usize = 1024 * 1024;
/// The most connections at a time.
const MAX_CONNECTIONS: usize = 16;
/// How long a line may take to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often whoever watches is told.
const TICK: Duration = Duration::from_secs(1);
/// The names of sockets begin and end so.
const NAME: &str = "workbench.";
const ENDING: &str = ".sock";

/// A wish to be told again and again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Watch {
    watch: bool,
}

/// Listens for other processes of this user, as `run`, in the first of these folders where that can be,
/// after what processes that were killed left there has been removed. Folders are made.
pub fn listen(folders: &[PathBuf], run: &str) -> Option<(LocalListener, PathBuf)> {
    for folder in folders {
        match listen_in(folder, run) {
            Ok(listening) => return Some(listening),
            Err(error) => {
                let folder = folder.display();
                tracing::debug!(%error, "`top` cannot look at this process by a socket in `{folder}`");
            }
        }
    }
    None
}

fn listen_in(folder: &Path, run: &str) -> std::io::Result<(LocalListener, PathBuf)> {
    crate::os::make_private_folder(folder)?;
    for entry in std::fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(NAME) && name.ends_with(ENDING) {
            remove_dead_socket(&entry.path());
        }
    }
    let path = folder.join(format!("{NAME}{run}{ENDING}"));
    Ok((LocalListener::bind(&path)?, path))
}

impl Desk {
    /// Answers whoever comes to this socket, until it is dropped.
    pub async fn receive(self, listener: LocalListener, tasks: TaskTracker) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let serve = |stream: LocalStream| {
            let desk = self.clone();
            let place = Arc::clone(&places).try_acquire_owned();
            let serving = async move {
                let (reader, mut writer) = split(stream);
                if let Ok(_place) = place {
                    desk.attend(reader, writer).await;
                } else {
                    let many = format!("{MAX_CONNECTIONS} connections look at it already");
                    let _ = put(&mut writer, &refusal(Failure::Failed, many)).await;
                }
            };
            tasks.spawn(serving);
        };
        if let Err(error) = listener.take(serve).await {
            tracing::debug!(%error, "nobody can look at this process by its socket");
        }
    }

    /// Answers one other process.
    async fn attend(
        &self,
        reader: impl tokio::io::AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
    ) {
        let mut lines = LineReader::new(reader, MAX_LINE);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_watching = false;
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                _ = ticks.tick(), if is_watching => {
                    let view = Answer::View(Box::new(self.view()));
                    if put(&mut writer, &view).await.is_none() {
                        return;
                    }
                    continue;
                }
            };
            let answer = match line {
                None => return,
                Some(Line::Oversized { length, .. }) => {
                    let why = format!("the line has {length} bytes, expected {MAX_LINE} at most");
                    refusal(Failure::Malformed, why)
                }
                Some(Line::Message(line)) => {
                    if let Ok(Watch { watch }) = serde_json::from_slice(&line) {
                        is_watching = watch;
                        ticks.reset_immediately();
                        continue;
                    }
                    match serde_json::from_slice::<Ask>(&line) {
                        Ok(ask) => self.answer(ask).await,
                        Err(error) => refusal(Failure::Malformed, error.to_string()),
                    }
                }
            };
            if put(&mut writer, &answer).await.is_none() {
                return;
            }
        }
    }
}

fn refusal(why: Failure, message: String) -> Answer {
    Answer::Refused(Refused { why, message })
}

/// Writes an answer in a line; `None`: it was not taken in time.
async fn put(writer: &mut (impl AsyncWrite + Unpin), answer: &Answer) -> Option<()> {
    let mut line = serde_json::to_vec(answer).ok()?;
    line.push(b'\n');
    timeout(PATIENCE, writer.write_all(&line)).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, BufReader, duplex};

    use super::*;
    use crate::desk::tests::desk;

    /// A desk of a workbench in which nothing happens.
    fn quiet() -> Desk {
        let servers = json!({"none": {"command": "none"}});
        desk(&json!({"toolboxes": {"box": {"description": "x", "mcpServers": servers}}}))
    }

    async fn talk(lines: &[Vec<u8>]) -> Vec<Value> {
        let (ours, theirs) = duplex(64 * 1024);
        let (reader, writer) = split(theirs);
        let desk = quiet();
        let attending = TaskTracker::new().spawn(async move { desk.attend(reader, writer).await });
        let (reader, mut writer) = split(ours);
        let mut answers = BufReader::new(reader).lines();
        let mut all = Vec::new();
        for line in lines {
            writer.write_all(line).await.unwrap();
            let answer = answers.next_line().await.unwrap().unwrap();
            all.push(serde_json::from_str(&answer).unwrap());
        }
        drop((writer, answers));
        attending.await.unwrap();
        all
    }

    #[tokio::test]
    async fn what_is_no_question_is_refused_and_the_next_one_answered() {
        let long = [vec![b'x'; 2 * MAX_LINE], b"\n".to_vec()].concat();
        let all = talk(&[
            b"garbage\n".to_vec(),
            b"\xff\xfe{\n".to_vec(),
            b"{\"ask\":\"dance\"}\n".to_vec(),
            long,
            b"{\"ask\":\"view\"}\n".to_vec(),
        ])
        .await;
        for answer in &all[..4] {
            assert_eq!(
                (&answer["answer"], &answer["why"]),
                (&json!("refused"), &json!("malformed"))
            );
        }
        assert!(all[3]["message"].as_str().unwrap().contains("2097152 bytes"), "{}", all[3]);
        assert_eq!(all[4]["answer"], "view");
    }

    #[tokio::test]
    async fn a_thousand_questions_are_answered_in_order() {
        let ask = |number| match number % 2 {
            0 => b"{\"ask\":\"view\"}\n".to_vec(),
            _ => b"{\"ask\":\"unused\"}\n".to_vec(),
        };
        let all = talk(&(0..1000).map(ask).collect::<Vec<_>>()).await;
        for (number, answer) in all.iter().enumerate() {
            assert_eq!(answer["answer"], if number % 2 == 0 { "view" } else { "unused" });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_watches_is_told_each_second_and_dropped_if_it_does_not_read() {
        let (ours, theirs) = duplex(4 * 1024);
        let (reader, writer) = split(theirs);
        let desk = quiet();
        let attending = TaskTracker::new().spawn(async move { desk.attend(reader, writer).await });
        let (reader, mut writer) = split(ours);
        writer.write_all(b"{\"watch\":true}\n").await.unwrap();
        let mut answers = BufReader::new(reader).lines();
        for _ in 0..3 {
            let view: Value =
                serde_json::from_str(&answers.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!(view["answer"], "view");
        }
        // Nobody reads any more, and the pipe is full some time.
        timeout(Duration::from_mins(10), attending).await.unwrap().unwrap();
    }
}
