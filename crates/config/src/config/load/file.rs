//! Where the configuration file is, and reading it.
//!
//! Beside `folder`, the one file of this module that touches the disk; [`parse`] is the same without
//! it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::config::dialect::{Dialect, is_toml};
use crate::config::env::EnvSource;
use crate::config::load::catalog::{self, Added, Attached};
use crate::config::load::check;
use crate::config::load::folder::Disk;
use crate::config::load::loaded::Loaded;
use crate::config::load::lock::{BadLock, lock_file, read_lock};
use crate::config::load::secrets::{WithSecrets, read_secrets, secrets_file};
use crate::config::load::shelf::Shelf;
use crate::config::syntax::document::{self, Node};
use crate::config::syntax::finding::{Finding, Report};
use crate::config::syntax::places::{Places, located_path};
use crate::config::values::{Known, Unasked, ValueSource, with_values};
use crate::name::PROGRAM;
use crate::settings::Lock;

/// The variable that names the configuration file.
const VARIABLE: &str = "WORKBENCH_CONFIG";
/// The variable that names the folder for what can be made again.
const CACHE_VARIABLE: &str = "MCP_WORKBENCH_CACHE";
/// The configuration file, if nothing names another.
const DEFAULT_FILE: &str = "./workbench-config.json";
/// Files of other programs that are looked for if that is not there.
const OTHER_FILES: [&str; 2] = ["./tools.toml", "./modular-mcp.json"];
/// The file in the user's folder for configurations, if there is none of these.
const USER_FILE: &str = "config.json";

/// Where the configuration file is, or the folder of a catalog, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file as the user named it, for messages.
    pub shown: PathBuf,
    /// The file, absolute.
    pub path: PathBuf,
    /// Who said so.
    pub chosen_by: ChosenBy,
}

/// Who chose the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// The flag `--config`.
    Flag,
    /// The variable `WORKBENCH_CONFIG`.
    Variable,
    /// Nobody: it is the file that is looked for by itself.
    Default,
    /// Nobody: it is the user's own, which serves where there is no other.
    User,
}

/// Finds out which file is the configuration: `explicit`, else `WORKBENCH_CONFIG`, else
/// `./workbench-config.json`.
///
/// `~` is expanded in the first two: clients start servers without a shell that would do it.
pub fn locate(explicit: Option<PathBuf>, env: &dyn EnvSource, cwd: &Path) -> Location {
    let from_variable = || env.get(VARIABLE).filter(|path| !path.is_empty());
    let (shown, chosen_by) = match (explicit, from_variable()) {
        (Some(path), _) => (path, ChosenBy::Flag),
        (None, Some(path)) => (path.into(), ChosenBy::Variable),
        (None, None) => (DEFAULT_FILE.into(), ChosenBy::Default),
    };
    let path = absolute(&shown, env, cwd);
    let Some(folder) = catalog::folder_of(&path) else {
        return Location { shown, path, chosen_by };
    };
    // A catalog is its whole folder, whichever of the two is named.
    let inside = shown.parent().filter(|folder| !folder.as_os_str().is_empty());
    let shown = inside.unwrap_or(Path::new(".")).to_owned();
    Location { shown, path: folder.to_owned(), chosen_by }
}

/// The folder for what can be made again: `explicit`, else `MCP_WORKBENCH_CACHE`, else our own in
/// that of the user; `None` if nobody knows where that is. `~` is expanded as in [`locate`].
pub fn locate_cache(explicit: Option<&Path>, env: &dyn EnvSource, cwd: &Path) -> Option<PathBuf> {
    let from_variable = || env.get(CACHE_VARIABLE).filter(|path| !path.is_empty());
    let named = explicit.map(Path::to_owned).or_else(|| from_variable().map(PathBuf::from));
    match named {
        Some(path) => Some(absolute(&path, env, cwd)),
        None => Some(env.cache()?.join(PROGRAM)),
    }
}

fn absolute(shown: &Path, env: &dyn EnvSource, cwd: &Path) -> PathBuf {
    let expanded = match (shown.strip_prefix("~"), env.home()) {
        (Ok(rest), Some(home)) => home.join(rest),
        (_, _) => shown.to_owned(),
    };
    let path = cwd.join(expanded);
    std::path::absolute(&path).unwrap_or(path)
}

/// Finds out which file to read: as [`locate`], but where nothing names a file and ours is not
/// there, `./tools.toml` or `./modular-mcp.json` if there is one, else the user's own.
pub fn find(explicit: Option<PathBuf>, env: &dyn EnvSource, cwd: &Path) -> Location {
    let location = locate(explicit, env, cwd);
    let is_there = |path: &Path| path.try_exists().unwrap_or(true);
    if location.chosen_by != ChosenBy::Default || is_there(&location.path) {
        return location;
    }
    let other = |file: &&str| {
        let path = cwd.join(file);
        let path = std::path::absolute(&path).unwrap_or(path);
        Location { shown: file.into(), path, chosen_by: ChosenBy::Default }
    };
    let others = OTHER_FILES.iter().map(other).chain(user_file(env));
    let mut there = others.filter(|other| is_there(&other.path));
    there.next().unwrap_or(location)
}

