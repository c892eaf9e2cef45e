//! Reading the configuration again while agents are served: when, and what becomes of it.
//!
//! A configuration that cannot be used changes nothing.
//!
//! Whoever may write files is not whoever may say what agents are allowed to: an agent with a tool for
//! files is the first, and not the second. So what concerns that is taken over when somebody asks for
//! it, and not because a file has changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::app::watching::{Watch, Wish};
use crate::config::{self, LoadError, Loaded};
use crate::gateway::Gateways;
use crate::observe::Event;
use crate::settings::{self, Config};

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
        let lock = lock_of(&source);
        let watch = Watch::new(&[&source.file, &lock], catalog, &wish).inspect_err(|error| {
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
            let is_asked = self.wish.was_asked();
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
            let files = [&*self.source.file, &lock_of(&self.source)];
            watch.renew(&files, gateways.config().navigator.folder.as_deref());
        }
    }
}

/// The lock beside the configuration, there or not.
fn lock_of(source: &Source) -> PathBuf {
    config::lock_file(&source.file, source.file.is_dir())
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
    if before.http.tls.is_some() != now.http.tls.is_some() {
        parts.push("whether there is TLS holds from the next start on".to_owned());
    } else if before.http.tls != now.http.tls {
        parts.push("the files for TLS".to_owned());
    }
    if before.limits.max_message_bytes != now.limits.max_message_bytes {
        parts.push("`maxMessageBytes` holds for servers that start from now on".to_owned());
    }
    if parts.is_empty() { "other limits".to_owned() } else { parts.join("; ") }
}
