//! Connections: taken one by one, and bounded in what they may cost before they say anything.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::frontend::http::Server;

/// What is waited after a connection could not be taken, for want of files most often.
const RESPITE: Duration = Duration::from_millis(100);

/// Takes connections for as long as it is wanted.
pub(crate) async fn accept(listener: &TcpListener, router: &Router, server: &Arc<Server>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = Box::pin(serve(stream, router.clone()));
                let shutdown = server.shutdown.clone();
                server.tasks.spawn(shutdown.run_until_cancelled_owned(connection));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                sleep(RESPITE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small messages may wait");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection was lost");
    }
}
