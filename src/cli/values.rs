//! Values that the configuration refers to: which are asked for when, and where.
//!
//! Whoever serves has all of them, and keeps them: a file that has merely changed has no new command
//! run, for whoever may write files may be an agent. Whoever starts some servers has theirs alone, and
//! who only looks has the programs looked for and not run.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::app::Renewal;
use crate::backend::StartFailure;
use crate::backend::launch::printed::{Printing, printed};
use crate::config::Loaded;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::values::{Failure, MAX_VALUE_BYTES, Value, ValueSource, Values};
use crate::os::Platform;
use crate::settings::{AuthConfig, Reference, ServerConfig, ToolboxConfig};

mod file;

use file::read_file;

/// A source that has every value asked for.
pub(super) struct Everything;

/// A source that has no command run and no keyring asked: files are read, and programs looked for.
pub(super) struct Looking;

/// A source that has these values asked for, and looks for others.
pub(super) struct Needed(pub(super) BTreeSet<Reference>);

/// The values of the configuration that is served.
#[derive(Default)]
pub(super) struct Kept(Mutex<Values>);

/// A source that keeps values, and asks for those that are to be renewed.
pub(super) struct Asking<'a> {
    kept: &'a Kept,
    renewal: Renewal,
}

impl Kept {
    /// The source for one reading.
    pub(super) fn asking(&self, renewal: Renewal) -> Asking<'_> {
        Asking { kept: self, renewal }
    }
}

impl ValueSource for Everything {
    fn get(&self, wanted: &BTreeSet<Reference>) -> Values {
        ask(wanted)
    }
}

impl ValueSource for Looking {
    fn get(&self, wanted: &BTreeSet<Reference>) -> Values {
        let environment = ProcessEnv.vars();
        let look = |reference: &Reference| match Means::of(reference) {
            Means::File(path) => Some(read_file(path)),
            Means::Command { words, folder } => {
                let words = &words;
                let command = Printing { words, folder, environment: &environment };
                command.missing().map(|failure| Err(of_command(reference, failure)))
            }
            Means::None => Some(Err(no_keyring(reference))),
        };
        let found = wanted.iter().filter_map(|wanted| Some((wanted.clone(), look(wanted)?)));
        Values(found.collect())
    }
}

impl ValueSource for Needed {
    fn get(&self, wanted: &BTreeSet<Reference>) -> Values {
        let (needed, others): (BTreeSet<_>, BTreeSet<_>) =
            wanted.iter().cloned().partition(|reference| self.0.contains(reference));
        let mut values = Looking.get(&others);
        values.0.extend(ask(&needed).0);
        values
    }
}

impl ValueSource for Asking<'_> {
    fn get(&self, wanted: &BTreeSet<Reference>) -> Values {
        // Whoever reads at the same time waits, and finds what this one has asked for.
        let mut kept = self.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |reference: &&Reference| kept.0.contains_key(reference);
        let asked: BTreeSet<Reference> = match self.renewal {
            Renewal::All => wanted.clone(),
            Renewal::New => wanted.iter().filter(|wanted| !known(wanted)).cloned().collect(),
            Renewal::None => BTreeSet::new(),
        };
        kept.0.extend(ask(&asked).0);
        if self.renewal != Renewal::None {
            kept.0.retain(|reference, _| wanted.contains(reference));
        }
        kept.get(wanted)
    }
}

/// The values without which a configuration that was looked at cannot be used, if the servers start
/// for which `starts` holds: theirs, and the keys of endpoints.
pub(super) fn needed(
    loaded: &Loaded,
    starts: impl Fn(&ToolboxConfig, &ServerConfig) -> bool,
) -> BTreeSet<Reference> {
    let config = &loaded.config;
    let tokens = config.auth.iter().flat_map(AuthConfig::all_tokens);
    let mut others: BTreeSet<&Reference> =
        tokens.filter_map(|token| token.referred.as_ref()).collect();
    let mut theirs = BTreeSet::new();
    for toolbox in &config.toolboxes {
        for server in &toolbox.servers {
            let some = if starts(toolbox, server) { &mut theirs } else { &mut others };
            some.extend(server.launch.references());
        }
    }
    let is_needed =
        |reference: &&Reference| theirs.contains(reference) || !others.contains(reference);
    loaded.unasked.iter().filter(is_needed).cloned().collect()
}

/// How a value is got.
enum Means<'a> {
    /// It is read from a file.
    File(&'a Path),
    /// A command prints it.
    Command { words: Cow<'a, [String]>, folder: &'a Path },
    /// Nothing here does.
    None,
}

impl<'a> Means<'a> {
    fn of(reference: &'a Reference) -> Self {
        match reference {
            Reference::File(path) => Self::File(path),
            Reference::Command { words, folder } => Self::Command { words: words.into(), folder },
            Reference::Keyring { service, account } => {
                let words = keyring(Platform::THIS, service, account);
                words.map_or(Self::None, |words| Self::Command {
                    words: words.map(str::to_owned).to_vec().into(),
                    folder: Path::new("/"),
                })
            }
        }
    }
}

/// The command that asks the system's keyring. Entries have the attributes that the keyring libraries
/// of Python and Rust give them.
fn keyring<'a>(platform: Platform, service: &'a str, account: &'a str) -> Option<[&'a str; 6]> {
    match platform {
        Platform::Linux => Some(["secret-tool", "lookup", "service", service, "username", account]),
        Platform::MacOs => {
            // `-w` prints the password alone, and has to come last with nothing behind it.
            Some(["security", "find-generic-password", "-ws", service, "-a", account])
        }
        Platform::Windows => None,
    }
}

fn no_keyring(reference: &Reference) -> Failure {
    Failure {
        reason: format!("{reference} cannot be read on this system"),
        hint: "write a `command` that prints the value".to_owned(),
    }
}

/// Gets all of these: files are read, and commands run, all at the same time.
fn ask(wanted: &BTreeSet<Reference>) -> Values {
    let environment = if wanted.is_empty() { Vec::new() } else { ProcessEnv.vars() };
    let mut values = Values::default();
    let mut commands = Vec::new();
    for reference in wanted {
        let value = match Means::of(reference) {
            Means::Command { words, folder } => {
                commands.push((reference, words, folder));
                continue;
            }
            Means::File(path) => read_file(path),
            Means::None => Err(no_keyring(reference)),
        };
        values.0.insert(reference.clone(), value);
    }
    let printing = commands.iter().map(|(_, words, folder)| Printing {
        words,
        folder,
        environment: &environment,
    });
    let all = printed(&printing.collect::<Vec<_>>(), MAX_VALUE_BYTES);
    for ((reference, ..), printed) in commands.into_iter().zip(all) {
        let value = printed
            .map_err(|failure| of_command(reference, failure))
            .and_then(|bytes| Value::of_bytes(reference, bytes));
        values.0.insert(reference.clone(), value);
    }
    values
}

fn of_command(reference: &Reference, failure: StartFailure) -> Failure {
    let StartFailure { reason, hint, .. } = failure;
    match reference {
        Reference::Keyring { .. } => Failure {
            reason: format!("{reference} cannot be read: {reason}"),
            hint: "`secret-tool`, of the package `libsecret-tools`, or on macOS `security` has to find it \
                   there, with the keyring unlocked"
                .to_owned(),
        },
        Reference::File(_) | Reference::Command { .. } => Failure { reason, hint },
    }
}
