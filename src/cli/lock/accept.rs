//! Taking over what single servers say, or single definitions of theirs.

use std::sync::Arc;

use crate::cli::error::Error;
use crate::cli::lock::names::names;
use crate::cli::lock::record::Recorded;
use crate::config::Loaded;
use crate::name;
use crate::settings::{Lock, LockedKind, LockedServer};

/// Things that are to be taken over: a server by its name in the lock, and one definition of it, or all.
pub(super) type Accepted = Vec<(String, Option<String>)>;

/// Finds out which servers and definitions are meant.
pub(super) fn wanted(words: &[String], loaded: &Loaded) -> Result<Accepted, Error> {
    let known: Vec<String> = names(&loaded.config).into_iter().map(|(_, name)| name).collect();
    let meant = |word: &String| {
        if known.contains(word) {
            return Ok((word.clone(), None));
        }
        let split = word.split_once(':');
        if let Some((server, one)) = split.filter(|(server, _)| known.iter().any(|k| k == server)) {
            return Ok((server.to_owned(), Some(one.to_owned())));
        }
        let server = split.map_or(word.as_str(), |(server, _)| server);
        let near = name::nearest(server, known.iter().map(String::as_str), 1).pop();
        let error = Error::wrong(format!("there is no server `{server}`"));
        Err(match near {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("`mcp-workbench check` shows the servers that there are"),
        })
    };
    words.iter().map(meant).collect()
}

/// Returns `true` if a server has to be started for it; without wishes all have.
pub(super) fn concerns(accepted: &Accepted, server: &str) -> bool {
    accepted.is_empty() || accepted.iter().any(|(name, _)| name == server)
}

/// The lock with what was accepted in it.
pub(super) fn taken_over(
    mut lock: Lock,
    recorded: &Recorded,
    accepted: &Accepted,
) -> Result<Lock, Error> {
    for (name, one) in accepted {
        let Some(now) = recorded.servers.get(name) else {
            let why = recorded.failed.get(name).map_or("it has said nothing", String::as_str);
            return Err(Error::failed(format!("`{name}` could not be started")).because(why));
        };
        let next = match one {
            None => now.clone(),
            Some(one) => {
                let before = lock.servers.get(name).map(|server| (**server).clone());
                let mut next = before.unwrap_or_else(|| LockedServer {
                    launch: Arc::clone(&now.launch),
                    package: now.package.clone(),
                    info: now.info.clone(),
                    ..LockedServer::default()
                });
                if !take(&mut next, now, one) {
                    let error = Error::wrong(format!("neither `{name}` nor the lock has `{one}`"));
                    return Err(error.hint("`mcp-workbench lock --check` names what differs"));
                }
                next
            }
        };
        lock.servers.insert(name.clone(), Arc::new(next));
    }
    Ok(lock)
}

/// Takes over one definition, or that it is gone; `false` if neither has it.
fn take(next: &mut LockedServer, now: &LockedServer, one: &str) -> bool {
    let kinds: [(&mut LockedKind, &LockedKind); 3] = [
        (&mut next.tools, &now.tools),
        (&mut next.prompts, &now.prompts),
        (&mut next.templates, &now.templates),
    ];
    let mut has_it = false;
    for (next, now) in kinds {
        has_it |= next.contains_key(one) || now.contains_key(one);
        match now.get(one) {
            Some(locked) => _ = next.insert(one.to_owned(), locked.clone()),
            None => _ = next.remove(one),
        }
    }
    match one {
        _ if has_it => {}
        "instructions" => next.instructions.clone_from(&now.instructions),
        "package" => next.package.clone_from(&now.package),
        _ => return false,
    }
    true
}
