//! Walks a catalog folder: categories, their services, and the names of tool files.
//!
//! All access goes through [`CatalogFs`], so that tests can use in-memory files.

use std::collections::BTreeMap;

use crate::loader::catalog_fs::{CatalogFs, DirEntry, DirEntryKind};
use crate::syntax::finding::{Finding, Severity};
use mcp_workbench_names::nearest;
use mcp_workbench_settings::catalog::file_names::{decode, encode, usual};

/// Maximum number of entries in a catalog, folders included.
pub(super) const MAX_FILES: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct FolderNode {
    /// Path relative to the catalog folder; empty for that folder itself.
    pub(super) path: String,
    pub(super) name: String,
    /// The name and text of `_config.yaml`, `_category.yaml` or `_service.yaml`.
    pub(super) info_file: Option<(String, String)>,
    /// `true` if the folder or its info file can't be used. An error was reported.
    pub(super) is_broken: bool,
    pub(super) subfolders: Vec<FolderNode>,
    pub(super) tools: Vec<String>,
    /// File names by tool, if they differ from the usual encoding of the tool's name.
    pub(super) file_names: BTreeMap<String, String>,
}

impl FolderNode {
    /// Returns `true` if nothing in the folder belongs to a catalog. Servers may create such
    /// folders in their working directory.
    pub(super) fn is_unrelated(&self) -> bool {
        let is_marked = self.info_file.is_some() || self.is_broken;
        !is_marked && self.tools.is_empty() && self.subfolders.iter().all(Self::is_unrelated)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FolderLevel {
    Root,
    Category,
    Service,
}

impl FolderLevel {
    /// The name of the folder's info file, without extension.
    fn about(self) -> &'static str {
        match self {
            Self::Root => "_config",
            Self::Category => "_category",
            Self::Service => "_service",
        }
    }

    fn below(self) -> Option<Self> {
        match self {
            Self::Root => Some(Self::Category),
            Self::Category => Some(Self::Service),
            Self::Service => None,
        }
    }
}

/// Reads the catalog's folders and reports irregularities.
pub(super) fn read(fs: &dyn CatalogFs, findings: &mut Vec<Finding>) -> FolderNode {
    let mut walk = TreeWalk { fs, findings, left: MAX_FILES };
    let mut root = walk.folder(String::new(), String::new(), FolderLevel::Root);
    // The walk stopped early, so part of the catalog is unknown.
    root.is_broken |= walk.left == 0;
    root
}

struct TreeWalk<'a> {
    fs: &'a dyn CatalogFs,
    findings: &'a mut Vec<Finding>,
    left: usize,
}

