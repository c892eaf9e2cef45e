//! The content of a catalog's folder: categories, in them services, in them files of tools.
//!
//! The disk is behind a [`Shelf`], so that all of this is the same over texts in a test.

use std::collections::BTreeMap;

use crate::config::load::shelf::{Item, Kind, Shelf};
use crate::config::syntax::finding::{Finding, Severity};
use crate::name::nearest;
use crate::settings::catalog::spelling::{decode, encode, usual};

/// The most folders and files of one catalog.
pub(super) const MAX_FILES: usize = 20_000;

/// One folder of the catalog.
#[derive(Debug, Default)]
pub(super) struct Branch {
    /// From the folder of the catalog on; empty for that itself.
    pub(super) path: String,
    /// Its name.
    pub(super) name: String,
    /// The file that says what it is, and its text.
    pub(super) about: Option<(String, String)>,
    /// True if it or that file cannot be used, which has been reported.
    pub(super) is_broken: bool,
    pub(super) folders: Vec<Branch>,
    /// The names of the tools in it.
    pub(super) tools: Vec<String>,
    /// The files of those tools that have others than is usual.
    pub(super) spelled: BTreeMap<String, String>,
}

impl Branch {
    /// Returns `true` if nothing in it is of a catalog. Programs keep things where they start,
    /// which may be here.
    pub(super) fn is_foreign(&self) -> bool {
        let is_marked = self.about.is_some() || self.is_broken;
        !is_marked && self.tools.is_empty() && self.folders.iter().all(Self::is_foreign)
    }
}

/// How deep a folder lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Category,
    Service,
}

impl Level {
    /// The name, without its ending, of the file that says what such a folder is.
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

/// Looks at everything there is; what is odd is noted.
pub(super) fn read(shelf: &dyn Shelf, findings: &mut Vec<Finding>) -> Branch {
    let mut walk = Walk { shelf, findings, left: MAX_FILES };
    let mut root = walk.folder(String::new(), String::new(), Level::Root);
    // Nobody knows what would be missing.
    root.is_broken |= walk.left == 0;
    root
}

struct Walk<'a> {
    shelf: &'a dyn Shelf,
    findings: &'a mut Vec<Finding>,
    /// How many more folders and files there may be.
    left: usize,
}

impl Walk<'_> {
    fn folder(&mut self, path: String, name: String, level: Level) -> Branch {
        let mut branch = Branch { path, name, ..Branch::default() };
        let mut items = match self.shelf.list(&branch.path) {
            Ok(items) => items,
            Err(reason) => {
                let message = format!("cannot be read: {reason}");
                self.findings.push(finding(Severity::Error, &branch.path, message, ""));
                branch.is_broken = true;
                return branch;
            }
        };
        items.sort_by(|a, b| a.name.cmp(&b.name));
        let mut strays = Vec::new();
        for Item { name, kind } in items {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            if self.left == 0 {
                let message = format!("more than {MAX_FILES} files and folders");
                let hint = "is this the folder of a catalog?";
                self.findings.push(finding(Severity::Error, &branch.path, message, hint));
                break;
            }
            let path = if branch.path.is_empty() {
                name.clone()
            } else {
                format!("{}/{name}", branch.path)
            };
            match kind {
                Kind::Unusable(reason) => {
                    // Only of what has an ending of ours is it known that it would have mattered.
                    let is_ours = stem(&name).is_some();
                    let severity = if is_ours { Severity::Error } else { Severity::Warning };
                    self.findings.push(finding(severity, &path, reason, ""));
                }
                Kind::Folder => match level.below() {
                    Some(below) => self.inner(&mut branch, path, &name, below),
                    None => strays.push(path),
                },
                Kind::File => self.file(&mut branch, path, &name, level),
            }
        }
        if !branch.is_foreign() {
            let message = "ignored: a service has files of tools, and no folders";
            let found = |path: String| finding(Severity::Warning, &path, message.to_owned(), "");
            self.findings.extend(strays.into_iter().map(found));
        }
        branch
    }

    fn inner(&mut self, branch: &mut Branch, path: String, file: &str, level: Level) {
        if file.starts_with('_') {
            let hint = format!("a folder for such a name is called `{}`", encode(file));
            return self.ignored(&path, &hint);
        }
        let Some(name) = self.name(file, &path) else { return };
        if branch.folders.iter().any(|other| other.name == name) {
            return self.twice(&path, &name);
        }
        let inner = self.folder(path, name, level);
        branch.folders.push(inner);
    }

    fn file(&mut self, branch: &mut Branch, path: String, file: &str, level: Level) {
        let Some(stem) = stem(file) else {
            // Whatever else lies there is not for us.
            return;
        };
        if stem == level.about() {
            if branch.about.is_some() || branch.is_broken {
                // Which of the two is meant nobody knows.
                (branch.about, branch.is_broken) = (None, true);
                return self.twice(&path, stem);
            }
            match self.shelf.read(&path) {
                Ok(text) => branch.about = text.map(|text| (path, text)),
                Err(reason) => {
                    branch.is_broken = true;
                    let message = format!("cannot be read: {reason}");
                    self.findings.push(finding(Severity::Error, &path, message, ""));
                }
            }
        } else if stem.starts_with('_') {
            let near = nearest(stem, [level.about()], 1);
            let hint = match near.first() {
                Some(near) => format!("did you mean `{near}.yaml`?"),
                None => format!(
                    "here, `{}.yaml` is read; a tool with such a name is in `{}.yaml`",
                    level.about(),
                    encode(stem),
                ),
            };
            self.ignored(&path, &hint);
        } else if level == Level::Service {
            let Some(name) = self.name(stem, &path) else { return };
            if branch.tools.contains(&name) {
                return self.twice(&path, &name);
            }
            if file != usual(&name) {
                branch.spelled.insert(name.clone(), file.to_owned());
            }
            branch.tools.push(name);
        } else {
            let message = "ignored: tools are in the folder of a service".to_owned();
            let hint = "put it into `<category>/<service>/`";
            self.findings.push(finding(Severity::Warning, &path, message, hint));
        }
    }

    fn name(&mut self, file: &str, path: &str) -> Option<String> {
        let name = decode(file);
        if name.is_none() {
            let message = "expected a name without control characters".to_owned();
            self.findings.push(finding(Severity::Error, path, message, ""));
        }
        name
    }

    fn ignored(&mut self, path: &str, hint: &str) {
        let message = "ignored: it means nothing here".to_owned();
        self.findings.push(finding(Severity::Warning, path, message, hint));
    }

    fn twice(&mut self, path: &str, name: &str) {
        let message = format!("there is another `{name}` beside it");
        self.findings.push(finding(Severity::Error, path, message, "remove one of the two"));
    }
}

/// The name of a YAML file without its ending.
pub(super) fn stem(file: &str) -> Option<&str> {
    let (stem, ending) = file.rsplit_once('.')?;
    let is_yaml = ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml");
    (is_yaml && !stem.is_empty()).then_some(stem)
}

/// A finding about a file or folder as a whole.
pub(super) fn finding(severity: Severity, file: &str, message: String, hint: &str) -> Finding {
    Finding {
        severity,
        file: Some(if file.is_empty() { "." } else { file }.into()),
        path: String::new(),
        position: None,
        message,
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
    }
}
