//! Connections: taken one by one, and bounded in what they may cost before they say anything.
//!
//! *Theory of operation.* Every connection stands in a [`Table`](table::Table). One that is not used gives way where
//! there are too many: of its own address, or of the address that has most. Where none can, the new
//! one gets a place that is kept for those who look after us: it is told `/health` and `/ready`, and
//! everything else is refused for now. So the answer to those never waits for anybody.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::frontend::http::Server;
use crate::frontend::http::clock::Clock;
use crate::frontend::http::connections::answering::{Answering, Offer};
use crate::frontend::http::connections::table::Place;
use crate::frontend::http::stall::Patient;
use crate::frontend::http::tls::greeting::{Secured, greet};
use crate::frontend::seldom::seldom;
use crate::frontend::until::until;
use crate::observe::Payer;

pub(crate) mod answering;
pub(crate) mod table;

/// The pause after a connection could not be taken, most often because there are too many open
/// files.
const RESPITE: Duration = Duration::from_millis(100);
/// How long it is not said again that there are too many connections.
const SILENCE: Duration = Duration::from_mins(1);
/// The most bytes of a body that are read at once.
const BUFFER: usize = 64 * 1024;
/// How long a connection in a kept place may go without the whole head of a request.
const KEPT_HEAD: Duration = Duration::from_secs(2);

/// How long a connection that gives way may take to send the end of its last answer.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where a request comes from.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The place of its connection.
    pub(crate) place: Arc<Place>,
    /// How it is secured; `None`: it is not.
    pub(crate) secured: Option<Secured>,
    pub(crate) clock: Clock,
}

/// The offers to connections: to most of them, and to those in kept places.
pub(crate) struct Offers {
    pub(crate) all: Offer,
    pub(crate) kept: Offer,
}

/// Takes connections for as long as it is wanted, at most `most` or what the configuration says.
pub(crate) async fn accept(
    listener: &TcpListener,
    most: usize,
    offers: &Offers,
    server: &Arc<Server>,
) {
    let mut warned: Option<Instant> = None;
    loop {
        let (stream, peer) = next(listener).await;
        let config = server.app.gateways.config();
        let payer = Payer::new(None, Some(peer.ip()));
        let purse = server.app.gateways.payers().purse(&payer);
        let of_one = config.limits.per_caller.max_connections;
        let place = server.table.take(&purse, [of_one, config.http.max_connections.min(most)]);
        if place.is_kept() && warned.is_none_or(|at| at.elapsed() > SILENCE) {
            tracing::warn!(
                address = %peer.ip(),
                "there are as many connections as there may be, and all are used \
                 (limits.perCaller.maxConnections, http.maxConnections); others are refused"
            );
            warned = Some(Instant::now());
        }
        let offer = if place.is_kept() { &offers.kept } else { &offers.all };
        let offer = offer.clone();
        server.connections.spawn(serve(stream, peer.ip(), offer, place, Arc::clone(server)));
    }
}

/// Answers at a listener of their own those who look after us.
pub(crate) async fn answer_health(
    listener: Option<TcpListener>,
    offer: &Offer,
    server: &Arc<Server>,
) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        let (stream, peer) = next(&listener).await;
        let place = server.health.take_kept();
        let from = Peer { address: peer.ip(), place, secured: None, clock: Clock::default() };
        let (own, offer) = (Arc::clone(server), offer.clone());
        // It is not encrypted, for probes know no certificates.
        let speaking = async move { speak(Patient::new(stream), from, offer, &own).await };
        server.connections.spawn(speaking);
    }
}

/// Waits for the next connection. Where one cannot be taken, there may be room a moment later.
async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                sleep(RESPITE).await;
            }
        }
    }
}

/// Serves a connection, which is greeted first where there is TLS.
async fn serve(
    stream: TcpStream,
    peer: IpAddr,
    offer: Offer,
    place: Arc<Place>,
    server: Arc<Server>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small messages may wait");
    }
    let from = Peer { address: peer, place, secured: None, clock: Clock::default() };
    let Some(tls) = &server.tls else {
        return speak(Patient::new(stream), from, offer, &server).await;
    };
    // A slow handshake is a slow head.
    let greeted = tokio::select! {
        greeted = timeout(patience(&from.place, &server), greet(tls, stream, peer)) => greeted,
        () = from.place.gives_way() => return,
        () = server.leaving.cancelled() => return,
        () = server.shutdown.cancelled() => return,
    };
    match greeted {
        Ok(Some((stream, secured))) => {
            speak(stream, Peer { secured: Some(secured), ..from }, offer, &server).await;
        }
        Ok(None) => {}
        Err(_) => tracing::debug!(address = %peer, "a client was too slow in its handshake"),
    }
}

/// How long a connection may go without the whole head of a request.
fn patience(place: &Place, server: &Server) -> Duration {
    let patience = server.app.gateways.config().http.head_timeout;
    if place.is_kept() { patience.min(KEPT_HEAD) } else { patience }
}

/// Speaks HTTP with a client until one of both has enough.
async fn speak<S>(stream: S, from: Peer, offer: Offer, server: &Server)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = server.app.gateways.config();
    let limits = &config.http;
    let (peer, place) = (from.address, Arc::clone(&from.place));
    let connection = http1::Builder::new()
        .timer(from.clock.clone())
        // There may be 100 headers at most.
        .max_header_size(limits.max_header_bytes)
        // A head that is not whole is bounded by this alone.
        .max_buf_size(limits.max_header_bytes.max(BUFFER))
        .header_read_timeout(patience(&place, server))
        .serve_connection(TokioIo::new(stream), Answering { from, offer });
    let mut connection = pin!(connection);
    let told = seldom(async {
        tokio::select! {
            biased;
            () = server.shutdown.cancelled() => Told::End,
            () = server.leaving.cancelled() => Told::Finish,
            () = place.gives_way() => Told::GiveWay,
        }
    });
    let told = tokio::select! {
        biased;
        served = connection.as_mut() => return note(served),
        told = told => told,
    };
    connection.as_mut().graceful_shutdown();
    let farewell = match told {
        Told::End => return,
        Told::Finish => until(&server.shutdown, connection).await,
        Told::GiveWay => {
            tracing::debug!(address = %peer, "a connection that was not used gives way");
            // The end of an answer may still be on its way; the rest of a head is not waited for.
            let farewell = timeout(FAREWELL, connection);
            until(&server.shutdown, farewell).await.and_then(Result::ok)
        }
    };
    if let Some(served) = farewell {
        note(served);
    }
}

/// An order for a connection that is used.
enum Told {
    /// Everything ends at once.
    End,
    /// To answer what is under way, and take nothing new.
    Finish,
    /// To make room for another, for nothing has been asked for long.
    GiveWay,
}

fn note(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "a connection was lost");
    }
}
