//! The store that several workbenches share (`shared`).

use core::net::IpAddr;
use std::fmt;
use std::path::PathBuf;

use url::Url;

/// The beginning of every key in the store, unless the file has another (`prefix`).
pub const DEFAULT_PREFIX: &str = "mcp-workbench:";
/// The most bytes that a prefix may have.
const MAX_PREFIX: usize = 64;

/// The store that several workbenches share (`shared`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    /// Its address (`url`); `None`: nothing is shared.
    pub url: Option<StoreUrl>,
    /// The beginning of every key in it (`prefix`).
    pub prefix: String,
    /// Certificates in PEM of the CAs that say whether it is the right one (`ca`); `None`: those that the
    /// machine knows.
    pub ca: Option<PathBuf>,
    /// Files of keys with which logins and listings are sealed that are in it (`keys`); the first one seals, and all
    /// open. None: neither is in it.
    pub keys: Vec<PathBuf>,
}

impl Default for SharedConfig {
    fn default() -> Self {
        Self { url: None, prefix: DEFAULT_PREFIX.to_owned(), ca: None, keys: Vec::new() }
    }
}

impl SharedConfig {
    /// The most keys.
    pub const MAX_KEYS: usize = 8;

    /// Returns `true` if the text can be the beginning of keys.
    pub fn is_prefix(text: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_graphic();
        !text.is_empty() && text.len() <= MAX_PREFIX && text.chars().all(is_plain)
    }
}

/// The address of a server that speaks the protocol of Redis, with a user and a password if it wants them.
///
/// Nothing but [`StoreUrl::with_secrets`] shows these two.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(Url);

impl StoreUrl {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// When it is none; the reason repeats nothing of the text, which may have a password in it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let url = Url::parse(text.trim()).map_err(|_| {
            "expected a URL such as `redis://host:6379/0`, with every character of the user and the password \
             that means something in a URL percent-encoded"
        })?;
        if !matches!(url.scheme(), "redis" | "rediss" | "valkey" | "valkeys") {
            return Err("expected a URL that begins with `redis://`, or `rediss://` for TLS");
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err("expected the name of a host in the URL");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("expected a URL without `?` and `#`; percent-encode them in a password");
        }
        let database = url.path().strip_prefix('/').unwrap_or_default();
        if !database.is_empty() && database.parse::<u16>().is_err() {
            return Err("expected the number of a database after the host, such as `/0`");
        }
        Ok(Self(url))
    }

    /// Returns the whole address. It may have a password in it.
    pub fn with_secrets(&self) -> &str {
        self.0.as_str()
    }

    /// Returns `true` if all that is said there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.0.scheme(), "rediss" | "valkeys")
    }

    /// Returns `true` if it has a password.
    pub fn has_password(&self) -> bool {
        self.0.password().is_some()
    }

    /// Returns `true` if the server is on this machine.
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
    fn an_address_is_shown_without_its_user_and_password() {
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
    fn a_wrong_address_is_refused_in_words_without_it() {
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
    fn an_address_of_this_machine_is_known() {
        let is_local = |text: &str| StoreUrl::parse(text).map(|url| url.is_local());
        for text in ["redis://localhost", "redis://127.0.0.1:1", "redis://[::1]"] {
            assert_eq!(is_local(text), Ok(true), "{text}");
        }
        assert_eq!(is_local("redis://10.0.0.1"), Ok(false));
    }
}
