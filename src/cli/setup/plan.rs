//! The plan of a setup: what is taken over, what each client gets, what stays as it is.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::authoring::client_files::ClientProgram;
use crate::authoring::import::{
    Added, Carried, Gathered, Grade, HideSecrets, ImportFinding, Options, Outcome, Server, Source,
    gather_own, has_servers,
};
use crate::authoring::setup::entry::{entry, is_ours, is_same_launch, remote_entry};
use crate::authoring::setup::journal::Journal;
use crate::authoring::setup::servers::Place;
use crate::authoring::setup::{Changed, change};
use crate::backend::without_words;
use crate::cli::error::Error;
use crate::cli::import::proposal::{self, Proposed};
use crate::cli::import::trial::{self, Trial};
use crate::cli::secrets::Variables;
use crate::cli::setup::clients::{self, ClientFile, Here};
use crate::cli::setup::kept;
use crate::cli::setup::shared::{Shared, token_of};
use crate::cli::size::Size;
use crate::cli::{Global, own_program};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::{self, LoadError, Location, read_secrets, secrets_file, write_secrets};
use crate::os::{Platform, make_private_folder};

/// The whole plan.
pub(super) struct Plan {
    /// The configuration.
    pub(super) target: Location,
    /// Its text as it is; `None`: it is made.
    pub(super) config_before: Option<String>,
    /// Its text as it is going to be.
    pub(super) config: String,
    /// The file of secrets beside it, its text as it is, and as it is going to be.
    pub(super) secrets: (PathBuf, Option<String>, Option<String>),
    /// The number of secrets that come into it.
    pub(super) new_secrets: usize,
    pub(super) proposed: Vec<Proposed>,
    pub(super) added: Vec<Added>,
    pub(super) remarks: Vec<ImportFinding>,
    pub(super) clients: Vec<Client>,
    /// Files that cannot be read, by the titles of their clients, and why.
    pub(super) unreadable: Vec<(&'static str, String, String)>,
    /// The service that all clients are to share, if they are.
    pub(super) shared: Option<Shared>,
    /// The journal of earlier setups.
    pub(super) journal: Journal,
}

/// One client's file.
pub(super) struct Client {
    pub(super) file: ClientFile,
    /// The change, or why there is none.
    pub(super) change: Result<Changed, String>,
    /// The entry that stands for us there.
    pub(super) entry: Value,
    /// Servers that stay in it, and why.
    pub(super) left: Vec<(String, String)>,
    /// The definitions of the tools of the servers that are taken out.
    pub(super) size: Size,
}

impl Client {
    /// The new text, if it is another than the one that is there.
    pub(super) fn new_text(&self) -> Option<&Changed> {
        let changed = self.change.as_ref().ok()?;
        (self.file.text.as_deref() != Some(&changed.text)).then_some(changed)
    }
}

impl Plan {
    /// Makes the plan for all clients, or for those with these ids; starts each server once. Clients share
    /// a service if that is wanted, or was set up before.
    pub(super) fn make(global: &Global, ids: &[String], service: bool) -> Result<Self, Error> {
        let folder = std::env::current_dir().map_err(Error::internal)?;
        let target = target(global, &folder)?;
        let config_before = read(&target.path, &target.shown)?;
        let secrets_path = secrets_file(&target.path);
        let secrets_before = read(&secrets_path, &secrets_path)?;
        let journal = kept::journal()?.unwrap_or_default();
        let Here { files, unreadable } = clients::find(Platform::THIS, &ProcessEnv, &folder, ids);
        let unreadable: Vec<_> =
            unreadable.into_iter().map(|(client, file, why)| (client.title, file, why)).collect();
        if files.is_empty() && unreadable.is_empty() {
            return Err(Error::wrong("no client was found here")
                .hint("`mcp-workbench import FILE` reads a client's file wherever it is"));
        }
        let shown = target.shown.display().to_string();
        let existing =
            config_before.as_ref().map(|text| Source { file: shown, text: text.clone() });
        let sources: Vec<Source> = files.iter().filter_map(|file| source(file, &journal)).collect();
        let known = secrets_before.as_deref().unwrap_or_default();
        let (known, _) = read_secrets(&secrets_path, known);
        let texts = sources.iter().chain(&existing).map(|source| source.text.as_str());
        let mut secrets = KeptSecrets(Variables::kept(texts, known.clone()));
        let invalid = |report| Error::config(LoadError::Invalid(report));
        let gathered = gather_own(existing.as_ref(), &sources, &mut secrets).map_err(invalid)?;
        let KeptSecrets(secrets) = secrets;
        // Servers start in the folder of the configuration, which may not be there yet.
        let _folder = NewFolder::make(target.path.parent());
        let trial = trial::run(global, &gathered, &target, (&secrets, &HashSet::new()))?;
        let all = gathered.carried();
        let tools: Vec<usize> = bytes(&trial);
        let (gathered, trial, left) = without_left(gathered, trial);

        let proposed = proposal::several(gathered.servers(), &trial.tools);
        let carried = gathered.carried();
        let foreign = gathered.workbenches();
        let options = Options {
            proposal: proposed.iter().map(Proposed::to_proposal).collect(),
            outcomes: trial.outcomes,
            ..Options::default()
        };
        let planned = gathered.plan(&options).map_err(invalid)?;
        let remarks = remarks(planned.findings, &carried);
        let mut shared = (service || journal.service.is_some())
            .then(|| {
                let here: Vec<&str> = files.iter().map(|file| file.program.id).collect();
                Shared::make(&target.path, &planned.text, program(), &here)
            })
            .transpose()?;
        let config = match &mut shared {
            Some(shared) => shared.in_config(&target.path, &planned.text)?,
            None => planned.text,
        };
        let entry_of =
            Entries { program: program(), config: &target.path, shared: shared.as_ref() };
        let clients = files.into_iter().map(|file| {
            let own = Own { carried: &carried, foreign: &foreign, journal: &journal };
            let mut client = own.client(file, &entry_of);
            let here = |carried: &&Carried| carried.file == client.file.shown;
            let sizes = all.iter().filter(here).filter(|c| carried.iter().any(|o| is_same(o, c)));
            client.size = sizes.filter_map(|c| tools.get(c.server?)).copied().map(Size::of).sum();
            let stay = all.iter().filter(here).filter_map(|c| {
                let why = left.iter().find(|(place, _)| Some(*place) == c.server)?.1.clone();
                Some((c.name.clone(), why))
            });
            client.left.extend(stay);
            client
        });
        let clients = clients.collect();
        let used = secrets.values().filter(|(name, _)| config.contains(&format!("${{{name}}}")));
        let used: BTreeMap<String, String> =
            used.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let new_secrets = used.keys().filter(|name| !known.contains_key(*name)).count();
        let all_secrets = known.into_iter().chain(used).collect();
        let secrets_text = (new_secrets > 0).then(|| write_secrets(&all_secrets));
        Ok(Self {
            config_before,
            config,
            secrets: (secrets_path, secrets_before, secrets_text),
            new_secrets,
            proposed,
            added: planned.added,
            remarks,
            clients,
            unreadable,
            shared,
            journal,
            target,
        })
    }

