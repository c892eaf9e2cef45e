//! The issuers that exchange callers' tokens. All callers share a client and the metadata.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

use crate::discovery::fetch_issuer_metadata;
use crate::http::AuthHttpClient;
use crate::record::AuthorizationServer;
use crate::target::LoginError;

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
        let found = fetch_issuer_metadata(&self.http, &self.url).await;
        *cached = Some((Instant::now(), found.clone()));
        found
    }
}
