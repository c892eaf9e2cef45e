//! Reloads the configuration while serving. An invalid configuration changes nothing.
//!
//! An agent with a file tool may be able to edit the configuration. Changes to access rules,
//! launches and authentication therefore wait for an explicit reload (SIGHUP or `reload`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::app::file_watcher::{FileWatcher, ReloadTrigger};
use mcp_workbench_config::{LoadError, LoadedConfig};
use mcp_workbench_core::gateway::GatewayRegistry;
use mcp_workbench_core::telemetry::Event;
use mcp_workbench_settings::{Config, can_auto_reload};

pub struct ReloadSource {
    /// Absolute path of the configuration file or catalog folder.
    pub file: PathBuf,
    /// Absolute paths of the project files that could be laid over it.
    pub project_files: Vec<PathBuf>,
    /// Loads the configuration and fetches the values that the argument selects.
    pub load: Box<dyn Fn(ValueRefresh) -> Result<LoadedConfig, LoadError> + Send + Sync>,
    pub on_applied: Box<dyn Fn(&Config) + Send + Sync>,
    pub describe_diff: Box<DescribeDiffFn>,
}

/// Which of the configuration's secret values a reload fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRefresh {
    /// All, on an explicit reload.
    All,
    /// Only values that aren't cached.
    Missing,
    /// None: a changed file must not cause a command to run.
    None,
}

/// Describes the differences between two configurations.
pub type DescribeDiffFn = dyn Fn(&Config, &Config) -> String + Send + Sync;

pub(crate) struct ConfigReloader {
    source: Arc<ReloadSource>,
    trigger: Arc<ReloadTrigger>,
    watch: Option<FileWatcher>,
    /// A changed configuration that waits for an explicit reload.
    pending: Option<Config>,
}

impl ConfigReloader {
    /// Watches the file, its lock file, project files, and the folder `catalog`. If they can't be watched, only
    /// explicit reloads work.
    pub(crate) fn new(source: ReloadSource, catalog: Option<&Path>) -> Self {
        let trigger = Arc::<ReloadTrigger>::default();
        let files = watched_files(&source);
        let watch =
            FileWatcher::new(&paths(&files), catalog, &trigger).inspect_err(|error| {
                tracing::warn!(
                    %error,
                    "failed to watch the configuration file; changes apply on `mcp-workbench reload` or SIGHUP"
                );
            });
        Self { source: Arc::new(source), trigger, watch: watch.ok(), pending: None }
    }

    pub(crate) fn wish(&self) -> Arc<ReloadTrigger> {
        Arc::clone(&self.trigger)
    }

    pub(crate) async fn run(mut self, gateways: Arc<GatewayRegistry>, tasks: TaskTracker) {
        loop {
            self.trigger.debounced().await;
            self.rewatch(&gateways);
            let is_asked = self.trigger.take_request();
            let renewal = match gateways.config().auto_reload {
                _ if is_asked => ValueRefresh::All,
                mcp_workbench_settings::AutoReload::All => ValueRefresh::Missing,
                mcp_workbench_settings::AutoReload::Safe => ValueRefresh::None,
            };
            let source = Arc::clone(&self.source);
            match tasks.spawn_blocking(move || (source.load)(renewal)).await {
                Ok(Ok(loaded)) => {
                    self.apply(loaded, is_asked, &gateways, &tasks).await;
                    self.rewatch(&gateways);
                }
                Ok(Err(error)) => tell(&gateways, Event::ReloadRefused(&error.to_text())),
                Err(error) => tell(&gateways, Event::ReloadRefused(&error)),
            }
        }
    }

    /// Applies a loaded configuration, or defers it if it needs an explicit reload.
    async fn apply(
        &mut self,
        loaded: LoadedConfig,
        is_asked: bool,
        gateways: &GatewayRegistry,
        tasks: &TaskTracker,
    ) {
        let served = gateways.config();
        if loaded.config == *served {
            self.pending = None;
            return tell(gateways, Event::ConfigUnchanged);
        }
        let can_follow =
            loaded.unresolved_secrets.is_empty() && can_auto_reload(&served, &loaded.config);
        if !is_asked && !can_follow {
            return self.defer(served, loaded.config, gateways, tasks).await;
        }
        self.pending = None;
        if let Some(report) = loaded.report() {
            tracing::warn!("{}", report.without_label());
        }
        let changes = changes(&served, &loaded.config);
        let difference = match &served.audit {
            Some(_) => self.difference(&served, &loaded.config, tasks).await,
            None => String::new(),
        };
        // Taken before `replace`, so that an audit log that the change closes still records it.
        let listeners = gateways.observer().bus();
        gateways.replace_config(Arc::new(loaded.config)).await;
        listeners.emit(Event::Reloaded { changes: &changes, difference: &difference });
        (self.source.on_applied)(&gateways.config());
    }

    /// Reports once that a configuration waits for an explicit reload.
    async fn defer(
        &mut self,
        served: Arc<Config>,
        config: Config,
        gateways: &GatewayRegistry,
        tasks: &TaskTracker,
    ) {
        if self.pending.as_ref() == Some(&config) {
            return;
        }
        let changes = changes(&served, &config);
        let difference = self.difference(&served, &config, tasks).await;
        tell(gateways, Event::ReloadPending { changes: &changes, difference: &difference });
        self.pending = Some(config);
    }

    async fn difference(&self, old: &Arc<Config>, new: &Config, tasks: &TaskTracker) -> String {
        let (source, old, new) = (Arc::clone(&self.source), Arc::clone(old), new.clone());
        let difference = tasks.spawn_blocking(move || (source.describe_diff)(&old, &new)).await;
        difference.unwrap_or_else(|error| error.to_string())
    }

    fn rewatch(&mut self, gateways: &GatewayRegistry) {
        if let Some(watch) = &mut self.watch {
            let files = watched_files(&self.source);
            watch.update_paths(&paths(&files), gateways.config().navigator.folder.as_deref());
        }
    }
}

fn paths(files: &[PathBuf]) -> Vec<&Path> {
    files.iter().map(PathBuf::as_path).collect()
}

fn watched_files(source: &ReloadSource) -> Vec<PathBuf> {
    let lock = mcp_workbench_config::lockfile_path(&source.file, source.file.is_dir());
    let mut files = vec![source.file.clone(), lock];
    files.extend_from_slice(&source.project_files);
    files
}

fn tell(gateways: &GatewayRegistry, event: Event<'_>) {
    gateways.observer().bus().emit(event);
}

fn changes(before: &Config, now: &Config) -> String {
    let names = |config: &Config| -> BTreeSet<String> {
        config.toolboxes.iter().map(|toolbox| toolbox.name.to_string()).collect()
    };
    let (old, new) = (names(before), names(now));
    let is_changed = |name: &&String| before.toolbox(name) != now.toolbox(name);
    let lists: [(&str, Vec<&String>); 3] = [
        ("added", new.difference(&old).collect()),
        ("removed", old.difference(&new).collect()),
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
        parts.push(format!("tool mode `{}` for new sessions", now.mode.as_str()));
    }
    if before.auth != now.auth {
        parts.push("authentication over HTTP".to_owned());
    }
    if before.http.tls.is_some() != now.http.tls.is_some() {
        parts.push("turning TLS on or off takes effect after a restart".to_owned());
    } else if before.http.tls != now.http.tls {
        parts.push("TLS files".to_owned());
    }
    if before.limits.max_message_bytes != now.limits.max_message_bytes {
        parts.push("`maxMessageBytes` for servers that start from now on".to_owned());
    }
    if parts.is_empty() { "other settings".to_owned() } else { parts.join("; ") }
}
