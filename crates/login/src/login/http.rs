//! HTTP client for OAuth requests: bounded in time and size, without redirects, and with an address
//! policy against SSRF.
//!
//! The URLs come from the server and its metadata, so a hostile server could point them at internal
//! services. A server may only name addresses that are at most as private as its own.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::{Map, Value};
use tokio::net::lookup_host;
use tokio::sync::OnceCell;
use url::{Host, Url};

/// Timeout of one request.
const LIMIT: Duration = Duration::from_secs(30);
/// In bytes.
const MAX_BODY: usize = 1024 * 1024;
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The latest legacy revision: servers that check the header during discovery know it.
const REVISION: HeaderValue = HeaderValue::from_static("2025-11-25");

/// The reach of an address, from public to forbidden. The order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressClass {
    Public,
    Private,
    Loopback,
    /// Never an authorization server: link-local (such as cloud metadata services), multicast,
    /// unspecified, broadcast and benchmarking addresses.
    Forbidden,
}

impl AddressClass {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => embedded(v6).map_or_else(|| Self::of_v6(v6), Self::of_v4),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [first, second, ..] = address.octets();
        if address.is_loopback() {
            Self::Loopback
        } else if address.is_private() || first == 100 && (64..=127).contains(&second) {
            Self::Private
        } else if first == 0
            || address.is_link_local()
            || address.is_broadcast()
            || address.is_multicast()
            || first == 198 && matches!(second, 18 | 19)
        {
            Self::Forbidden
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() {
            Self::Loopback
        } else if address.is_unique_local() {
            Self::Private
        } else if address.is_unspecified()
            || address.is_multicast()
            || address.is_unicast_link_local()
        {
            Self::Forbidden
        } else {
            Self::Public
        }
    }

    /// Classifies a host without DNS. `None` for a name that has to be resolved.
    fn of_host(host: &Host<&str>) -> Option<Self> {
        match host {
            Host::Ipv4(address) => Some(Self::of((*address).into())),
            Host::Ipv6(address) => Some(Self::of((*address).into())),
            Host::Domain(name) => {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                let is_here = name == "localhost" || name.ends_with(".localhost");
                is_here.then_some(Self::Loopback)
            }
        }
    }
}

/// Returns the embedded IPv4 address (mapped, NAT64, 6to4).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(of(high, low))
        }
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

/// Returns `true` for `localhost` and loopback addresses, without DNS.
pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host().is_some_and(|host| AddressClass::of_host(&host) == Some(AddressClass::Loopback))
}

pub(crate) struct AuthHttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Sends OAuth requests on behalf of one server, to it and to the URLs that it names.
pub(crate) struct AuthHttpClient {
    server: Url,
    names: Arc<AddressPolicy>,
    /// By whether the host is loopback, and whether the scheme is `https`.
    clients: Mutex<HashMap<(bool, bool), reqwest::Client>>,
}

impl AuthHttpClient {
    pub(crate) fn new(server: &Url) -> Self {
        let names = Arc::new(AddressPolicy::new(server));
        Self { server: server.clone(), names, clients: Mutex::default() }
    }

    /// Checks that an endpoint uses TLS or is on loopback, and that the address policy allows it.
    pub(crate) async fn check(&self, endpoint: &Url) -> Result<(), String> {
        self.names.learn().await;
        if endpoint.scheme() != "https" && !(endpoint.scheme() == "http" && is_loopback(endpoint)) {
            return Err(format!("{} does not use HTTPS", redacted_url(endpoint)));
        }
        self.check_reachable(endpoint)
    }

    fn check_reachable(&self, url: &Url) -> Result<(), String> {
        let class = url.host().as_ref().and_then(AddressClass::of_host);
        if url.origin() == self.server.origin()
            || class.is_none_or(|class| self.names.may_reach(class))
        {
            return Ok(());
        }
        let server = redacted_url(&self.server);
        Err(format!("{} is on a private network, but {server} is not", redacted_url(url)))
    }

    fn client(&self, url: &Url) -> Result<reqwest::Client, String> {
        let key = (is_loopback(url), url.scheme() == "https");
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        // Fails if another part of the process has installed a provider, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .timeout(LIMIT)
            .redirect(Policy::none())
            .dns_resolver(Arc::new(Resolver { names: Arc::clone(&self.names) }));
        if key.0 {
            builder = builder.no_proxy();
        }
        if !key.1 {
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
    /// After 30 s, if the body exceeds 1 MiB, or if the address is not allowed. The message
    /// contains no secrets.
    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Result<AuthHttpResponse, String> {
        let (url, mut response) = self.begin(request).await?;
        let failed =
            |error| format!("connection to {} lost: {}", redacted_url(&url), innermost(error));
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(format!("{} returned more than 1 MiB", redacted_url(&url)));
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
        self.names.learn().await;
        self.check_reachable(&url)?;
        self.names.register_host(&url);
        let failed =
            |error| format!("cannot connect to {}: {}", redacted_url(&url), innermost(error));
        let response = self.client(&url)?.execute(request).await.map_err(failed)?;
        Ok((url, response))
    }

    pub(crate) async fn get(&self, url: &Url) -> Result<AuthHttpResponse, String> {
        let request = Request::get(url.as_str())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("mcp-workbench/", env!("CARGO_PKG_VERSION")));
        self.send(request.body(Vec::new()).map_err(|error| error.to_string())?).await
    }
}

impl OAuthHttpClient for AuthHttpClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut request = request.request;
            if let Some(version) = request.headers_mut().get_mut(PROTOCOL_VERSION) {
                *version = REVISION;
            }
            let AuthHttpResponse { status, headers, body } = self.send(request).await?;
            let mut response = Response::new(with_authorization_endpoint(body));
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
    }
}

