//! One endpoint: a JSON object is posted to it, and one comes back.
//!
//! However an endpoint behaves, a request ends in the time that there is for it, and no more of its
//! answer is read than there may be. The key goes to the endpoint and nowhere else: redirects are
//! not followed, and no error has it.

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

use crate::llm::Failure;
use crate::llm::failure::{wait, words};
use crate::llm::taken::Taken;
use crate::raw::Raw;
use crate::settings::{LlmConfig, is_loopback};

/// The most bytes of an answer in words.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;
/// How much of an error is read, and for how long, to find out what it says.
const MOST_ERROR_BYTES: usize = 64 * 1024;
const ERROR_PATIENCE: Duration = Duration::from_secs(1);
/// How often it is tried again, and after how long at least the first time.
const TRIES_AGAIN: usize = 2;
const PAUSE: Duration = Duration::from_millis(250);
/// How long an unused connection is kept: common servers close theirs after 5 s, and a request
/// that meets the closing is lost.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);

/// An endpoint, its model, and the connections to it.
#[derive(Debug)]
pub struct Endpoint {
    config: LlmConfig,
    client: Client,
    /// The form of questions that it takes.
    pub(crate) taken: Taken,
}

/// The limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    /// Until when it may take.
    pub until: Instant,
    /// How often it may be made in all.
    pub requests: u32,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct Posted {
    /// The final answer.
    pub answer: Result<Raw, Failure>,
    /// How often it was tried.
    pub attempts: u32,
}

/// The outcome of one attempt that failed.
struct Failed {
    failure: Failure,
    /// How long the endpoint wants to be left alone.
    wait: Option<Duration>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, wait: None }
    }
}

impl Endpoint {
    /// The endpoint that a configuration names.
    ///
    /// # Errors
    ///
    /// When this machine cannot make such connections.
    pub fn new(config: &LlmConfig) -> Result<Self, Failure> {
        // Somebody in this process may have chosen before us, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .pool_idle_timeout(IDLE_CONNECTION)
            .default_headers(headers(config).map_err(|_| Failure::Unauthorized(401))?);
        if config.base_url.scheme() == "http" {
            // The machine's certificates are not needed, and it may have none.
            builder = builder.tls_certs_only([]);
        }
        if is_loopback(&config.base_url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| Failure::Unreachable(innermost(error)))?;
        Ok(Self { config: config.clone(), client, taken: Taken::default() })
    }

    /// The configuration that it was made of.
    pub fn config(&self) -> &LlmConfig {
        &self.config
    }

    /// Posts an object to a path below the endpoint's address; the object of at most `most` bytes
    /// that it answers with, and how often it was tried: what may be otherwise in a moment is tried
    /// again, as far as there is time and it may be.
    pub async fn post_counted(
        &self,
        path: &str,
        body: &Raw,
        most: usize,
        within: Within,
    ) -> Posted {
        let until = within.until.min(Instant::now() + self.config.timeout);
        let pauses = ExponentialBuilder::default().with_jitter().with_min_delay(PAUSE);
        let mut pauses = pauses.with_max_times(TRIES_AGAIN).build();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let answer = timeout_at(until, Box::pin(self.attempt(path, body, most))).await;
            let failed = match answer.unwrap_or_else(|_| Err(Failure::TimedOut.into())) {
                Ok(answer) => return Posted { answer: Ok(answer), attempts },
                Err(failed) => failed,
            };
            let may_be = failed.failure.is_passing() && attempts < within.requests;
            let pause = if may_be { pauses.next() } else { None };
            let pause = pause.map(|pause| pause.max(failed.wait.unwrap_or_default()));
            match pause.filter(|pause| Instant::now() + *pause < until) {
                Some(pause) => sleep(pause).await,
                None => return Posted { answer: Err(failed.failure), attempts },
            }
        }
    }

    async fn attempt(&self, path: &str, body: &Raw, most: usize) -> Result<Raw, Failed> {
        let url = self.config.base_url.join(path);
        let url = url.map_err(|error| Failure::Unreachable(error.to_string()))?;
        let request = self.client.post(url).body(body.clone().into_bytes());
        let response = request.send().await.map_err(broken)?;
        if !response.status().is_success() {
            return Err(self.failed(response).await);
        }
        let is_html = is_html(&response);
        let text = read(response, most).await?;
        if is_html || text.trim_ascii_start().starts_with(b"<") {
            return Err(Failure::Html.into());
        }
        match serde_json::from_slice::<Box<RawValue>>(&text) {
            Ok(object) if object.get().starts_with('{') => Ok(Raw::encode(&object)),
            Ok(_) => Err(Failure::Unusable("it is no JSON object".to_owned()).into()),
            Err(_) => Err(Failure::Unusable("it is no JSON".to_owned()).into()),
        }
    }

    /// Turns a response with an error status into a failure.
    async fn failed(&self, response: Response) -> Failed {
        let status = response.status().as_u16();
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| wait(value, Utc::now()));
        if matches!(status, 404 | 405) && is_html(&response) {
            return Failure::Html.into();
        }
        // What it says is worth little time, and none of it is a failure of its own.
        let body = timeout(ERROR_PATIENCE, read(response, MOST_ERROR_BYTES)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let words = words(&body, self.config.api_key.as_deref());
        let failure = Failure::of_status(status, &self.config.model, wait).explained(words);
        Failed { failure, wait }
    }
}

/// The headers of every request.
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

/// The body of an answer, as far as it is not too long.
async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        if text.len() + piece.len() > most {
            return Err(Failure::TooLong);
        }
        text.extend_from_slice(&piece);
    }
    Ok(text)
}

/// Turns an error of the connection, which gave no whole answer, into a failure.
fn broken(error: reqwest::Error) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return Failure::Unusable(format!("it is no HTTP: {error}"));
        }
        cause = error.source();
    }
    let is_unreachable = error.is_connect();
    let cause = innermost(error);
    if is_unreachable { Failure::Unreachable(cause) } else { Failure::Cut(cause) }
}

/// The innermost message of an error of the connection, without the address.
fn innermost(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
