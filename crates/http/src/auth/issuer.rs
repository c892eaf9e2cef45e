//! Client of the authorization server. Fetches its metadata (RFC 8414 or `OpenID` Connect
//! discovery) and its signing keys on demand, and caches the keys.
//!
//! Fetches are single-flight and continue when their waiters leave. They are rate-limited, because
//! an attacker can send tokens with unknown key ids. If the issuer is unreachable, cached keys stay
//! valid for a day.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::{Mutex, MutexGuard};
use reqwest::Client;
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::redirect::Policy;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::auth::challenge::AuthError;
use crate::auth::jwks::KeySet;
use mcp_workbench_core::state::Rate;
use mcp_workbench_settings::{JwtConfig, is_loopback};

/// Cached keys older than this are refreshed in the background.
const REFRESH_AFTER: Duration = Duration::from_mins(10);
/// Cached keys older than this are no longer used, even if the issuer is unreachable.
const MAX_KEY_AGE: Duration = Duration::from_hours(24);
/// Timeout of discovery and key fetch together.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// 6 fetches per minute, with a burst of as many.
const FETCH_RATE: Rate = Rate { per_minute: NonZeroU32::MIN.saturating_add(5) };
const MAX_BYTES: usize = 256 * 1024;
const MAX_TRIED: usize = 8;

pub(crate) struct Issuer {
    name: String,
    jwks_url: Option<Url>,
    state: Mutex<IssuerState>,
    ended: watch::Sender<u64>,
    since: Instant,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

#[derive(Default)]
struct IssuerState {
    keys: Option<(Arc<KeySet>, Instant)>,
    is_asking: bool,
    /// Rate-limiter state: measured from `since`, the time until which past fetches count.
    clear_at: Duration,
}

impl Issuer {
    pub(crate) fn new(jwt: &JwtConfig, tasks: &TaskTracker, shutdown: &CancellationToken) -> Self {
        Self {
            name: jwt.issuer.clone(),
            jwks_url: jwt.jwks_url.clone(),
            state: Mutex::default(),
            ended: watch::channel(0).0,
            since: Instant::now(),
            tasks: tasks.clone(),
            shutdown: shutdown.clone(),
        }
    }

    /// Creates an issuer with fixed keys, whose fetch quota is used up.
    #[cfg(test)]
    pub(crate) fn knowing(jwt: &JwtConfig, keys: KeySet) -> Self {
        let issuer = Self::new(jwt, &TaskTracker::new(), &CancellationToken::new());
        while issuer.count(&mut issuer.state()).is_ok() {}
        issuer.state().keys = Some((Arc::new(keys), Instant::now()));
        issuer
    }

    pub(crate) fn is_of(&self, jwt: &JwtConfig) -> bool {
        self.name == jwt.issuer && self.jwks_url == jwt.jwks_url
    }

    /// Returns the cached keys that match `id` and `algorithm`. Fetches the keys if none match.
    pub(crate) async fn keys(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Vec<DecodingKey>, AuthError> {
        if let Some((known, age)) = self.cached_keys() {
            let found = find(&known, id, algorithm);
            if !found.is_empty() {
                if age >= REFRESH_AFTER {
                    drop(self.ask());
                }
                return Ok(found);
            }
        }
        if let Some(mut ended) = self.ask() {
            // `renew` has a timeout, so this ends. An error means shutdown.
            let _ = ended.changed().await;
        }
        let (known, _) = self.cached_keys().ok_or(AuthError::Unavailable)?;
        Ok(find(&known, id, algorithm))
    }

    fn state(&self) -> MutexGuard<'_, IssuerState> {
        self.state.lock()
    }

    fn cached_keys(&self) -> Option<(Arc<KeySet>, Duration)> {
        let state = self.state();
        let (keys, since) = state.keys.as_ref()?;
        let age = since.elapsed();
        (age < MAX_KEY_AGE).then(|| (Arc::clone(keys), age))
    }

