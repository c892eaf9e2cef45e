//! HTTP client for OAuth requests: bounded in time and size, without redirects, and with an address
//! policy (`address_policy`) against SSRF.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use reqwest::redirect::Policy;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::{Map, Value};
use url::Url;

use crate::address_policy::{AddressPolicy, is_loopback};

/// Timeout of one request.
const LIMIT: Duration = Duration::from_secs(30);
/// Maximum length of a response, in bytes.
const MAX_BODY: usize = 256 * 1024;
/// Maximum length of a metadata document, in bytes.
const MAX_METADATA: usize = 64 * 1024;
/// Maximum length of a URL from a server or its metadata, and of a URL in messages, in bytes.
pub(crate) const MAX_URL: usize = 4096;
const MAX_SHOWN_URL: usize = 200;
/// Maximum number of authorization servers that are tried for one server.
const MAX_AUTHORIZATION_SERVERS: usize = 5;
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The latest legacy revision: servers that check the header during discovery know it.
const REVISION: HeaderValue = HeaderValue::from_static("2025-11-25");

pub(crate) struct AuthHttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Sends OAuth requests on behalf of one server, to it and to the URLs that it names.
pub(crate) struct AuthHttpClient {
    policy: Arc<AddressPolicy>,
    /// By whether the origin is the server's own, the host is loopback, and the scheme is `https`.
    clients: Mutex<HashMap<[bool; 3], reqwest::Client>>,
}

impl AuthHttpClient {
    pub(crate) fn new(server: &Url) -> Self {
        Self { policy: Arc::new(AddressPolicy::new(server)), clients: Mutex::default() }
    }

    /// Checks that an endpoint uses TLS or is on loopback, and that the address policy allows it.
    pub(crate) async fn check(&self, endpoint: &Url) -> Result<(), String> {
        self.policy.pin().await;
        check_tls(endpoint)?;
        self.check_host(endpoint)
    }

    fn check_host(&self, url: &Url) -> Result<(), String> {
        let failed = |why| {
            let server = redacted_url(self.policy.server());
            format!("{} {why}, but {server} is not", redacted_url(url))
        };
        if url.as_str().len() > MAX_URL {
            return Err(format!("{} is longer than {MAX_URL} bytes", redacted_url(url)));
        }
        self.policy.check_host(url).map_err(failed)
    }

