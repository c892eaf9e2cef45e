//! Connections: taken one by one, and bounded in what they may cost before they say anything.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::frontend::http::Server;
use crate::frontend::http::stall::Patient;

/// The pause after a connection could not be taken, most often because there are too many open
/// files.
const RESPITE: Duration = Duration::from_millis(100);
/// How long it is not said again that there are too many connections.
const SILENCE: Duration = Duration::from_mins(1);
/// The most bytes of a body that are read at once.
const BUFFER: usize = 64 * 1024;

/// Takes connections for as long as it is wanted, `most` at once; more wait with the operating
/// system.
pub(crate) async fn accept(
    listener: &TcpListener,
    most: usize,
    router: &Router,
    server: &Arc<Server>,
) {
    let places = Arc::new(Semaphore::new(most));
    let mut warned: Option<Instant> = None;
    loop {
        if places.available_permits() == 0 && warned.is_none_or(|at| at.elapsed() > SILENCE) {
            tracing::warn!("there are {most} connections (http.maxConnections); others wait");
            warned = Some(Instant::now());
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = Box::pin(serve(stream, router.clone(), Arc::clone(server)));
                let connection = server.shutdown.clone().run_until_cancelled_owned(connection);
                server.connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                sleep(RESPITE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router, server: Arc<Server>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small messages may wait");
    }
    let config = server.app.gateways.config();
    let limits = &config.http;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // There may be 100 headers at most.
        .max_header_size(limits.max_header_bytes)
        // A head that is not whole is bounded by this alone.
        .max_buf_size(limits.max_header_bytes.max(BUFFER))
        .header_read_timeout(limits.head_timeout)
        .serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = server.leaving.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection was lost");
    }
}
