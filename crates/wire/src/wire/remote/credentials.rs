//! Credentials: what proves to a server over HTTP who asks, beside the address it is reached at.
//!
//! They are asked anew before every exchange, so that one that is renewed holds from the next
//! message on, on the connection that there is.

use std::future::ready;
use std::pin::Pin;

use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

/// A result that may take a while.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Credentials for one server over HTTP.
pub trait Credentials: Send + Sync + 'static {
    /// Returns the headers that go with the next exchange; none where the server may as well say by
    /// itself what it wants.
    fn authorization(&self) -> Later<'_, HeaderMap>;

    /// Hears that an exchange was refused with 401 or 403, and decides whether it is tried once
    /// more. The server has not acted on what it refused. An exchange is tried twice at most.
    fn refused(&self, challenge: Challenge) -> Later<'_, Again>;

    /// Returns the texts that must not be told to anybody else.
    fn secrets(&self) -> Vec<String>;
}

/// A refusal, as the server put it.
#[derive(Clone, Debug)]
pub struct Challenge {
    /// 401 (who asks is not known) or 403 (who asks may not).
    pub status: StatusCode,
    /// The values of its `WWW-Authenticate` headers (RFC 9110 §11.6.1), as they came.
    pub schemes: Vec<String>,
    /// The `Authorization` that was refused; none where none was sent. Marked as sensitive.
    pub shown: Option<HeaderValue>,
    /// `true` if this was the second try.
    pub is_last: bool,
}

/// The decision on a refused exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Send it once more, with other headers; like `No` where it was sent twice.
    Once,
    /// Leave it at that until a person has signed in.
    SignIn,
    /// Leave it at that.
    No,
}

/// Headers that stay as they are configured.
#[derive(Clone, Debug, Default)]
pub struct StaticHeaders(HeaderMap);

impl StaticHeaders {
    /// Credentials that are these headers, in this order where a name comes twice.
    pub fn new(headers: HeaderMap) -> Self {
        Self(headers)
    }

    /// A token, as `Authorization: Bearer` shows it; `None`: it cannot stand in a header.
    pub fn bearer(token: &str) -> Option<Self> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(Self(HeaderMap::from_iter([(AUTHORIZATION, value)])))
    }
}

impl Credentials for StaticHeaders {
    fn authorization(&self) -> Later<'_, HeaderMap> {
        Box::pin(ready(self.0.clone()))
    }

    fn refused(&self, _: Challenge) -> Later<'_, Again> {
        // They would be the same again.
        Box::pin(ready(Again::No))
    }

    fn secrets(&self) -> Vec<String> {
        self.0.values().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests;
