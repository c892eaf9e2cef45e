//! Settings of the HTTP listener (`http`).

use core::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::http::uri::Authority;
use url::Url;

use crate::defaults;

/// Settings of the HTTP listener and limits on its clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpConfig {
    /// Accepted `Host` values in lower case, in addition to local ones. Without a port, all ports
    /// match (`allowedHosts`).
    pub allowed_hosts: Vec<Authority>,
    /// Accepted `Origin` values as browsers send them, in addition to local ones
    /// (`allowedOrigins`).
    pub allowed_origins: Vec<String>,
    /// The URL under which other machines reach the workbench, without `/mcp`. Plain HTTP only if
    /// it is on this machine (`publicUrl`).
    pub public_url: Option<Url>,
    pub max_sessions: usize,
    /// Idle time after which a session ends (`sessionIdleMs`).
    pub session_idle: Duration,
    pub max_connections: usize,
    /// Maximum bytes of the request line and headers together (`maxHeaderBytes`).
    pub max_header_bytes: usize,
    /// Time that a connection may wait for complete request headers (`headTimeoutMs`).
    pub head_timeout: Duration,
    /// Time to receive a complete request body (`bodyTimeoutMs`).
    pub body_timeout: Duration,
    /// Additional address for `/health`, `/ready` and `/metrics` (`healthListen`).
    pub health_listen: Option<SocketAddr>,
    /// Server certificate; `None` for plain HTTP (`tls`).
    pub tls: Option<TlsConfig>,
}

/// The TLS files, with absolute paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsConfig {
    /// PEM certificate chain, starting with the server's certificate (`cert`).
    pub cert: PathBuf,
    /// PEM private key of the certificate (`key`).
    pub key: PathBuf,
    /// PEM certificates of the CAs for client certificates; `None`: clients aren't asked for one
    /// (`clientCa`).
    pub client_ca: Option<PathBuf>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            public_url: None,
            max_sessions: defaults::SESSIONS,
            session_idle: Duration::from_millis(defaults::SESSION_IDLE_MS),
            max_connections: defaults::CONNECTIONS,
            max_header_bytes: defaults::HEADER_BYTES,
            head_timeout: Duration::from_millis(defaults::HEAD_TIMEOUT_MS),
            body_timeout: Duration::from_millis(defaults::BODY_TIMEOUT_MS),
            health_listen: None,
            tls: None,
        }
    }
}
