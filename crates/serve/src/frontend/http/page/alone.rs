//! The page by itself (`mcp-workbench page`): on a loopback address, for whoever has its token.
//!
//! The token is good for looking as well as for acting, so without it there is nothing but the files of the
//! page: another user or page of this machine finds out nothing.

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

use crate::frontend::http::guard::guarded;
use crate::frontend::http::identity::Sight;
use crate::frontend::http::identity::bearer::{self, Presented};
use crate::frontend::http::page::asked::{self, Asked};
use crate::frontend::http::page::{Page, Workbenches, assets, private};
use crate::frontend::http::response::{Refusal, Reply, bad_request};
use crate::frontend::http::stall::Patient;
use crate::frontend::http::{body, origin};
use crate::settings::{HttpConfig, token_digest};
use crate::wire::budget::Charge;
use crate::wire::code::INVALID_REQUEST;

/// The most connections at once; of those that find no place, the newest wait.
const MOST_CONNECTIONS: usize = 64;
/// The most bytes of a question.
const MOST_ASKED: usize = 16 * 1024 * 1024;
/// How long the head and the body of a request may take to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after a connection could not be taken.
const RESPITE: Duration = Duration::from_millis(100);
/// How long the last answers may take on their way.
const FAREWELL: Duration = Duration::from_millis(500);

/// The page, and the one token for it.
struct Alone<W> {
    page: Arc<Page<W>>,
    digest: [u8; 32],
}

/// Serves the page until the end to those who have the token.
pub async fn serve_page<W: Workbenches>(
    listener: TcpListener,
    token: &str,
    workbenches: W,
    shutdown: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let router = router(workbenches, token, &tasks, &shutdown);
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let taking = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = next(&listener).await;
            let (router, shutdown) = (router.clone(), shutdown.clone());
            tasks.spawn(async move {
                serve(stream, router, &shutdown).await;
                drop(place);
            });
        }
    };
    shutdown.run_until_cancelled(taking).await;
    drop(listener);
    tasks.close();
    if timeout(FAREWELL, tasks.wait()).await.is_err() {
        tracing::debug!("a page does not take its last answer");
    }
}

/// The paths of the page.
pub(crate) fn router<W: Workbenches>(
    workbenches: W,
    token: &str,
    tasks: &TaskTracker,
    leaving: &CancellationToken,
) -> Router {
    let page = Arc::new(Page::new(workbenches, tasks, leaving));
    let alone = Arc::new(Alone { page, digest: token_digest(token) });
    let router = Router::new()
        .route("/", get(|head: Parts| give(assets::PAGE.to_owned(), head)))
        .route("/page/events", get(events::<W>))
        .route("/page/ask", post(ask::<W>))
        .route("/page/{asset}", get(|Path(name): Path<String>, head: Parts| give(name, head)))
        .fallback(nothing);
    guarded(router.with_state(alone))
}

async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                sleep(RESPITE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router, shutdown: &CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection was lost");
    }
}

async fn nothing() -> Reply {
    let message = "the page is at /";
    Refusal::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message).reply(None)
}

async fn give(name: String, head: Parts) -> Reply {
    if let Err(refusal) = origin::check(&head, &HttpConfig::default()) {
        return private(refusal.reply(None));
    }
    match assets::answer(&name, &head.headers) {
        Some(reply) => reply,
        None => nothing().await,
    }
}

impl<W> Alone<W> {
    /// Checks that a request is for us and has the token, which is taken out of it.
    fn check(&self, head: &mut Parts) -> Result<(), Refusal> {
        let presented = bearer::take(&mut head.headers);
        origin::check(head, &HttpConfig::default())?;
        let message = match presented {
            Presented::Token(token) if bool::from(self.digest.ct_eq(&token_digest(&token))) => {
                return Ok(());
            }
            Presented::Nothing => {
                "a token is needed: open the address that `mcp-workbench page` printed, whole"
            }
            _ => {
                "the token is not that of this page: open the address that `mcp-workbench page` \
                  printed, whole"
            }
        };
        Err(Refusal::new(StatusCode::UNAUTHORIZED, INVALID_REQUEST, message))
    }
}

async fn events<W: Workbenches>(State(alone): State<Arc<Alone<W>>>, mut head: Parts) -> Reply {
    match alone.check(&mut head) {
        Ok(()) => alone.page.events(Sight::Acts),
        Err(refusal) => private(refusal.reply(None)),
    }
}

async fn ask<W: Workbenches>(State(alone): State<Arc<Alone<W>>>, request: Request) -> Reply {
    let (mut head, text) = request.into_parts();
    let checked = alone.check(&mut head).and_then(|()| asked::check(&head));
    let asked = match checked {
        Ok(()) => read(text).await,
        Err(refusal) => Err(refusal),
    };
    match asked {
        Ok(asked) => alone.page.answer(asked).await,
        Err(refusal) => private(refusal.reply(None)),
    }
}

async fn read(text: axum::body::Body) -> Result<Asked, Refusal> {
    let mut charge = Charge::default();
    if let Ok(Ok(text)) = timeout(PATIENCE, body::read(text, MOST_ASKED, &mut charge)).await {
        return Asked::read(&text);
    }
    let seconds = PATIENCE.as_secs();
    let message =
        format!("the question did not come whole, within {seconds} s and {MOST_ASKED} bytes");
    Err(bad_request(INVALID_REQUEST, &message))
}
