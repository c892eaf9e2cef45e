//! Accepts connections and bounds their cost before the first request.
//!
//! Every connection has a slot in a [`SlotTable`](slots::SlotTable). At a limit, an idle connection
//! is evicted: one of the same address, or one of the address with the most idle connections. If
//! all are in use, the new connection gets a reserved slot. There, `/health` and `/ready` are
//! answered and all other requests rejected, so health checks never wait for agents.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::connections::connection_info::ConnectionInfo;
use crate::connections::service::{ConnectionService, RouteSet};
use crate::connections::slots::ConnectionSlot;
use crate::server::HttpServer;
use crate::tls::acceptor::accept_tls;
use crate::write_timeout::WriteTimeout;
use mcp_workbench_core::telemetry::{Event, QuotaOwner};

pub(crate) mod connection_info;
pub(crate) mod service;
pub(crate) mod slots;

/// The pause after a failed accept. The usual cause is too many open files.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// The minimum time between warnings about the connection limit.
const WARN_INTERVAL: Duration = Duration::from_mins(1);
/// Bytes of a body that are read at a time, at most.
const BUFFER: usize = 64 * 1024;
/// The head timeout on reserved slots.
const KEPT_HEAD: Duration = Duration::from_secs(2);

/// How long an evicted connection may take to send the end of its last response.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct ConnectionRoutes {
    pub(crate) all: RouteSet,
    pub(crate) kept: RouteSet,
}

/// Accepts connections; `most` caps the configured limit.
pub(crate) async fn accept(
    listener: &TcpListener,
    most: usize,
    offers: &ConnectionRoutes,
    server: &Arc<HttpServer>,
) {
    let mut warned: Option<Instant> = None;
    loop {
        let (stream, peer) = next(listener).await;
        let config = server.app.gateways.config();
        let owner = QuotaOwner::new(None, Some(peer.ip()));
        let quota = server.app.gateways.quotas().quota_for(&owner);
        let of_one = config.limits.per_caller.max_connections;
        let slot =
            server.connections.agents.take(&quota, [of_one, config.http.max_connections.min(most)]);
        if slot.is_reserved() && warned.is_none_or(|at| at.elapsed() > WARN_INTERVAL) {
            tracing::warn!(
                address = %peer.ip(),
                "connection limit reached (limits.perCaller.maxConnections, http.maxConnections); \
                 rejecting new connections"
            );
            warned = Some(Instant::now());
        }
        let offer = if slot.is_reserved() { &offers.kept } else { &offers.all };
        let offer = offer.clone();
        server.connections.open.spawn(serve(stream, peer.ip(), offer, slot, Arc::clone(server)));
    }
}

pub(crate) async fn answer_health(
    listener: Option<TcpListener>,
    offer: &RouteSet,
    server: &Arc<HttpServer>,
) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        let (stream, peer) = next(&listener).await;
        let slot = server.connections.health.take_kept();
        let from = ConnectionInfo { address: peer.ip(), slot, secured: None };
        let (own, offer) = (Arc::clone(server), offer.clone());
        // Never encrypted: health probes don't know the certificates.
        let speaking =
            async move { serve_http1(WriteTimeout::new(stream), from, offer, &own).await };
        server.connections.open.spawn(speaking);
    }
}

async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    peer: IpAddr,
    offer: RouteSet,
    slot: Arc<ConnectionSlot>,
    server: Arc<HttpServer>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    let from = ConnectionInfo { address: peer, slot, secured: None };
    let Some(tls) = &server.connections.tls else {
        return serve_http1(WriteTimeout::new(stream), from, offer, &server).await;
    };
    // A TLS handshake has as long as the head of a request.
    let greeted = tokio::select! {
        greeted = timeout(head_timeout(&from.slot, &server), accept_tls(tls, stream, peer)) => greeted,
        () = from.slot.evicted() => return,
        () = server.ending.closing.cancelled() => return,
        () = server.ending.shutdown.cancelled() => return,
    };
    match greeted {
        Ok(Ok((stream, secured))) => {
            serve_http1(stream, ConnectionInfo { secured: Some(secured), ..from }, offer, &server)
                .await;
        }
        Ok(Err(Some(denied))) => {
            server.app.gateways.observer().bus().emit(Event::AccessDenied(&denied, Some(peer)));
        }
        Ok(Err(None)) => {}
        Err(_) => tracing::debug!(address = %peer, "TLS handshake timed out"),
    }
}

fn head_timeout(slot: &ConnectionSlot, server: &HttpServer) -> Duration {
    let patience = server.app.gateways.config().http.head_timeout;
    if slot.is_reserved() { patience.min(KEPT_HEAD) } else { patience }
}

async fn serve_http1<S>(stream: S, from: ConnectionInfo, offer: RouteSet, server: &HttpServer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = server.app.gateways.config();
    let limits = &config.http;
    let (peer, slot) = (from.address, Arc::clone(&from.slot));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // hyper allows at most 100 headers.
        .max_header_size(limits.max_header_bytes)
        // The only bound on an incomplete head.
        .max_buf_size(limits.max_header_bytes.max(BUFFER))
        .header_read_timeout(head_timeout(&slot, server))
        .serve_connection(TokioIo::new(stream), ConnectionService { from, offer });
    let mut connection = pin!(connection);
    let told = tokio::select! {
        biased;
        served = connection.as_mut() => return note(served),
        () = server.ending.shutdown.cancelled() => CloseReason::Shutdown,
        () = server.ending.closing.cancelled() => CloseReason::Drain,
        () = slot.evicted() => CloseReason::Evicted,
    };
    connection.as_mut().graceful_shutdown();
    let farewell = match told {
        CloseReason::Shutdown => return,
        CloseReason::Drain => server.ending.shutdown.run_until_cancelled(connection).await,
        CloseReason::Evicted => {
            tracing::debug!(address = %peer, "closing an idle connection to make room for another");
            // The end of a response may be in transit. An incomplete head isn't waited for.
            let farewell = timeout(EVICTION_TIMEOUT, connection);
            server.ending.shutdown.run_until_cancelled(farewell).await.and_then(Result::ok)
        }
    };
    if let Some(served) = farewell {
        note(served);
    }
}

enum CloseReason {
    Shutdown,
    /// Finish requests in flight and accept no new ones.
    Drain,
    /// Another connection needs the slot of this idle one.
    Evicted,
}

fn note(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "connection lost");
    }
}
