//! The `http` section: connection and session limits, allowed hosts and origins, TLS.

use core::net::SocketAddr;

use ::http::uri::Authority;
use url::Url;

use crate::sections::ranges;
use crate::syntax::checks::{duration_from_millis, narrow_number};
use crate::syntax::document::SourceLocation;
use crate::syntax::paths::{PathResolver, resolve_path};
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::section;
use mcp_workbench_settings::{HttpConfig, TlsConfig, defaults, is_loopback};

section! {
    /// Settings of the HTTP server.
    #[schemars(inline)]
    pub(crate) struct RawHttp in "`http`" {
        /// Host names that clients may use in the `Host` header, in addition to `localhost` and
        /// loopback addresses. A name without a port allows all ports.
        #[schemars(extend("examples" = [["workbench.example.com"]]))]
        "allowedHosts" as pub(crate) allowed_hosts: Vec<Located<String>>,

        /// Web pages that may use the workbench, by their `Origin` header, in addition to pages on
        /// this machine.
        #[schemars(extend("examples" = [["https://app.example.com"]]))]
        "allowedOrigins" as pub(crate) allowed_origins: Vec<Located<String>>,

        /// URL under which clients on other machines reach the workbench, without `/mcp`. After a
        /// sign-in, browsers return to `/oauth/callback/…` below it. Default: `auth.jwt.resource`
        /// without `/mcp`.
        #[schemars(extend("examples" = ["https://workbench.example.com"]))]
        "publicUrl" as pub(crate) public_url: Located<String>,

        /// Maximum number of sessions. If it is reached, a new session ends another one of the same
        /// caller.
        #[schemars(extend("default" = defaults::SESSIONS))]
        "maxSessions" as pub(crate) max_sessions: Located<u64> [ranges::SESSIONS],

        /// Idle time after which a session ends, in milliseconds.
        #[schemars(extend("default" = defaults::SESSION_IDLE_MS))]
        "sessionIdleMs" as pub(crate) session_idle_ms: Located<u64> [ranges::SESSION_IDLE_MS],

        /// Maximum number of connections. If it is reached, a new connection closes an idle one.
        #[schemars(extend("default" = defaults::CONNECTIONS))]
        "maxConnections" as pub(crate) max_connections: Located<u64> [ranges::CONNECTIONS],

        /// Maximum size of a request line with its headers, in bytes.
        #[schemars(extend("default" = defaults::HEADER_BYTES))]
        "maxHeaderBytes" as pub(crate) max_header_bytes: Located<u64> [ranges::HEADER_BYTES],

        /// Timeout for receiving the headers of a request, in milliseconds. Idle connections are
        /// closed after the same time.
        #[schemars(extend("default" = defaults::HEAD_TIMEOUT_MS))]
        "headTimeoutMs" as pub(crate) head_timeout_ms: Located<u64> [ranges::HTTP_TIMEOUT_MS],

        /// Timeout for receiving the body of a request, in milliseconds.
        #[schemars(extend("default" = defaults::BODY_TIMEOUT_MS))]
        "bodyTimeoutMs" as pub(crate) body_timeout_ms: Located<u64> [ranges::HTTP_TIMEOUT_MS],

        /// Additional IP address and port for `/health`, `/ready` and `/metrics`, not subject to
        /// `maxConnections`. Read only at startup.
        #[schemars(extend("examples" = ["127.0.0.1:8001"]))]
        "healthListen" as pub(crate) health_listen: Located<String>,

        /// TLS certificate and key. Changed files are reloaded, but turning TLS on or off needs a
        /// restart.
        "tls" as pub(crate) tls: Located<RawTls>,
    }
}

section! {
    /// TLS certificate and key.
    #[schemars(rename = "Tls")]
    pub(crate) struct RawTls in "`tls`" {
        /// Certificate chain in PEM: the server's certificate, then the intermediate ones.
        #[schemars(required, extend("examples" = ["tls/tls.crt"]))]
        "cert" as pub(crate) cert: Located<String>,

        /// Private key in PEM. Only its owner may have read access.
        #[schemars(required, extend("examples" = ["tls/tls.key"]))]
        "key" as pub(crate) key: Located<String>,

        /// CA certificates in PEM, for client certificates. The agent is the name in the client's
        /// certificate.
        #[schemars(extend("examples" = ["tls/agents-ca.crt"]))]
        "clientCa" as pub(crate) client_ca: Located<String>,
    }
}

