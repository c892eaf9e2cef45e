//! Locates, reads and parses the configuration file. Only this module and `disk` access the file
//! system; [`parse`] works on text.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::dialect::{Dialect, is_toml};
use crate::env::EnvSource;
use crate::loader::catalog::{self, AttachOutcome, AttachedCatalog};
use crate::loader::catalog_fs::CatalogFs;
use crate::loader::disk::DiskFs;
use crate::loader::input_problem::InputProblem;
use crate::loader::loaded_config::LoadedConfig;
use crate::loader::lockfile::{lockfile_path, parse_lockfile};
use crate::loader::secrets_env::{OverlayEnv, parse_secrets_env, secrets_env_path};
use crate::loader::validation;
use crate::secret_values::{NoSecrets, SecretLookup, SecretResolver, read_resolving};
use crate::syntax::document::{self, Node};
use crate::syntax::finding::{ConfigReport, Finding};
use crate::syntax::paths::{PathResolver, resolve_path};
use mcp_workbench_names::PROGRAM;
use mcp_workbench_os::read_input;
use mcp_workbench_settings::Lockfile;

const VARIABLE: &str = "WORKBENCH_CONFIG";
const CACHE_VARIABLE: &str = "WORKBENCH_CACHE_DIR";
const DEFAULT_FILE: &str = "./workbench-config.json";
/// Other programs' files, tried if `DEFAULT_FILE` doesn't exist.
const OTHER_FILES: [&str; 2] = ["./tools.toml", "./modular-mcp.json"];
/// The file in the user's configuration directory, tried last.
const USER_FILE: &str = "config.json";

/// The configuration file or catalog folder, and how it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigLocation {
    /// The path as the user wrote it, for messages.
    pub display_path: PathBuf,
    /// The absolute path.
    pub path: PathBuf,
    pub chosen_by: ConfigOrigin,
}

/// How the configuration file was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// By the `--config` flag.
    Flag,
    /// By the environment variable `WORKBENCH_CONFIG`.
    EnvVar,
    /// By a default name in the working directory.
    Default,
    /// As the user's own file, if no other exists.
    User,
}

/// Locates the configuration: from `explicit`, `WORKBENCH_CONFIG`, or the default
/// `./workbench-config.json`, in this order.
///
/// Expands `~` in the first two, because clients start the workbench without a shell.
pub fn locate(explicit: Option<PathBuf>, env: &dyn EnvSource, cwd: &Path) -> ConfigLocation {
    let from_variable = || env.get(VARIABLE).filter(|path| !path.is_empty());
    let (shown, chosen_by) = match (explicit, from_variable()) {
        (Some(path), _) => (path, ConfigOrigin::Flag),
        (None, Some(path)) => (path.into(), ConfigOrigin::EnvVar),
        (None, None) => (DEFAULT_FILE.into(), ConfigOrigin::Default),
    };
    let path = resolve_from_cwd(&shown, env, cwd);
    let Some(folder) = catalog::catalog_root(&path) else {
        return ConfigLocation { display_path: shown, path, chosen_by };
    };
    // Either the folder or its `_config.yaml` selects the whole catalog.
    let inside = shown.parent().filter(|folder| !folder.as_os_str().is_empty());
    let shown = inside.unwrap_or(Path::new(".")).to_owned();
    ConfigLocation { display_path: shown, path: folder.to_owned(), chosen_by }
}

/// Returns the cache directory: `explicit`, `WORKBENCH_CACHE_DIR`, or a subdirectory of the user's
/// cache directory. Returns `None` if that is unknown. Expands `~` as [`locate`] does.
pub fn locate_cache(explicit: Option<&Path>, env: &dyn EnvSource, cwd: &Path) -> Option<PathBuf> {
    let from_variable = || env.get(CACHE_VARIABLE).filter(|path| !path.is_empty());
    let named = explicit.map(Path::to_owned).or_else(|| from_variable().map(PathBuf::from));
    match named {
        Some(path) => Some(resolve_from_cwd(&path, env, cwd)),
        None => Some(env.cache_dir()?.join(PROGRAM)),
    }
}

