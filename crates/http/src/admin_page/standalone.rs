//! The standalone admin page (`mcp-workbench dashboard`), on a loopback address.
//!
//! One token grants both reading and acting. Without it only the static files are served, so other
//! users and web pages on this machine learn nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::routing::{get, post};
use hyper::StatusCode;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin_page::assets;
use crate::admin_page::page::AdminPage;
use crate::admin_page::request::{self, PageRequest};
use crate::admin_page::workbenches::AdminBackend;
use crate::auth::AccessLevel;
use crate::auth::bearer::{self, PresentedToken};
use crate::catch_panic::catch_panics;
use crate::response::{HttpError, HttpResponse, bad_request, with_private_headers};
use crate::write_timeout::WriteTimeout;
use crate::{body, origin};
use mcp_workbench_core::gateway::{CallerQuota, MemoryPools, QuotaRegistry};
use mcp_workbench_core::telemetry::{
    AccessDenial, AccessDenialReason, Event, QuotaOwner, Telemetry,
};
use mcp_workbench_settings::{HttpConfig, token_digest};
use mcp_workbench_wire::code::INVALID_REQUEST;
use mcp_workbench_wire::memory_pool::MemoryReservation;

const MAX_CONNECTIONS: usize = 64;
/// Maximum size of a request body, in bytes.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);
const RESPITE: Duration = Duration::from_millis(100);
/// Time for the last responses to be written at shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

struct StandalonePage<W> {
    page: Arc<AdminPage<W>>,
    digest: [u8; 32],
    /// Logs denied requests.
    telemetry: Arc<Telemetry>,
    quota: Arc<CallerQuota>,
}

/// Serves the page until `shutdown` to clients that present `token`.
pub async fn serve_page<W: AdminBackend>(
    listener: TcpListener,
    token: &str,
    workbenches: W,
    shutdown: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let router = router(workbenches, token, &tasks, &shutdown);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let taking = async {
        loop {
            let Ok(permit) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = next(&listener).await;
            let (router, shutdown) = (router.clone(), shutdown.clone());
            tasks.spawn(async move {
                serve(stream, router, &shutdown).await;
                drop(permit);
            });
        }
    };
    shutdown.run_until_cancelled(taking).await;
    drop(listener);
    tasks.close();
    if timeout(CLOSE_TIMEOUT, tasks.wait()).await.is_err() {
        tracing::debug!("a browser did not read its last response in time");
    }
}

pub(crate) fn router<W: AdminBackend>(
    workbenches: W,
    token: &str,
    tasks: &TaskTracker,
    leaving: &CancellationToken,
) -> Router {
    let page = Arc::new(AdminPage::new(workbenches, tasks, leaving));
    let telemetry = Arc::<Telemetry>::default();
    let quotas = QuotaRegistry::new(&telemetry, MemoryPools::default());
    let quota = quotas.quota_for(&QuotaOwner::Local);
    let alone = Arc::new(StandalonePage { page, digest: token_digest(token), telemetry, quota });
    let router = Router::new()
        .route("/", get(|head: Parts| give(assets::PAGE.to_owned(), head)))
        .route("/page/events", get(events::<W>))
        .route("/page/ask", post(ask::<W>))
        .route("/page/{asset}", get(|Path(name): Path<String>, head: Parts| give(name, head)))
        .fallback(nothing);
    catch_panics(router.with_state(alone))
}

async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                sleep(RESPITE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router, shutdown: &CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .serve_connection(
            TokioIo::new(WriteTimeout::new(stream)),
            TowerToHyperService::new(router),
        );
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection lost");
    }
}

async fn nothing() -> HttpResponse {
    let message = "the dashboard is at /";
    HttpError::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message).into_response(None)
}

async fn give(name: String, head: Parts) -> HttpResponse {
    if let Err(refusal) = origin::check(&head, &HttpConfig::default()) {
        return with_private_headers(refusal.into_response(None));
    }
    match assets::answer(&name, &head.headers) {
        Some(reply) => reply,
        None => nothing().await,
    }
}

impl<W> StandalonePage<W> {
    fn check(&self, head: &mut Parts) -> Result<(), HttpError> {
        let presented = bearer::take_bearer_token(&mut head.headers);
        let denied = |reason, refusal| {
            let denied = AccessDenial { agent: None, reason };
            self.telemetry.bus().emit(Event::AccessDenied(&denied, None));
            Err(refusal)
        };
        if let Err(refusal) = origin::check(head, &HttpConfig::default()) {
            return denied(AccessDenialReason::Origin, refusal);
        }
        let (reason, message) = match presented {
            PresentedToken::Token(token)
                if bool::from(self.digest.ct_eq(&token_digest(&token))) =>
            {
                return Ok(());
            }
            PresentedToken::Absent => (
                AccessDenialReason::NoToken,
                "missing token: open the full URL that `mcp-workbench dashboard` printed",
            ),
            _ => (
                AccessDenialReason::InvalidToken,
                "invalid token: open the full URL that `mcp-workbench dashboard` printed",
            ),
        };
        let refusal = HttpError::new(StatusCode::UNAUTHORIZED, INVALID_REQUEST, message);
        denied(reason, refusal)
    }
}

async fn events<W: AdminBackend>(
    State(alone): State<Arc<StandalonePage<W>>>,
    mut head: Parts,
) -> HttpResponse {
    match alone.check(&mut head) {
        Ok(()) => alone.page.events(AccessLevel::Operate, &alone.quota, MAX_CONNECTIONS),
        Err(refusal) => with_private_headers(refusal.into_response(None)),
    }
}

async fn ask<W: AdminBackend>(
    State(alone): State<Arc<StandalonePage<W>>>,
    request: Request,
) -> HttpResponse {
    let (mut head, text) = request.into_parts();
    let checked = alone.check(&mut head).and_then(|()| request::check(&head));
    let asked = match checked {
        Ok(()) => read(text).await,
        Err(refusal) => Err(refusal),
    };
    match asked {
        Ok(asked) => alone.page.answer(asked, None).await,
        Err(refusal) => with_private_headers(refusal.into_response(None)),
    }
}

async fn read(text: axum::body::Body) -> Result<PageRequest, HttpError> {
    let mut charge = MemoryReservation::default();
    if let Ok(Ok(text)) = timeout(TIMEOUT, body::read(text, MAX_REQUEST_BYTES, &mut charge)).await {
        return PageRequest::read(&text);
    }
    let seconds = TIMEOUT.as_secs();
    let message =
        format!("incomplete request: the limits are {seconds} s and {MAX_REQUEST_BYTES} bytes");
    Err(bad_request(INVALID_REQUEST, &message))
}
