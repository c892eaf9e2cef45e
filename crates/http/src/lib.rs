//! Serves agents of both eras over streamable HTTP, on one endpoint.
//!
//! Every POST carries one message, which goes as raw text to its peer. A legacy agent has a peer
//! and a session from `initialize` on, identified by `Mcp-Session-Id`. A modern request has both
//! for itself. Messages that belong to a request come from the request's own outbox: if the first
//! one is the response, it becomes the HTTP body, otherwise an event stream starts. A legacy agent
//! can resume a stream that it has lost.
//!
//! Requests are authenticated from their head ([`auth`]) before anything else.

mod admin_page;
mod auth;
mod auth_throttle;
mod body;
mod catch_panic;
mod connections;
mod cors;
mod drain;
mod endpoint;
mod event_stream;
mod header_value;
mod headers;
mod health;
mod message;
mod message_handler;
mod origin;
mod paths;
mod request_task;
mod response;
mod send_quota;
mod server;
mod session_lookups;
mod sessions;
mod sign_in_callback;
mod takeover;
mod tls;
mod write_timeout;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use tokio::net::TcpListener;
use tokio::time::{interval, timeout};
use tokio_util::task::TaskTracker;

use crate::admin_page::page::AdminPage;
use crate::auth::Authenticator;
use crate::auth_throttle::AuthThrottle;
use crate::catch_panic::catch_panics;
use crate::connections::ConnectionRoutes;
use crate::connections::service::RouteSet;
use crate::connections::slots::SlotTable;
use crate::drain::InFlightTracker;
use crate::paths::WELL_KNOWN;
use crate::response::{HttpError, HttpResponse};
use crate::server::{HttpServer, OpenConnections, ServerShutdown};
use crate::session_lookups::SessionTakeover;
use mcp_workbench_core::gateway::CALLBACK_PATH;
use mcp_workbench_serve::frontend::AppState;

pub use crate::admin_page::standalone::serve_page;
pub use crate::admin_page::workbenches::{AdminBackend, PageApproval, PageSender};
pub use crate::auth::DefaultAccess;
pub use crate::drain::{DrainControl, DrainTimeouts};
pub use crate::paths::ENDPOINT;
pub use crate::tls::{TlsCertificates, TlsError};

/// How often idle sessions, revoked tokens and session ownership are checked.
const SWEEP: Duration = Duration::from_secs(30);
/// How long clients may take to read their last responses, once everything else has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct HttpListeners {
    /// Serves all routes.
    pub agents: TcpListener,
    /// Serves `/health`, `/ready` and `/metrics` in addition (`http.healthListen`).
    pub health: Option<TcpListener>,
    /// The system's limit, which caps the configured one.
    pub max_connections: usize,
    /// `None` means plain HTTP.
    pub tls: Option<Arc<TlsCertificates>>,
}

pub async fn serve(
    app: AppState,
    listening: HttpListeners,
    default_access: DefaultAccess,
    tasks: &TaskTracker,
    ending: DrainControl,
) {
    let DrainControl { draining, grace, shutdown } = ending;
    let HttpListeners { agents: listener, health, max_connections: most_connections, tls } =
        listening;
    let leaving = shutdown.child_token();
    let page = Arc::new(AdminPage::new(app.admin().clone(), tasks, &leaving));
    let identity = Authenticator::new(&app, listener.local_addr().ok(), default_access, &shutdown);
    let server = Arc::new(HttpServer {
        identity,
        delays: AuthThrottle::default(),
        under_way: InFlightTracker::new(draining),
        sessions: Arc::default(),
        adopting: SessionTakeover::default(),
        connections: OpenConnections {
            open: TaskTracker::new(),
            agents: SlotTable::default(),
            health: SlotTable::default(),
            tls,
        },
        tasks: tasks.clone(),
        page,
        ending: ServerShutdown { closing: leaving, shutdown },
        app,
    });
    server.app.gateways.run_eager_servers();
    let offers = ConnectionRoutes {
        all: RouteSet { routes: router(&server), messages: Some(Arc::clone(&server)) },
        kept: RouteSet { routes: kept_router(&server), messages: None },
    };
    let of_health = RouteSet { routes: health_router(&server), messages: None };
    let mut sweep = interval(SWEEP);
    let sweeping = async {
        loop {
            sweep.tick().await;
            server.identity.refresh_rules();
            server.sessions.end_idle(server.app.gateways.config().http.session_idle);
            server.sessions.confirm_ownership(SWEEP / 2).await;
        }
    };
    tokio::select! {
        () = server.ending.shutdown.cancelled() => {}
        () = server.under_way.drained(grace) => {}
        () = sweeping => {}
        () = connections::accept(&listener, most_connections, &offers, &server) => {}
        () = connections::answer_health(health, &of_health, &server) => {}
    }
    drop(listener);
    server.sessions.leave_all();
    server.ending.closing.cancel();
    server.connections.open.close();
    if timeout(CLOSE_TIMEOUT, server.connections.open.wait()).await.is_err() {
        tracing::debug!("a client did not read its last response in time");
    }
}

fn router(server: &Arc<HttpServer>) -> Router {
    let router = Router::new()
        .route(ENDPOINT, any(endpoint::serve_all_toolboxes))
        .route("/mcp/", any(endpoint::serve_all_toolboxes))
        .route("/mcp/{toolbox}", any(endpoint::serve_toolbox))
        .route("/mcp/{toolbox}/", any(endpoint::serve_toolbox))
        .route(WELL_KNOWN, get(endpoint::metadata))
        .route("/.well-known/oauth-protected-resource/{*path}", get(endpoint::metadata))
        .layer(from_fn_with_state(Arc::clone(server), cors::allow))
        .route(CALLBACK_PATH, any(sign_in_callback::complete_sign_in))
        .route(&format!("{CALLBACK_PATH}/{{issuer}}"), any(sign_in_callback::complete_sign_in))
        .route("/health", get(health::liveness))
        .route("/ready", get(health::readiness))
        .route("/metrics", get(health::metrics))
        .fallback(response::not_found);
    catch_panics(admin_page::routes::add(router).with_state(Arc::clone(server)))
}

/// Routes that work even if all connections are in use.
fn kept_router(server: &Arc<HttpServer>) -> Router {
    let router = Router::new()
        .route("/health", get(health::liveness))
        .route("/ready", get(health::readiness))
        .fallback(over_capacity);
    catch_panics(router.with_state(Arc::clone(server)))
}

fn health_router(server: &Arc<HttpServer>) -> Router {
    let router = Router::new()
        .route("/health", get(health::liveness))
        .route("/ready", get(health::readiness))
        .route("/metrics", get(health::metrics))
        .fallback(response::not_found);
    catch_panics(router.with_state(Arc::clone(server)))
}

async fn over_capacity() -> HttpResponse {
    let message = "connection limit reached (limits.perCaller.maxConnections, \
                   http.maxConnections); retry later";
    HttpError::unavailable(message).into_response(None)
}

#[cfg(test)]
mod tests;