    /// Returns `true` if there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.clients.iter().all(|client| client.new_text().is_none())
            && !self.shared.as_ref().is_some_and(Shared::is_new)
    }
}

/// A folder that is there for as long as this is, and afterwards if something is in it.
struct NewFolder(Option<PathBuf>);

impl NewFolder {
    fn make(folder: Option<&Path>) -> Self {
        let missing = folder.filter(|folder| !folder.exists());
        // Where it cannot be made, each server says that it is not there.
        Self(missing.filter(|folder| make_private_folder(folder).is_ok()).map(Path::to_owned))
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// The user's own configuration, or the one that is named.
pub(super) fn target(global: &Global, folder: &Path) -> Result<Location, Error> {
    let target = match &global.config {
        Some(file) => config::locate(Some(file.clone()), &ProcessEnv, folder),
        None => config::user_file(&ProcessEnv)
            .ok_or_else(|| Error::wrong("nobody knows where the user's own file would be"))?,
    };
    if target.path.is_dir() {
        let shown = target.shown.display();
        return Err(Error::wrong(format!(
            "`{shown}` is a catalog folder, which is not changed here"
        ))
        .hint("name a file with `--config`"));
    }
    Ok(target)
}

fn read(path: &Path, shown: &Path) -> Result<Option<String>, Error> {
    clients::read(path)
        .map_err(|why| Error::wrong(format!("cannot read `{}`", shown.display())).because(&why))
}

fn source(file: &ClientFile, journal: &Journal) -> Option<Source> {
    let place = Place::of(file.program);
    let text = file.text.clone()?;
    // Our own entry by an address is no server to be taken over.
    let path = file.path.display().to_string();
    let record = journal.files.iter().find(|record| record.path == path);
    let text = match record.and_then(|record| record.entry.as_ref()) {
        Some((name, ours)) if has_ours(place, &text, name, ours) => {
            place.take(&text, name).map_or(text, |(text, _)| text)
        }
        Some(_) | None => text,
    };
    let source = Source { file: file.shown.clone(), text };
    // One that cannot be read is named where it was to be changed.
    (place.entries(&source.text).is_ok() && has_servers(&source)).then_some(source)
}

fn has_ours(place: Place, text: &str, name: &str, ours: &Value) -> bool {
    let there = place.entries(text).unwrap_or_default();
    there.iter().any(|(other, value)| other == name && is_ours(value, ours))
}

fn bytes(trial: &Trial) -> Vec<usize> {
    let tools = trial.tools.iter();
    tools.map(|tools| tools.iter().map(|tool| tool.raw.len()).sum()).collect()
}

fn is_same(one: &Carried, other: &Carried) -> bool {
    one.file == other.file && one.name == other.name
}

/// Leaves out the servers that are better off where they are, each with the reason why.
fn without_left(gathered: Gathered, trial: Trial) -> (Gathered, Trial, Vec<(usize, String)>) {
    let reasons = gathered.servers().iter().zip(&trial.outcomes).map(reason_to_stay);
    let left: Vec<(usize, String)> =
        reasons.enumerate().filter_map(|(place, why)| Some((place, why?))).collect();
    let places: Vec<usize> = left.iter().map(|(place, _)| *place).collect();
    let Trial { outcomes, tools } = trial;
    let stays = |place: &usize| places.contains(place);
    let outcomes = outcomes.into_iter().enumerate().filter(|(place, _)| !stays(place));
    let tools = tools.into_iter().enumerate().filter(|(place, _)| !stays(place));
    let trial = Trial {
        outcomes: outcomes.map(|(_, outcome)| outcome).collect(),
        tools: tools.map(|(_, tools)| tools).collect(),
    };
    (gathered.without(&places), trial, left)
}

/// A server that works for its client, and might not for us, stays with its client.
fn reason_to_stay((server, outcome): (&Server, &Outcome)) -> Option<String> {
    let is_relative = |word: &String| {
        matches!(word.as_str(), "." | "..") || word.starts_with("./") || word.starts_with("../")
    };
    let has_folder = || server.block.get("cwd").and_then(Value::as_str).is_some_and(is_absolute);
    match outcome {
        Outcome::Failed { reason, .. } => {
            // What it wrote has lines of its own, for which there is no room here.
            let reason = without_words(reason).lines().next().unwrap_or_default();
            Some(format!("it could not be started: {reason}"))
        }
        Outcome::NotStarted => Some("it was not started".to_owned()),
        Outcome::Started if server.words.iter().any(is_relative) && !has_folder() => {
            Some("it works on the folder that its client is in".to_owned())
        }
        // It wants that of us as of its client, and is told how (`remarks`).
        Outcome::Started | Outcome::WantsSignIn => None,
    }
}

fn is_absolute(folder: &str) -> bool {
    Path::new(folder).is_absolute()
}

/// Remarks on servers that are carried over, without those that say that all is well.
fn remarks(findings: Vec<ImportFinding>, carried: &[Carried]) -> Vec<ImportFinding> {
    let is_told = |finding: &ImportFinding| {
        let names_it = |carried: &Carried| {
            carried.file == finding.file && finding.path.contains(&carried.name)
        };
        finding.grade != Grade::Exact && carried.iter().any(names_it)
    };
    findings.into_iter().filter(is_told).collect()
}

/// Makes the entry for each client.
struct Entries<'a> {
    program: String,
    config: &'a Path,
    shared: Option<&'a Shared>,
}

impl Entries<'_> {
    fn of(&self, program: &ClientProgram) -> Value {
        let config = ["--config".to_owned(), self.config.display().to_string()];
        let Some(shared) = self.shared else {
            return entry(program.entry, &self.program, &config);
        };
        if let Some(form) = program.remote.filter(|_| shared.has_address()) {
            let token = token_of(&shared.service.tokens, program.id);
            remote_entry(form, &shared.service.url(), token)
        } else {
            let bridge = ["connect", "--agent", program.id].map(str::to_owned);
            let args: Vec<String> = bridge.into_iter().chain(config).collect();
            entry(program.entry, &self.program, &args)
        }
    }
}

