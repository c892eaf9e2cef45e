//! Requests to authorization servers: bounded in time and length, without redirects, and to no address that
//! the server that named it has no business with.

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

/// The longest time that one request may take.
const LIMIT: Duration = Duration::from_secs(30);
/// The longest body that is read, in bytes.
const MAX_BODY: usize = 1024 * 1024;
/// The header in which a client says of which revision of MCP it is.
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The newest legacy revision, which those who look at it in discovery know.
const REVISION: HeaderValue = HeaderValue::from_static("2025-11-25");

/// Where an address leads, from what anybody may name to what only a neighbour may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// To the public net.
    Public,
    /// To a private net.
    Private,
    /// To this machine.
    Loopback,
    /// To what no authorization server has: link-local addresses (where clouds tell secrets) and the like.
    Nowhere,
}

impl Class {
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
            Self::Nowhere
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
            Self::Nowhere
        } else {
            Self::Public
        }
    }

    /// The class of a host as far as its spelling says; `None` for a name that has to be looked up.
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

/// The address of version 4 in one of version 6 (mapped, NAT64, 6to4).
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

/// Returns `true` for an address of this machine, by its spelling.
pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host().is_some_and(|host| Class::of_host(&host) == Some(Class::Loopback))
}

/// An answer of any status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// A way to send requests on behalf of one server, to it and to those that it names.
pub(crate) struct Http {
    server: Url,
    names: Arc<Names>,
    /// By whether the host is of this machine, and whether it is encrypted.
    clients: Mutex<HashMap<(bool, bool), reqwest::Client>>,
}

impl Http {
    /// Requests for the server at this address.
    pub(crate) fn new(server: &Url) -> Self {
        let names = Arc::new(Names::new(server));
        Self { server: server.clone(), names, clients: Mutex::default() }
    }

    /// Checks that an endpoint of an authorization server is encrypted, or on this machine, and may be named by
    /// the server.
    pub(crate) async fn check(&self, endpoint: &Url) -> Result<(), String> {
        self.names.learn().await;
        if endpoint.scheme() != "https" && !(endpoint.scheme() == "http" && is_loopback(endpoint)) {
            return Err(format!("{} is not encrypted (https)", told(endpoint)));
        }
        self.may_reach(endpoint)
    }

    fn may_reach(&self, url: &Url) -> Result<(), String> {
        let class = url.host().as_ref().and_then(Class::of_host);
        if url.origin() == self.server.origin()
            || class.is_none_or(|class| self.names.may_reach(class))
        {
            return Ok(());
        }
        let server = told(&self.server);
        Err(format!("{} is in a private net, and {server} is not in it", told(url)))
    }

    fn client(&self, url: &Url) -> Result<reqwest::Client, String> {
        let key = (is_loopback(url), url.scheme() == "https");
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        // Somebody in this process may have chosen before us, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .timeout(LIMIT)
            .redirect(Policy::none())
            .dns_resolver(Arc::new(Resolver { names: Arc::clone(&self.names) }));
        if key.0 {
            builder = builder.no_proxy();
        }
        if !key.1 {
            // The machine's certificates are not needed, and it may have none.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(innermost)?;
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// Where nothing comes back within 30 s, it is longer than 1 MiB, or the address must not be asked. The text
    /// has no secrets.
    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Result<Answer, String> {
        let (url, mut response) = self.begin(request).await?;
        let failed = |error| format!("{} broke off: {}", told(&url), innermost(error));
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(format!("{} answers with more than 1 MiB", told(&url)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body })
    }

    /// Sends a request whose answer may never end, and takes the head of it.
    pub(crate) async fn head(&self, request: Request<Vec<u8>>) -> Result<Answer, String> {
        let (_, response) = self.begin(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Answer { status, headers, body: Vec::new() })
    }

    async fn begin(&self, request: Request<Vec<u8>>) -> Result<(Url, reqwest::Response), String> {
        let request = reqwest::Request::try_from(request).map_err(innermost)?;
        let url = request.url().clone();
        self.names.learn().await;
        self.may_reach(&url)?;
        self.names.asks(&url);
        let failed = |error| format!("{} cannot be reached: {}", told(&url), innermost(error));
        let response = self.client(&url)?.execute(request).await.map_err(failed)?;
        Ok((url, response))
    }

    /// Reads a document.
    pub(crate) async fn get(&self, url: &Url) -> Result<Answer, String> {
        let request = Request::get(url.as_str())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("mcp-workbench/", env!("CARGO_PKG_VERSION")));
        self.send(request.body(Vec::new()).map_err(|error| error.to_string())?).await
    }
}

impl OAuthHttpClient for Http {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut request = request.request;
            if let Some(version) = request.headers_mut().get_mut(PROTOCOL_VERSION) {
                *version = REVISION;
            }
            let Answer { status, headers, body } = self.send(request).await?;
            let mut response = Response::new(completed(body));
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
    }
}

