//! Accounts: as whom a server over HTTP is used.

use std::fmt;
use std::sync::{Arc, LazyLock};

use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, HeaderValue};
use sha2::Sha256;

use crate::login::Place;

/// The account that a server over HTTP is used with. No token is in it, and none can be got out of it.
///
/// Two things are told apart. *Listings* are kept under the account's name, which stays when its
/// credentials are renewed. *Connections* are shared by whoever is the same to the server, whatever
/// the account is called; only that decides whether two are equal.
#[derive(Clone)]
pub struct Account {
    name: String,
    who: [u8; 16],
    /// Where somebody signs in, if that is how it is known who asks.
    place: Option<Arc<Place>>,
}

impl Account {
    /// The account that an entry with these headers uses.
    pub(crate) fn of_headers(server: &str, headers: &[(HeaderName, HeaderValue)]) -> Self {
        /// Lives as long as this process, so that a digest is of no use to any other.
        static KEY: LazyLock<[u8; 64]> = LazyLock::new(|| {
            let mut key = [0; 64];
            if getrandom::fill(&mut key).is_err() {
                tracing::debug!("the machine has no randomness; accounts are told apart without");
            }
            key
        });

        if headers.is_empty() {
            return Self { name: String::new(), who: [0; 16], place: None };
        }
        let mut headers: Vec<_> = headers.iter().collect();
        // The order of those with one name has a meaning, and no other has.
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
        Self { name: account, who, place: None }
    }

    /// Returns the same account, for whoever signs in there.
    pub(crate) fn signed_in_at(mut self, place: Place) -> Self {
        // A line that no header can be.
        self.name = format!("{}\n@ {}", place.server, self.name);
        if let Some(account) = &place.account {
            self.name.push('\n');
            self.name.push_str(account);
        }
        self.place = Some(Arc::new(place));
        self
    }

    /// Names it among those of one address; empty where a server is not told who asks.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        (&self.who, &self.place) == (&other.who, &other.place)
    }
}

impl Eq for Account {}

impl std::hash::Hash for Account {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.who, &self.place).hash(state);
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
        Account::of_headers(server, &headers.iter().map(header).collect::<Vec<_>>())
    }

    #[test]
    fn connections_are_shared_by_equal_headers_alone() {
        let one = account("hub", &[("authorization", "Bearer a"), ("x-tools", "all")]);
        assert_eq!(one, account("hub", &[("x-tools", "all"), ("authorization", "Bearer a")]));
        assert_eq!(one, account("same", &[("authorization", "Bearer a"), ("x-tools", "all")]));
        assert_ne!(one, account("hub", &[("authorization", "Bearer b"), ("x-tools", "all")]));
        assert_ne!(one, account("hub", &[("authorization", "Bearer a")]));
        assert_ne!(account("hub", &[("x", "ab")]), account("hub", &[("xa", "b")]));
        assert_ne!(one, account("hub", &[]));
    }

    #[test]
    fn the_name_outlives_the_credentials() {
        let name = |value| account("hub", &[("authorization", value)]).name().to_owned();
        assert_eq!(name("Bearer a"), name("Bearer b"));
        assert_ne!(name("Bearer a"), account("private", &[("authorization", "Bearer a")]).name());
        assert_eq!(account("hub", &[]).name(), "");
    }

    #[test]
    fn no_token_is_printed() {
        let text = format!("{:?}", account("hub", &[("authorization", "Bearer s3cret")]));
        assert_eq!(text, "Account(\"hub\\nauthorization\")");
    }
}