/// Everything that decides about a client's file.
struct Own<'a> {
    carried: &'a [Carried],
    foreign: &'a [(String, String)],
    journal: &'a Journal,
}

impl Own<'_> {
    fn client(&self, file: ClientFile, entries: &Entries<'_>) -> Client {
        let entry = entries.of(file.program);
        let place = Place::of(file.program);
        let path = file.path.display().to_string();
        let record = self.journal.files.iter().find(|record| record.path == path);
        let ours = record.and_then(|record| record.entry.as_ref());
        let ours = ours.map(|(name, value)| (name.as_str(), value));
        let own = self.carried.iter().filter(|carried| carried.file == file.shown);
        let names: Vec<String> = own.map(|carried| carried.name.clone()).collect();
        let change = match self.other_workbench(&file, place, &entry, ours.map(|(name, _)| name)) {
            Some(name) => Err(format!("it starts another workbench already, as `{name}`")),
            None if place.keeps_us_out(file.text.as_deref().unwrap_or_default()) => {
                Err("its `mcp.allowed` or `mcp.excluded` keeps `workbench` out: change that first"
                    .to_owned())
            }
            None => change(place, file.text.as_deref(), &entry, (ours, names.as_slice()))
                .map_err(|error| error.to_string()),
        };
        let stuck = change.iter().flat_map(|changed| &changed.stuck);
        let stuck = stuck.map(|name| {
            (name.clone(), "its text cannot be taken out without losing something".to_owned())
        });
        let left = stuck.collect();
        Client { file, change, entry, left, size: Size::default() }
    }

    /// The name of an entry that starts the workbench and is none of ours.
    fn other_workbench(
        &self,
        file: &ClientFile,
        place: Place,
        entry: &Value,
        ours: Option<&str>,
    ) -> Option<String> {
        let there = place.entries(file.text.as_deref().unwrap_or_default()).ok()?;
        let is_foreign =
            |name: &str| self.foreign.iter().any(|(of, other)| *of == file.shown && other == name);
        let mut there = there.into_iter().filter(|(name, value)| {
            is_foreign(name) && Some(name.as_str()) != ours && !is_same_launch(value, entry)
        });
        there.next().map(|(name, _)| name)
    }
}

/// The program as clients are to start it: by the name on the search path that leads to it, which
/// stays when it is renewed, or else where it is.
fn program() -> String {
    let own = own_program().and_then(|path| path.canonicalize().ok());
    let path = ProcessEnv.get("PATH").unwrap_or_default();
    let name = format!("{}{}", crate::cli::NAME, std::env::consts::EXE_SUFFIX);
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|file| {
        file.is_absolute() && file.canonicalize().is_ok_and(|file| Some(&file) == own.as_ref())
    });
    let program = on_path.or(own);
    program.map_or_else(|| crate::cli::NAME.to_owned(), |path| path.display().to_string())
}

/// Secrets that go into the file beside the configuration.
struct KeptSecrets(Variables);

impl HideSecrets for KeptSecrets {
    fn in_arguments(&mut self, server: &str, args: &mut Vec<String>) -> Vec<String> {
        self.0.in_arguments(server, args)
    }

    fn in_address(&mut self, server: &str, address: &mut String) -> Vec<String> {
        self.0.in_address(server, address)
    }

    fn in_named(&mut self, wanted: &str, name: &str, value: &mut String) {
        self.0.hide_named(wanted, name, value);
    }

    fn keeps_values(&self) -> bool {
        true
    }
}
