//! The HTTP client for span export, so that the exporter needs no second HTTP library.
//!
//! The exporter waits for each request on a separate thread. The client has its own runtime on that
//! thread, so an export does not delay the rest of the program.

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

pub(crate) struct OtlpHttpClient {
    client: Client,
    runtime: Runtime,
    /// `true` if the last export failed. Only the first of several failures is logged.
    has_failed: AtomicBool,
}

impl fmt::Debug for OtlpHttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poster")
    }
}

impl OtlpHttpClient {
    pub(crate) fn new(address: &Url) -> Result<Self, HttpError> {
        // Fails if the process has a default provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder().redirect(Policy::none());
        if address.scheme() == "http" {
            // Plain HTTP needs no root certificates, and the machine may have none.
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

impl HttpClient for OtlpHttpClient {
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
                tracing::warn!(error, "failed to export spans to the OTLP collector");
            }
            posted
        })
    }
}
