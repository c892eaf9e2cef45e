//! Accepts the current definitions of single servers, or single definitions.

use std::sync::Arc;

use crate::cli::access::locking::recording::LockRecording;
use crate::cli::access::locking::server_names::names;
use crate::cli::output::CommandError;
use mcp_workbench_config::LoadedConfig;
use mcp_workbench_settings::{LockedDefinitions, LockedServer, Lockfile};

/// Servers by their names in the lock, each with one accepted definition; `None` accepts all.
pub(crate) type AcceptList = Vec<(String, Option<String>)>;

pub(crate) fn parse_accepts(
    words: &[String],
    loaded: &LoadedConfig,
) -> Result<AcceptList, CommandError> {
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
        let near = mcp_workbench_names::nearest(server, known.iter().map(String::as_str), 1);
        Err(CommandError::usage(format!("no server `{server}` in the configuration"))
            .suggesting(&near, "run `mcp-workbench check` to list the servers"))
    };
    words.iter().map(meant).collect()
}

/// Returns `true` if the server has to be started. An empty list selects all servers.
pub(crate) fn concerns(accepted: &AcceptList, server: &str) -> bool {
    accepted.is_empty() || accepted.iter().any(|(name, _)| name == server)
}

pub(crate) fn apply_accepts(
    mut lock: Lockfile,
    recorded: &LockRecording,
    accepted: &AcceptList,
) -> Result<Lockfile, CommandError> {
    for (name, one) in accepted {
        let Some(now) = recorded.servers.get(name) else {
            let why =
                recorded.failed.get(name).map_or("it returned no definitions", String::as_str);
            return Err(CommandError::failed(format!("`{name}` failed to start")).with_cause(why));
        };
        let next = match one {
            None => now.clone(),
            Some(one) => {
                let before = lock.servers.get(name).map(|server| (**server).clone());
                let mut next = before.unwrap_or_else(|| LockedServer {
                    launch: Arc::clone(&now.launch),
                    package: now.package.clone(),
                    info: now.info.clone(),
                    ..LockedServer::unreviewed()
                });
                if !take(&mut next, now, one) {
                    let error = CommandError::usage(format!(
                        "neither `{name}` nor its lock entry has a definition `{one}`"
                    ));
                    return Err(
                        error.with_hint("run `mcp-workbench lock --check` to list the differences")
                    );
                }
                next
            }
        };
        lock.servers.insert(name.clone(), Arc::new(next));
    }
    Ok(lock)
}

/// Accepts one definition or its removal. Returns `false` if neither side has it.
fn take(next: &mut LockedServer, now: &LockedServer, one: &str) -> bool {
    let mut kinds: Vec<(&mut LockedDefinitions, &LockedDefinitions)> = vec![
        (&mut next.tools, &now.tools),
        (&mut next.prompts, &now.prompts),
        (&mut next.templates, &now.templates),
    ];
    kinds.extend(next.resources.as_mut().zip(now.resources.as_ref()));
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
