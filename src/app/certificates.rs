//! Reading the certificates for TLS again while agents are served: when their files change, when somebody
//! asks, when another configuration names others, and now and then, for some file systems tell of no change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::app::reload::Source;
use crate::app::watching::{Watch, Wish};
use crate::frontend::http::Tls;
use crate::gateway::Gateways;
use crate::observe::Event;
use crate::settings::TlsConfig;

/// How long files are not read again where nothing is said to have changed.
const LOOK: Duration = Duration::from_hours(1);
/// How long before its end it is said that a certificate is to be renewed, in seconds, and how often.
const SOON: u64 = 7 * 24 * 3600;
const DAY: Duration = Duration::from_hours(24);

/// The certificates of a listener, and the sources of news of them.
pub(crate) struct Certificates {
    tls: Arc<Tls>,
    wish: Arc<Wish>,
    watch: Option<Watch>,
    /// When it was last said that they end.
    said: Option<Instant>,
}

impl Certificates {
    /// Watches the files that were read.
    pub(crate) fn new(tls: &Arc<Tls>, files: &TlsConfig) -> Self {
        let wish = Arc::<Wish>::default();
        let watch = Watch::new(&paths(files), None, &wish).inspect_err(|error| {
            tracing::warn!(
                %error,
                "the certificates for TLS cannot be watched; they are read again at SIGHUP and every \
                 hour alone"
            );
        });
        Self { tls: Arc::clone(tls), wish, watch: watch.ok(), said: None }
    }

    /// Where it is asked for.
    pub(crate) fn wish(&self) -> Arc<Wish> {
        Arc::clone(&self.wish)
    }

    /// A source whose configurations are followed: one may name other files.
    pub(crate) fn following(&self, source: Source) -> Source {
        let wish = self.wish();
        let Source { served, .. } = source;
        let told = move |config: &_| {
            wish.suspect();
            served(config);
        };
        Source { served: Box::new(told), ..source }
    }

    /// Reads them whenever it is wanted.
    pub(crate) async fn run(mut self, gateways: Arc<Gateways>, tasks: TaskTracker) {
        let tell = |event: Event<'_>| gateways.observer().listeners().tell(event);
        tell(Event::CertificateShown(&self.tls.dates()));
        loop {
            self.warn();
            // Either way it is time to look.
            let _ = timeout(LOOK, self.wish.come()).await;
            let config = gateways.config();
            // Whether there is TLS is settled at the start.
            let Some(files) = &config.http.tls else { continue };
            if let Some(watch) = &mut self.watch {
                watch.renew(&paths(files), None);
            }
            let (tls, own) = (Arc::clone(&self.tls), files.clone());
            match tasks.spawn_blocking(move || tls.renew(&own)).await {
                Ok(Ok(true)) => {
                    self.said = None;
                    tell(Event::CertificateShown(&self.tls.dates()));
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tell(Event::CertificateRefused(&error)),
                Err(error) => tell(Event::CertificateRefused(&error)),
            }
        }
    }

    /// Says, once a day, that the certificate ends soon.
    fn warn(&mut self) {
        let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let left = self.tls.dates().cert.saturating_sub(now);
        if left < SOON && self.said.is_none_or(|at| at.elapsed() >= DAY) {
            self.said = Some(Instant::now());
            let hours = left / 3600;
            tracing::warn!("the certificate for TLS is good for {hours} hours more: renew it");
        }
    }
}

fn paths(files: &TlsConfig) -> Vec<&Path> {
    let all = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
    all.into_iter().flatten().map(PathBuf::as_path).collect()
}