/// Metadata of an authorization server as `rmcp` wants it: one where no person signs in need not name a page for
/// that (RFC 8414 §2), and anything else passes as it is.
fn completed(body: Vec<u8>) -> Vec<u8> {
    let Ok(mut metadata) = serde_json::from_slice::<Map<String, Value>>(&body) else { return body };
    if !metadata.contains_key("token_endpoint") || metadata.contains_key("authorization_endpoint") {
        return body;
    }
    metadata.insert("authorization_endpoint".to_owned(), "".into());
    Value::Object(metadata).to_string().into_bytes()
}

/// An address without what may be secret in it.
pub(crate) fn told(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// The innermost message of an error, without the address.
fn innermost(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Looks up names, and leaves out addresses that the server may not name.
struct Resolver {
    names: Arc<Names>,
}

/// The names that are looked up, and the net that the server is in.
struct Names {
    /// The host of the server where it has to be looked up.
    server: Option<String>,
    /// The class of the server; unset until it has been looked up.
    class: OnceCell<Class>,
    /// The hosts that are asked. Others are those of proxies, which the user has chosen.
    asked: Mutex<HashSet<String>>,
}

impl Names {
    fn new(server: &Url) -> Self {
        let class = server.host().as_ref().and_then(Class::of_host);
        let name = server.host_str().filter(|_| class.is_none()).map(str::to_ascii_lowercase);
        Self { server: name, class: OnceCell::new_with(class), asked: Mutex::default() }
    }

    /// Finds out in which net the server is.
    async fn learn(&self) {
        let Some(server) = &self.server else { return };
        let look_up = async {
            let found = lookup_host((server.as_str(), 0)).await.into_iter().flatten();
            let highest = found.map(|address| Class::of(address.ip())).max();
            // The owner of a name may let it mean this machine, but not make us ask it anything.
            highest.unwrap_or(Class::Public).min(Class::Private)
        };
        self.class.get_or_init(|| look_up).await;
    }

    /// Returns `true` if an address of that class may be named by the server.
    fn may_reach(&self, class: Class) -> bool {
        class < Class::Nowhere && class <= self.class.get().copied().unwrap_or(Class::Public)
    }

    /// Hears that this host is asked.
    fn asks(&self, url: &Url) {
        let host = url.host_str().map(str::to_ascii_lowercase);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).extend(host);
    }

    /// The addresses of `found` that may be used.
    fn allowed(&self, name: &str, mut found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let name = name.to_ascii_lowercase();
        let is_asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).contains(&name);
        if is_asked && self.server.as_ref() != Some(&name) {
            found.retain(|address| self.may_reach(Class::of(address.ip())));
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
                return Err("its address is in a private net, and the server is not in it".into());
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
    async fn an_endpoint_is_encrypted_and_in_no_net_that_the_server_is_not_in() {
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
            let checked = Http::new(&url(server)).check(&url(endpoint)).await;
            assert_eq!(checked.is_ok(), may, "{server} {endpoint} {checked:?}");
        }
    }

    #[test]
    fn a_name_means_no_address_that_could_not_be_named() {
        let public = SocketAddr::from(([203, 0, 113, 7], 0));
        let found =
            || vec![public, SocketAddr::from(([127, 0, 0, 1], 0)), ([10, 0, 0, 9], 0).into()];
        let names = Names::new(&url("https://mcp.example.com/mcp"));
        names.asks(&url("https://AS.example.com/token"));
        assert_eq!(names.allowed("as.example.com", found()), [public]);
        // The server's own name, and those of proxies, are the user's choice.
        assert_eq!(names.allowed("mcp.example.com", found()), found());
        assert_eq!(names.allowed("proxy.example.com", found()), found());
        let names = Names::new(&url("http://localhost/mcp"));
        names.asks(&url("https://as.example.com/token"));
        assert_eq!(names.allowed("as.example.com", found()), found());
    }

    #[test]
    fn metadata_need_not_name_a_page() {
        let without = br#"{"issuer":"i","token_endpoint":"t"}"#;
        let with = br#"{"issuer":"i","token_endpoint":"t","authorization_endpoint":""}"#;
        assert_eq!(completed(without.to_vec()), with);
        for other in [&with[..], b"{}", b"[]", b"no JSON"] {
            assert_eq!(completed(other.to_vec()), other);
        }
    }
}
