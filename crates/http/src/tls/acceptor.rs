//! Accepts TLS connections: handshake, client certificate, and an error response for plain HTTP.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::tls::TlsCertificates;
use crate::tls::certificate::Certificate;
use crate::write_timeout::WriteTimeout;
use mcp_workbench_core::telemetry::{AccessDenial, AccessDenialReason};
use mcp_workbench_names::AgentName;

/// Content type of a handshake record (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// Minimum time between two warnings about clients without TLS.
const WARN_INTERVAL: Duration = Duration::from_mins(1);
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\nContent-Length: 61\r\n\r\nThis address requires TLS: use https:// instead of http://.\r\n";

#[derive(Clone, Debug)]
pub(crate) struct TlsInfo {
    pub(crate) holder: Option<ClientCertificate>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClientCertificate {
    /// `None` if the certificate contains no valid name.
    pub(crate) agent: Option<AgentName>,
    /// Expiry in seconds since the Unix epoch.
    until: u64,
    /// Cancelled when its CA is no longer trusted.
    pub(crate) distrusted: CancellationToken,
}

impl ClientCertificate {
    /// Returns the remaining validity in seconds, or `None` if expired or distrusted.
    pub(crate) fn seconds_left(&self) -> Option<u64> {
        let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let left = self.until.saturating_sub(now);
        (left > 0 && !self.distrusted.is_cancelled()).then_some(left)
    }
}

/// Performs the TLS handshake, without a timeout of its own. If it fails, the error is a denial if
/// the client certificate was rejected.
pub(crate) async fn accept_tls(
    tls: &TlsCertificates,
    mut stream: TcpStream,
    peer: IpAddr,
) -> Result<(TlsStream<WriteTimeout<TcpStream>>, TlsInfo), Option<AccessDenial>> {
    let mut first = [0];
    let speaks_tls = match stream.peek(&mut first).await {
        Ok(0) | Err(_) => return Err(None),
        Ok(_) => first[0] == HANDSHAKE,
    };
    if !speaks_tls {
        complain(tls, peer);
        // Read the request first: closing with unread data resets the connection and loses the
        // response.
        let mut sent = [0; 4096];
        let _ = stream.read(&mut sent).await;
        let _ = stream.write_all(PLAIN).await;
        let _ = stream.shutdown().await;
        return Err(None);
    }
    let used = tls.used();
    let acceptor = TlsAcceptor::from(Arc::clone(&used.config));
    let stream = match acceptor.accept(WriteTimeout::new(stream)).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(address = %peer, %error, "TLS handshake failed");
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            let is_of_certificate = matches!(inner, Some(rustls::Error::InvalidCertificate(_)));
            let reason = AccessDenialReason::Certificate;
            return Err(is_of_certificate.then_some(AccessDenial { agent: None, reason }));
        }
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let holder = shown.map(|der| {
        let read = Certificate::read(der);
        ClientCertificate {
            until: read.as_ref().map_or(0, |read| read.not_after),
            agent: read.and_then(|read| read.agent),
            distrusted: used.distrusted.clone(),
        }
    });
    Ok((stream, TlsInfo { holder }))
}

fn complain(tls: &TlsCertificates, peer: IpAddr) {
    let mut said = tls.said.lock();
    if said.is_none_or(|at| at.elapsed() > WARN_INTERVAL) {
        *said = Some(Instant::now());
        tracing::warn!(
            address = %peer,
            "rejected a connection without TLS: the client must use `https://`, not `http://`"
        );
    }
}
