//! Reloads TLS certificates while serving: when their files change, on SIGHUP, when a new
//! configuration names other files, and every hour, because some file systems report no changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::app::file_watcher::{FileWatcher, ReloadTrigger};
use crate::app::reload::ReloadSource;
use mcp_workbench_core::gateway::GatewayRegistry;
use mcp_workbench_core::telemetry::Event;
use mcp_workbench_http::TlsCertificates;
use mcp_workbench_settings::TlsConfig;

/// Reload interval without any change notification.
const POLL_INTERVAL: Duration = Duration::from_hours(1);
/// Warn once a day during the last 7 days of a certificate.
const EXPIRY_WARNING_SECS: u64 = 7 * 24 * 3600;
const DAY: Duration = Duration::from_hours(24);

pub(crate) struct CertificateReloader {
    tls: Arc<TlsCertificates>,
    wish: Arc<ReloadTrigger>,
    watch: Option<FileWatcher>,
    last_warned: Option<Instant>,
}

impl CertificateReloader {
    pub(crate) fn new(tls: &Arc<TlsCertificates>, files: &TlsConfig) -> Self {
        let wish = Arc::<ReloadTrigger>::default();
        let watch = FileWatcher::new(&paths(files), None, &wish).inspect_err(|error| {
            tracing::warn!(
                %error,
                "failed to watch the TLS certificate files; they are reloaded on SIGHUP and every hour"
            );
        });
        Self { tls: Arc::clone(tls), wish, watch: watch.ok(), last_warned: None }
    }

    pub(crate) fn wish(&self) -> Arc<ReloadTrigger> {
        Arc::clone(&self.wish)
    }

    /// Returns `source` with a hook that also checks certificates after each applied configuration.
    pub(crate) fn trigger_on_config(&self, source: ReloadSource) -> ReloadSource {
        let wish = self.wish();
        let ReloadSource { on_applied: served, .. } = source;
        let told = move |config: &_| {
            wish.notify_changed();
            served(config);
        };
        ReloadSource { on_applied: Box::new(told), ..source }
    }

    pub(crate) async fn run(mut self, gateways: Arc<GatewayRegistry>, tasks: TaskTracker) {
        let tell = |event: Event<'_>| gateways.observer().bus().emit(event);
        tell(Event::CertificateLoaded(&self.tls.dates()));
        loop {
            self.warn();
            // A timeout is the hourly check.
            let _ = timeout(POLL_INTERVAL, self.wish.debounced()).await;
            let config = gateways.config();
            // TLS can't be switched on or off by a reload.
            let Some(files) = &config.http.tls else { continue };
            if let Some(watch) = &mut self.watch {
                watch.update_paths(&paths(files), None);
            }
            let (tls, own) = (Arc::clone(&self.tls), files.clone());
            match tasks.spawn_blocking(move || tls.reload(&own)).await {
                Ok(Ok(true)) => {
                    self.last_warned = None;
                    tell(Event::CertificateLoaded(&self.tls.dates()));
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tell(Event::CertificateRefused(&error)),
                Err(error) => tell(Event::CertificateRefused(&error)),
            }
        }
    }

    fn warn(&mut self) {
        let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let left = self.tls.dates().cert.saturating_sub(now);
        if left < EXPIRY_WARNING_SECS && self.last_warned.is_none_or(|at| at.elapsed() >= DAY) {
            self.last_warned = Some(Instant::now());
            let hours = left / 3600;
            tracing::warn!("the TLS certificate expires in {hours} h: renew it");
        }
    }
}

fn paths(files: &TlsConfig) -> Vec<&Path> {
    let all = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
    all.into_iter().flatten().map(PathBuf::as_path).collect()
}
