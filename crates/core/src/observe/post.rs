//! How spans get to a collector: the HTTP client that the program has already.
//!
//! The exporter's thread waits for each export, so the client runs there, on a runtime of its own,
//! and what else the program does is not held up by it.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use reqwest::Client;
use reqwest::redirect::Policy;
use tokio::runtime::Runtime;
use url::Url;

/// Posts what is exported.
pub(crate) struct Poster {
    client: Client,
    runtime: Runtime,
    /// `true` if the last export failed. That is reported once.
    has_failed: AtomicBool,
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poster")
    }
}

impl Poster {
    /// A client for the collector at this address.
    pub(crate) fn new(address: &Url) -> Result<Self, HttpError> {
        // Somebody in this process may have chosen before us, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder().redirect(Policy::none());
        if address.scheme() == "http" {
            // The machine's certificates are not needed, and it may have none.
            builder = builder.tls_certs_only([]);
        }
        let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let address: Result<std::net::IpAddr, _> = host.parse();
        if host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
            builder = builder.no_proxy();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { client: builder.build()?, runtime, has_failed: AtomicBool::new(false) })
    }

    async fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.client.execute(request.try_into()?).await?;
        let mut answer = Response::builder().status(response.status());
        if let Some(headers) = answer.headers_mut() {
            headers.clone_from(response.headers());
        }
        Ok(answer.body(response.bytes().await?)?)
    }
}

impl HttpClient for Poster {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let posted = self.runtime.block_on(self.post(request));
            let failure = match &posted {
                Ok(response) if response.status().is_success() => None,
                Ok(response) => Some(response.status().to_string()),
                Err(error) => Some(error.to_string()),
            };
            let had_failed = self.has_failed.swap(failure.is_some(), Ordering::Relaxed);
            if let (Some(error), false) = (failure, had_failed) {
                tracing::warn!(error, "calls cannot be told to the collector");
            }
            posted
        })
    }
}
