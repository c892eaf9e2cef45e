//! Watches files for changes (configuration, catalog, certificates) and triggers reloads.
//!
//! The watcher watches folders instead of files, because most editors replace a file instead of
//! writing to it. It also watches the folders of all symbolic links on the path, which can be
//! swapped, and the whole tree of a catalog.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

/// A file is read once it has not changed for this long, because it may be written in several
/// steps.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// A file that keeps changing is read after this many changes.
const MAX_DEBOUNCE_ROUNDS: usize = 10;

const WRITTEN: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

#[derive(Default)]
pub(crate) struct ReloadTrigger {
    wished: Notify,
    is_asked: AtomicBool,
}

impl ReloadTrigger {
    /// Requests an explicit reload: values are fetched again and access changes apply. The caller
    /// must be allowed to signal this process.
    pub(crate) fn request(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.wished.notify_one();
    }

    pub(crate) fn notify_changed(&self) {
        self.wished.notify_one();
    }

    /// Returns `true` if an explicit reload was requested since the last call.
    pub(crate) fn take_request(&self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }

    /// Waits for a trigger, then until triggers stop for `DEBOUNCE`.
    pub(crate) async fn debounced(&self) {
        self.wished.notified().await;
        for _ in 0..MAX_DEBOUNCE_ROUNDS {
            if timeout(DEBOUNCE, self.wished.notified()).await.is_err() {
                break;
            }
        }
    }
}

pub(crate) struct FileWatcher {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    known: Arc<Mutex<PathFilter>>,
}

#[derive(Default)]
struct PathFilter {
    /// Names of watched files, in any folder.
    names: BTreeSet<OsString>,
    /// Roots of catalogs. Changes of YAML files and folders below them count.
    catalog_roots: BTreeSet<PathBuf>,
}

impl PathFilter {
    fn matches(&self, path: &Path, kind: EventKind) -> bool {
        let is_file = matches!(
            kind,
            EventKind::Create(CreateKind::File)
                | EventKind::Modify(ModifyKind::Data(_))
                | EventKind::Remove(RemoveKind::File)
        );
        let is_of_catalog = |tree: &PathBuf| {
            let inner = path.strip_prefix(tree);
            inner.is_ok_and(|inner| is_catalog_path(path, inner.components().count(), is_file))
        };
        // Read accesses don't count: the reload itself reads the file.
        (!kind.is_access() || kind == WRITTEN)
            && (path.file_name().is_some_and(|name| self.names.contains(name))
                || self.catalog_roots.iter().any(is_of_catalog))
    }
}

/// Returns `true` if a path this deep in a catalog can be a part of it: a YAML file, or the folder
/// of a category or service. Other files are ignored, because a server that runs here may write
/// them.
fn is_catalog_path(path: &Path, depth: usize, is_file: bool) -> bool {
    // A removed path has lost its type. Folder names rarely contain a dot.
    let may_be_folder = || path.is_dir() || (path.extension().is_none() && !path.exists());
    (mcp_workbench_config::is_yaml(path) && depth <= 3)
        || (!is_file && depth <= 2 && may_be_folder())
}

