//! Limits on what agents may cost over HTTP (`http`).

use core::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::http::uri::Authority;
use url::Url;

use crate::settings::defaults;

/// Limits on what agents may cost over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Names that clients may call us by besides those of this machine: in lower case, with a port
    /// or for all ports (`allowedHosts`).
    pub allowed_hosts: Vec<Authority>,
    /// Origins of pages that may ask us besides those of this machine, as browsers spell them
    /// (`allowedOrigins`).
    pub allowed_origins: Vec<String>,
    /// The address that clients and browsers on other machines know us by, without `/mcp` (`publicUrl`);
    /// over plain HTTP on this machine alone.
    pub public_url: Option<Url>,
    /// How many sessions there may be (`maxSessions`).
    pub max_sessions: usize,
    /// How long a session is kept that nobody uses (`sessionIdleMs`).
    pub session_idle: Duration,
    /// How many connections there may be at once (`maxConnections`).
    pub max_connections: usize,
    /// How many bytes the head of a request may have (`maxHeaderBytes`).
    pub max_header_bytes: usize,
    /// How long a connection may go without the whole head of a request (`headTimeoutMs`).
    pub head_timeout: Duration,
    /// How long the whole body of a request may take (`bodyTimeoutMs`).
    pub body_timeout: Duration,
    /// Where `/health`, `/ready` and `/metrics` are answered besides (`healthListen`).
    pub health_listen: Option<SocketAddr>,
    /// The files to encrypt with (`tls`); `None`: nothing is encrypted here.
    pub tls: Option<TlsConfig>,
}

/// The files for TLS of our own, absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificate in PEM, followed by those that lead from it to a CA that clients know (`cert`).
    pub cert: PathBuf,
    /// The private key of the certificate, in PEM (`key`).
    pub key: PathBuf,
    /// Certificates in PEM of the CAs that say who a client is (`clientCa`); `None`: no client is asked
    /// for a certificate.
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
