//! Where the store is and how it is spoken to, made ready of the configuration.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use redis::{Client, TlsCertificates};

use crate::settings::{SharedConfig, StoreUrl};
use crate::shared::keys::Keys;

/// The most bytes of a file of CAs.
const MAX_CA: u64 = 1024 * 1024;

/// The address of a store that can be used, as far as can be told without asking it.
#[derive(Clone)]
pub struct Address {
    pub(crate) client: Client,
    pub(crate) prefix: String,
    url: StoreUrl,
    /// The keys that things are sealed with; `None`: nothing is that would have to be.
    pub(crate) keys: Option<Arc<Keys>>,
}

/// Why a store cannot be used. The reason has no password in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.url)
    }
}

impl Address {
    /// Returns the address of the store that a configuration names; `None` if it names none. Reads the file
    /// of CAs and those of keys, so it blocks.
    ///
    /// # Errors
    ///
    /// When one of the files cannot be used.
    pub fn new(config: &SharedConfig) -> Result<Option<Self>, Unusable> {
        let Some(url) = &config.url else { return Ok(None) };
        let wrong = |reason: String| Unusable(format!("the shared store {url}: {reason}"));
        let client = match &config.ca {
            Some(ca) if url.is_encrypted() => {
                let root_cert = read(ca).map_err(wrong)?;
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(root_cert) };
                Client::build_with_tls(url.with_secrets(), certificates)
            }
            Some(_) => {
                let reason = "`ca` is for a URL that begins with `rediss://`";
                return Err(wrong(reason.to_owned()));
            }
            None => Client::open(url.with_secrets()),
        };
        // An error of the client may have the whole address in it.
        let client = client.map_err(|_| wrong("its address cannot be used".to_owned()))?;
        let keys = Keys::read(&config.keys).map_err(wrong)?.map(Arc::new);
        Ok(Some(Self { client, prefix: config.prefix.clone(), url: url.clone(), keys }))
    }

    /// Returns `true` if there is a key, so that logins and listings are there, too.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns `true` if all that is said there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.url.is_encrypted()
    }
}

/// Reads a file of certificates.
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