fn resolve_from_cwd(shown: &Path, env: &dyn EnvSource, cwd: &Path) -> PathBuf {
    let expanded = match (shown.strip_prefix("~"), env.home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        (_, _) => shown.to_owned(),
    };
    let path = cwd.join(expanded);
    std::path::absolute(&path).unwrap_or(path)
}

/// Like [`locate`], but if no file is named and the default doesn't exist, falls back to
/// `./tools.toml`, `./modular-mcp.json` or the user's own file, in this order.
pub fn discover(explicit: Option<PathBuf>, env: &dyn EnvSource, cwd: &Path) -> ConfigLocation {
    let location = locate(explicit, env, cwd);
    let is_there = |path: &Path| path.try_exists().unwrap_or(true);
    if location.chosen_by != ConfigOrigin::Default || is_there(&location.path) {
        return location;
    }
    let other = |file: &&str| {
        let path = cwd.join(file);
        let path = std::path::absolute(&path).unwrap_or(path);
        ConfigLocation { display_path: file.into(), path, chosen_by: ConfigOrigin::Default }
    };
    let others = OTHER_FILES.iter().map(other).chain(user_file(env));
    let mut there = others.filter(|other| is_there(&other.path));
    there.next().unwrap_or(location)
}

/// Returns the user's own configuration file, which may not exist, or `None` without a home
/// directory.
pub fn user_file(env: &dyn EnvSource) -> Option<ConfigLocation> {
    let path = env.config_dir()?.join(PROGRAM).join(USER_FILE);
    let home = env.home_dir();
    let inside = home.as_ref().and_then(|home| path.strip_prefix(home).ok());
    let shown = inside.map_or_else(|| path.clone(), |inside| Path::new("~").join(inside));
    Some(ConfigLocation { display_path: shown, path, chosen_by: ConfigOrigin::User })
}

/// The reason why no configuration could be loaded.
///
/// Messages have no `error: ` prefix; the caller adds it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file doesn't exist.
    #[error("{}", missing(.0))]
    Missing(ConfigLocation),
    /// The file can't be read or isn't UTF-8.
    #[error("failed to read `{}`: {}", location.display_path.display(), problem.reason)]
    Unreadable { location: ConfigLocation, problem: InputProblem },
    /// The configuration has errors. The report holds all findings, including warnings.
    #[error("{}", .0.without_label())]
    Invalid(ConfigReport),
    /// The lockfile next to the configuration is unreadable or invalid.
    #[error("{0}")]
    Lock(LockfileError),
}

impl LoadError {
    /// How to fix it, if that isn't part of a finding.
    pub fn hints(&self) -> &[&'static str] {
        match self {
            Self::Missing(_) => MISSING_HINTS,
            Self::Unreadable { problem, .. } => problem.hint.as_slice(),
            Self::Lock(error) => error.problem.hint.as_slice(),
            Self::Invalid(_) => &[],
        }
    }

    /// Returns the message with all hints, for the log.
    pub fn to_text(&self) -> String {
        let hints = self.hints().iter().map(|hint| format!("hint: {hint}"));
        let hints = hints.collect::<Vec<_>>().join("\n");
        if hints.is_empty() { self.to_string() } else { format!("{self}\n\n{hints}") }
    }
}

impl From<io::Error> for InputProblem {
    fn from(error: io::Error) -> Self {
        Self { reason: error.to_string(), hint: None }
    }
}

/// An unreadable or invalid lockfile.
#[derive(Debug)]
pub struct LockfileError {
    /// The path, relative if the user named the configuration that way.
    pub file: PathBuf,
    pub problem: InputProblem,
}

impl fmt::Display for LockfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid lockfile `{}`: {}", self.file.display(), self.problem.reason)
    }
}

/// Loads a configuration file or catalog folder and its lockfile. Secret references are resolved by
/// `source`.
pub fn load(
    location: &ConfigLocation,
    env: &dyn EnvSource,
    source: &dyn SecretResolver,
) -> Result<LoadedConfig, LoadError> {
    let mut loaded = load_without_lockfile(location, env, source)?;
    match load_lockfile(location)? {
        Some(lock) => loaded.config.attach_lock(&lock),
        None => loaded.config.apply_drift_policy(),
    }
    Ok(loaded)
}

