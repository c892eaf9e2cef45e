//! The configured store, with its client, key prefix and sealing keys.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use redis::{Client, TlsCertificates};

use crate::sealing::SealingKeys;
use mcp_workbench_settings::{SharedStoreConfig, StoreUrl};

/// Maximum size of a CA file.
const MAX_CA: u64 = 1024 * 1024;

/// A store whose configuration has been validated, without connecting to it.
#[derive(Clone)]
pub struct RedisTarget {
    pub(crate) client: Client,
    pub(crate) prefix: String,
    url: StoreUrl,
    /// `None` if no keys are configured; logins and listings are then not shared.
    pub(crate) keys: Option<Arc<SealingKeys>>,
}

/// The reason why a store can't be used. Contains no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfigError(pub String);

impl fmt::Display for RedisConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RedisConfigError {}

impl fmt::Display for RedisTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl fmt::Debug for RedisTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.url)
    }
}

impl RedisTarget {
    /// Validates the configuration of a store; returns `None` without one. Blocks: reads the CA
    /// file and the key files.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL or one of the files is unusable.
    pub fn new(config: &SharedStoreConfig) -> Result<Option<Self>, RedisConfigError> {
        let Some(url) = &config.url else { return Ok(None) };
        let wrong = |reason: String| RedisConfigError(format!("shared store {url}: {reason}"));
        let client = match &config.ca {
            Some(ca) if url.is_encrypted() => {
                let root_cert = read(ca).map_err(wrong)?;
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(root_cert) };
                Client::build_with_tls(url.expose_secret(), certificates)
            }
            Some(_) => {
                let reason = "`ca` requires a `rediss://` URL";
                return Err(wrong(reason.to_owned()));
            }
            None => Client::open(url.expose_secret()),
        };
        // The client's error can contain the URL with its password.
        let client = client.map_err(|_| wrong("invalid URL".to_owned()))?;
        let keys = SealingKeys::read(&config.keys).map_err(wrong)?.map(Arc::new);
        Ok(Some(Self { client, prefix: config.prefix.clone(), url: url.clone(), keys }))
    }

    /// Returns `true` if there is a sealing key, so that logins and listings are shared, too.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns `true` if the connection uses TLS.
    pub fn is_encrypted(&self) -> bool {
        self.url.is_encrypted()
    }
}

fn read(ca: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("`ca` {}: {error}", ca.display());
    let file = std::fs::File::open(ca).map_err(unreadable)?;
    let mut text = Vec::new();
    file.take(MAX_CA).read_to_end(&mut text).map_err(unreadable)?;
    let has_one = String::from_utf8_lossy(&text).contains("-----BEGIN CERTIFICATE-----");
    if has_one {
        Ok(text)
    } else {
        Err(format!("`ca` {}: expected certificates in PEM", ca.display()))
    }
}
