//! Reading the configuration again while agents are served: when, and what becomes of it.
//!
//! The folder of the file is watched and not the file, for most editors put another file in its
//! place. What cannot be used changes nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::config::{Config, LoadError, Loaded};
use crate::gateway::Gateways;

/// A file that has not changed for this long is read. It may be written in several steps.
const DEBOUNCE: Duration = Duration::from_millis(300);
/// One that keeps changing is read after so many of them.
const MOST_WAITS: usize = 10;

/// A file was closed that had been open for writing.
const WRITTEN: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

/// Where the configuration comes from.
pub struct Source {
    /// The file, absolute.
    pub file: PathBuf,
    /// Reads it.
    pub read: Box<dyn Fn() -> Result<Loaded, LoadError> + Send + Sync>,
}

/// What says that the configuration is to be read again.
pub(crate) struct Reload {
    source: Arc<Source>,
    wanted: Arc<Notify>,
    watch: Option<Watch>,
}

impl Reload {
    /// Watches the file from now on. Where that cannot be, whoever tells `wanted` is heard all the
    /// same.
    pub(crate) fn new(source: Source) -> Self {
        let wanted = Arc::new(Notify::new());
        let watch = Watch::new(&source.file, &wanted).inspect_err(|error| {
            tracing::warn!(
                %error,
                "the configuration file cannot be watched; it is read again at SIGHUP alone"
            );
        });
        Self { source: Arc::new(source), wanted, watch: watch.ok() }
    }

    /// Told when the configuration is to be read again.
    pub(crate) fn wanted(&self) -> Arc<Notify> {
        Arc::clone(&self.wanted)
    }

    /// Reads it whenever it is wanted, and serves it.
    pub(crate) async fn run(mut self, gateways: Arc<Gateways>, tasks: TaskTracker) {
        loop {
            self.wanted.notified().await;
            for _ in 0..MOST_WAITS {
                if timeout(DEBOUNCE, self.wanted.notified()).await.is_err() {
                    break;
                }
            }
            if let Some(watch) = &mut self.watch {
                watch.renew(&self.source.file);
            }
            let source = Arc::clone(&self.source);
            match tasks.spawn_blocking(move || (source.read)()).await {
                Ok(Ok(loaded)) => apply(loaded, &gateways).await,
                Ok(Err(error)) => tracing::error!(
                    "the configuration is not read anew, and what was served goes on: {error}"
                ),
                Err(error) => tracing::error!(%error, "the configuration could not be read"),
            }
        }
    }
}

async fn apply(loaded: Loaded, gateways: &Gateways) {
    let served = gateways.config();
    if loaded.config == *served {
        tracing::info!("the configuration is what it was");
        return;
    }
    if let Some(report) = loaded.report() {
        tracing::warn!("{}", report.body());
    }
    let changes = changes(&served, &loaded.config);
    gateways.replace(Arc::new(loaded.config)).await;
    tracing::info!("the configuration was read anew: {changes}");
}

/// What another configuration changes, in short.
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

/// Watches the folders of a file: that of its name, and that of what its name leads to.
struct Watch {
    watcher: RecommendedWatcher,
    folders: BTreeSet<PathBuf>,
    names: Arc<Mutex<BTreeSet<OsString>>>,
}

impl Watch {
    fn new(file: &Path, wanted: &Arc<Notify>) -> notify::Result<Self> {
        let names = Arc::<Mutex<BTreeSet<OsString>>>::default();
        let (told, known) = (Arc::clone(wanted), Arc::clone(&names));
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let concerns = event.is_ok_and(|event| {
                let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let is_it = |path: &PathBuf| path.file_name().is_some_and(|n| known.contains(n));
                // That somebody reads it, as we do, changes nothing.
                let is_change = !event.kind.is_access() || event.kind == WRITTEN;
                event.need_rescan() || (is_change && event.paths.iter().any(is_it))
            });
            if concerns {
                told.notify_one();
            }
        })?;
        let mut watch = Self { watcher, folders: BTreeSet::new(), names };
        watch.follow(file)?;
        Ok(watch)
    }

    /// Follows a name that leads elsewhere than before.
    fn renew(&mut self, file: &Path) {
        if let Err(error) = self.follow(file) {
            tracing::debug!(%error, "what the configuration file leads to cannot be watched");
        }
    }

    fn follow(&mut self, file: &Path) -> notify::Result<()> {
        let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let (mut folders, mut names) = (BTreeSet::new(), BTreeSet::new());
        for path in [file, &target] {
            folders.extend(path.parent().map(Path::to_owned));
            names.extend(path.file_name().map(ToOwned::to_owned));
        }
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        for folder in self.folders.difference(&folders) {
            // What is gone is watched no more.
            let _ = self.watcher.unwatch(folder);
        }
        for folder in &folders {
            // Again, for there may be another folder of that name.
            self.watcher.watch(folder, RecursiveMode::NonRecursive)?;
        }
        self.folders = folders;
        Ok(())
    }
}
