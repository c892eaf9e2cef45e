//! The files that each confined server may use.
//!
//! Nothing that a confined server can change may decide which files it gets at a later start. So
//! the paths in an entry are resolved once, before the server's first start, and each result is
//! pinned to its file or folder. Another workbench process resolves them again. Therefore links
//! count only if no confined server could have created them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::StartError;
use crate::backend::launch::environment::ChildEnvironment;
use crate::backend::launch::{named_paths, program_files};
use mcp_workbench_os::PinnedPath;
use mcp_workbench_settings::{Config, Launch, Sandbox, StdioLaunch};

/// Links in one path before it counts as circular, as in the kernel.
const MAX_LINKS: usize = 40;

/// Access to a file, or to a folder with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub source: PinnedPath,
    /// Where the server sees it: in a container the path as written, else the path of `source`.
    pub target: PathBuf,
    pub is_writable: bool,
}

/// Resolves the paths of entries, and remembers the results.
#[derive(Debug, Default)]
pub struct GrantRegistry {
    /// Files and folders that a confined server of this or an earlier configuration can change.
    changeable: Mutex<BTreeSet<PathBuf>>,
    resolved: Mutex<HashMap<GrantKey, Arc<[Grant]>>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct GrantKey {
    launch: StdioLaunch,
    path: OsString,
    home: Option<PathBuf>,
}

impl GrantRegistry {
    /// `homes` is the folder of the servers' homes.
    pub fn new(homes: Option<&Path>) -> Self {
        let homes = homes.map(|homes| follow_existing(homes).path);
        Self { changeable: Mutex::new(homes.into_iter().collect()), ..Self::default() }
    }

    /// Remembers the files that the confined servers of a configuration can change.
    pub fn learn(&self, config: &Config) {
        let servers = config.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        let launches = servers.filter_map(|server| match &server.launch {
            Launch::Stdio(launch) => Some(launch),
            _ => None,
        });
        self.learn_from(launches);
    }

    fn learn_from<'a>(&self, launches: impl Iterator<Item = &'a StdioLaunch>) {
        self.learn_writable(launches.flat_map(writable_paths));
    }

    /// Remembers paths that a confined server can change.
    pub(crate) fn learn_writable(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let mut changeable = self.changeable.lock();
        let found = paths.into_iter().map(|path| follow_existing(&path));
        let (linked, plain): (Vec<_>, Vec<_>) = found.partition(|found| !found.links.is_empty());
        changeable.extend(plain.into_iter().map(|found| found.path));
        let trusted: Vec<_> = linked
            .into_iter()
            .filter(|found| found.links.iter().all(|link| !is_below(link, &changeable)))
            .collect();
        changeable.extend(trusted.into_iter().map(|found| found.path));
    }

    /// Returns `true` if a confined server could replace this file or folder, or a link to it.
    pub(crate) fn is_replaceable(&self, path: &Path) -> bool {
        let changeable = self.changeable.lock();
        let FollowedPath { path, links } = follow_existing(path);
        links.iter().chain([&path]).any(|path| is_below(path, &changeable))
    }

    /// Returns the path of a folder without links.
    ///
    /// # Errors
    ///
    /// Returns an error if a confined server could have created one of the links.
    pub(crate) fn resolve(&self, folder: &Path) -> io::Result<PathBuf> {
        let FollowedPath { path, links } = follow_existing(folder);
        let changeable = self.changeable.lock();
        match links.iter().find(|link| is_below(link, &changeable)) {
            None => Ok(path),
            Some(link) => Err(io::Error::other(format!(
                "it leads through the link `{}`, which a sandboxed server can change",
                link.display()
            ))),
        }
    }

