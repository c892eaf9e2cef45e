//! Sources of the values that the configuration refers to.
//!
//! `serve` fetches all values and caches them. A changed file never causes a command to run,
//! because an agent may be able to write the file; only an explicit reload does. Commands that
//! start servers fetch only the values these servers need. All others only check that the programs
//! exist.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use parking_lot::Mutex;

use crate::app::ValueRefresh;
use mcp_workbench_config::LoadedConfig;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_config::secret_values::{
    MAX_VALUE_BYTES, ResolvedSecrets, SecretError, SecretResolver, SecretValue,
};
use mcp_workbench_core::backend::StartError;
use mcp_workbench_core::backend::launch::capture::{CaptureCommand, capture_all};
use mcp_workbench_os::Platform;
use mcp_workbench_settings::{AuthConfig, SecretRef, ServerConfig, ToolboxConfig};

mod file;

use file::read_file;

pub(crate) struct FetchAll;

/// Reads files and checks that programs exist, without running commands or reading the keyring.
pub(crate) struct CheckOnly;

/// Fetches these values, and treats others like `CheckOnly`.
pub(crate) struct FetchNeeded(pub(crate) BTreeSet<SecretRef>);

#[derive(Default)]
pub(crate) struct ValueCache(Mutex<ResolvedSecrets>);

/// Fetches values as `renewal` says, and returns the others from the cache.
pub(crate) struct RefreshingSource<'a> {
    kept: &'a ValueCache,
    renewal: ValueRefresh,
}

impl ValueCache {
    pub(crate) fn source(&self, renewal: ValueRefresh) -> RefreshingSource<'_> {
        RefreshingSource { kept: self, renewal }
    }
}

impl SecretResolver for FetchAll {
    fn resolve(&self, references: &BTreeSet<SecretRef>) -> ResolvedSecrets {
        fetch(references)
    }
}

impl SecretResolver for CheckOnly {
    fn resolve(&self, references: &BTreeSet<SecretRef>) -> ResolvedSecrets {
        let environment = ProcessEnv.vars();
        let look = |reference: &SecretRef| match ValueMethod::of(reference) {
            ValueMethod::File(path) => Some(read_file(path)),
            ValueMethod::Command { words, folder } => {
                let words = &words;
                let command = CaptureCommand { words, folder, environment: &environment };
                command.missing().map(|failure| Err(of_command(reference, failure)))
            }
            ValueMethod::None => Some(Err(no_keyring(reference))),
        };
        let found =
            references.iter().filter_map(|reference| Some((reference.clone(), look(reference)?)));
        ResolvedSecrets(found.collect())
    }
}

impl SecretResolver for FetchNeeded {
    fn resolve(&self, references: &BTreeSet<SecretRef>) -> ResolvedSecrets {
        let (needed, others): (BTreeSet<_>, BTreeSet<_>) =
            references.iter().cloned().partition(|reference| self.0.contains(reference));
        let mut values = CheckOnly.resolve(&others);
        values.0.extend(fetch(&needed).0);
        values
    }
}

impl SecretResolver for RefreshingSource<'_> {
    fn resolve(&self, references: &BTreeSet<SecretRef>) -> ResolvedSecrets {
        // Concurrent reads wait here and then find the values cached.
        let mut kept = self.kept.0.lock();
        let known = |reference: &&SecretRef| kept.0.contains_key(reference);
        let asked: BTreeSet<SecretRef> = match self.renewal {
            ValueRefresh::All => references.clone(),
            ValueRefresh::Missing => {
                references.iter().filter(|reference| !known(reference)).cloned().collect()
            }
            ValueRefresh::None => BTreeSet::new(),
        };
        kept.0.extend(fetch(&asked).0);
        if self.renewal != ValueRefresh::None {
            kept.0.retain(|reference, _| references.contains(reference));
        }
        kept.resolve(references)
    }
}

