//! `setup undo`: every file as it was, or at least without us.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use crate::authoring::client_files::ClientProgram;
use crate::authoring::service::definition::{disabling, forgetting};
use crate::authoring::setup::journal::{Journal, Managed, Record, Undone};
use crate::authoring::setup::servers::Place;
use crate::cli::error::Error;
use crate::cli::service::{self, manage};
use crate::cli::setup::{clients, kept};
use crate::cli::table::{Align, Table};
use crate::cli::{Global, print};
use crate::config::env::{EnvSource, ProcessEnv};

/// Take back what setup has done
///
/// A file that nobody has changed since becomes what it was, byte for byte. In one that somebody has
/// changed, our entry alone goes, and the servers that were taken out come back unless something
/// else has their name now.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The outcome for one file.
#[derive(Debug, Serialize)]
struct Outcome {
    client: Option<&'static str>,
    file: String,
    is_undone: bool,
    message: String,
}

/// Undoes; fails where a file could not be.
pub(super) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let Some(journal) = kept::journal()? else {
        return Err(Error::failed("there is no setup to be undone")
            .hint("`mcp-workbench setup status` shows which clients start the workbench"));
    };
    let (ours, of_clients): (Vec<_>, Vec<_>) =
        journal.files.iter().cloned().partition(|record| record.client.is_none());
    let mut left = Vec::new();
    let mut outcomes = Vec::new();
    for record in of_clients {
        let outcome = undo(&record, args.dry_run);
        if !outcome.is_undone {
            left.push(record);
        }
        outcomes.push(outcome);
    }
    // As long as a client starts the workbench, its configuration is needed.
    let is_needed = !left.is_empty();
    let mut is_kept = is_needed;
    let mut service = journal.service.clone();
    let journal_service = journal.service;
    if let Some(managed) = service.clone().filter(|_| !is_needed) {
        let outcome = end(global, &managed, args.dry_run);
        if outcome.is_undone {
            service = None;
        } else {
            is_kept = true;
        }
        outcomes.push(outcome);
    }
    let is_running = service.is_some();
    for record in ours.into_iter().rev() {
        let (outcome, is_done) = undo_ours(&record, is_kept, args.dry_run);
        is_kept |= !outcome.is_undone;
        if is_needed || is_running || !is_done {
            left.push(record);
        }
        outcomes.push(outcome);
    }
    if let Some(managed) = journal_service.filter(|_| !args.dry_run && !is_running)
        && let Some(words) = forgetting(managed.manager)
    {
        // It has stopped, and its file is gone: what it is told of that is a courtesy.
        let _ = manage(&words);
    }
    if !args.dry_run {
        if left.is_empty() && service.is_none() {
            kept::retire()?;
        } else {
            kept::write(&Journal { files: left.clone(), service, ..Journal::default() })?;
        }
    }
    if args.json {
        print::json(&outcomes)?;
    } else {
        print::prose(&report(&outcomes, args.dry_run, !left.is_empty()))?;
    }
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(outcomes: &[Outcome], is_dry: bool, is_left: bool) -> String {
    let mut table =
        Table::new([("Client", Align::Left), ("File", Align::Left), ("Outcome", Align::Left)]);
    for Outcome { client, file, message, .. } in outcomes {
        let client = client.unwrap_or("MCP Workbench");
        table.row([client.to_owned(), print::printable(file), print::printable(message)]);
    }
    let end = match (is_dry, is_left) {
        (true, _) => "hint: nothing was changed; `mcp-workbench setup undo` does it",
        (false, true) => "hint: `mcp-workbench setup undo` tries again what is left",
        (false, false) => "hint: restart your clients, so that they start their servers again",
    };
    format!("{table}\n\n{end}")
}

