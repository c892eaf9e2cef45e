//! `approvals --watch`: waits for calls, and asks about each.

use std::collections::HashSet;
use std::time::Duration;

use crate::cli::access::approvals::{answer, approve, describe, note_missing_keys, queues};
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, print};
use crate::cli::servers::waiting_calls::CallQueue;
use crate::cli::terminal::{Pressed, read_key, show};
use mcp_workbench_core::gateway::PendingCall;

/// Interval between queries of the running workbenches.
const PAUSE: Duration = Duration::from_secs(1);

enum Choice {
    Answered,
    Quit,
}

pub(super) fn run(global: &GlobalArgs) -> Result<(), CommandError> {
    let mut seen = HashSet::new();
    print::note(&"waiting for calls; press q to stop");
    note_missing_keys(&queues(global)?);
    loop {
        let next = queues(global)?.into_iter().find_map(|queue| {
            let call = queue.calls.iter().find(|call| !seen.contains(&call.id))?.clone();
            Some((queue, call))
        });
        match next {
            Some((queue, call)) => {
                seen.insert(call.id.clone());
                if let Choice::Quit = ask(&queue, &call)? {
                    return Ok(());
                }
            }
            None => {
                if let Some(Pressed::Cancel | Pressed::Char('q')) = read_key("", PAUSE)? {
                    return Ok(());
                }
            }
        }
    }
}

/// Shows a call and asks what to do with it. A failed answer doesn't end the watch.
fn ask(queue: &CallQueue, call: &PendingCall) -> Result<Choice, CommandError> {
    print::text_unredacted(&describe(call))?;
    let mut prompt = "Approve this call? a approve, d deny, s skip, q quit: ";
    let (word, answered) = loop {
        match read_key(std::mem::take(&mut prompt), Duration::MAX)? {
            Some(Pressed::Char('a')) => {
                show("a\n")?;
                break ("approved", approve(queue, call));
            }
            Some(Pressed::Char('d')) => {
                show("d\n")?;
                break ("denied", answer(queue, call, None));
            }
            Some(Pressed::Char('s')) => {
                show("s\n")?;
                return Ok(Choice::Answered);
            }
            Some(Pressed::Cancel | Pressed::Char('q')) => {
                show("q\n")?;
                return Ok(Choice::Quit);
            }
            _ => {}
        }
    };
    match answered {
        Ok(()) => print::note(&word),
        Err(error) => print::note(&format!("not {word}: {}", error.message())),
    }
    Ok(Choice::Answered)
}
