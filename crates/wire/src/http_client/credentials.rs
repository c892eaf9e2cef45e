//! Credentials for servers over HTTP.
//!
//! They are queried before every exchange, so a renewed credential applies from the next message
//! on, without a new connection.

use std::future::ready;
use std::pin::Pin;

use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Supplies the credentials for one server over HTTP.
pub trait Credentials: Send + Sync + 'static {
    /// Returns the headers for the next exchange. Empty if the server should send a challenge
    /// first.
    fn authorization(&self) -> BoxFuture<'_, HeaderMap>;

    /// Called when an exchange was rejected with 401 or 403. Decides whether to retry it.
    ///
    /// The server has not executed a rejected exchange. At most one retry is made.
    fn on_challenge(&self, challenge: Challenge) -> BoxFuture<'_, RetryDecision>;

    /// Returns the secrets to redact from error messages.
    fn secrets(&self) -> Vec<String>;

    /// Returns `true` if nothing may be sent without an `Authorization` header.
    fn is_token_required(&self) -> bool {
        false
    }
}

/// A rejection of the credentials by the server.
#[derive(Clone, Debug)]
pub struct Challenge {
    /// 401 (unauthenticated) or 403 (forbidden).
    pub status: StatusCode,
    /// The values of its `WWW-Authenticate` headers (RFC 9110 §11.6.1), as sent.
    pub www_authenticate: Vec<String>,
    /// The rejected `Authorization` header, marked as sensitive. `None` if none was sent.
    pub authorization: Option<HeaderValue>,
    /// `true` if this was the retry.
    pub is_last: bool,
}

/// Whether to retry a rejected exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Send it again with new headers. After the retry, the same as `GiveUp`.
    Retry,
    /// Give up until a user has signed in.
    AwaitSignIn,
    /// Give up.
    GiveUp,
}

/// Configured headers that never change.
#[derive(Clone, Debug, Default)]
pub struct StaticHeaders(HeaderMap);

impl StaticHeaders {
    /// Returns credentials that consist of `headers`. Repeated names keep their order.
    pub fn new(headers: HeaderMap) -> Self {
        Self(headers)
    }

    /// Returns credentials that send `token` as `Authorization: Bearer`, or `None` if it isn't a
    /// valid header value.
    pub fn bearer(token: &str) -> Option<Self> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(Self(HeaderMap::from_iter([(AUTHORIZATION, value)])))
    }
}

impl Credentials for StaticHeaders {
    fn authorization(&self) -> BoxFuture<'_, HeaderMap> {
        Box::pin(ready(self.0.clone()))
    }

    fn on_challenge(&self, _: Challenge) -> BoxFuture<'_, RetryDecision> {
        // The headers would be the same.
        Box::pin(ready(RetryDecision::GiveUp))
    }

    fn secrets(&self) -> Vec<String> {
        self.0.values().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests;
