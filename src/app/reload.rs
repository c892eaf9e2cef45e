//! Reading the configuration again while agents are served: when, and what becomes of it.
//!
//! The folder of the file is watched and not the file, for most editors put another file in its
//! place, and so are the folders of all symbolic links on the way to it, which may be swapped; of a
//! catalog, all folders and YAML files in it. What cannot be used changes nothing.
//!
//! Whoever may write files is not whoever may say what agents are allowed to: an agent with a tool for
//! files is the first, and not the second. So what concerns that is taken over when somebody asks for
//! it, and not because a file has changed.

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
use tokio_util::task::TaskTracker;

use crate::config::{self, LoadError, Loaded};
use crate::gateway::Gateways;
use crate::observe::Event;
use crate::settings::{self, Config};

/// A file that has not changed for this long is read. It may be written in several steps.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// One that keeps changing is read after so many of them.
const MOST_WAITS: usize = 10;

/// A file was closed that had been open for writing.
const WRITTEN: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

/// Where the configuration comes from.
pub struct Source {
    /// The file, or the folder of a catalog, absolute.
    pub file: PathBuf,
    /// Reads it, and asks for some of the values that it refers to.
    pub read: Box<dyn Fn(Renewal) -> Result<Loaded, LoadError> + Send + Sync>,
    /// Hears of each configuration that has taken the place of another.
    pub served: Box<dyn Fn(&Config) + Send + Sync>,
    /// Says in a few lines what agents gain and lose from one configuration to another.
    pub difference: Box<Difference>,
}

/// Which of the values that a configuration refers to are asked for when it is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// All of them: somebody asks for the configuration.
    All,
    /// The values that are not known.
    New,
    /// None: nothing is run because a file has changed.
    None,
}

/// Says in a few lines how two configurations differ.
pub type Difference = dyn Fn(&Config, &Config) -> String + Send + Sync;

/// The wish to have the configuration read again.
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

    /// The file may be another than before.
    fn suspect(&self) {
        self.wished.notify_one();
    }

    /// Waits for a wish, and until there is no other for a while.
    async fn come(&self) {
        self.wished.notified().await;
        for _ in 0..MOST_WAITS {
            if timeout(DEBOUNCE, self.wished.notified()).await.is_err() {
                break;
            }
        }
    }
}

/// The sources of news that the configuration is to be read again.
pub(crate) struct Reload {
    source: Arc<Source>,
    wish: Arc<Wish>,
    watch: Option<Watch>,
    /// The configuration that waits until somebody asks for it.
    held: Option<Config>,
}

impl Reload {
    /// Watches the file from now on, and the `catalog` that it names. Where that cannot be, whoever
    /// asks for it is heard all the same.
    pub(crate) fn new(source: Source, catalog: Option<&Path>) -> Self {
        let wish = Arc::<Wish>::default();
        let watch = Watch::new(&source.file, catalog, &wish).inspect_err(|error| {
            tracing::warn!(
                %error,
                "the configuration file cannot be watched; it is read again at SIGHUP alone"
            );
        });
        Self { source: Arc::new(source), wish, watch: watch.ok(), held: None }
    }

    /// Where it is asked for.
    pub(crate) fn wish(&self) -> Arc<Wish> {
        Arc::clone(&self.wish)
    }

    /// Reads it whenever it is wanted, and serves it.
    pub(crate) async fn run(mut self, gateways: Arc<Gateways>, tasks: TaskTracker) {
        loop {
            self.wish.come().await;
            self.renew(&gateways);
            let is_asked = self.wish.is_asked.swap(false, Ordering::Relaxed);
            let renewal = match gateways.config().watch {
                _ if is_asked => Renewal::All,
                settings::Watch::Everything => Renewal::New,
                settings::Watch::Presentation => Renewal::None,
            };
            let source = Arc::clone(&self.source);
            match tasks.spawn_blocking(move || (source.read)(renewal)).await {
                Ok(Ok(loaded)) => {
                    self.take(loaded, is_asked, &gateways, &tasks).await;
                    self.renew(&gateways);
                }
                Ok(Err(error)) => tell(&gateways, Event::ReloadRefused(&error)),
                Err(error) => tell(&gateways, Event::ReloadRefused(&error)),
            }
        }
    }

