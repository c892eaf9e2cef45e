//! Writes the lock: all servers, or the accepted definitions.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::cli::access::locking::recording::LockRecording;
use crate::cli::access::locking::remarks::ServerDefinitions;
use crate::cli::access::locking::{accept, recording, remarks, server_names};
use crate::cli::args::{GlobalArgs, print_warnings};
use crate::cli::diagnostics::definition_remarks::DefinitionRemarks;
use crate::cli::diagnostics::unpinned_packages;
use crate::cli::files::atomic_write;
use crate::cli::output::{CommandError, escape_to_line, format_count, print};
use mcp_workbench_config::{ConfigLocation, ConfigOrigin, Finding};
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::{Config, LockedDefinitions, LockedServer, Lockfile};

pub(crate) struct LockPaths {
    pub(crate) config: ConfigLocation,
    pub(crate) lock: ConfigLocation,
}

#[derive(Default)]
pub(crate) struct WriteOptions {
    /// List servers without a pinned version.
    pub(crate) details: bool,
    pub(crate) json: bool,
}

/// Writes the lock, or with `accept` only these servers and definitions.
pub(crate) fn write_lock(
    global: &GlobalArgs,
    accept: &[String],
    options: &WriteOptions,
) -> Result<ExitCode, CommandError> {
    let place = LockPaths::find(global)?;
    let before = if accept.is_empty() {
        // An unreadable lock is overwritten.
        mcp_workbench_config::load_lockfile(&place.config).ok().flatten().unwrap_or_default()
    } else {
        place.required_lock()?
    };
    let loaded = print_warnings(global.read_unlocked()?)?;
    let accepted = accept::parse_accepts(accept, &loaded)?;
    let recorded = recording::record_variants(global, &loaded, &before, |name| {
        accept::concerns(&accepted, name)
    })?;
    let next = if accepted.is_empty() {
        build_lock(&before, &recorded)
    } else {
        accept::apply_accepts(before.clone(), &recorded, &accepted)?
    };
    if let Some(loose) = unpinned_note(&loaded.config, options.details) {
        print::note(&format!("note: {loose}"));
    }
    write(options, &place, &before, &next, &recorded)
}

/// Writes the lock next to a new configuration. If a lock exists, accepts only the `added` servers,
/// each given as toolbox and name.
pub(crate) fn lock_added(
    global: &GlobalArgs,
    config: &Path,
    added: &[(&str, &str)],
) -> Result<(), CommandError> {
    let global = GlobalArgs { config: Some(config.to_owned()), ..global.clone() };
    let mut accept = Vec::new();
    if LockPaths::find(&global)?.lock.path.exists() {
        let loaded = print_warnings(global.read_unlocked()?)?;
        let is_new = |at: &ServerRef| added.contains(&(at.toolbox.as_str(), at.server.as_str()));
        let new = server_names::names(&loaded.config).into_iter().filter(|(at, _)| is_new(at));
        accept = new.map(|(_, name)| name).collect();
        if accept.is_empty() {
            return Ok(());
        }
    }
    // Servers that failed to start have been reported already.
    write_lock(&global, &accept, &WriteOptions::default()).map(|_code| ())
}

/// Returns a note about servers without a pinned package version, whose next start may run other
/// code.
pub(crate) fn unpinned_note(config: &Config, has_details: bool) -> Option<String> {
    let Finding { message, hint, .. } = unpinned_packages::findings(config, has_details)?;
    Some(format!("{message}{}", hint.map(|hint| format!(": {hint}")).unwrap_or_default()))
}

impl LockPaths {
    pub(crate) fn find(global: &GlobalArgs) -> Result<Self, CommandError> {
        let config = global.location()?.ok_or_else(|| {
            CommandError::usage("the embedded configuration has no lock file")
                .with_hint("use `--config FILE`")
        })?;
        let is_folder = config.path.is_dir();
        let lock = ConfigLocation {
            display_path: mcp_workbench_config::lockfile_path(&config.display_path, is_folder),
            path: mcp_workbench_config::lockfile_path(&config.path, is_folder),
            chosen_by: ConfigOrigin::Default,
        };
        Ok(Self { config, lock })
    }

    /// Reads the lock. Fails if there is none.
    pub(crate) fn required_lock(&self) -> Result<Lockfile, CommandError> {
        let lock =
            mcp_workbench_config::load_lockfile(&self.config).map_err(CommandError::config)?;
        lock.ok_or_else(|| {
            CommandError::usage(format!("`{}` does not exist", self.lock.display_path.display()))
                .with_hint("run `mcp-workbench lock` to create it, then review and commit it")
        })
    }
}

