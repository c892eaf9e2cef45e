//! The page among the paths of `serve --http`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::routing::{get, post};
use hyper::StatusCode;
use hyper::http::request::Parts;

use crate::frontend::http::clock::Clock;
use crate::frontend::http::endpoint::read;
use crate::frontend::http::page::asked::{self, Asked};
use crate::frontend::http::page::{assets, private};
use crate::frontend::http::response::{Refusal, Reply};
use crate::frontend::http::{self, Server};
use crate::gateway::Caller;
use crate::wire::code::INVALID_REQUEST;

/// Adds the paths of the page.
pub(crate) fn add(router: Router<Arc<Server>>) -> Router<Arc<Server>> {
    router
        // Whoever posts here means the path of agents, and is told so.
        .route("/", get(page).fallback(http::nothing))
        .route("/page/events", get(events))
        .route("/page/ask", post(ask))
        .route("/page/{asset}", get(file))
}

async fn page(state: State<Arc<Server>>, head: Parts) -> Reply {
    give(&state, &head, assets::PAGE).await
}

async fn file(state: State<Arc<Server>>, Path(name): Path<String>, head: Parts) -> Reply {
    give(&state, &head, &name).await
}

async fn give(server: &Server, head: &Parts, name: &str) -> Reply {
    if let Err(denial) = server.identity.may_come(head) {
        return server.turn_away(head, denial.reply()).await;
    }
    match assets::answer(name, &head.headers) {
        Some(reply) => reply,
        None => http::nothing().await,
    }
}

async fn events(State(server): State<Arc<Server>>, mut head: Parts) -> Reply {
    match server.identity.sight(&mut head).await {
        Ok((sight, pass)) => pass.bound(server.page.events(sight)),
        Err(reply) => private(server.turn_away(&head, reply).await),
    }
}

async fn ask(State(server): State<Arc<Server>>, request: Request) -> Reply {
    let (mut head, body) = request.into_parts();
    let sight = match server.identity.sight(&mut head).await {
        Ok((sight, _)) => sight,
        Err(reply) => return private(server.turn_away(&head, reply).await),
    };
    let purse = server.purse(&head, &Caller::default());
    let config = server.app.gateways.config();
    let asked = match asked::check(&head) {
        Ok(()) => {
            read(body, &purse, &config, &Clock::default()).await.and_then(|body| Asked::read(&body))
        }
        Err(refusal) => Err(refusal),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(refusal) => return private(refusal.reply(None)),
    };
    if sight < asked.needs() {
        let message = "this needs the token of an operator: `mcp-workbench token --operator <name>` \
                       makes one, and its entry for `auth.operators` in the configuration";
        let refusal = Refusal::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message);
        return private(refusal.reply(None));
    }
    server.page.answer(asked).await
}