    /// Returns the files that a server may use, except its home. Empty without a sandbox.
    ///
    /// # Errors
    ///
    /// Returns an error if a path leads through a link that a confined server can change, or if a
    /// file or folder was replaced after the first call.
    pub fn grants(
        &self,
        launch: &StdioLaunch,
        environment: &ChildEnvironment,
    ) -> Result<Vec<Grant>, StartError> {
        let mut resolved = self.resolved.lock();
        let key = GrantKey {
            launch: launch.clone(),
            path: environment.path_for(launch),
            home: home_for(launch, environment),
        };
        if let Some(grants) = resolved.get(&key) {
            return self.check_unchanged(&Arc::clone(grants));
        }
        self.learn_from([launch].into_iter());
        let grants: Arc<[Grant]> =
            self.resolve_launch(launch, &key.path, key.home.as_deref())?.into();
        resolved.insert(key, Arc::clone(&grants));
        Ok(grants.to_vec())
    }

    fn resolve_launch(
        &self,
        launch: &StdioLaunch,
        path: &OsString,
        home: Option<&Path>,
    ) -> Result<Vec<Grant>, StartError> {
        let changeable = self.changeable.lock();
        // Compared with resolved paths.
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
        let is_container = launch.container().is_some();
        let mut paths = PathResolution {
            changeable: &changeable,
            home: home.as_deref(),
            is_container,
            grants: BTreeMap::new(),
            doubtful: Vec::new(),
        };
        let Some([read, write]) = launch.sandbox.as_ref().and_then(Sandbox::granted_paths) else {
            return Ok(Vec::new());
        };
        // In a container, system and programs are those of the image.
        if !is_container {
            paths.add_system();
            paths.add_program_folders(path);
            if launch.command.contains(std::path::is_separator) {
                paths.add(&launch.command, &launch.cwd.join(&launch.command), PathUse::Read);
            }
        }
        // The default `cwd` is the configuration's folder, and grants no access.
        if launch.has_own_folder {
            paths.add("cwd", &launch.cwd, PathUse::Configured { is_writable: true });
        }
        for (text, path) in named_paths::in_arguments(launch) {
            paths.add(text, &path, PathUse::WriteFolder);
        }
        for (name, path) in named_paths::in_variables(launch) {
            paths.add(name, &path, PathUse::Read);
        }
        for (paths_of, is_writable) in [(read, false), (write, true)] {
            for path in paths_of {
                let text = path.to_string_lossy();
                paths.add(&text, path, PathUse::Configured { is_writable });
            }
        }
        paths.finish()
    }

    /// A file or folder that no confined server could replace was replaced by the user.
    fn check_unchanged(&self, grants: &[Grant]) -> Result<Vec<Grant>, StartError> {
        let mut unchanged = Vec::with_capacity(grants.len());
        for grant in grants {
            let path = grant.source.path();
            match PinnedPath::new(path) {
                Ok(now) if now == grant.source || !self.is_replaceable(path) => {
                    unchanged.push(Grant { source: now, ..grant.clone() });
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotFound | ErrorKind::PermissionDenied
                    ) => {}
                Ok(_) | Err(_) => {
                    return Err(StartError::new(
                        format!("`{}` was replaced after the server first started", path.display()),
                        "restart the workbench to give the server access to the new file or folder"
                            .to_owned(),
                    ));
                }
            }
        }
        Ok(unchanged)
    }
}

fn home_for(launch: &StdioLaunch, environment: &ChildEnvironment) -> Option<PathBuf> {
    environment.for_launch(launch).find(|(key, _)| *key == "HOME").map(|(_, home)| home.into())
}

/// Returns the paths that a confined server can change, apart from its home. They may be missing.
fn writable_paths(launch: &StdioLaunch) -> Vec<PathBuf> {
    let Some([_, write]) = launch.sandbox.as_ref().and_then(Sandbox::granted_paths) else {
        return Vec::new();
    };
    let folders = named_paths::in_arguments(launch).map(|(_, path)| path);
    let folders = folders.filter(|path| path.is_dir());
    let own = launch.has_own_folder.then(|| launch.cwd.clone());
    folders.chain(own).chain(write.iter().cloned()).collect()
}