/// Adds an empty `authorization_endpoint` to metadata without one. It is optional for
/// non-interactive servers (RFC 8414 §2), but `rmcp` requires it.
fn with_authorization_endpoint(body: Vec<u8>) -> Vec<u8> {
    let Ok(mut metadata) = serde_json::from_slice::<Map<String, Value>>(&body) else { return body };
    if !metadata.contains_key("token_endpoint") || metadata.contains_key("authorization_endpoint") {
        return body;
    }
    metadata.insert("authorization_endpoint".to_owned(), "".into());
    Value::Object(metadata).to_string().into_bytes()
}

/// Returns origin and path of a URL. User info, query and fragment can be secret.
pub(crate) fn redacted_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
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

/// Resolves names, and drops addresses that the policy forbids.
struct Resolver {
    names: Arc<AddressPolicy>,
}

/// Limits addresses named by a server to those at most as private as its own.
struct AddressPolicy {
    /// The host of the server if it needs DNS.
    server: Option<String>,
    /// The class of the server. Unset until its host is resolved.
    class: OnceCell<AddressClass>,
    /// Hosts of requests sent. All other names resolved are proxies, which the user has configured.
    asked: Mutex<HashSet<String>>,
}

impl AddressPolicy {
    fn new(server: &Url) -> Self {
        let class = server.host().as_ref().and_then(AddressClass::of_host);
        let name = server.host_str().filter(|_| class.is_none()).map(str::to_ascii_lowercase);
        Self { server: name, class: OnceCell::new_with(class), asked: Mutex::default() }
    }

    /// Resolves the host of the server to learn its class.
    async fn learn(&self) {
        let Some(server) = &self.server else { return };
        let look_up = async {
            let found = lookup_host((server.as_str(), 0)).await.into_iter().flatten();
            let highest = found.map(|address| AddressClass::of(address.ip())).max();
            // A public DNS name can resolve to loopback. Cap the class at private, so that its
            // owner can't send requests to loopback services.
            highest.unwrap_or(AddressClass::Public).min(AddressClass::Private)
        };
        self.class.get_or_init(|| look_up).await;
    }

    fn may_reach(&self, class: AddressClass) -> bool {
        class < AddressClass::Forbidden
            && class <= self.class.get().copied().unwrap_or(AddressClass::Public)
    }

    fn register_host(&self, url: &Url) {
        let host = url.host_str().map(str::to_ascii_lowercase);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).extend(host);
    }

    fn allowed(&self, name: &str, mut found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let name = name.to_ascii_lowercase();
        let is_asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).contains(&name);
        if is_asked && self.server.as_ref() != Some(&name) {
            found.retain(|address| self.may_reach(AddressClass::of(address.ip())));
        }
        found
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, name) = (Arc::clone(&self.names), name.as_str().to_owned());
        Box::pin(async move {
            let found = names.allowed(&name, lookup_host((name.as_str(), 0)).await?.collect());
            if found.is_empty() {
                return Err("its address is on a private network, but the server is not".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
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
            ("https://mcp.invalid/mcp", "https://203.0.113.7/token", true),
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
    fn resolved_addresses_in_more_private_networks_are_dropped() {
        let public = SocketAddr::from(([203, 0, 113, 7], 0));
        let found =
            || vec![public, SocketAddr::from(([127, 0, 0, 1], 0)), ([10, 0, 0, 9], 0).into()];
        let names = AddressPolicy::new(&url("https://mcp.example.com/mcp"));
        names.register_host(&url("https://AS.example.com/token"));
        assert_eq!(names.allowed("as.example.com", found()), [public]);
        // The server itself and proxies are configured by the user.
        assert_eq!(names.allowed("mcp.example.com", found()), found());
        assert_eq!(names.allowed("proxy.example.com", found()), found());
        let names = AddressPolicy::new(&url("http://localhost/mcp"));
        names.register_host(&url("https://as.example.com/token"));
        assert_eq!(names.allowed("as.example.com", found()), found());
    }

    #[test]
    fn missing_authorization_endpoint_is_added() {
        let without = br#"{"issuer":"i","token_endpoint":"t"}"#;
        let with = br#"{"issuer":"i","token_endpoint":"t","authorization_endpoint":""}"#;
        assert_eq!(with_authorization_endpoint(without.to_vec()), with);
        for other in [&with[..], b"{}", b"[]", b"no JSON"] {
            assert_eq!(with_authorization_endpoint(other.to_vec()), other);
        }
    }
}