impl FileWatcher {
    pub(crate) fn new(
        files: &[&Path],
        catalog: Option<&Path>,
        wish: &Arc<ReloadTrigger>,
    ) -> notify::Result<Self> {
        let known = Arc::<Mutex<PathFilter>>::default();
        let (told, heard) = (Arc::clone(wish), Arc::clone(&known));
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let concerns = event.is_ok_and(|event| {
                let heard = heard.lock();
                event.need_rescan()
                    || event.paths.iter().any(|path| heard.matches(path, event.kind))
            });
            if concerns {
                told.notify_changed();
            }
        })?;
        let mut watch = Self { watcher, watched: BTreeSet::new(), known };
        watch.follow(files, catalog)?;
        Ok(watch)
    }

    pub(crate) fn update_paths(&mut self, files: &[&Path], catalog: Option<&Path>) {
        if let Err(error) = self.follow(files, catalog) {
            tracing::debug!(%error, "failed to watch the folder of a file");
        }
    }

    fn follow(&mut self, files: &[&Path], catalog: Option<&Path>) -> notify::Result<()> {
        let (mut folders, mut known) = (BTreeSet::new(), PathFilter::default());
        for file in files {
            let target = file.canonicalize().unwrap_or_else(|_| (*file).to_owned());
            let links = symlinks_along(file);
            for path in [*file, &target].into_iter().chain(links.iter().map(PathBuf::as_path)) {
                folders.extend(path.parent().map(Path::to_owned));
                known.names.extend(path.file_name().map(ToOwned::to_owned));
            }
            known.catalog_roots.extend(target.is_dir().then_some(target));
        }
        known.catalog_roots.extend(catalog.and_then(|catalog| catalog.canonicalize().ok()));
        let trees = known.catalog_roots.clone();
        *self.known.lock() = known;
        let watched = folders.union(&trees).cloned().collect();
        for folder in self.watched.difference(&watched) {
            // Fails if the folder is already gone.
            let _ = self.watcher.unwatch(folder);
        }
        for folder in folders.difference(&trees) {
            // Even if it is watched already: a new folder may have replaced it.
            self.watcher.watch(folder, RecursiveMode::NonRecursive)?;
        }
        for tree in &trees {
            self.watcher.watch(tree, RecursiveMode::Recursive)?;
        }
        self.watched = watched;
        Ok(())
    }
}

/// Limit on symbolic links in a path, like the kernel's.
const MAX_LINKS: usize = 40;

/// Returns the path of each symbolic link on the way to `file`.
///
/// Kubernetes mounts `config.json` as a link to `..data/config.json`, where `..data` links to a
/// folder. An update changes only the link `..data`.
fn symlinks_along(file: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut open: Vec<OsString> = file.iter().rev().map(OsString::from).collect();
    let mut reached = PathBuf::new();
    while let Some(step) = open.pop() {
        if step == ".." {
            reached.pop();
            continue;
        }
        let path = reached.join(&step);
        match std::fs::read_link(&path) {
            Ok(target) if links.len() < MAX_LINKS => {
                links.push(path);
                // Joining an absolute target discards `reached`, as it should.
                open.extend(target.iter().rev().map(OsString::from));
            }
            _ => reached = path,
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_only_folders_and_yaml_files_of_a_catalog() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        std::fs::create_dir_all(tree.join("talk/slack/deep")).unwrap();
        for file in ["x.log", "LOCK", "talk/slack/notes.md"] {
            std::fs::write(tree.join(file), "").unwrap();
        }
        let names = BTreeSet::from(["workbench.json".into()]);
        let known = PathFilter { names, catalog_roots: BTreeSet::from([tree.to_owned()]) };
        for (path, concerns) in [
            ("_config.yaml", true),
            ("talk/slack/send.yaml", true),
            ("talk/slack/gone.YML", true),
            ("talk/slack", true),
            ("talk", true),
            ("gone", true),
            ("", true),
            ("talk/slack/deep", false),
            ("talk/slack/deep/x.yaml", false),
            ("talk/slack/notes.md", false),
            ("talk/slack/.send.yaml.swp", false),
            ("x.log", false),
            ("x.log.1", false),
            ("LOCK", false),
        ] {
            assert_eq!(known.matches(&tree.join(path), EventKind::Any), concerns, "{path}");
        }
        assert!(known.matches(Path::new("/elsewhere/workbench.json"), EventKind::Any));
        assert!(!known.matches(Path::new("/elsewhere/x.yaml"), EventKind::Any));
        let file = tree.join("talk/slack/send.yaml");
        assert!(known.matches(&file, WRITTEN));
        assert!(!known.matches(&file, EventKind::Access(AccessKind::Any)), "it is only read");
        let removed = EventKind::Remove(RemoveKind::File);
        assert!(known.matches(&file, removed) && !known.matches(&tree.join("gone"), removed));
    }
}
