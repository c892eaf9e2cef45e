//! The issuers that exchange callers' tokens. All callers share a client and the metadata.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::http::{AuthHttpClient, redacted_url};
use crate::metadata::authority;
use crate::record::AuthorizationServer;
use crate::target::LoginError;
use crate::token::sanitize_excerpt;

/// Time limit of a fetch, with all its requests.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long metadata is used, and how long a failure to fetch it is reported without another try.
const METADATA_AGE: Duration = Duration::from_mins(10);
const FAILURE_AGE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Issuers(Mutex<HashMap<Url, Arc<Issuer>>>);

pub(crate) struct Issuer {
    url: Url,
    pub(crate) http: Arc<AuthHttpClient>,
    /// Locked during a fetch, so that there is one for all callers.
    metadata: tokio::sync::Mutex<Option<(Instant, Result<AuthorizationServer, LoginError>)>>,
}

impl Issuers {
    pub(crate) fn get(&self, url: &Url) -> Arc<Issuer> {
        let mut all = self.0.lock();
        let issuer = all.entry(url.clone()).or_insert_with(|| {
            let http = Arc::new(AuthHttpClient::new(url));
            Arc::new(Issuer { url: url.clone(), http, metadata: tokio::sync::Mutex::default() })
        });
        Arc::clone(issuer)
    }
}

impl Issuer {
    pub(crate) async fn metadata(&self) -> Result<AuthorizationServer, LoginError> {
        let mut cached = self.metadata.lock().await;
        if let Some((since, found)) = &*cached {
            let age = if found.is_ok() { METADATA_AGE } else { FAILURE_AGE };
            if since.elapsed() < age {
                return found.clone();
            }
        }
        let found = fetch_metadata(&self.http, &self.url).await;
        *cached = Some((Instant::now(), found.clone()));
        found
    }
}

/// Fetches the metadata of an issuer (RFC 8414 §3, `OpenID` Connect Discovery §4).
async fn fetch_metadata(
    http: &AuthHttpClient,
    issuer: &Url,
) -> Result<AuthorizationServer, LoginError> {
    let hint = "check `issuer` in `auth` of the server's entry, and that the issuer is reachable";
    let failed = |why: String| LoginError::new(why, hint);
    let fetched = async {
        let mut why = String::new();
        for url in metadata_addresses(issuer) {
            let answer = http.get(&url).await.map_err(failed)?;
            if !answer.status.is_success() {
                why = format!("{} returned HTTP status {}", redacted_url(&url), answer.status);
                continue;
            }
            let found = serde_json::from_slice(&answer.body).ok();
            let Some(found) = found.and_then(|raw| authority(raw, false)) else {
                return Err(failed(format!("{} is not valid metadata", redacted_url(&url))));
            };
            // The metadata of another issuer could name its own token endpoint (RFC 8414 §3.3).
            if Url::parse(&found.issuer).ok().as_ref() != Some(issuer) {
                let other = sanitize_excerpt(&found.issuer);
                let url = redacted_url(&url);
                return Err(failed(format!("{url} has the metadata of another issuer, {other}")));
            }
            return Ok(found);
        }
        Err(failed(why))
    };
    timeout(TIMEOUT, fetched).await.unwrap_or_else(|_| {
        Err(failed(format!("{} did not respond in time", redacted_url(issuer))))
    })
}

fn metadata_addresses(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url
    };
    let (oauth, openid) =
        ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
    let mut all = vec![at(format!("{oauth}{path}")), at(format!("{path}{openid}"))];
    if !path.is_empty() {
        all.push(at(format!("{openid}{path}")));
    }
    all
}