/// Builds a new lock. Servers that failed to start or are disabled keep their old record.
fn build_lock(before: &Lockfile, recorded: &LockRecording) -> Lockfile {
    let mut servers = BTreeMap::new();
    for (name, server) in &recorded.servers {
        servers.insert(name.clone(), Arc::new(server.clone()));
    }
    for name in recorded.failed.keys().chain(&recorded.disabled) {
        if let Some(server) = before.servers.get(name) {
            servers.insert(name.clone(), Arc::clone(server));
        }
    }
    Lockfile { servers }
}

fn write(
    options: &WriteOptions,
    place: &LockPaths,
    before: &Lockfile,
    next: &Lockfile,
    recorded: &LockRecording,
) -> Result<ExitCode, CommandError> {
    let text = mcp_workbench_config::render_lockfile(next);
    let old = mcp_workbench_os::read_input_text(&place.lock.path).ok();
    let is_same = old.as_deref() == Some(text.as_str());
    if !is_same {
        atomic_write::write_atomically(&place.lock, &text, &[&place.config.path])?;
    }
    for (name, why) in &recorded.failed {
        let kept = if next.servers.contains_key(name) {
            "its entry in the lock is unchanged"
        } else {
            "it is missing from the lock"
        };
        print::note(&format!("warning: `{name}` failed to start, so {kept}: {why}"));
    }
    for (name, unclear) in &recorded.unclear {
        for one in unclear {
            let why = "is not in the lock: its JSON has a duplicate member";
            print::note(&format!("warning: {one} of `{name}` {why}"));
        }
    }
    let texts = next.servers.iter().map(|(name, server)| {
        ServerDefinitions::of_locked(name, server, before.servers.get(name).map(|server| &**server))
    });
    let remarks = remarks::remarked(&texts.collect::<Vec<_>>());
    if options.json {
        print::json(&serde_json::json!({
            "file": place.lock.display_path,
            "written": !is_same,
            "servers": next.servers.len(),
            "failed": recorded.failed,
            "findings": remarks.iter().flat_map(DefinitionRemarks::rows).collect::<Vec<_>>(),
        }))?;
    } else {
        let said = if is_same { "is unchanged" } else { "was written" };
        let mut lines =
            vec![format!("`{}` {said}: {}", place.lock.display_path.display(), sums(next))];
        lines.extend(changes(before, next));
        lines.extend(volatile(next));
        lines.extend(remarks::remarks_text(&remarks).map(|remarks| format!("\n{remarks}\n")));
        if !is_same {
            lines.push(
                "Review and commit it, and run `mcp-workbench lock --check` in CI.".to_owned(),
            );
        }
        print::prose(&lines.join("\n"))?;
    }
    Ok(if recorded.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sums(lock: &Lockfile) -> String {
    let all = |of: fn(&LockedServer) -> usize| lock.servers.values().map(|one| of(one)).sum();
    format!(
        "{} with {}, {}, {} and {}",
        format_count(lock.servers.len(), "server"),
        format_count(all(|one| one.tools.len()), "tool"),
        format_count(all(|one| one.prompts.len()), "prompt"),
        format_count(
            all(|one| one.resources.as_ref().map_or(0, LockedDefinitions::len)),
            "resource"
        ),
        format_count(all(|one| one.templates.len()), "resource template"),
    )
}

fn changes(before: &Lockfile, next: &Lockfile) -> Vec<String> {
    if before.servers.is_empty() {
        return Vec::new();
    }
    let gone = before.servers.keys().filter(|name| !next.servers.contains_key(*name));
    let gone = gone.map(|name| format!("  removed: `{name}`"));
    let others = next.servers.iter().filter_map(|(name, now)| match before.servers.get(name) {
        None => Some(format!("  added: `{name}`")),
        Some(old) if old != now => Some(format!("  changed: `{name}`")),
        Some(_) => None,
    });
    others.chain(gone).collect()
}

/// Lists definitions that vary between runs, and those that only some clients see.
fn volatile(lock: &Lockfile) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, server) in &lock.servers {
        for (kind, all) in server.kinds() {
            for (own, locked) in all {
                let own = escape_to_line(own);
                let whole = locked.ignore.iter().filter(|(_, words)| words.is_empty());
                for (at, _) in whole {
                    lines.push(format!(
                        "  not compared, varies between runs: `{at}` of {kind} `{own}` of `{name}`"
                    ));
                }
                if locked.ignore.iter().any(|(_, words)| !words.is_empty()) {
                    lines.push(format!(
                        "  some words vary between runs: {kind} `{own}` of `{name}`"
                    ));
                }
                if locked.is_conditional {
                    lines.push(format!("  only for some clients: {kind} `{own}` of `{name}`"));
                }
            }
        }
    }
    lines
}