/// Returns the variables with folders that the server can only read, except search paths.
pub fn read_only_variables(launch: &StdioLaunch) -> BTreeSet<&str> {
    if launch.sandbox.as_ref().and_then(Sandbox::granted_paths).is_none() {
        return BTreeSet::new();
    }
    let writable: BTreeSet<_> =
        writable_paths(launch).iter().filter_map(|path| path.canonicalize().ok()).collect();
    let variables = named_paths::in_variables(launch).filter(|(name, path)| {
        let is_read_only = |path: &PathBuf| {
            path.is_dir()
                && !program_files::is_system_path(path)
                && !writable.iter().any(|folder| path.starts_with(folder))
        };
        !name.ends_with("PATH") && path.canonicalize().is_ok_and(|path| is_read_only(&path))
    });
    variables.map(|(name, _)| name).collect()
}

/// Returns `true` if `path` is in one of the folders, at any depth.
fn is_below(path: &Path, folders: &BTreeSet<PathBuf>) -> bool {
    path.ancestors().skip(1).any(|folder| folders.contains(folder))
}

/// How a server uses a path in its entry.
#[derive(Clone, Copy)]
enum PathUse {
    /// Read a file with its package, or a folder.
    Read,
    /// Read a file with its package, or change a folder.
    WriteFolder,
    /// As the configuration says, without the package of a file.
    Configured { is_writable: bool },
}

struct PathResolution<'a> {
    changeable: &'a BTreeSet<PathBuf>,
    home: Option<&'a Path>,
    is_container: bool,
    /// The source of each target, and whether it is writable.
    grants: BTreeMap<PathBuf, (PathBuf, bool)>,
    /// Paths through links that a confined server could have created.
    doubtful: Vec<DoubtfulPath>,
}

struct DoubtfulPath {
    text: String,
    link: PathBuf,
    target: PathBuf,
    source: PathBuf,
    is_writable: bool,
}

impl PathResolution<'_> {
    fn add_system(&mut self) {
        for (paths, is_writable) in [(program_files::SYSTEM, false), (program_files::DEVICES, true)]
        {
            for path in paths.iter().filter_map(|path| follow(Path::new(path))) {
                self.grant(path.path.clone(), path.path, is_writable);
            }
        }
    }

    fn add_program_folders(&mut self, path: &OsString) {
        for folder in std::env::split_paths(path).filter(|path| path.is_absolute()) {
            // The libraries can be next to the folder as written, or next to the target of a link.
            let beside = program_files::install_prefix(&folder, self.home);
            for folder in [&folder, &beside].into_iter().filter_map(|folder| follow(folder)) {
                let prefix = program_files::install_prefix(&folder.path, self.home);
                if self.link_of_others(&folder).is_none()
                    && !program_files::is_too_much(&prefix, self.home)
                {
                    self.grant(prefix.clone(), prefix, false);
                }
            }
        }
    }

    fn add(&mut self, text: &str, path: &Path, path_use: PathUse) {
        let Some(found) = follow(path) else { return };
        let source = found.path.clone();
        let is_named = !matches!(path_use, PathUse::Configured { .. });
        if self.is_container && is_named && program_files::is_system_path(&source) {
            return;
        }
        let is_folder = source.is_dir();
        let is_writable = match path_use {
            PathUse::Read => false,
            PathUse::WriteFolder => is_folder,
            PathUse::Configured { is_writable } => is_writable,
        };
        let target = if self.is_container { cleaned(path) } else { source.clone() };
        if let Some(link) = self.link_of_others(&found) {
            let (text, link) = (text.to_owned(), link.clone());
            self.doubtful.push(DoubtfulPath { text, link, target, source, is_writable });
            return;
        }
        if is_named && !is_folder {
            for path in program_files::code(&source, self.home) {
                self.grant(path.clone(), path, false);
            }
        }
        self.grant(target, source, is_writable);
    }

    /// Returns the first link that a confined server could have created.
    fn link_of_others<'p>(&self, found: &'p FollowedPath) -> Option<&'p PathBuf> {
        found.links.iter().find(|link| is_below(link, self.changeable))
    }

    fn grant(&mut self, target: PathBuf, source: PathBuf, is_writable: bool) {
        self.grants.entry(target).or_insert((source, false)).1 |= is_writable;
    }

    fn finish(mut self) -> Result<Vec<Grant>, StartError> {
        for doubtful in std::mem::take(&mut self.doubtful) {
            let is_granted = self.grants.values().any(|(source, is_writable)| {
                doubtful.source.starts_with(source) && *is_writable >= doubtful.is_writable
            });
            if !is_granted {
                return Err(self.explain(&doubtful));
            }
            self.grant(doubtful.target, doubtful.source, doubtful.is_writable);
        }
        let all = self.grants.iter().filter(|(target, grant)| !self.is_in_another(target, grant));
        let pinned = all.filter_map(|(target, (source, is_writable))| {
            let source = PinnedPath::new(source).ok()?;
            Some(Grant { source, target: target.clone(), is_writable: *is_writable })
        });
        Ok(pinned.collect())
    }

    /// Returns `true` if the grant of a folder includes this one. A path inside a folder that a
    /// server can change isn't safe to mount.
    fn is_in_another(&self, target: &Path, (source, is_writable): &(PathBuf, bool)) -> bool {
        target.ancestors().skip(1).any(|folder| {
            let rest = target.strip_prefix(folder).unwrap_or(target);
            self.grants.get(folder).is_some_and(|(source_of_folder, is_folder_writable)| {
                source_of_folder.join(rest) == *source && is_folder_writable >= is_writable
            })
        })
    }

    fn explain(&self, doubtful: &DoubtfulPath) -> StartError {
        let DoubtfulPath { text, link, source, is_writable, .. } = doubtful;
        let section = if self.is_container { "container" } else { "sandbox" };
        let key = if *is_writable { "write" } else { "read" };
        let folder = source.parent().map(|folder| program_files::install_prefix(folder, self.home));
        let needed = folder
            .filter(|folder| {
                !*is_writable && !source.is_dir() && Some(&**folder) != source.parent()
            })
            .filter(|folder| !program_files::is_too_much(folder, self.home));
        StartError::new(
            format!(
                "`{text}` leads through the link `{}`, which a sandboxed server can change",
                link.display()
            ),
            format!(
                "if you created the link, add its target `{}` to `{section}.{key}`",
                needed.as_ref().unwrap_or(source).display()
            ),
        )
    }
}