/// The user's own configuration file, there or not; `None` if nobody knows where that would be.
pub fn user_file(env: &dyn EnvSource) -> Option<Location> {
    let path = env.configuration()?.join(PROGRAM).join(USER_FILE);
    let home = env.home();
    let inside = home.as_ref().and_then(|home| path.strip_prefix(home).ok());
    let shown = inside.map_or_else(|| path.clone(), |inside| Path::new("~").join(inside));
    Some(Location { shown, path, chosen_by: ChosenBy::User })
}

/// Why there is no configuration.
///
/// Its text does not begin with `error: `; whoever prints it puts that before it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no file where it should be.
    #[error("{}", missing(.0))]
    Missing(Location),
    /// There is something, but it cannot be read as text.
    #[error("cannot read `{}`: {reason}", location.shown.display())]
    Unreadable {
        /// Where it is.
        location: Location,
        /// The reason why it cannot be read.
        reason: String,
    },
    /// It can be read, but not be used: every error, and the warnings too.
    #[error("{}", .0.body())]
    Invalid(Report),
    /// The lock beside it cannot be used.
    #[error("{0}")]
    Lock(UnusableLock),
}

/// A lock that cannot be used.
#[derive(Debug)]
pub struct UnusableLock {
    /// The file as the user would name it.
    pub file: PathBuf,
    /// Why.
    pub reason: String,
}

impl fmt::Display for UnusableLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock `{}` cannot be used: {}", self.file.display(), self.reason)
    }
}

/// Reads and checks the configuration file, or the folder of a catalog, with the values that it refers
/// to from `source`, and the lock beside it.
pub fn load(
    location: &Location,
    env: &dyn EnvSource,
    source: &dyn ValueSource,
) -> Result<Loaded, LoadError> {
    let mut loaded = load_unlocked(location, env, source)?;
    match load_lock(location)? {
        Some(lock) => loaded.config.attach_lock(&lock),
        None => loaded.config.settle_definitions(),
    }
    Ok(loaded)
}

/// Reads the lock beside a configuration, if there is one.
pub fn load_lock(location: &Location) -> Result<Option<Lock>, LoadError> {
    let is_folder = location.path.is_dir();
    let path = lock_file(&location.path, is_folder);
    let shown = lock_file(&location.shown, is_folder);
    let unusable = |reason: String| LoadError::Lock(UnusableLock { file: shown.clone(), reason });
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
    };
    let text = text(&bytes).map_err(unusable)?;
    read_lock(text).map(Some).map_err(|bad: BadLock| unusable(bad.to_string()))
}

/// Reads and checks a configuration as [`load`] does, without the lock beside it.
pub fn load_unlocked(
    location: &Location,
    env: &dyn EnvSource,
    source: &dyn ValueSource,
) -> Result<Loaded, LoadError> {
    let disk = Disk::new(&location.path);
    if disk.is_there() {
        let read =
            |values: &Known| catalog::load(&disk, &location.shown, &location.path, env, values);
        return with_values(source, read).map_err(LoadError::Invalid);
    }
    let unreadable = |reason: String| LoadError::Unreadable { location: location.clone(), reason };
    let bytes = read(&location.path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::Missing(location.clone()),
        _ => unreadable(error.to_string()),
    })?;
    let text = text(&bytes).map_err(unreadable)?;
    let folder = location.path.parent().unwrap_or(Path::new("/"));
    let shelf = |folder: &Path| -> Box<dyn Shelf> { Box::new(Disk::new(folder)) };
    let (secrets, findings) = secrets_beside(location)?;
    let env = WithSecrets { secrets, env };
    let read = |values: &Known| {
        let around = Around { places: Places { folder, env: &env }, values, shelf: Some(&shelf) };
        parse_around(text, &location.shown, &around)
    };
    let mut loaded = with_values(source, read).map_err(LoadError::Invalid)?;
    loaded.warnings.extend(findings);
    Ok(loaded)
}

