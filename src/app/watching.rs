//! Watching files: that of the configuration, a catalog, certificates; and the wish to read them again.
//!
//! The folder of a file is watched and not the file, for most editors put another file in its
//! place, and so are the folders of all symbolic links on the way to it, which may be swapped; of a
//! catalog, all folders and YAML files in it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::config;

/// A file that has not changed for this long is read. It may be written in several steps.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// One that keeps changing is read after so many of them.
const MOST_WAITS: usize = 10;

/// A file was closed that had been open for writing.
const WRITTEN: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

/// The wish to have files read again.
#[derive(Default)]
pub(crate) struct Wish {
    wished: Notify,
    is_asked: AtomicBool,
}

impl Wish {
    /// Somebody who may stop this process wants it read, and served whatever has changed.
    pub(crate) fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.wished.notify_one();
    }

    /// The files may be others than before.
    pub(crate) fn suspect(&self) {
        self.wished.notify_one();
    }

    /// Returns `true` if somebody has asked since the last time that this was called.
    pub(crate) fn was_asked(&self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }

    /// Waits for a wish, and until there is no other for a while.
    pub(crate) async fn come(&self) {
        self.wished.notified().await;
        for _ in 0..MOST_WAITS {
            if timeout(DEBOUNCE, self.wished.notified()).await.is_err() {
                break;
            }
        }
    }
}

/// Watches the folders of files: that of each name, those of the symbolic links on the way, and that
/// of what the name leads to; and all that is in the folder of a catalog.
pub(crate) struct Watch {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    known: Arc<Mutex<Known>>,
}

/// The paths whose changes count.
#[derive(Default)]
struct Known {
    /// The names of the files that count.
    names: BTreeSet<OsString>,
    /// The folders of catalogs, in which what may be of a catalog counts.
    trees: BTreeSet<PathBuf>,
}

impl Known {
    /// Returns `true` if a change of this path may change what is served.
    fn concerns(&self, path: &Path, kind: EventKind) -> bool {
        let is_file = matches!(
            kind,
            EventKind::Create(CreateKind::File)
                | EventKind::Modify(ModifyKind::Data(_))
                | EventKind::Remove(RemoveKind::File)
        );
        let is_of_catalog = |tree: &PathBuf| {
            let inner = path.strip_prefix(tree);
            inner.is_ok_and(|inner| is_of_catalog(path, inner.components().count(), is_file))
        };
        // That somebody reads it, as we do, changes nothing.
        (!kind.is_access() || kind == WRITTEN)
            && (path.file_name().is_some_and(|name| self.names.contains(name))
                || self.trees.iter().any(is_of_catalog))
    }
}

/// Returns `true` if something this deep in a catalog may be a part of it: a YAML file, or the
/// folder of a category or a service. A program that was started here may write other files here.
fn is_of_catalog(path: &Path, depth: usize, is_file: bool) -> bool {
    // What is gone can no longer be asked what it was; folders seldom have a dot in their names.
    let may_be_folder = || path.is_dir() || (path.extension().is_none() && !path.exists());
    (config::is_yaml(path) && depth <= 3) || (!is_file && depth <= 2 && may_be_folder())
}

impl Watch {
    /// Has this wish told of each change from now on.
    pub(crate) fn new(
        files: &[&Path],
        catalog: Option<&Path>,
        wish: &Arc<Wish>,
    ) -> notify::Result<Self> {
        let known = Arc::<Mutex<Known>>::default();
        let (told, heard) = (Arc::clone(wish), Arc::clone(&known));
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let concerns = event.is_ok_and(|event| {
                let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                event.need_rescan()
                    || event.paths.iter().any(|path| heard.concerns(path, event.kind))
            });
            if concerns {
                told.suspect();
            }
        })?;
        let mut watch = Self { watcher, watched: BTreeSet::new(), known };
        watch.follow(files, catalog)?;
        Ok(watch)
    }

    /// Follows names that lead elsewhere than before, and folders that are new.
    pub(crate) fn renew(&mut self, files: &[&Path], catalog: Option<&Path>) {
        if let Err(error) = self.follow(files, catalog) {
            tracing::debug!(%error, "the folder of a file cannot be watched");
        }
    }

    fn follow(&mut self, files: &[&Path], catalog: Option<&Path>) -> notify::Result<()> {
        let (mut folders, mut known) = (BTreeSet::new(), Known::default());
        for file in files {
            let target = file.canonicalize().unwrap_or_else(|_| (*file).to_owned());
            let links = links_to(file);
            for path in [*file, &target].into_iter().chain(links.iter().map(PathBuf::as_path)) {
                folders.extend(path.parent().map(Path::to_owned));
                known.names.extend(path.file_name().map(ToOwned::to_owned));
            }
            known.trees.extend(target.is_dir().then_some(target));
        }
        known.trees.extend(catalog.and_then(|catalog| catalog.canonicalize().ok()));
        let trees = known.trees.clone();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        let watched = folders.union(&trees).cloned().collect();
        for folder in self.watched.difference(&watched) {
            // What is gone is watched no more.
            let _ = self.watcher.unwatch(folder);
        }
        for folder in folders.difference(&trees) {
            // Again, for there may be another folder of that name.
            self.watcher.watch(folder, RecursiveMode::NonRecursive)?;
        }
        for tree in &trees {
            self.watcher.watch(tree, RecursiveMode::Recursive)?;
        }
        self.watched = watched;
        Ok(())
    }
}

/// How many symbolic links are followed on the way to a file, as systems do.
const MAX_LINKS: usize = 40;

/// Returns the symbolic links on the way to a file, each where it stands.
///
/// Kubernetes mounts `config.json` as a link to `..data/config.json`, where `..data` is a link to a
/// folder; it changes that one link alone.
fn links_to(file: &Path) -> Vec<PathBuf> {
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
                // An absolute one starts anew where it is joined.
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
    fn of_a_catalog_folders_and_yaml_files_count() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        std::fs::create_dir_all(tree.join("talk/slack/deep")).unwrap();
        for file in ["x.log", "LOCK", "talk/slack/notes.md"] {
            std::fs::write(tree.join(file), "").unwrap();
        }
        let names = BTreeSet::from(["workbench.json".into()]);
        let known = Known { names, trees: BTreeSet::from([tree.to_owned()]) };
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
            assert_eq!(known.concerns(&tree.join(path), EventKind::Any), concerns, "{path}");
        }
        assert!(known.concerns(Path::new("/elsewhere/workbench.json"), EventKind::Any));
        assert!(!known.concerns(Path::new("/elsewhere/x.yaml"), EventKind::Any));
        let file = tree.join("talk/slack/send.yaml");
        assert!(known.concerns(&file, WRITTEN));
        assert!(!known.concerns(&file, EventKind::Access(AccessKind::Any)), "it is only read");
        let removed = EventKind::Remove(RemoveKind::File);
        assert!(known.concerns(&file, removed) && !known.concerns(&tree.join("gone"), removed));
    }
}
