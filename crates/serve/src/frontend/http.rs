//! Serving over HTTP (MCP's streamable HTTP), for agents of both eras on one endpoint.
//!
//! *Theory of operation.* Every POST carries one message, which goes as raw text to the peer it
//! belongs to. A legacy agent has a peer and a session of its own from `initialize` on, by the id
//! in its `Mcp-Session-Id`; a modern request has both for itself alone. What belongs to a request
//! comes out of an outbox of its own: when the first message is the answer already, it is the body
//! of the response, else a stream of events begins. A legacy agent that loses a stream can go on
//! with it.
//!
//! Who asks is found out from the head of a request ([`identity`]) before anything else.

mod adopting;
mod body;
mod callback;
mod clock;
mod connections;
mod cors;
mod delays;
mod drain;
mod endpoint;
mod field;
mod guard;
mod headers;
mod health;
mod identity;
mod message;
mod origin;
mod page;
mod post;
mod response;
mod room;
mod sessions;
mod stall;
mod stream;
mod tls;
mod work;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use hyper::StatusCode;
use tokio::net::TcpListener;
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::desk::Desk;
use crate::frontend::AppState;
use crate::frontend::http::adopting::Adopting;
use crate::frontend::http::connections::Offers;
use crate::frontend::http::connections::answering::Offer;
use crate::frontend::http::connections::table::Table;
use crate::frontend::http::delays::Delays;
use crate::frontend::http::drain::UnderWay;
use crate::frontend::http::guard::guarded;
use crate::frontend::http::identity::{Identity, WELL_KNOWN};
use crate::frontend::http::page::Page;
use crate::frontend::http::response::{Refusal, Reply};
use crate::frontend::http::sessions::Sessions;
use crate::gateway::CALLBACK;
use crate::wire::code::INVALID_REQUEST;

pub use crate::frontend::http::drain::{Ending, Grace};
pub use crate::frontend::http::identity::Door;
pub use crate::frontend::http::page::{Workbenches, serve_page};
pub use crate::frontend::http::tls::{Tls, TlsError};

/// Where agents are served.
pub const ENDPOINT: &str = "/mcp";

/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);
/// How long the last answers may take on their way, once everything else has ended.
const FAREWELL: Duration = Duration::from_millis(500);

/// Where agents come in, and those who look after us.
#[derive(Debug)]
pub struct Listening {
    /// Where everything is served.
    pub agents: TcpListener,
    /// Where `/health`, `/ready` and `/metrics` are answered besides (`http.healthListen`).
    pub health: Option<TcpListener>,
    /// How many connections this system has room for, whatever the configuration says.
    pub most_connections: usize,
    /// Encrypts what goes to and from agents; `None`: nothing is encrypted.
    pub tls: Option<Arc<Tls>>,
}

/// Serves agents that come to a listener until the end.
pub async fn serve(
    app: AppState,
    listening: Listening,
    door: Door,
    tasks: &TaskTracker,
    ending: Ending,
) {
    let Ending { draining, grace, shutdown } = ending;
    let Listening { agents: listener, health, most_connections, tls } = listening;
    let leaving = shutdown.child_token();
    let page = Arc::new(Page::new(app.desk().clone(), tasks, &leaving));
    let identity = Identity::new(&app, listener.local_addr().ok(), door, &shutdown);
    let server = Arc::new(Server {
        identity,
        delays: Delays::default(),
        under_way: UnderWay::new(draining),
        sessions: Arc::default(),
        adopting: Adopting::default(),
        connections: TaskTracker::new(),
        table: Table::default(),
        health: Table::default(),
        tasks: tasks.clone(),
        page,
        tls,
        leaving,
        shutdown,
        app,
    });
    server.app.gateways.keep_eager();
    let offers = Offers {
        all: Offer { routes: router(&server), messages: Some(Arc::clone(&server)) },
        kept: Offer { routes: kept_router(&server), messages: None },
    };
    let of_health = Offer { routes: health_router(&server), messages: None };
    let mut sweep = interval(SWEEP);
    let sweeping = async {
        loop {
            sweep.tick().await;
            server.identity.renew();
            server.sessions.end_idle(server.app.gateways.config().http.session_idle);
            server.sessions.confirm(SWEEP / 2).await;
        }
    };
    tokio::select! {
        () = server.shutdown.cancelled() => {}
        () = server.under_way.finished(grace) => {}
        () = sweeping => {}
        () = connections::accept(&listener, most_connections, &offers, &server) => {}
        () = connections::answer_health(health, &of_health, &server) => {}
    }
    drop(listener);
    server.sessions.leave_all();
    server.leaving.cancel();
    server.connections.close();
    if timeout(FAREWELL, server.connections.wait()).await.is_err() {
        tracing::debug!("a client does not take its last answer");
    }
}

/// The state that all connections share.
struct Server {
    app: AppState,
    identity: Identity,
    delays: Delays,
    under_way: UnderWay,
    sessions: Arc<Sessions>,
    adopting: Adopting,
    connections: TaskTracker,
    /// The connections of agents, and of those who look after us at a listener of their own.
    table: Table,
    health: Table,
    tasks: TaskTracker,
    page: Arc<Page<Desk>>,
    tls: Option<Arc<Tls>>,
    /// Is cancelled when streams and connections are to be closed.
    leaving: CancellationToken,
    shutdown: CancellationToken,
}

/// Which path is whose.
fn router(server: &Arc<Server>) -> Router {
    let router = Router::new()
        .route(ENDPOINT, any(endpoint::everything))
        .route("/mcp/{toolbox}", any(endpoint::one_toolbox))
        .route(WELL_KNOWN, get(endpoint::metadata))
        .route("/.well-known/oauth-protected-resource/{*path}", get(endpoint::metadata))
        .layer(from_fn_with_state(Arc::clone(server), cors::allow))
        .route(CALLBACK, any(callback::come_back))
        .route("/health", get(health::alive))
        .route("/ready", get(health::ready))
        .route("/metrics", get(health::metrics))
        .fallback(nothing);
    guarded(page::add(router).with_state(Arc::clone(server)))
}

/// The paths that are answered however many connections there are.
fn kept_router(server: &Arc<Server>) -> Router {
    let router = Router::new()
        .route("/health", get(health::alive))
        .route("/ready", get(health::ready))
        .fallback(crowded);
    guarded(router.with_state(Arc::clone(server)))
}

/// The paths at the listener of those who look after us.
fn health_router(server: &Arc<Server>) -> Router {
    let router = Router::new()
        .route("/health", get(health::alive))
        .route("/ready", get(health::ready))
        .route("/metrics", get(health::metrics))
        .fallback(nothing);
    guarded(router.with_state(Arc::clone(server)))
}

/// The answer to what there is no connection left for.
async fn crowded() -> Reply {
    let message = "there are as many connections as there may be (limits.perCaller.maxConnections, \
                   http.maxConnections), and all are used; come again a little later";
    Refusal::for_now(message).reply(None)
}

/// The answer at every other path.
async fn nothing() -> Reply {
    let message =
        "agents are served at /mcp, one toolbox alone at /mcp/<toolbox>, and the page at /";
    Refusal::new(StatusCode::NOT_FOUND, INVALID_REQUEST, message).reply(None)
}

#[cfg(test)]
mod tests;
