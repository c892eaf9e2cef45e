//! A client for the official conformance suite of MCP, which starts it as
//! `conformance-client <url>` with the name of a scenario in its environment.
//!
//! It is an agent without a model: it opens a toolbox with the one server at that address, calls
//! everything there with arguments that fit, and answers what it is asked. So the suite tests our
//! own side towards servers, from the configuration's types to the wire.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for tests: it is told what to do in its environment"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcp_workbench::backend::{self, LogLevel, Outcome, PoolOptions, events};
use mcp_workbench::gateway::{
    CallError, Caller, Event, Gateway, Gateways, Presence, Question, RequestContext,
};
use mcp_workbench::login::{self, Back, Keep};
use mcp_workbench::name::{ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench::raw::{Member, Raw};
use mcp_workbench::settings::{
    Config, Grant, HttpLaunch, HttpTransport, IdentityProvider, Launch, OAuth, Protocol,
    ServerConfig, ToolMode, ToolboxConfig,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;
use url::{Position, Url};

/// The demands of the suite.
struct Wanted {
    scenario: String,
    context: Value,
    protocol: Protocol,
}

impl Wanted {
    fn read() -> Self {
        let variable = |name: &str| std::env::var(format!("MCP_CONFORMANCE_{name}"));
        let context = variable("CONTEXT").ok();
        let is_modern =
            variable("PROTOCOL_VERSION").is_ok_and(|version| version.as_str() >= "2026-07-28");
        Self {
            scenario: variable("SCENARIO").unwrap_or_default(),
            context: context.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
            protocol: if is_modern { Protocol::Modern } else { Protocol::Legacy },
        }
    }
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let url = std::env::args().next_back().unwrap_or_default();
    let done = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(run(&url, &Wanted::read())));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str, wanted: &Wanted) -> Result<(), String> {
    let config = config(url, wanted)?;
    let tasks = TaskTracker::new();
    let options = PoolOptions { logins: Some(Keep::Memory), ..PoolOptions::default() };
    let gateways = Gateways::new(Arc::new(config), options, &tasks);
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let gateway = gateways.of(&Caller::NOBODY, Some(&Raw::encode(&capabilities)));
    let (events, heard) = events::channel(64);
    tasks.spawn(answer_questions(heard));
    let agent = Presence::new(Some(events.clone()));
    let agent = Agent { gateway, presence: agent, events };
    let outcome = agent.play(wanted).await;
    gateways.shut_down().await;
    outcome
}

/// A configuration with one toolbox of one server.
fn config(url: &str, wanted: &Wanted) -> Result<Config, String> {
    let url =
        url.parse().map_err(|error| format!("expected an address as the argument: {error}"))?;
    let launch = Launch::Http(HttpLaunch {
        url,
        transport: HttpTransport::Auto,
        headers: Vec::new(),
        referred: Vec::new(),
        oauth: oauth(wanted)?,
    });
    let server = ServerConfig {
        startup_timeout: Duration::from_secs(20),
        call_timeout: Duration::from_secs(20),
        protocol: wanted.protocol,
        roots: true,
        ..ServerConfig::new(ServerName::new("server"), launch)
    };
    let toolbox = ToolboxConfig {
        namespace: String::new(),
        name: ToolboxName::new("suite"),
        description: "What the suite serves".to_owned(),
        servers: vec![server],
    };
    Ok(Config { mode: ToolMode::Direct, toolboxes: vec![toolbox], ..Config::default() })
}

/// Where the suite sends a browser back to.
const CALLBACK: &str = "http://localhost:3000/callback";
/// How often one thing may want a sign-in before it is given up.
const SIGN_INS: usize = 2;

/// The part of an entry about signing in, of what the suite has told us beforehand.
fn oauth(wanted: &Wanted) -> Result<OAuth, String> {
    let context = &wanted.context;
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let address = |text: String| text.parse().map_err(|error| format!("{text}: {error}"));
    let document = "https://conformance-test.local/client-metadata.json".to_owned();
    let grant = if let Some(token_endpoint) = text("idp_token_endpoint") {
        Grant::Enterprise(Box::new(IdentityProvider {
            token_endpoint: address(token_endpoint)?,
            client_id: text("idp_client_id").unwrap_or_default(),
            client_secret: None,
            id_token: text("idp_id_token").unwrap_or_default(),
        }))
    } else if let Some(token) = text("valid_jwt") {
        let file = std::env::temp_dir().join(format!("workload-{}", std::process::id()));
        std::fs::write(&file, token).map_err(|error| error.to_string())?;
        Grant::Workload { token_file: file }
    } else if let Some(key) = text("private_key_pem") {
        let algorithm = text("signing_algorithm").unwrap_or_default();
        Grant::SignedClient { key, algorithm, key_id: None }
    } else if wanted.scenario.contains("client-credentials") {
        Grant::Client
    } else {
        Grant::Browser
    };
    Ok(OAuth {
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        client_metadata_url: Some(address(document)?),
        redirect_uri: Some(address(CALLBACK.to_owned())?),
        grant,
        ..OAuth::default()
    })
}

/// Does what a person would in a browser who agrees to everything.
async fn sign_in(gateway: &Gateway) -> Result<(), String> {
    let back = Back::At(CALLBACK.parse().map_err(|error| format!("{error}"))?);
    let failed = |failure: login::Failure| format!("{} ({})", failure.reason, failure.hint);
    let pending = gateway.sign_in(&server_ref(), back).await.map_err(failed)?;
    let back = look_at(pending.address()).await?;
    pending.pasted(&back).await.map_err(failed)?;
    pending.done().await.map_err(failed)
}

/// Opens a page, and returns the address that it leads on to.
async fn look_at(address: &Url) -> Result<String, String> {
    let fail = |error: std::io::Error| error.to_string();
    let (host, port) = (address.host_str().unwrap_or_default(), address.port().unwrap_or(80));
    let path = &address[Position::BeforePath..];
    let mut stream = TcpStream::connect((host, port)).await.map_err(fail)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(fail)?;
    let mut shown = String::new();
    stream.read_to_string(&mut shown).await.map_err(fail)?;
    let mut lines = shown.lines().filter_map(|line| line.split_once(": "));
    let location = lines.find(|(name, _)| name.eq_ignore_ascii_case("location"));
    let location = location.map(|(_, location)| location.trim().to_owned());
    location.ok_or_else(|| format!("the browser shows {shown}"))
}

struct Agent {
    gateway: Arc<Gateway>,
    presence: Presence,
    events: events::Sender,
}

impl Agent {
    fn context(&self) -> RequestContext<'_> {
        RequestContext {
            log: LogLevel::UNSAID,
            events: Some(&self.events),
            wants_progress: true,
            ..RequestContext::nobody(&self.presence)
        }
    }

    async fn play(&self, wanted: &Wanted) -> Result<(), String> {
        let toolbox = self.gateway.toolbox("suite").map_err(|error| error.to_string())?;
        let mut opened = self.gateway.open(toolbox, &self.context()).await;
        for _ in 0..SIGN_INS {
            if !opened.failed.first().is_some_and(|failed| failed.wants_sign_in) {
                break;
            }
            sign_in(&self.gateway).await?;
            opened = self.gateway.open(toolbox, &self.context()).await;
        }
        if let Some(failed) = opened.failed.first() {
            return Err(format!("{} ({})", failed.reason, failed.hint));
        }
        if wanted.scenario == "json-schema-ref-no-deref" {
            return Ok(());
        }
        let view = opened.view;
        if let Some(calls) = wanted.context["toolCalls"].as_array() {
            for call in calls {
                let name = call["name"].as_str().unwrap_or_default();
                self.call(name, &call["arguments"]).await?;
            }
            return Ok(());
        }
        for tool in view.tools() {
            let definition: Value = tool.definition.raw.parse().unwrap_or_default();
            let mut arguments = sample(&definition["inputSchema"]);
            if tool.id.tool == "json_schema_echo" {
                let echoed = view.tool("server", "json_schema_2020_12_tool");
                let echoed = echoed.and_then(|tool| tool.definition.raw.parse::<Value>().ok());
                arguments = json!({"schema": echoed.unwrap_or_default()["inputSchema"]});
            }
            self.call(&tool.id.tool, &arguments).await?;
        }
        for resource in view.resources() {
            let uri = ("uri".into(), Raw::encode(&resource.definition.uri));
            self.request("resources/read", &[uri]).await?;
        }
        for prompt in view.prompts() {
            let name = ("name".into(), Raw::encode(&prompt.definition.name));
            self.request("prompts/get", &[name]).await?;
        }
        Ok(())
    }

    async fn call(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        let ServerRef { toolbox, server } = server_ref();
        let id = ToolId { toolbox, server, tool: tool.to_owned() };
        let call = async |arguments: &Value| {
            let arguments = Raw::encode(arguments);
            self.gateway.call(&id, Some(&arguments), &[], &self.context()).await
        };
        let mut outcome = call(arguments).await;
        for _ in 0..SIGN_INS {
            let wants_sign_in = |error: &CallError| match error {
                CallError::Server { error: backend::Error::Unanswered(why), .. } => {
                    why.wants_sign_in
                }
                CallError::Server { error: backend::Error::StartFailed(why), .. } => {
                    why.wants_sign_in
                }
                _ => false,
            };
            if !outcome.as_ref().is_err_and(wants_sign_in) {
                break;
            }
            sign_in(&self.gateway).await?;
            outcome = call(arguments).await;
        }
        if let Err(CallError::BadArguments { .. }) = outcome {
            // The suite means an argument that is not there, and its own schema allows no `null`.
            let mut arguments = arguments.clone();
            arguments.as_object_mut().into_iter().for_each(|all| all.retain(|_, v| !v.is_null()));
            outcome = call(&arguments).await;
        }
        report(tool, outcome.map_err(|error| error.to_string())?);
        Ok(())
    }

    async fn request(&self, method: &str, params: &[Member]) -> Result<(), String> {
        let outcome = self.gateway.request(&server_ref(), method, params, &self.context()).await;
        report(method, outcome.map_err(|error| error.to_string())?);
        Ok(())
    }
}

