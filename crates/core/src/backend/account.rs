//! The account that the workbench uses at an HTTP server.

use std::fmt;
use std::sync::{Arc, LazyLock};

use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, HeaderValue};
use sha2::Sha256;

use mcp_workbench_login::LoginTarget;

/// The account that an HTTP server is used with. It contains no token.
///
/// Stored listings are keyed by the account's name, which survives renewed credentials. Equality
/// decides whether connections are shared; it ignores the name and compares credentials and login.
#[derive(Clone)]
pub struct Account {
    name: String,
    headers_digest: [u8; 16],
    /// The login that provides the token; `None` if the headers identify the caller.
    target: Option<Arc<LoginTarget>>,
}

impl Account {
    pub(crate) fn from_headers(server: &str, headers: &[(HeaderName, HeaderValue)]) -> Self {
        /// Random per process, so a digest is useless to any other process.
        static KEY: LazyLock<[u8; 64]> = LazyLock::new(|| {
            let mut key = [0; 64];
            if getrandom::fill(&mut key).is_err() {
                tracing::debug!("no random numbers available, account digests use a constant key");
            }
            key
        });

        if headers.is_empty() {
            return Self { name: String::new(), headers_digest: [0; 16], target: None };
        }
        let mut headers: Vec<_> = headers.iter().collect();
        // The order of values with equal names matters, so the sort must be stable.
        headers.sort_by_key(|(name, _)| name.as_str());
        let mut digest = Hmac::<Sha256>::new((&*KEY).into());
        let mut account = server.to_owned();
        for (name, value) in headers {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                digest.update(&(part.len() as u64).to_le_bytes());
                digest.update(part);
            }
            account.push('\n');
            account.push_str(name.as_str());
        }
        let mut who = [0; 16];
        who.copy_from_slice(&digest.finalize().into_bytes()[..16]);
        Self { name: account, headers_digest: who, target: None }
    }

    pub(crate) fn with_login(mut self, target: LoginTarget) -> Self {
        // No header name contains `@`, so this line is unambiguous.
        self.name = format!("{}\n@ {}", target.server, self.name);
        if let Some(account) = &target.account {
            self.name.push('\n');
            self.name.push_str(account);
        }
        self.target = Some(Arc::new(target));
        self
    }

    /// Identifies the account among those at one URL. Empty if the server gets no credentials.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        (&self.headers_digest, &self.target) == (&other.headers_digest, &other.target)
    }
}

impl Eq for Account {}

impl std::hash::Hash for Account {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.headers_digest, &self.target).hash(state);
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(server: &str, headers: &[(&'static str, &'static str)]) -> Account {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Account::from_headers(server, &headers.iter().map(header).collect::<Vec<_>>())
    }

    // invariant: sharing-needs-equality
    #[test]
    fn only_equal_headers_share_connections() {
        let one = account("hub", &[("authorization", "Bearer a"), ("x-tools", "all")]);
        assert_eq!(one, account("hub", &[("x-tools", "all"), ("authorization", "Bearer a")]));
        assert_eq!(one, account("same", &[("authorization", "Bearer a"), ("x-tools", "all")]));
        assert_ne!(one, account("hub", &[("authorization", "Bearer b"), ("x-tools", "all")]));
        assert_ne!(one, account("hub", &[("authorization", "Bearer a")]));
        assert_ne!(account("hub", &[("x", "ab")]), account("hub", &[("xa", "b")]));
        assert_ne!(one, account("hub", &[]));
    }

    #[test]
    fn account_name_survives_renewed_credentials() {
        let name = |value| account("hub", &[("authorization", value)]).name().to_owned();
        assert_eq!(name("Bearer a"), name("Bearer b"));
        assert_ne!(name("Bearer a"), account("private", &[("authorization", "Bearer a")]).name());
        assert_eq!(account("hub", &[]).name(), "");
    }

    #[test]
    fn debug_output_has_no_token() {
        let text = format!("{:?}", account("hub", &[("authorization", "Bearer s3cret")]));
        assert_eq!(text, "Account(\"hub\\nauthorization\")");
    }
}