    /// Serves a configuration that was read, unless it is what is served already, or has to wait.
    async fn take(
        &mut self,
        loaded: Loaded,
        is_asked: bool,
        gateways: &Gateways,
        tasks: &TaskTracker,
    ) {
        let served = gateways.config();
        if loaded.config == *served {
            self.held = None;
            tracing::info!("the configuration is what it was");
            return;
        }
        let can_follow = loaded.unasked.is_empty() && served.may_be_followed_by(&loaded.config);
        if !is_asked && !can_follow {
            return self.hold(served, loaded.config, gateways, tasks).await;
        }
        self.held = None;
        if let Some(report) = loaded.report() {
            tracing::warn!("{}", report.body());
        }
        let changes = changes(&served, &loaded.config);
        let difference = match &served.audit {
            Some(_) => self.difference(&served, &loaded.config, tasks).await,
            None => String::new(),
        };
        // An audit that ends with the change has a line of it, too.
        let listeners = gateways.observer().listeners();
        gateways.replace(Arc::new(loaded.config)).await;
        listeners.tell(Event::Reloaded { changes: &changes, difference: &difference });
        (self.source.served)(&gateways.config());
    }

    /// Says of a configuration that it waits, and how it differs; once.
    async fn hold(
        &mut self,
        served: Arc<Config>,
        config: Config,
        gateways: &Gateways,
        tasks: &TaskTracker,
    ) {
        if self.held.as_ref() == Some(&config) {
            return;
        }
        let changes = changes(&served, &config);
        let difference = self.difference(&served, &config, tasks).await;
        tell(gateways, Event::ReloadHeld { changes: &changes, difference: &difference });
        self.held = Some(config);
    }

    /// Says what agents gain and lose from one configuration to another.
    async fn difference(&self, old: &Arc<Config>, new: &Config, tasks: &TaskTracker) -> String {
        let (source, old, new) = (Arc::clone(&self.source), Arc::clone(old), new.clone());
        let difference = tasks.spawn_blocking(move || (source.difference)(&old, &new)).await;
        difference.unwrap_or_else(|error| error.to_string())
    }

    fn renew(&mut self, gateways: &Gateways) {
        if let Some(watch) = &mut self.watch {
            watch.renew(&self.source.file, gateways.config().navigator.folder.as_deref());
        }
    }
}

fn tell(gateways: &Gateways, event: Event<'_>) {
    gateways.observer().listeners().tell(event);
}

/// Sums up the changes from one configuration to another.
fn changes(before: &Config, now: &Config) -> String {
    let names = |config: &Config| -> BTreeSet<String> {
        config.toolboxes.iter().map(|toolbox| toolbox.name.to_string()).collect()
    };
    let (old, new) = (names(before), names(now));
    let is_changed = |name: &&String| before.toolbox(name) != now.toolbox(name);
    let lists: [(&str, Vec<&String>); 3] = [
        ("new", new.difference(&old).collect()),
        ("gone", old.difference(&new).collect()),
        ("changed", old.intersection(&new).filter(is_changed).collect()),
    ];
    let mut parts: Vec<String> = Vec::new();
    for (what, names) in lists {
        let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            parts.push(format!("{what}: {}", names.join(", ")));
        }
    }
    if before.mode != now.mode {
        parts.push(format!("mode `{}` for new sessions", now.mode.as_str()));
    }
    if before.auth != now.auth {
        parts.push("who may ask over HTTP".to_owned());
    }
    if before.limits.max_message_bytes != now.limits.max_message_bytes {
        parts.push("`maxMessageBytes` holds for servers that start from now on".to_owned());
    }
    if parts.is_empty() { "other limits".to_owned() } else { parts.join("; ") }
}

/// Watches the folders of a file: that of its name, those of the symbolic links on the way, and that
/// of what its name leads to; and all that is in the folder of a catalog.
struct Watch {
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
    fn new(file: &Path, catalog: Option<&Path>, wish: &Arc<Wish>) -> notify::Result<Self> {
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
        watch.follow(file, catalog)?;
        Ok(watch)
    }

    /// Follows a name that leads elsewhere than before, and folders that are new.
    fn renew(&mut self, file: &Path, catalog: Option<&Path>) {
        if let Err(error) = self.follow(file, catalog) {
            tracing::debug!(%error, "what the configuration file leads to cannot be watched");
        }
    }

    fn follow(&mut self, file: &Path, catalog: Option<&Path>) -> notify::Result<()> {
        let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let (mut folders, mut known) = (BTreeSet::new(), Known::default());
        let links = links_to(file);
        for path in [file, &target].into_iter().chain(links.iter().map(PathBuf::as_path)) {
            folders.extend(path.parent().map(Path::to_owned));
            known.names.extend(path.file_name().map(ToOwned::to_owned));
        }
        let trees =
            [target.is_dir().then_some(target), catalog.and_then(|c| c.canonicalize().ok())];
        known.trees.extend(trees.into_iter().flatten());
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
