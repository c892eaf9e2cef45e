//! The store shared by several workbenches (`sharedStore`).

use core::net::IpAddr;
use std::fmt;
use std::path::PathBuf;

use url::Url;

/// Default key prefix (`prefix`).
pub const DEFAULT_PREFIX: &str = "mcp-workbench:";
/// In bytes.
const MAX_PREFIX: usize = 64;

/// The shared store, and how to connect to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedStoreConfig {
    /// `None`: no shared store.
    pub url: Option<StoreUrl>,
    /// Prefix of every key in the store (`prefix`).
    pub prefix: String,
    /// PEM file of the CA certificates that the store's certificate must chain to (`ca`). `None`:
    /// the system's roots.
    pub ca: Option<PathBuf>,
    /// Key files that encrypt logins and listings in the store (`keys`). The first key encrypts,
    /// all decrypt. Without keys, neither is stored there.
    pub keys: Vec<PathBuf>,
}

impl Default for SharedStoreConfig {
    fn default() -> Self {
        Self { url: None, prefix: DEFAULT_PREFIX.to_owned(), ca: None, keys: Vec::new() }
    }
}

impl SharedStoreConfig {
    /// Upper bound on the number of keys.
    pub const MAX_KEYS: usize = 8;

    /// Returns `true` if `text` is a valid key prefix.
    pub fn is_prefix(text: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_graphic();
        !text.is_empty() && text.len() <= MAX_PREFIX && text.chars().all(is_plain)
    }
}

/// The URL of a Redis-compatible server, with optional user and password.
///
/// Only [`StoreUrl::expose_secret`] reveals the user and password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoreUrl(Url);

impl StoreUrl {
    /// Parses a `redis`, `rediss`, `valkey` or `valkeys` URL.
    ///
    /// # Errors
    ///
    /// Returns an error if the text isn't such a URL. The message doesn't repeat the text, which
    /// can contain a password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let url = Url::parse(text.trim()).map_err(|_| {
            "expected a URL such as `redis://host:6379/0`, with special characters in the user name \
             and password percent-encoded"
        })?;
        if !matches!(url.scheme(), "redis" | "rediss" | "valkey" | "valkeys") {
            return Err("expected a URL that starts with `redis://`, or `rediss://` for TLS");
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err("expected a host name in the URL");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("expected a URL without `?` and `#`; percent-encode them in a password");
        }
        let database = url.path().strip_prefix('/').unwrap_or_default();
        if !database.is_empty() && database.parse::<u16>().is_err() {
            return Err("expected a database number after the host, such as `/0`");
        }
        Ok(Self(url))
    }

    /// Returns the URL including user and password.
    pub fn expose_secret(&self) -> &str {
        self.0.as_str()
    }

    /// Returns `true` if the connection uses TLS.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.0.scheme(), "rediss" | "valkeys")
    }

    pub fn has_password(&self) -> bool {
        self.0.password().is_some()
    }

    /// Returns `true` if the host is `localhost` or a loopback address.
    pub fn is_local(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address: Option<IpAddr> = host.parse().ok();
        host == "localhost" || address.is_some_and(|address| address.is_loopback())
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        match self.0.path() {
            "/" => Ok(()),
            path => f.write_str(path),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_omits_user_and_password() {
        let shown = |text: &str| StoreUrl::parse(text).map(|url| format!("{url} {url:?}"));
        for (text, expected) in [
            ("redis://ann:hunter2@db.example:6380/3", "redis://db.example:6380/3"),
            ("rediss://:hunter2@db.example", "rediss://db.example"),
            ("valkeys://[::1]:7000/", "valkeys://[::1]:7000"),
        ] {
            assert_eq!(shown(text), Ok(format!("{expected} StoreUrl({expected})")));
        }
    }

    #[test]
    fn parse_errors_do_not_repeat_the_url() {
        for text in [
            "hunter2",
            "http://:hunter2@host",
            "redis://:hunter2#x@host",
            "redis://:hunter2@host/#insecure",
            "redis://:hunter2@host/0?protocol=resp3",
            "redis://:hunter2@host/zero",
            "redis:hunter2",
            "redis://:hunter2@host:99999",
        ] {
            let wrong = StoreUrl::parse(text).unwrap_err();
            assert!(!wrong.contains("hunter2"), "{wrong}");
        }
    }

    #[test]
    fn loopback_hosts_are_local() {
        let is_local = |text: &str| StoreUrl::parse(text).map(|url| url.is_local());
        for text in ["redis://localhost", "redis://127.0.0.1:1", "redis://[::1]"] {
            assert_eq!(is_local(text), Ok(true), "{text}");
        }
        assert_eq!(is_local("redis://10.0.0.1"), Ok(false));
    }
}