impl RawHttp {
    pub(crate) fn checked(
        self,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> HttpConfig {
        let Self {
            allowed_hosts,
            allowed_origins,
            public_url,
            max_sessions,
            session_idle_ms,
            max_connections,
            max_header_bytes,
            head_timeout_ms,
            body_timeout_ms,
            health_listen,
            tls,
        } = self;
        let by_default = HttpConfig::default();
        let hosts = allowed_hosts.unwrap_or_default().into_iter();
        let allowed_hosts = hosts.filter_map(|text| host(&text, reader)).collect();
        let origins = allowed_origins.unwrap_or_default().into_iter();
        let allowed_origins = origins.filter_map(|text| origin(&text, reader)).collect();
        HttpConfig {
            allowed_hosts,
            allowed_origins,
            public_url: public_url.and_then(|text| parse_public_url(&text, reader)),
            max_sessions: narrow_number(max_sessions).unwrap_or(by_default.max_sessions),
            session_idle: duration_from_millis(session_idle_ms).unwrap_or(by_default.session_idle),
            max_connections: narrow_number(max_connections).unwrap_or(by_default.max_connections),
            max_header_bytes: narrow_number(max_header_bytes)
                .unwrap_or(by_default.max_header_bytes),
            head_timeout: duration_from_millis(head_timeout_ms).unwrap_or(by_default.head_timeout),
            body_timeout: duration_from_millis(body_timeout_ms).unwrap_or(by_default.body_timeout),
            health_listen: health_listen.and_then(|text| parse_listen_addr(&text, reader)),
            tls: tls.and_then(|tls| tls.value.checked(&tls.location, paths, reader)),
        }
    }
}

impl RawTls {
    fn checked(
        self,
        location: &SourceLocation,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<TlsConfig> {
        let Self { cert, key, client_ca } = self;
        let wrong = "expected the path of a PEM file";
        let file = |text: &Located<String>, reader: &mut ConfigReader<'_>| {
            let path = text.value.trim();
            if path.is_empty() {
                reader.report_error(&text.location, wrong, None);
                return None;
            }
            Some(resolve_path(path, paths))
        };
        let mut needed = |name: &str, text: Option<Located<String>>| {
            if text.is_none() && !reader.has_error_under(location, name) {
                let hint = "TLS needs both `cert` (the certificate) and `key` (its private key)";
                reader.report_error(
                    location,
                    format!("expected a `{name}`"),
                    Some(hint.to_owned()),
                );
            }
            file(&text?, reader)
        };
        let (cert, key) = (needed("cert", cert), needed("key", key));
        let client_ca = match client_ca {
            Some(text) => Some(file(&text, reader)?),
            None => None,
        };
        Some(TlsConfig { cert: cert?, key: key?, client_ca })
    }
}

fn parse_listen_addr(text: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<SocketAddr> {
    let address = text.value.trim().parse().ok();
    if address.is_none() {
        let hint = "write an IP address and a port, such as `127.0.0.1:8001`";
        reader.report_error(
            &text.location,
            "expected an IP address and a port",
            Some(hint.to_owned()),
        );
    }
    address
}

/// Parses a host name, optionally with a port, for comparison with the `Host` header.
fn host(text: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<Authority> {
    let host = text.value.trim().to_ascii_lowercase();
    let host = host.parse().ok().filter(|host: &Authority| {
        let can_be_a_name = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        !host.host().is_empty() && host.as_str().chars().all(can_be_a_name)
    });
    if host.is_none() {
        let hint = "write only the name, or the name and a port: `workbench.example.com:8443`";
        reader.report_error(&text.location, "expected a host name", Some(hint.to_owned()));
    }
    host
}

/// Parses the URL under which clients reach the workbench. It must be HTTPS or loopback.
fn parse_public_url(text: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<Url> {
    let url = Url::parse(text.value.trim()).ok().filter(|url| {
        let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url));
        let is_plain = url.username().is_empty() && url.password().is_none();
        is_safe && is_plain && url.has_host() && url.query().is_none() && url.fragment().is_none()
    });
    if url.is_none() {
        let message = "expected a URL that starts with `https://`, without `?` and `#`";
        let hint = "browsers send authorization codes to this URL; `http://` is allowed only for \
                    this machine (127.0.0.1, localhost)";
        reader.report_error(&text.location, message, Some(hint.to_owned()));
    }
    url
}

fn origin(text: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<String> {
    let url = Url::parse(text.value.trim()).ok();
    let url = url.filter(|url| {
        let is_all = matches!(url.path(), "" | "/") && url.query().is_none();
        is_all && url.fragment().is_none() && matches!(url.scheme(), "http" | "https")
    });
    if url.is_none() {
        let hint = "write scheme and host, one origin per entry: `https://app.example.com`";
        reader.report_error(&text.location, "expected an origin", Some(hint.to_owned()));
    }
    url.map(|url| url.origin().ascii_serialization())
}