/// Stops the service, and has its manager forget it.
fn end(global: &Global, managed: &Managed, is_dry: bool) -> Outcome {
    let outcome = |is_undone, message: String| Outcome {
        client: None,
        file: format!("the service at {}", managed.address),
        is_undone,
        message,
    };
    if is_dry {
        return outcome(true, "stopped".to_owned());
    }
    let commands = disabling(managed.manager, &managed.name);
    let told: Result<Vec<String>, String> = commands.iter().map(|words| manage(words)).collect();
    // One that somebody else has started ends as well, and one that its manager does not know has ended.
    match service::stop(global, managed.address) {
        Ok(()) => match told {
            Ok(_) => outcome(true, "stopped".to_owned()),
            Err(why) => outcome(true, format!("stopped, though its manager says: {why}")),
        },
        Err(why) => outcome(false, why),
    }
}

/// Undoes what was done to a client's file.
fn undo(record: &Record, is_dry: bool) -> Outcome {
    let path = Path::new(&record.path);
    let program = record.client.as_deref().and_then(ClientProgram::called);
    let outcome = |is_undone, message: String| Outcome {
        client: program.map(|program| program.title),
        file: clients::shown(path, ProcessEnv.home().as_deref()),
        is_undone,
        message,
    };
    let now = match clients::read(path) {
        Ok(now) => now,
        Err(why) => return outcome(false, format!("left as it is: {why}")),
    };
    let undone = record.undo(now.as_deref(), program.map(Place::of));
    let (text, message) = match undone {
        Undone::Same => return outcome(true, "is as it was".to_owned()),
        Undone::Kept(why) => {
            let copy = kept::copy_of(path).map(|copy| copy.display().to_string());
            let copy = copy.map(|copy| format!("; `{copy}` is what it was")).unwrap_or_default();
            return outcome(false, format!("left as it is: {why}{copy}"));
        }
        Undone::Restored(None) => (None, "removed, as there was none before".to_owned()),
        Undone::Restored(text) => (text, "restored, byte for byte".to_owned()),
        Undone::Mended { text, back } => {
            let back = match back.as_slice() {
                [] => String::new(),
                names => format!(", back are {}", names.join(", ")),
            };
            (Some(text), format!("was changed since: our entry is gone{back}"))
        }
    };
    if is_dry {
        return outcome(true, message);
    }
    match put(path, now.as_deref(), text.as_deref()) {
        Ok(()) => outcome(true, message),
        Err(why) => outcome(false, format!("could not be written: {why}")),
    }
}

/// Undoes what was done to a file of ours, unless it is still needed or is the user's by now; says
/// besides whether there is nothing more to do about it.
fn undo_ours(record: &Record, is_kept: bool, is_dry: bool) -> (Outcome, bool) {
    let path = Path::new(&record.path);
    let outcome = |is_undone, message: &str| Outcome {
        client: None,
        file: clients::shown(path, ProcessEnv.home().as_deref()),
        is_undone,
        message: message.to_owned(),
    };
    let now = match clients::read(path) {
        Ok(now) => now,
        Err(why) => return (outcome(false, &format!("left as it is: {why}")), false),
    };
    match record.undo(now.as_deref(), None) {
        Undone::Same => (outcome(true, "is as it was"), true),
        // The user has removed it.
        Undone::Restored(_) if now.is_none() => (outcome(true, "is gone already"), true),
        Undone::Restored(_) if is_kept => (outcome(false, "kept, for it is still needed"), true),
        Undone::Restored(before) => {
            let message = if before.is_some() { "restored, byte for byte" } else { "removed" };
            if is_dry {
                return (outcome(true, message), true);
            }
            match put(path, now.as_deref(), before.as_deref()) {
                Ok(()) => (outcome(true, message), true),
                Err(why) => (outcome(false, &format!("could not be written: {why}")), false),
            }
        }
        Undone::Mended { .. } | Undone::Kept(_) => {
            (outcome(false, "kept, for you have changed it since"), true)
        }
    }
}

/// Writes a file, or removes it, unless it is another than was read.
fn put(path: &Path, before: Option<&str>, text: Option<&str>) -> Result<(), String> {
    let Some(text) = text else {
        fs::remove_file(path).map_err(|error| error.to_string())?;
        // A folder of ours that is empty now; of clients', the folder was there before.
        if let Some(folder) = path.parent().filter(|folder| folder.ends_with(crate::name::PROGRAM))
        {
            let _ = fs::remove_dir(folder);
        }
        return Ok(());
    };
    kept::put(path, before, text)
}
