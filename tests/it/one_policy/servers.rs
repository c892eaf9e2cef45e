//! Servers in this process: one address, and a path for each; what they have is set by the test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::one_policy::world::{Catalog, World};

/// All of them; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    state: Arc<Mutex<State_>>,
}

#[derive(Default)]
struct State_ {
    catalogs: BTreeMap<String, Catalog>,
    /// Who has been asked something.
    asked: Vec<String>,
}

impl Servers {
    /// Starts answering, on a thread of their own that ends with the process.
    pub(crate) fn start() -> (Self, SocketAddr) {
        let servers = Self::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a setting");
        let address = listener.local_addr().expect("an address");
        let router =
            Router::new().route("/{toolbox}/{server}", post(answer)).with_state(servers.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                axum::serve(listener, router).await.expect("it serves");
            });
        });
        (servers, address)
    }

    /// From now on there is what this world has.
    pub(crate) fn serve(&self, world: &World) {
        let servers = world.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        let catalogs = servers.map(|server| (server.path.clone(), server.catalog.clone()));
        let mut state = self.state.lock().expect("no test has panicked");
        *state = State_ { catalogs: catalogs.collect(), asked: Vec::new() };
    }

    /// The paths of those that were asked anything.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut asked = self.state.lock().expect("no test has panicked").asked.clone();
        asked.sort();
        asked.dedup();
        asked
    }

    fn catalog(&self, path: &str) -> Catalog {
        let mut state = self.state.lock().expect("no test has panicked");
        state.asked.push(path.to_owned());
        state.catalogs.get(path).cloned().unwrap_or_default()
    }
}

async fn answer(
    State(servers): State<Servers>,
    Path((toolbox, server)): Path<(String, String)>,
    body: String,
) -> Response {
    let message: Value = serde_json::from_str(&body).expect("JSON");
    let catalog = servers.catalog(&format!("{toolbox}/{server}"));
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result =
        result(&catalog, message["method"].as_str().unwrap_or_default(), &message["params"]);
    let answer = match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    };
    ([("content-type", "application/json")], answer.to_string()).into_response()
}

fn result(catalog: &Catalog, method: &str, params: &Value) -> Result<Value, Value> {
    let missing = |what: &str| json!({"code": -32602, "message": format!("there is no {what}")});
    let has = |list: &[String], key: &str| {
        let name = params[key].as_str().unwrap_or_default();
        list.iter().any(|other| other == name).then(|| name.to_owned()).ok_or_else(|| missing(name))
    };
    let link = json!({"type": "resource_link", "uri": "note://a", "name": "a"});
    Ok(match method {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true},
                "prompts": {}, "completions": {}, "logging": {}},
            "serverInfo": {"name": "random", "version": "1"},
            "instructions": catalog.instructions,
        }),
        "tools/list" => json!({"tools": catalog.tools.iter().map(|name| json!({
            "name": name,
            "description": format!("Does {name}"),
            "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        })).collect::<Vec<_>>()}),
        "resources/list" => json!({"resources": catalog.resources.iter()
            .map(|uri| json!({"uri": uri, "name": uri})).collect::<Vec<_>>()}),
        "resources/templates/list" => json!({"resourceTemplates": catalog.templates.iter()
            .map(|uri| json!({"uriTemplate": uri, "name": uri})).collect::<Vec<_>>()}),
        "prompts/list" => json!({"prompts": catalog.prompts.iter()
            .map(|name| json!({"name": name})).collect::<Vec<_>>()}),
        "tools/call" => {
            let name = has(&catalog.tools, "name")?;
            json!({"content": [{"type": "text", "text": format!("{name} is done")}, link]})
        }
        "resources/read" => {
            let uri = params["uri"].as_str().unwrap_or_default();
            json!({"contents": [{"uri": uri, "text": format!("It is {uri}")}]})
        }
        "prompts/get" => {
            let name = has(&catalog.prompts, "name")?;
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": name}}]})
        }
        "completion/complete" => json!({"completion": {"values": ["x", "y"]}}),
        "ping" | "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => json!({}),
        _ => return Err(json!({"code": -32601, "message": "no such method"})),
    })
}