    fn client(&self, url: &Url) -> Result<reqwest::Client, String> {
        let key = [self.policy.is_own(url), is_loopback(url), url.scheme() == "https"];
        let [is_own, is_here, has_tls] = key;
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        // Fails if another part of the process has installed a provider, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .timeout(LIMIT)
            .redirect(Policy::none())
            .dns_resolver(self.policy.resolver(is_own));
        if is_here {
            builder = builder.no_proxy();
        }
        if !has_tls {
            // Plain HTTP needs no root certificates, and loading them would fail on a machine
            // without any.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(innermost)?;
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Sends a request and reads the response.
    ///
    /// # Errors
    ///
    /// After 30 s, if the body exceeds 256 KiB, or if the address is not allowed. The message
    /// contains no secrets.
    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Result<AuthHttpResponse, String> {
        self.send_up_to(MAX_BODY, request).await
    }

    async fn send_up_to(
        &self,
        most: usize,
        request: Request<Vec<u8>>,
    ) -> Result<AuthHttpResponse, String> {
        let (url, mut response) = self.begin(request).await?;
        let failed =
            |error| format!("connection to {} lost: {}", redacted_url(&url), innermost(error));
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > most {
                let most = most / 1024;
                return Err(format!("{} returned more than {most} KiB", redacted_url(&url)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(AuthHttpResponse { status, headers, body })
    }

    /// Sends a request and returns the head of the response. The body can be an endless stream.
    pub(crate) async fn head(&self, request: Request<Vec<u8>>) -> Result<AuthHttpResponse, String> {
        let (_, response) = self.begin(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(AuthHttpResponse { status, headers, body: Vec::new() })
    }

    async fn begin(&self, request: Request<Vec<u8>>) -> Result<(Url, reqwest::Response), String> {
        let request = reqwest::Request::try_from(request).map_err(innermost)?;
        let url = request.url().clone();
        self.policy.pin().await;
        // The user has configured the server's own origin, so its scheme, too.
        if !self.policy.is_own(&url) {
            check_tls(&url)?;
        }
        self.check_host(&url)?;
        let refused = |why| format!("{} {why}", redacted_url(&url));
        self.policy.register_host(&url).map_err(refused)?;
        let failed =
            |error| format!("cannot connect to {}: {}", redacted_url(&url), innermost(error));
        let response = self.client(&url)?.execute(request).await.map_err(failed)?;
        Ok((url, response))
    }

    /// Fetches a metadata document.
    pub(crate) async fn get(&self, url: &Url) -> Result<AuthHttpResponse, String> {
        let request = Request::get(url.as_str())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("mcp-workbench/", env!("CARGO_PKG_VERSION")));
        let request = request.body(Vec::new()).map_err(|error| error.to_string())?;
        self.send_up_to(MAX_METADATA, request).await
    }
}

/// The requests of one discovery, of limited number.
pub(crate) struct DiscoveryHttpClient {
    http: Arc<AuthHttpClient>,
    sent: AtomicUsize,
    /// Maximum number of requests, redirects included.
    most: usize,
}

impl DiscoveryHttpClient {
    pub(crate) fn new(http: &Arc<AuthHttpClient>, most: usize) -> Self {
        Self { http: Arc::clone(http), sent: AtomicUsize::default(), most }
    }

    /// Returns `true` if a request was refused because of the limit.
    pub(crate) fn has_reached_limit(&self) -> bool {
        self.sent.load(Ordering::Relaxed) > self.most
    }
}

impl OAuthHttpClient for DiscoveryHttpClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            if self.sent.fetch_add(1, Ordering::Relaxed) >= self.most {
                return Err(format!("more than {} requests", self.most).into());
            }
            let mut request = request.request;
            if let Some(version) = request.headers_mut().get_mut(PROTOCOL_VERSION) {
                *version = REVISION;
            }
            let answer = self.http.send_up_to(MAX_METADATA, request).await?;
            let AuthHttpResponse { status, headers, body } = answer;
            let mut response = Response::new(adapt_metadata(body));
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
    }
}

/// Adapts metadata for `rmcp`: adds an empty `authorization_endpoint` to metadata without one, which
/// is optional for non-interactive servers (RFC 8414 §2), and drops authorization servers beyond
/// the first ones.
fn adapt_metadata(body: Vec<u8>) -> Vec<u8> {
    let Ok(mut metadata) = serde_json::from_slice::<Map<String, Value>>(&body) else { return body };
    let servers = metadata.get_mut("authorization_servers").and_then(Value::as_array_mut);
    if let Some(servers) = servers.filter(|servers| servers.len() > MAX_AUTHORIZATION_SERVERS) {
        servers.truncate(MAX_AUTHORIZATION_SERVERS);
    } else if metadata.contains_key("token_endpoint")
        && !metadata.contains_key("authorization_endpoint")
    {
        metadata.insert("authorization_endpoint".to_owned(), "".into());
    } else {
        return body;
    }
    Value::Object(metadata).to_string().into_bytes()
}

fn check_tls(url: &Url) -> Result<(), String> {
    if url.scheme() == "https" || url.scheme() == "http" && is_loopback(url) {
        return Ok(());
    }
    Err(format!("{} does not use HTTPS", redacted_url(url)))
}

/// Returns origin and path of a URL, shortened. User info, query and fragment can be secret.
pub(crate) fn redacted_url(url: &Url) -> String {
    let mut text = format!("{}{}", url.origin().ascii_serialization(), url.path());
    if text.len() > MAX_SHOWN_URL {
        text.truncate(text.floor_char_boundary(MAX_SHOWN_URL));
        text.push('\u{2026}');
    }
    text
}

/// Returns the root cause of an error, without the URL.
fn innermost(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[tokio::test]
    async fn endpoints_need_tls_and_an_allowed_address() {
        let cases = [
            ("https://mcp.invalid/mcp", "https://as.invalid/token", true),
            ("https://mcp.invalid/mcp", "https://1.1.1.1/token", true),
            ("https://mcp.invalid/mcp", "http://as.invalid/token", false),
            ("https://mcp.invalid/mcp", "https://10.0.0.9/token", false),
            ("https://mcp.invalid/mcp", "https://[fd00::9]/token", false),
            ("https://mcp.invalid/mcp", "https://[::ffff:10.0.0.9]/token", false),
            ("https://mcp.invalid/mcp", "http://127.0.0.1:8080/token", false),
            ("https://mcp.invalid/mcp", "http://[::1]/token", false),
            ("https://mcp.invalid/mcp", "http://localhost./token", false),
            ("https://mcp.invalid/mcp", "http://as.localhost/token", false),
            ("https://mcp.invalid/mcp", "https://169.254.169.254/token", false),
            ("https://mcp.invalid/mcp", "https://0.0.0.0/token", false),
            ("https://mcp.invalid/mcp", "file:///etc/passwd", false),
            ("https://10.0.0.5/mcp", "https://10.0.0.9/token", true),
            ("https://10.0.0.5/mcp", "https://as.invalid/token", true),
            ("https://10.0.0.5/mcp", "http://10.0.0.9/token", false),
            ("https://10.0.0.5/mcp", "http://127.0.0.1/token", false),
            ("http://localhost:8080/mcp", "http://127.0.0.1:9090/token", true),
            ("http://127.0.0.1:8080/mcp", "https://192.168.0.9/token", true),
            ("http://127.0.0.1:8080/mcp", "http://169.254.169.254/token", false),
            ("http://127.0.0.1:8080/mcp", "http://as.invalid/token", false),
        ];
        for (server, endpoint, may) in cases {
            let checked = AuthHttpClient::new(&url(server)).check(&url(endpoint)).await;
            assert_eq!(checked.is_ok(), may, "{server} {endpoint} {checked:?}");
        }
    }

    #[test]
    fn metadata_is_adapted() {
        let without = br#"{"issuer":"i","token_endpoint":"t"}"#;
        let with = br#"{"issuer":"i","token_endpoint":"t","authorization_endpoint":""}"#;
        assert_eq!(adapt_metadata(without.to_vec()), with);
        let many = br#"{"authorization_servers":["1","2","3","4","5","6"]}"#;
        let few = br#"{"authorization_servers":["1","2","3","4","5"]}"#;
        assert_eq!(adapt_metadata(many.to_vec()), few);
        for other in [&with[..], few, b"{}", b"[]", b"no JSON"] {
            assert_eq!(adapt_metadata(other.to_vec()), other);
        }
    }

    #[tokio::test]
    async fn only_the_origin_of_the_server_can_use_plain_http() {
        // Nothing listens on port 9, so allowed requests fail later.
        let http = AuthHttpClient::new(&url("http://mcp.invalid:9/mcp"));
        for (address, is_refused) in [
            ("http://mcp.invalid:9/.well-known/oauth-authorization-server", false),
            ("http://mcp.invalid:8/", true),
            ("http://as.invalid:9/", true),
            ("ftp://mcp.invalid:9/", true),
        ] {
            let failure = http.get(&url(address)).await.err().unwrap();
            assert_eq!(failure.ends_with("does not use HTTPS"), is_refused, "{address} {failure}");
        }
    }

    #[test]
    fn long_urls_are_shortened_in_messages() {
        let long = url(&format!("https://as.example.com/{}", "x".repeat(5000)));
        assert_eq!(redacted_url(&long).chars().count(), MAX_SHOWN_URL + 1);
    }
}
