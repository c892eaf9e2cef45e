//! Carrying a plan out: the journal first, then our own files, then each client's.

use crate::authoring::setup::entry::has_token;
use crate::authoring::setup::journal::{Journal, Record, Undone, digest};
use crate::authoring::setup::servers::{Place, Taken};
use crate::cli::Global;
use crate::cli::error::Error;
use crate::cli::setup::kept;
use crate::cli::setup::plan::{Client, Plan};
use crate::cli::setup::shared::Written;

/// The outcome.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The places, in the plan, of the clients whose files are as planned.
    pub(super) written: Vec<usize>,
    /// The places of those whose files could not be written, and why.
    pub(super) failed: Vec<(usize, String)>,
}

/// Does what the plan says. A client's file that cannot be written is one that failed, and the others
/// get theirs all the same.
pub(super) fn out(global: &Global, plan: &Plan) -> Result<Done, Error> {
    let mut journal = plan.journal.clone();
    let (secrets_path, secrets_before, secrets) = &plan.secrets;
    let config_path = &plan.target.path;
    let config_before = plan.config_before.as_deref();
    let is_config_new = config_before != Some(&plan.config);
    let mut backups = Vec::new();
    if let Some(text) = secrets {
        let path = secrets_path.display().to_string();
        note(&mut journal, record(path, secrets_before.as_deref(), text), None);
        backups
            .extend(secrets_before.as_ref().map(|before| (secrets_path.clone(), before.clone())));
    }
    if is_config_new {
        let path = config_path.display().to_string();
        note(&mut journal, record(path, config_before, &plan.config), None);
        backups.extend(config_before.map(|before| (config_path.clone(), before.to_owned())));
    }
    if let Some(shared) = &plan.shared {
        journal.service = Some(shared.managed());
        for Written { path, before, text } in &shared.files {
            let shown = path.display().to_string();
            note(&mut journal, record(shown, before.as_deref(), text), None);
            backups.extend(before.as_ref().map(|before| (path.clone(), before.clone())));
        }
    }
    for client in &plan.clients {
        let Some(changed) = client.new_text() else { continue };
        let path = client.file.path.display().to_string();
        let new = Record {
            client: Some(client.file.program.id.to_owned()),
            entry: changed.entry.clone().map(|name| (name, client.entry.clone())),
            taken: changed.taken.clone(),
            ..record(path, client.file.text.as_deref(), &changed.text)
        };
        note(&mut journal, new, Some(Place::of(client.file.program)));
        let before = client.file.text.clone();
        backups.extend(before.map(|before| (client.file.path.clone(), before)));
    }
    for (path, before) in backups {
        kept::back_up(&path, &before)?;
    }
    kept::write(&journal)?;

    let unwritable = |file: String, why: String| {
        Error::failed(format!("cannot write `{file}`"))
            .because(&why)
            .hint("no client was changed; `mcp-workbench setup undo` takes back the rest")
    };
    if let Some(text) = secrets {
        kept::put_private(secrets_path, secrets_before.as_deref(), text)
            .map_err(|why| unwritable(secrets_path.display().to_string(), why))?;
    }
    if is_config_new {
        kept::put(config_path, config_before, &plan.config)
            .map_err(|why| unwritable(plan.target.shown.display().to_string(), why))?;
    }
    if let Some(shared) = &plan.shared {
        for Written { path, before, text } in &shared.files {
            kept::put_secret(path, before.as_deref(), text)
                .map_err(|why| unwritable(path.display().to_string(), why))?;
        }
        shared.enable(global, config_path).map_err(|why| {
            Error::failed("the service does not run").because(&why).hint(
                "no client was changed; `mcp-workbench setup undo` takes back the rest, and without \
                 `--service` each client starts a workbench of its own",
            )
        })?;
    }
    let mut done = Done::default();
    for (place, client) in plan.clients.iter().enumerate() {
        match put(client) {
            Some(Ok(())) => done.written.push(place),
            Some(Err(why)) => done.failed.push((place, why)),
            None => {}
        }
    }
    Ok(done)
}

fn put(client: &Client) -> Option<Result<(), String>> {
    let changed = client.new_text()?;
    let (path, before) = (&client.file.path, client.file.text.as_deref());
    Some(if has_token(&client.entry) {
        kept::put_secret(path, before, &changed.text)
    } else {
        kept::put(path, before, &changed.text)
    })
}

fn record(path: String, before: Option<&str>, after: &str) -> Record {
    Record {
        path,
        client: None,
        before: before.map(str::to_owned),
        after: digest(after),
        entry: None,
        taken: Vec::new(),
    }
}

/// Puts a record into the journal. One that is there of the same file is undone first, in thought: what
/// comes of that is what undoing both is to lead to.
fn note(journal: &mut Journal, mut new: Record, place: Option<Place>) {
    let Some(old) = journal.files.iter_mut().find(|old| old.path == new.path) else {
        journal.files.push(new);
        return;
    };
    match old.undo(new.before.as_deref(), place) {
        Undone::Restored(before) => new.before = before,
        Undone::Mended { text, .. } => new.before = Some(text),
        Undone::Same | Undone::Kept(_) => {}
    }
    new.entry = new.entry.or_else(|| old.entry.take());
    let is_new = |taken: &Taken| new.taken.iter().all(|other| other.name != taken.name);
    let earlier: Vec<Taken> = old.taken.iter().filter(|taken| is_new(taken)).cloned().collect();
    new.taken.extend(earlier);
    *old = new;
}
