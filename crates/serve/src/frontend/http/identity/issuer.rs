//! The authorization server: its metadata (RFC 8414, or as `OpenID` Connect has it), and its keys, which
//! are asked for when they are needed and kept.
//!
//! One request for them is under way at a time, however many wait for it. It goes on when those
//! who wait have left. How often there may be one is limited, for anybody can show a token that
//! names a key that nobody knows. Where the issuer cannot be asked, what is known of it is used for
//! a day.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::Client;
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::redirect::Policy;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::frontend::http::identity::challenge::Denied;
use crate::frontend::http::identity::keys::KeySet;
use crate::frontend::until::until;
use crate::settings::{JwtConfig, is_loopback};
use crate::state::Rate;

/// How long keys are used before they are asked for again.
const FRESH: Duration = Duration::from_mins(10);
/// How long they are used where the issuer cannot be asked.
const STALE: Duration = Duration::from_hours(24);
/// How long it may take to ask for them, all in all.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often they may be asked for within a minute, and at once.
const OFTEN: Rate = Rate { per_minute: NonZeroU32::MIN.saturating_add(5) };
/// The most bytes of metadata, or of keys.
const MAX_BYTES: usize = 256 * 1024;
/// The most keys that are tried on one token.
const MAX_TRIED: usize = 8;

/// An authorization server, as far as it concerns us.
pub(crate) struct Issuer {
    name: String,
    jwks_url: Option<Url>,
    state: Mutex<State>,
    /// Counts the requests for keys that have come to an end.
    ended: watch::Sender<u64>,
    since: Instant,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

#[derive(Default)]
struct State {
    keys: Option<(Arc<KeySet>, Instant)>,
    is_asking: bool,
    /// The time since the issuer was made at which nothing is left of the requests for keys.
    clear_at: Duration,
}

impl Issuer {
    /// The issuer that a configuration names. It is not asked for anything yet.
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

    /// One that is never asked, for its keys are known.
    #[cfg(test)]
    pub(crate) fn knowing(jwt: &JwtConfig, keys: KeySet) -> Self {
        let issuer = Self::new(jwt, &TaskTracker::new(), &CancellationToken::new());
        while issuer.count(&mut issuer.state()).is_ok() {}
        issuer.state().keys = Some((Arc::new(keys), Instant::now()));
        issuer
    }

    /// Returns `true` if a configuration names this issuer.
    pub(crate) fn is_of(&self, jwt: &JwtConfig) -> bool {
        self.name == jwt.issuer && self.jwks_url == jwt.jwks_url
    }

    /// The keys that may have signed a token that says this of itself.
    pub(crate) async fn keys(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Vec<DecodingKey>, Denied> {
        if let Some((known, age)) = self.known() {
            let found = find(&known, id, algorithm);
            if !found.is_empty() {
                if age >= FRESH {
                    drop(self.ask());
                }
                return Ok(found);
            }
        }
        if let Some(mut ended) = self.ask() {
            // It ends in time, or we do.
            let _ = ended.changed().await;
        }
        let (known, _) = self.known().ok_or(Denied::Unavailable)?;
        Ok(find(&known, id, algorithm))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys that are known, unless they are too old, and their age.
    fn known(&self) -> Option<(Arc<KeySet>, Duration)> {
        let state = self.state();
        let (keys, since) = state.keys.as_ref()?;
        let age = since.elapsed();
        (age < STALE).then(|| (Arc::clone(keys), age))
    }

    /// Asks for the keys, unless that is under way or was done too often; what changes when it is
    /// done.
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
        self.tasks.spawn(until(&self.shutdown, work));
        Some(ended)
    }

    /// Counts a request for keys, unless there were too many in the last minute.
    fn count(&self, state: &mut State) -> Result<(), Duration> {
        OFTEN.count(self.since.elapsed(), &mut state.clear_at)
    }

    async fn renew(&self) {
        let asked = timeout(PATIENCE, self.fetch()).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
        let issuer = &self.name;
        {
            let mut state = self.state();
            state.is_asking = false;
            match asked {
                Ok(keys) => state.keys = Some((Arc::new(keys), Instant::now())),
                Err(reason) => {
                    tracing::warn!(issuer, reason, "the keys of the issuer cannot be had");
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

    /// Where the issuer says that its keys are.
    async fn discover(&self) -> Result<Url, String> {
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: String,
        }

        let mut reason = "its name is no address".to_owned();
        for url in metadata_addresses(&self.name) {
            let found = get(&url).await.and_then(|text| {
                serde_json::from_slice::<Metadata>(&text).map_err(|error| error.to_string())
            });
            match found {
                Ok(found) if found.issuer != self.name => {
                    reason = format!("`{url}` is the metadata of another, `{}`", found.issuer);
                }
                Ok(found) => {
                    let keys = Url::parse(&found.jwks_uri).ok();
                    let is_safe = |url: &Url| url.scheme() == "https" || is_loopback(url);
                    return keys.filter(is_safe).ok_or_else(|| {
                        format!("`{}` is no address to get keys from", found.jwks_uri)
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

/// Where the metadata of an issuer may be, in the order of MCP.
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

/// Fetches a whole document: from that address alone, and no longer than it should be.
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
            return Err(format!("it has more than {MAX_BYTES} bytes"));
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}

fn client(url: &Url) -> reqwest::Result<Client> {
    // Somebody in this process may have chosen before us, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder().redirect(Policy::none()).timeout(PATIENCE);
    if url.scheme() == "http" {
        // The machine's certificates are not needed, and it may have none.
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