/// A path without links, and the links that were followed to find it.
struct FollowedPath {
    path: PathBuf,
    links: Vec<PathBuf>,
}

/// Follows the links of an absolute path. Returns `None` if it doesn't exist.
fn follow(path: &Path) -> Option<FollowedPath> {
    let components = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|component| component.as_os_str().to_owned()).collect()
    };
    let (mut rest, mut links, mut at) = (components(path), Vec::new(), PathBuf::new());
    while let Some(name) = rest.pop() {
        if !matches!(Path::new(&name).components().next()?, Component::Normal(_)) {
            // `.` has no effect, `..` leaves the folder, and a root starts again.
            match name.to_str()? {
                "." => {}
                ".." => drop(at.pop()),
                _ => at.push(name),
            }
            continue;
        }
        at.push(name);
        if !at.symlink_metadata().ok()?.is_symlink() {
            continue;
        }
        let target = fs::read_link(&at).ok()?;
        links.push(at.clone());
        at.pop();
        rest.extend(components(&target));
        if links.len() > MAX_LINKS {
            return None;
        }
    }
    Some(FollowedPath { path: at, links })
}

/// Follows the links of the part of a path that exists.
fn follow_existing(path: &Path) -> FollowedPath {
    if let Some(found) = follow(path) {
        return found;
    }
    let path = cleaned(path);
    let found = path.ancestors().find_map(|folder| {
        let found = follow(folder)?;
        let rest = path.strip_prefix(folder).ok()?;
        Some(FollowedPath { path: found.path.join(rest), links: found.links })
    });
    found.unwrap_or(FollowedPath { path, links: Vec::new() })
}

/// Removes `.` and `..` lexically: inside the container no part of the path is a symbolic link.
fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests;