/// Loads the lockfile next to a configuration. `None` if it doesn't exist.
pub fn load_lockfile(location: &ConfigLocation) -> Result<Option<Lockfile>, LoadError> {
    let is_folder = location.path.is_dir();
    let path = lockfile_path(&location.path, is_folder);
    let shown = lockfile_path(&location.display_path, is_folder);
    let unusable =
        |problem: InputProblem| LoadError::Lock(LockfileError { file: shown.clone(), problem });
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error.into())),
    };
    let text = text(&bytes).map_err(unusable)?;
    parse_lockfile(text).map(Some).map_err(unusable)
}

/// Like [`load`], without the lockfile.
pub fn load_without_lockfile(
    location: &ConfigLocation,
    env: &dyn EnvSource,
    source: &dyn SecretResolver,
) -> Result<LoadedConfig, LoadError> {
    let disk = DiskFs::new(&location.path);
    if disk.is_there() {
        let read = |values: &SecretLookup| {
            catalog::load_catalog(&disk, &location.display_path, &location.path, env, values)
        };
        return read_resolving(source, read).map_err(LoadError::Invalid);
    }
    let unreadable =
        |problem: InputProblem| LoadError::Unreadable { location: location.clone(), problem };
    let bytes = read(&location.path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::Missing(location.clone()),
        _ => unreadable(error.into()),
    })?;
    let text = text(&bytes).map_err(unreadable)?;
    let folder = location.path.parent().unwrap_or(Path::new("/"));
    let fs = |folder: &Path| -> Box<dyn CatalogFs> { Box::new(DiskFs::new(folder)) };
    let (secrets, findings) = load_secrets_env(location)?;
    let env = OverlayEnv { secrets, env };
    let read = |values: &SecretLookup| {
        let around = ParseContext {
            paths: PathResolver { base_dir: folder, env: &env },
            values,
            fs: Some(&fs),
        };
        parse_in_context(text, &location.display_path, &around)
    };
    let mut loaded = read_resolving(source, read).map_err(LoadError::Invalid)?;
    loaded.findings.extend(findings);
    Ok(loaded)
}

fn load_secrets_env(
    location: &ConfigLocation,
) -> Result<(BTreeMap<String, String>, Vec<Finding>), LoadError> {
    let path = secrets_env_path(&location.path);
    let shown = secrets_env_path(&location.display_path);
    let unreadable = |problem: InputProblem| LoadError::Unreadable {
        location: ConfigLocation {
            display_path: shown.clone(),
            path: path.clone(),
            ..location.clone()
        },
        problem,
    };
    match read(&path) {
        Ok(bytes) => Ok(parse_secrets_env(&shown, text(&bytes).map_err(unreadable)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Default::default()),
        Err(error) => Err(unreadable(error.into())),
    }
}

/// Maximum size of a configuration file.
const MAX_CONFIG_BYTES: u64 = 16 * 1024 * 1024;

fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_input(path, MAX_CONFIG_BYTES)
}

/// Parses and checks the text of a configuration. `name` determines the dialect, and relative paths
/// start at the absolute path `folder`.
///
/// Doesn't read an attached catalog and doesn't resolve secret references; [`load`] does both.
///
/// # Errors
///
/// Returns all findings, including warnings, if the file is unusable as a whole.
pub fn parse(
    text: &str,
    name: &Path,
    folder: &Path,
    env: &dyn EnvSource,
) -> Result<LoadedConfig, ConfigReport> {
    parse_with(text, name, folder, env, &NoSecrets)
}

/// Like [`parse`], with secret references resolved by `source`.
pub fn parse_with(
    text: &str,
    name: &Path,
    folder: &Path,
    env: &dyn EnvSource,
    source: &dyn SecretResolver,
) -> Result<LoadedConfig, ConfigReport> {
    read_resolving(source, |values| {
        let around =
            ParseContext { paths: PathResolver { base_dir: folder, env }, values, fs: None };
        parse_in_context(text, name, &around)
    })
}

type OpenCatalog = dyn Fn(&Path) -> Box<dyn CatalogFs>;

struct ParseContext<'a> {
    paths: PathResolver<'a>,
    values: &'a SecretLookup,
    fs: Option<&'a OpenCatalog>,
}