    /// Starts a fetch, or joins the one in flight. The receiver changes when it ends. `None` if the
    /// rate limit is reached.
    fn ask(self: &Arc<Self>) -> Option<watch::Receiver<u64>> {
        let mut state = self.state();
        if state.is_asking {
            return Some(self.ended.subscribe());
        }
        if self.count(&mut state).is_err() {
            return None;
        }
        state.is_asking = true;
        let ended = self.ended.subscribe();
        let asking = Arc::clone(self);
        let work = async move { asking.renew().await };
        self.tasks.spawn(self.shutdown.clone().run_until_cancelled_owned(work));
        Some(ended)
    }

    fn count(&self, state: &mut IssuerState) -> Result<(), Duration> {
        FETCH_RATE.count(self.since.elapsed(), &mut state.clear_at)
    }

    async fn renew(&self) {
        let asked = timeout(FETCH_TIMEOUT, self.fetch()).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("timed out after {FETCH_TIMEOUT:?}")));
        let issuer = &self.name;
        {
            let mut state = self.state();
            state.is_asking = false;
            match asked {
                Ok(keys) => state.keys = Some((Arc::new(keys), Instant::now())),
                Err(reason) => {
                    tracing::warn!(issuer, reason, "failed to fetch the issuer's keys");
                }
            }
        }
        self.ended.send_modify(|ended| *ended += 1);
    }

    async fn fetch(&self) -> Result<KeySet, String> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        KeySet::read(&get(&url).await?)
    }

    async fn discover(&self) -> Result<Url, String> {
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: String,
        }

        let mut reason = "the issuer is not a URL".to_owned();
        for url in metadata_addresses(&self.name) {
            let found = get(&url).await.and_then(|text| {
                serde_json::from_slice::<Metadata>(&text).map_err(|error| error.to_string())
            });
            match found {
                Ok(found) if found.issuer != self.name => {
                    reason =
                        format!("`{url}` has the metadata of another issuer, `{}`", found.issuer);
                }
                Ok(found) => {
                    let keys = Url::parse(&found.jwks_uri).ok();
                    let is_safe = |url: &Url| url.scheme() == "https" || is_loopback(url);
                    return keys.filter(is_safe).ok_or_else(|| {
                        format!(
                            "`jwks_uri` must be an https or loopback URL, found `{}`",
                            found.jwks_uri
                        )
                    });
                }
                Err(error) => reason = format!("`{url}`: {error}"),
            }
        }
        Err(reason)
    }
}

fn find(keys: &KeySet, id: Option<&str>, algorithm: Algorithm) -> Vec<DecodingKey> {
    keys.find(id, algorithm).take(MAX_TRIED).cloned().collect()
}

fn metadata_addresses(issuer: &str) -> Vec<Url> {
    let Ok(issuer) = Url::parse(issuer) else { return Vec::new() };
    let path = issuer.path().trim_end_matches('/');
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url
    };
    let (oauth, openid) =
        ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
    let mut addresses = vec![at(format!("{oauth}{path}")), at(format!("{openid}{path}"))];
    if !path.is_empty() {
        addresses.push(at(format!("{path}{openid}")));
    }
    addresses
}

/// Fetches a document without following redirects, up to `MAX_BYTES`.
async fn get(url: &Url) -> Result<Vec<u8>, String> {
    let client = client(url).map_err(innermost)?;
    let accept = HeaderValue::from_static("application/json");
    let mut response =
        client.get(url.clone()).header(ACCEPT, accept).send().await.map_err(innermost)?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status()));
    }
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(innermost)? {
        if text.len() + chunk.len() > MAX_BYTES {
            return Err(format!("the response exceeds {MAX_BYTES} bytes"));
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}

fn client(url: &Url) -> reqwest::Result<Client> {
    // Fails if a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder().redirect(Policy::none()).timeout(FETCH_TIMEOUT);
    if url.scheme() == "http" {
        // Plain HTTP needs no CA certificates, and a minimal container may have none.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build()
}

fn innermost(error: reqwest::Error) -> String {
    let mut error: Box<dyn std::error::Error> = Box::new(error.without_url());
    while let Some(source) = error.source() {
        error = source.to_string().into();
    }
    error.to_string()
}

#[cfg(test)]
mod tests;