/// The secrets in the file beside a configuration, if there is one.
fn secrets_beside(
    location: &Location,
) -> Result<(BTreeMap<String, String>, Vec<Finding>), LoadError> {
    let path = secrets_file(&location.path);
    let shown = secrets_file(&location.shown);
    let unreadable = |reason: String| LoadError::Unreadable {
        location: Location { shown: shown.clone(), path: path.clone(), ..location.clone() },
        reason,
    };
    match read(&path) {
        Ok(bytes) => Ok(read_secrets(&shown, text(&bytes).map_err(unreadable)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Default::default()),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// The most bytes of a configuration; one that is read from a device might have no end.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read > MAX_BYTES) {
        return Err(io::Error::other("it has more than 16 MiB, and is no configuration"));
    }
    Ok(bytes)
}

/// Checks the text of a configuration called `name` that stands in `folder`, an absolute path.
///
/// If the file has errors, the report holds all of them and the warnings besides.
///
/// The folder of a catalog that it names is not read, and for values that it refers to nobody is asked;
/// [`load`] does both.
pub fn parse(
    text: &str,
    name: &Path,
    folder: &Path,
    env: &dyn EnvSource,
) -> Result<Loaded, Report> {
    parse_with(text, name, folder, env, &Unasked)
}

/// Checks a text as [`parse`] does, with the values that it refers to from `source`.
pub fn parse_with(
    text: &str,
    name: &Path,
    folder: &Path,
    env: &dyn EnvSource,
    source: &dyn ValueSource,
) -> Result<Loaded, Report> {
    with_values(source, |values| {
        let around = Around { places: Places { folder, env }, values, shelf: None };
        parse_around(text, name, &around)
    })
}

/// Where the folder of a catalog is looked at.
type Shelves = dyn Fn(&Path) -> Box<dyn Shelf>;

/// The surroundings of a text.
struct Around<'a> {
    places: Places<'a>,
    values: &'a Known,
    shelf: Option<&'a Shelves>,
}

fn parse_around(text: &str, name: &Path, around: &Around<'_>) -> Result<Loaded, Report> {
    let Around { places, values, shelf } = *around;
    let Places { env, .. } = places;
    let text = document::without_mark(text);
    let file = name.display().to_string();
    let invalid = |findings| Report { file: file.clone(), findings };
    if catalog::is_yaml(name) {
        return Err(invalid(vec![catalog::alone()]));
    }
    let tree = if is_toml(name) { document::toml::parse(text) } else { document::parse(text) };
    let tree = tree.map_err(|finding| invalid(vec![finding]))?;
    let root = Node::root(&tree);
    let dialect = Dialect::of(name, &root);
    let mut reader = dialect.reader(Some(env)).referring(places, values);
    reader.note_duplicates(text, &root, |spot| dialect.concerns(&root, spot));
    dialect.note_shape(name, &root, &mut reader);
    let raw = dialect.read(&root, Some(env), &mut reader);
    let named = raw.as_ref().and_then(|raw| raw.navigator.as_ref()?.catalog.as_ref());
    let attached = shelf.zip(named).and_then(|(shelf, named)| {
        let folder = located_path(&named.value, &places);
        let shelf = shelf(&folder);
        match shelf.list("") {
            Ok(_) => Some(Attached::read(&*shelf, named.value.clone(), folder, env, values)),
            Err(reason) => {
                let message = format!("`{}` cannot be read: {reason}", named.value);
                reader.error(&named.spot, message, None);
                None
            }
        }
    });
    let others = attached.as_ref().map(Attached::names);
    let says_mode = raw.as_ref().is_some_and(|raw| raw.tool_mode.is_some());
    let mut of_catalog = Added::default();
    let config = raw.map(|raw| {
        let mut disabled = check::disabled(&raw);
        let (mut config, macros) = check::config(raw, others, &places, &mut reader);
        if let Some(attached) = attached {
            of_catalog = attached.attach(&mut config);
            disabled.append(&mut of_catalog.disabled);
        }
        macros.place(&mut config.toolboxes, &mut reader);
        (disabled, config)
    });
    let is_refused = reader.is_refused() || of_catalog.is_refused;
    let mut findings = reader.into_findings(text);
    findings.extend(of_catalog.findings);
    match config {
        Some((disabled, mut config)) if !is_refused => {
            config.mode = dialect.mode().filter(|_| !says_mode).unwrap_or(config.mode);
            let unasked = values.unknown();
            Ok(Loaded { config, dialect, disabled, warnings: findings, file, unasked })
        }
        Some(_) | None => Err(invalid(findings)),
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    if utf16 {
        return Err("it is UTF-16 text\n\nhint: save it as UTF-8".to_owned());
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.iter().take(error.valid_up_to());
        let line = 1 + before.fold(0, |lines, byte| lines + usize::from(*byte == b'\n'));
        format!("it is not UTF-8 text, see line {line}\n\nhint: save it as UTF-8")
    })
}

fn missing(location: &Location) -> impl fmt::Display {
    let reason = match location.chosen_by {
        ChosenBy::Flag => "named by `--config`",
        ChosenBy::Variable => "named by the variable `WORKBENCH_CONFIG`",
        ChosenBy::Default | ChosenBy::User => {
            "where it is looked for by itself, nor a `tools.toml`, a `modular-mcp.json` or \
             `~/.config/mcp-workbench/config.json`"
        }
    };
    let mut place = String::new();
    if location.shown != location.path {
        place = format!(", in full `{}`", location.path.display());
    }
    format!(
        "no configuration at `{}`, {reason}{place}\n\n\
         hint: `mcp-workbench setup` makes one from the servers of your clients\n\
         hint: `mcp-workbench demo` shows how it works without one\n\
         hint: `--config PATH` or `WORKBENCH_CONFIG` names another file",
        location.shown.display()
    )
}