/// Returns the values still to be fetched if the servers selected by `starts` are started: theirs,
/// and any that belong to no server and no token in `auth`.
pub(crate) fn needed_values(
    loaded: &LoadedConfig,
    starts: impl Fn(&ToolboxConfig, &ServerConfig) -> bool,
) -> BTreeSet<SecretRef> {
    let config = &loaded.config;
    let tokens = config.auth.iter().flat_map(AuthConfig::all_tokens);
    let mut others: BTreeSet<&SecretRef> =
        tokens.filter_map(|token| token.referred.as_ref()).collect();
    let mut theirs = BTreeSet::new();
    for toolbox in &config.toolboxes {
        for server in &toolbox.servers {
            let some = if starts(toolbox, server) { &mut theirs } else { &mut others };
            some.extend(server.launch.references());
        }
    }
    let is_needed =
        |reference: &&SecretRef| theirs.contains(reference) || !others.contains(reference);
    loaded.unresolved_secrets.iter().filter(is_needed).cloned().collect()
}

enum ValueMethod<'a> {
    File(&'a Path),
    Command {
        words: Cow<'a, [String]>,
        folder: &'a Path,
    },
    /// This system has no supported keyring.
    None,
}

impl<'a> ValueMethod<'a> {
    fn of(reference: &'a SecretRef) -> Self {
        match reference {
            SecretRef::File(path) => Self::File(path),
            SecretRef::Command { words, folder } => Self::Command { words: words.into(), folder },
            SecretRef::Keyring { service, account } => {
                let words = keyring(Platform::THIS, service, account);
                words.map_or(Self::None, |words| Self::Command {
                    words: words.map(str::to_owned).to_vec().into(),
                    folder: Path::new("/"),
                })
            }
        }
    }
}

/// Returns the command that reads the system keyring. The attributes are those that Python's and
/// Rust's keyring libraries set.
fn keyring<'a>(platform: Platform, service: &'a str, account: &'a str) -> Option<[&'a str; 6]> {
    match platform {
        Platform::Linux => Some(["secret-tool", "lookup", "service", service, "username", account]),
        Platform::MacOs => {
            // `-w` prints only the password.
            Some(["security", "find-generic-password", "-ws", service, "-a", account])
        }
        Platform::Windows => None,
    }
}

fn no_keyring(reference: &SecretRef) -> SecretError {
    SecretError {
        reason: format!("reading {reference} is not supported on this system"),
        hint: "use a `command` that prints the value".to_owned(),
    }
}

/// Reads files and runs the commands in parallel.
fn fetch(wanted: &BTreeSet<SecretRef>) -> ResolvedSecrets {
    let environment = if wanted.is_empty() { Vec::new() } else { ProcessEnv.vars() };
    let mut values = ResolvedSecrets::default();
    let mut commands = Vec::new();
    for reference in wanted {
        let value = match ValueMethod::of(reference) {
            ValueMethod::Command { words, folder } => {
                commands.push((reference, words, folder));
                continue;
            }
            ValueMethod::File(path) => read_file(path),
            ValueMethod::None => Err(no_keyring(reference)),
        };
        values.0.insert(reference.clone(), value);
    }
    let printing = commands.iter().map(|(_, words, folder)| CaptureCommand {
        words,
        folder,
        environment: &environment,
    });
    let all = capture_all(&printing.collect::<Vec<_>>(), MAX_VALUE_BYTES);
    for ((reference, ..), printed) in commands.into_iter().zip(all) {
        let value = printed
            .map_err(|failure| of_command(reference, failure))
            .and_then(|bytes| SecretValue::from_bytes(reference, bytes));
        values.0.insert(reference.clone(), value);
    }
    values
}

fn of_command(reference: &SecretRef, failure: StartError) -> SecretError {
    let StartError { reason, hint, .. } = failure;
    match reference {
        SecretRef::Keyring { .. } => SecretError {
            reason: format!("failed to read {reference}: {reason}"),
            hint: "unlock the keyring, and check that `secret-tool` (package `libsecret-tools`) or, on \
                   macOS, `security` finds the entry"
                .to_owned(),
        },
        SecretRef::File(_) | SecretRef::Command { .. } => SecretError { reason, hint },
    }
}