fn server_ref() -> ServerRef {
    ServerRef { toolbox: ToolboxName::new("suite"), server: ServerName::new("server") }
}

fn report(what: &str, outcome: Outcome) {
    match outcome {
        Outcome::Result(result) => eprintln!("{what}: {}", result.as_str()),
        Outcome::Error(error) => eprintln!("{what} failed: {}", error.as_str()),
    }
}

async fn answer_questions(mut events: events::Receiver) {
    while let Some(event) = events.recv().await {
        if let Event::Question(question) = event {
            let outcome = Outcome::Result(Raw::encode(&answer(&question)));
            question.answer(outcome).await;
        }
    }
}

/// Says yes to everything.
fn answer(question: &Question) -> Value {
    let params: Value =
        question.params.as_ref().and_then(|params| params.parse().ok()).unwrap_or_default();
    match question.method.as_str() {
        "elicitation/create" => {
            json!({"action": "accept", "content": sample(&params["requestedSchema"])})
        }
        "sampling/createMessage" => json!({
            "role": "assistant",
            "content": {"type": "text", "text": "Yes."},
            "model": "none",
            "stopReason": "endTurn",
        }),
        _ => json!({"roots": []}),
    }
}

/// A value that fits a schema, its defaults where it has any.
fn sample(schema: &Value) -> Value {
    if let Some(default) = schema.get("default").or(schema.get("const")) {
        return default.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!("text"),
        Some("integer" | "number") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        _ => {
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let members = properties.iter().map(|(name, schema)| (name.clone(), sample(schema)));
            Value::Object(members.collect::<Map<_, _>>())
        }
    }
}