impl TreeWalk<'_> {
    fn folder(&mut self, path: String, name: String, level: FolderLevel) -> FolderNode {
        let mut branch = FolderNode { path, name, ..FolderNode::default() };
        let mut items = match self.fs.list(&branch.path) {
            Ok(items) => items,
            Err(reason) => {
                let message = format!("failed to read: {reason}");
                self.findings.push(file_finding(Severity::Error, &branch.path, message, ""));
                branch.is_broken = true;
                return branch;
            }
        };
        items.sort_by(|a, b| a.name.cmp(&b.name));
        let mut strays = Vec::new();
        for DirEntry { name, kind } in items {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            if self.left == 0 {
                let message = format!("more than {MAX_FILES} files and folders");
                let hint = "check that this is a catalog folder";
                self.findings.push(file_finding(Severity::Error, &branch.path, message, hint));
                break;
            }
            let path = if branch.path.is_empty() {
                name.clone()
            } else {
                format!("{}/{name}", branch.path)
            };
            match kind {
                DirEntryKind::Unusable(reason) => {
                    // An unreadable entry is an error only if it is named `*.yaml` or `*.yml`;
                    // anything else would have been skipped.
                    let is_ours = stem(&name).is_some();
                    let severity = if is_ours { Severity::Error } else { Severity::Warning };
                    self.findings.push(file_finding(severity, &path, reason, ""));
                }
                DirEntryKind::Folder => match level.below() {
                    Some(below) => self.inner(&mut branch, path, &name, below),
                    None => strays.push(path),
                },
                DirEntryKind::File => self.file(&mut branch, path, &name, level),
            }
        }
        if !branch.is_unrelated() {
            let message = "ignored: a service contains only tool files, no folders";
            let found =
                |path: String| file_finding(Severity::Warning, &path, message.to_owned(), "");
            self.findings.extend(strays.into_iter().map(found));
        }
        branch
    }

    fn inner(&mut self, branch: &mut FolderNode, path: String, file: &str, level: FolderLevel) {
        if file.starts_with('_') {
            let hint = format!("to use this name, rename the folder to `{}`", encode(file));
            return self.ignored(&path, &hint);
        }
        let Some(name) = self.name(file, &path) else { return };
        if branch.subfolders.iter().any(|other| other.name == name) {
            return self.twice(&path, &name);
        }
        let inner = self.folder(path, name, level);
        branch.subfolders.push(inner);
    }

    fn file(&mut self, branch: &mut FolderNode, path: String, file: &str, level: FolderLevel) {
        let Some(stem) = stem(file) else {
            return;
        };
        if stem == level.about() {
            if branch.info_file.is_some() || branch.is_broken {
                // It is unclear which of the two is current, so use neither.
                (branch.info_file, branch.is_broken) = (None, true);
                return self.twice(&path, stem);
            }
            match self.fs.read(&path) {
                Ok(text) => branch.info_file = text.map(|text| (path, text)),
                Err(reason) => {
                    branch.is_broken = true;
                    let message = format!("failed to read: {reason}");
                    self.findings.push(file_finding(Severity::Error, &path, message, ""));
                }
            }
        } else if stem.starts_with('_') {
            let near = nearest(stem, [level.about()], 1);
            let hint = match near.first() {
                Some(near) => format!("did you mean `{near}.yaml`?"),
                None => format!(
                    "expected `{}.yaml`; for a tool of this name, rename the file to `{}.yaml`",
                    level.about(),
                    encode(stem),
                ),
            };
            self.ignored(&path, &hint);
        } else if level == FolderLevel::Service {
            let Some(name) = self.name(stem, &path) else { return };
            if branch.tools.contains(&name) {
                return self.twice(&path, &name);
            }
            if file != usual(&name) {
                branch.file_names.insert(name.clone(), file.to_owned());
            }
            branch.tools.push(name);
        } else {
            let message = "ignored: tool files belong in a service folder".to_owned();
            let hint = "move it to `<category>/<service>/`";
            self.findings.push(file_finding(Severity::Warning, &path, message, hint));
        }
    }

    fn name(&mut self, file: &str, path: &str) -> Option<String> {
        let name = decode(file);
        if name.is_none() {
            let message = "expected a name without control characters".to_owned();
            self.findings.push(file_finding(Severity::Error, path, message, ""));
        }
        name
    }

    fn ignored(&mut self, path: &str, hint: &str) {
        let message = "ignored: names that start with `_` are reserved".to_owned();
        self.findings.push(file_finding(Severity::Warning, path, message, hint));
    }

    fn twice(&mut self, path: &str, name: &str) {
        let message = format!("duplicate `{name}` in this folder");
        self.findings.push(file_finding(Severity::Error, path, message, "remove one of them"));
    }
}

/// Returns the name of a YAML file without its extension, or `None` for other files.
pub(super) fn stem(file: &str) -> Option<&str> {
    let (stem, ending) = file.rsplit_once('.')?;
    let is_yaml = ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml");
    (is_yaml && !stem.is_empty()).then_some(stem)
}

pub(super) fn file_finding(severity: Severity, file: &str, message: String, hint: &str) -> Finding {
    Finding {
        severity,
        file: Some(if file.is_empty() { "." } else { file }.into()),
        path: String::new(),
        position: None,
        message,
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
    }
}