fn parse_in_context(
    text: &str,
    name: &Path,
    around: &ParseContext<'_>,
) -> Result<LoadedConfig, ConfigReport> {
    let ParseContext { paths, values, fs } = *around;
    let PathResolver { env, .. } = paths;
    let text = document::strip_bom(text);
    let file = name.display().to_string();
    let invalid = |findings| ConfigReport { file: file.clone(), findings };
    if catalog::is_yaml(name) {
        return Err(invalid(vec![catalog::standalone_yaml_error()]));
    }
    let tree =
        if is_toml(name) { document::toml::parse(text) } else { document::parse_jsonc(text) };
    let tree = tree.map_err(|finding| invalid(vec![finding]))?;
    let root = Node::root(&tree);
    let dialect = Dialect::detect(name, &root);
    let mut reader = dialect.reader(Some(env)).with_reference_context(paths, values);
    reader.report_duplicate_keys(text, &root, |location| dialect.is_relevant(&root, location));
    dialect.warn_if_guessed(name, &root, &mut reader);
    let raw = dialect.read(&root, Some(env), &mut reader);
    let named = raw.as_ref().and_then(|raw| raw.navigator.as_ref()?.catalog.as_ref());
    let attached = fs.zip(named).and_then(|(fs, named)| {
        let folder = resolve_path(&named.value, &paths);
        let fs = fs(&folder);
        match fs.list("") {
            Ok(_) => Some(AttachedCatalog::read(&*fs, named.value.clone(), folder, env, values)),
            Err(reason) => {
                let message = format!("failed to read `{}`: {reason}", named.value);
                reader.report_error(&named.location, message, None);
                None
            }
        }
    });
    let others = attached.as_ref().map(AttachedCatalog::names);
    let says_mode = raw.as_ref().is_some_and(|raw| raw.tool_mode.is_some());
    let mut of_catalog = AttachOutcome::default();
    let config = raw.map(|raw| {
        let mut disabled = validation::disabled_servers(&raw);
        let (mut config, macros) = validation::validate_config(raw, others, &paths, &mut reader);
        if let Some(attached) = attached {
            of_catalog = attached.attach(&mut config);
            disabled.append(&mut of_catalog.disabled);
        }
        macros.place(&mut config.toolboxes, &mut reader);
        (disabled, config)
    });
    let is_refused = reader.is_rejected() || of_catalog.is_refused;
    let mut findings = reader.into_findings(text);
    findings.extend(of_catalog.findings);
    match config {
        Some((disabled, mut config)) if !is_refused => {
            config.mode = dialect.mode().filter(|_| !says_mode).unwrap_or(config.mode);
            let unasked = values.unresolved();
            Ok(LoadedConfig {
                config,
                dialect,
                disabled,
                findings,
                file,
                unresolved_secrets: unasked,
                project: None,
            })
        }
        Some(_) | None => Err(invalid(findings)),
    }
}

fn text(bytes: &[u8]) -> Result<&str, InputProblem> {
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    if utf16 {
        let reason = "the file is UTF-16".to_owned();
        return Err(InputProblem { reason, hint: Some("save it as UTF-8") });
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.iter().take(error.valid_up_to());
        let line = 1 + before.fold(0, |lines, byte| lines + usize::from(*byte == b'\n'));
        let reason = format!("invalid UTF-8 in line {line}");
        InputProblem { reason, hint: Some("save the file as UTF-8") }
    })
}

const MISSING_HINTS: &[&str] = &[
    "run `mcp-workbench setup` to create one from the servers of your clients",
    "run `mcp-workbench demo` for a sample session without one",
    "use `--config PATH` or `WORKBENCH_CONFIG` for another file",
];

fn missing(location: &ConfigLocation) -> String {
    let (shown, path) = (location.display_path.display(), location.path.display());
    let named = |source: &str| {
        let full = if location.display_path == location.path {
            String::new()
        } else {
            format!(", full path `{path}`")
        };
        format!("no configuration at `{shown}` (from {source}{full})")
    };
    match location.chosen_by {
        ConfigOrigin::Flag => named("`--config`"),
        ConfigOrigin::EnvVar => named("`WORKBENCH_CONFIG`"),
        ConfigOrigin::Default | ConfigOrigin::User => format!(
            "no configuration found: tried `{path}`, `./tools.toml`, `./modular-mcp.json` and \
             `~/.config/mcp-workbench/config.json`"
        ),
    }
}
