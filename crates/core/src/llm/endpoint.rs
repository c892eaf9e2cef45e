//! HTTP client for one endpoint: posts a JSON object and returns a JSON object.
//!
//! A request ends by its deadline and reads a bounded number of bytes, however the endpoint
//! behaves. The API key is sent only to the endpoint: redirects are not followed, and errors don't
//! contain the key.

use std::error::Error;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use chrono::Utc;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::llm::LlmError;
use crate::llm::dialect_cache::DialectCache;
use crate::llm::error::{error_message, retry_after};
use mcp_workbench_settings::{LlmConfig, is_loopback};
use mcp_workbench_wire::json::RawJson;

/// Maximum size of a chat response.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;
/// Limits for reading the body of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_PATIENCE: Duration = Duration::from_secs(1);
/// Number of retries, and the minimum delay before the first.
const TRIES_AGAIN: usize = 2;
const PAUSE: Duration = Duration::from_millis(250);
/// Idle timeout of pooled connections. Common servers close theirs after 5 s, and a request that
/// races with the close is lost.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);

/// An endpoint with its model and a connection pool.
#[derive(Debug)]
pub struct Endpoint {
    config: LlmConfig,
    client: Client,
    pub(crate) dialect: DialectCache,
}

/// Limits of a request, including its retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    pub deadline: Instant,
    /// Maximum number of attempts.
    pub requests: u32,
}

#[derive(Debug)]
pub struct PostOutcome {
    pub answer: Result<RawJson, LlmError>,
    pub attempts: u32,
}

struct LlmAttemptError {
    failure: LlmError,
    /// Delay requested by the endpoint.
    wait: Option<Duration>,
}

impl From<LlmError> for LlmAttemptError {
    fn from(failure: LlmError) -> Self {
        Self { failure, wait: None }
    }
}

impl Endpoint {
    /// Creates a client for an endpoint.
    ///
    /// # Errors
    ///
    /// Returns an error if the HTTP client can't be built, or if the API key is not a valid header
    /// value.
    pub fn new(config: &LlmConfig) -> Result<Self, LlmError> {
        // An error means that a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .pool_idle_timeout(IDLE_CONNECTION)
            .default_headers(headers(config).map_err(|_| LlmError::InvalidKey)?);
        if config.base_url.scheme() == "http" {
            // Plain HTTP needs no root certificates, and the system may have none.
            builder = builder.tls_certs_only([]);
        }
        if is_loopback(&config.base_url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| LlmError::Unreachable(innermost(error)))?;
        Ok(Self { config: config.clone(), client, dialect: DialectCache::default() })
    }

    pub fn config(&self) -> &LlmConfig {
        &self.config
    }

    /// Posts `body` to a path below the base URL and returns a JSON object of at most `most` bytes.
    /// Transient errors are retried with backoff within the limits.
    pub async fn post_with_retries(
        &self,
        path: &str,
        body: &RawJson,
        most: usize,
        within: RequestLimits,
    ) -> PostOutcome {
        let until = within.deadline.min(Instant::now() + self.config.timeout);
        let pauses = ExponentialBuilder::default().with_jitter().with_min_delay(PAUSE);
        let mut pauses = pauses.with_max_times(TRIES_AGAIN).build();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let answer = timeout_at(until, Box::pin(self.attempt(path, body, most))).await;
            let failed = match answer.unwrap_or_else(|_| Err(LlmError::TimedOut.into())) {
                Ok(answer) => return PostOutcome { answer: Ok(answer), attempts },
                Err(failed) => failed,
            };
            let may_be = failed.failure.is_transient() && attempts < within.requests;
            let pause = if may_be { pauses.next() } else { None };
            let pause = pause.map(|pause| pause.max(failed.wait.unwrap_or_default()));
            match pause.filter(|pause| Instant::now() + *pause < until) {
                Some(pause) => sleep(pause).await,
                None => return PostOutcome { answer: Err(failed.failure), attempts },
            }
        }
    }

    async fn attempt(
        &self,
        path: &str,
        body: &RawJson,
        most: usize,
    ) -> Result<RawJson, LlmAttemptError> {
        let url = self.config.base_url.join(path);
        let url = url.map_err(|error| LlmError::Unreachable(error.to_string()))?;
        let request = self.client.post(url).body(body.clone().into_bytes());
        let response = request.send().await.map_err(transport_error)?;
        if !response.status().is_success() {
            return Err(self.error_from_response(response).await);
        }
        let is_html = is_html(&response);
        let text = read(response, most).await?;
        if is_html || text.trim_ascii_start().starts_with(b"<") {
            return Err(LlmError::Html.into());
        }
        match serde_json::from_slice::<Box<RawValue>>(&text) {
            Ok(object) if object.get().starts_with('{') => Ok(RawJson::encode(&object)),
            Ok(_) => Err(LlmError::Unusable("not a JSON object".to_owned()).into()),
            Err(_) => Err(LlmError::Unusable("not JSON".to_owned()).into()),
        }
    }

    async fn error_from_response(&self, response: Response) -> LlmAttemptError {
        let status = response.status().as_u16();
        let wait =
            response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value, Utc::now()));
        if matches!(status, 404 | 405) && is_html(&response) {
            return LlmError::Html.into();
        }
        // Reading the error message is best effort: it must not delay or replace the error.
        let body = timeout(ERROR_PATIENCE, read(response, MAX_ERROR_BYTES)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let words = error_message(&body, self.config.api_key.as_deref());
        let failure = LlmError::of_status(status, &self.config.model, wait).explained(words);
        LlmAttemptError { failure, wait }
    }
}

fn headers(config: &LlmConfig) -> Result<HeaderMap, InvalidHeaderValue> {
    let json = HeaderValue::from_static("application/json");
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, json.clone()), (ACCEPT, json)]);
    if let Some(key) = &config.api_key {
        let mut key = HeaderValue::try_from(format!("Bearer {key}"))?;
        key.set_sensitive(true);
        headers.insert(AUTHORIZATION, key);
    }
    Ok(headers)
}

fn is_html(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.to_ascii_lowercase().starts_with(b"text/html")
}

async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, LlmError> {
    let mut text = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(transport_error)? {
        if text.len() + piece.len() > most {
            return Err(LlmError::AnswerTooLarge);
        }
        text.extend_from_slice(&piece);
    }
    Ok(text)
}

fn transport_error(error: reqwest::Error) -> LlmError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return LlmError::Unusable(format!("not HTTP: {error}"));
        }
        cause = error.source();
    }
    let is_unreachable = error.is_connect();
    let cause = innermost(error);
    if is_unreachable { LlmError::Unreachable(cause) } else { LlmError::Disconnected(cause) }
}

/// Returns the innermost cause of a transport error, without the URL.
fn innermost(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
