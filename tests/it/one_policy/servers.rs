//! MCP servers in this process, at one address with a path for each. The test sets their catalogs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::one_policy::notifications;
use crate::one_policy::world::{Catalog, World};

#[derive(Clone, Default)]
pub(crate) struct Servers {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    catalogs: BTreeMap<String, Catalog>,
    is_talkative: bool,
    asked: BTreeSet<String>,
    called: Vec<ReceivedCall>,
    /// Open SSE streams, or the events stored until a client listens.
    streams: BTreeMap<String, Stream>,
}

#[derive(Clone, Debug)]
pub(crate) struct ReceivedCall {
    pub(crate) path: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

enum Stream {
    Open(mpsc::UnboundedSender<String>),
    Kept(String),
}

impl Servers {
    /// Starts a thread that runs until the process exits.
    pub(crate) fn start() -> (Self, SocketAddr) {
        let servers = Self::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a setting");
        let address = listener.local_addr().expect("an address");
        let all = servers.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let serving = async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let mut connections = tokio::task::JoinSet::new();
                loop {
                    let (connection, _) = listener.accept().await.expect("a connection");
                    connections.spawn(all.clone().answer_all(connection));
                    while connections.try_join_next().is_some() {}
                }
            };
            runtime.expect("a runtime").block_on(serving);
        });
        (servers, address)
    }

    /// Replaces the catalogs and clears the recorded requests.
    pub(crate) fn serve(&self, world: &World, is_talkative: bool) {
        let servers = world.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        let catalogs = servers.map(|server| (server.path.clone(), server.catalog.clone()));
        let catalogs = catalogs.collect();
        self.state(|state| *state = State { catalogs, is_talkative, ..State::default() });
    }

    pub(crate) fn asked(&self) -> BTreeSet<String> {
        self.state(|state| state.asked.clone())
    }

    pub(crate) fn called(&self) -> Vec<ReceivedCall> {
        self.state(|state| state.called.clone())
    }

    fn state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().expect("no test has panicked"))
    }

    async fn answer_all(self, connection: TcpStream) {
        let (reader, mut writer) = connection.into_split();
        let mut reader = BufReader::new(reader);
        while let Some((method, path, body)) = read(&mut reader).await {
            if method == "GET" {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                            Connection: close\r\n\r\n";
                let mut said = head.to_owned();
                let mut more = self.listen(&path);
                while writer.write_all(said.as_bytes()).await.is_ok() {
                    let Some(next) = more.recv().await else { return };
                    said = next;
                }
                return;
            }
            let answer = self.answer(&path, &body);
            if writer.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn listen(&self, path: &str) -> mpsc::UnboundedReceiver<String> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.state(|state| {
            let before = state.streams.insert(path.to_owned(), Stream::Open(sender.clone()));
            if let Some(Stream::Kept(said)) = before {
                let _ = sender.send(said);
            }
        });
        receiver
    }

    fn answer(&self, path: &str, body: &[u8]) -> String {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let (catalog, is_talkative) = self.state(|state| {
            state.asked.insert(path.to_owned());
            if message["method"] == "tools/call" {
                let params = &message["params"];
                let tool = params["name"].as_str().unwrap_or_default().to_owned();
                let arguments = params["arguments"].clone();
                state.called.push(ReceivedCall { path: path.to_owned(), tool, arguments });
            }
            (state.catalogs.get(path).cloned().unwrap_or_default(), state.is_talkative)
        });
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
            return response("202 Accepted", "text/plain", "");
        };
        let answer = match result(&catalog, method, &message["params"]) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        if !is_talkative || method == "initialize" {
            return response("200 OK", "application/json", &answer.to_string());
        }
        self.say(path, &events(&notifications::by_itself(path, &catalog, &message)));
        let mut said = notifications::before_the_answer(path, &catalog, &message);
        said.push(answer);
        response("200 OK", "text/event-stream", &events(&said))
    }

    /// Sends unsolicited messages, or stores them until a client listens.
    fn say(&self, path: &str, said: &str) {
        self.state(|state| {
            let stream = state.streams.entry(path.to_owned());
            match stream.or_insert_with(|| Stream::Kept(String::new())) {
                Stream::Open(listener) => drop(listener.send(said.to_owned())),
                Stream::Kept(before) => before.push_str(said),
            }
        });
    }
}

fn events(messages: &[Value]) -> String {
    messages.iter().map(|message| ["data: ", &message.to_string(), "\n\n"].concat()).collect()
}

fn response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
}

async fn read(reader: &mut (impl AsyncBufReadExt + Unpin)) -> Option<(String, String, Vec<u8>)> {
    let mut first = String::new();
    reader.read_line(&mut first).await.ok()?;
    let mut words = first.split(' ');
    let method = words.next()?.to_owned();
    let path = words.next()?.trim_start_matches('/').to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.ok()?;
    Some((method, path, body))
}

pub(crate) fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("Does {name}"),
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    })
}

pub(crate) fn template(uri: &str) -> Value {
    json!({"uriTemplate": uri, "name": format!("of {uri}")})
}

pub(crate) fn prompt(name: &str) -> Value {
    json!({"name": name})
}

fn result(catalog: &Catalog, method: &str, params: &Value) -> Result<Value, Value> {
    let missing = |what: &str| json!({"code": -32602, "message": format!("there is no {what}")});
    let has = |list: &[String], key: &str| {
        let name = params[key].as_str().unwrap_or_default();
        list.iter().any(|other| other == name).then(|| name.to_owned()).ok_or_else(|| missing(name))
    };
    let reads = |uri: &Value| {
        let uri = uri.as_str().unwrap_or_default();
        let mut all = catalog.resources.iter().chain(&catalog.unlisted);
        all.any(|other| other == uri).then(|| uri.to_owned()).ok_or_else(|| missing(uri))
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
        "tools/list" => {
            json!({"tools": catalog.tools.iter().map(|name| tool(name)).collect::<Vec<_>>()})
        }
        "resources/list" => json!({"resources": catalog.resources.iter()
            .map(|uri| json!({"uri": uri, "name": format!("of {uri}")})).collect::<Vec<_>>()}),
        "resources/templates/list" => json!({"resourceTemplates": catalog.templates.iter()
            .map(|uri| template(uri)).collect::<Vec<_>>()}),
        "prompts/list" => json!({"prompts": catalog.prompts.iter()
            .map(|name| prompt(name)).collect::<Vec<_>>()}),
        "tools/call" => {
            let name = has(&catalog.tools, "name")?;
            let text = format!("{name} is done with {}", params["arguments"]);
            json!({"content": [{"type": "text", "text": text}, link]})
        }
        "resources/read" => {
            let uri = reads(&params["uri"])?;
            json!({"contents": [{"uri": uri, "text": format!("It is {uri}")}]})
        }
        "prompts/get" => {
            let name = has(&catalog.prompts, "name")?;
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": name}}]})
        }
        "completion/complete" => json!({"completion": {"values": ["x", "y"]}}),
        "resources/subscribe" => reads(&params["uri"]).map(|_| json!({}))?,
        "ping" | "resources/unsubscribe" | "logging/setLevel" => json!({}),
        _ => return Err(json!({"code": -32601, "message": "no such method"})),
    })
}
