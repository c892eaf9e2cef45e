//! The beginning of a connection over TLS: the handshake, who the client is by its certificate, and an answer
//! for those who do not speak TLS.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::frontend::http::stall::Patient;
use crate::frontend::http::tls::Tls;
use crate::frontend::http::tls::certificate::Certificate;
use crate::name::AgentName;

/// The first byte of a handshake (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// How long it is not said again that somebody does not speak TLS.
const SILENCE: Duration = Duration::from_mins(1);
/// The answer to whoever speaks HTTP and not TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\nContent-Length: 64\r\n\r\nThis address is encrypted: ask it by https://, not by http://.\r\n";

/// How a connection is secured.
#[derive(Clone, Debug)]
pub(crate) struct Secured {
    /// The client's certificate, if it has shown one.
    pub(crate) holder: Option<Holder>,
}

/// Who a certificate of a client is of, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// The agent; `None`: it names nobody.
    pub(crate) agent: Option<AgentName>,
    /// Until when it is good, in seconds since 1970.
    until: u64,
    /// Is cancelled when its CA is not trusted any more.
    pub(crate) distrusted: CancellationToken,
}

impl Holder {
    /// How many seconds it is still good; nothing once it is not.
    pub(crate) fn left(&self) -> Option<u64> {
        let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let left = self.until.saturating_sub(now);
        (left > 0 && !self.distrusted.is_cancelled()).then_some(left)
    }
}

/// Greets a client; how long that may take is the caller's to say. Nothing where no TLS comes of it, which
/// the log has.
pub(crate) async fn greet(
    tls: &Tls,
    mut stream: TcpStream,
    peer: IpAddr,
) -> Option<(TlsStream<Patient<TcpStream>>, Secured)> {
    let mut first = [0];
    let speaks_tls = match stream.peek(&mut first).await {
        Ok(0) | Err(_) => return None,
        Ok(_) => first[0] == HANDSHAKE,
    };
    if !speaks_tls {
        complain(tls, peer);
        // What was sent is read, or the answer would be lost with it.
        let mut sent = [0; 4096];
        let _ = stream.read(&mut sent).await;
        let _ = stream.write_all(PLAIN).await;
        let _ = stream.shutdown().await;
        return None;
    }
    let used = tls.used();
    let acceptor = TlsAcceptor::from(Arc::clone(&used.config));
    let stream = match acceptor.accept(Patient::new(stream)).await {
        Ok(stream) => stream,
        Err(error) => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            if let Some(rustls::Error::InvalidCertificate(why)) = inner {
                tracing::info!(address = %peer, "a client's certificate is refused: {why}");
            } else {
                tracing::debug!(address = %peer, %error, "no TLS comes of a connection");
            }
            return None;
        }
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let holder = shown.map(|der| {
        let read = Certificate::read(der);
        Holder {
            until: read.as_ref().map_or(0, |read| read.until),
            agent: read.and_then(|read| read.agent),
            distrusted: used.distrusted.clone(),
        }
    });
    Some((stream, Secured { holder }))
}

/// Says in the log, once in a while, that a client does not speak TLS.
fn complain(tls: &Tls, peer: IpAddr) {
    let mut said = tls.said.lock().unwrap_or_else(PoisonError::into_inner);
    if said.is_none_or(|at| at.elapsed() > SILENCE) {
        *said = Some(Instant::now());
        tracing::warn!(
            address = %peer,
            "a client does not speak TLS: it has to ask by `https://`, not by `http://`"
        );
    }
}
