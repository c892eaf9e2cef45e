//! A client for the official MCP conformance suite, which runs it as `conformance-client <url>`
//! with the scenario's name in the environment.
//!
//! It acts as an agent without a model: it opens a toolbox with the suite's server, calls every
//! tool with matching arguments, and answers server requests. This tests the gateway's client side,
//! from the configuration types to the wire.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test program that is configured by environment variables"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcp_workbench_core::backend::{self, LogLevel, PoolOptions, RpcOutcome, events};
use mcp_workbench_core::gateway::{
    AgentEvent, AgentHandle, CallError, Caller, Gateway, GatewayRegistry, RequestContext,
    RequestTarget, ServerRequest,
};
use mcp_workbench_login::{LoginStorage, RedirectTarget};
use mcp_workbench_names::{ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench_settings::{
    Config, GrantType, HttpLaunch, HttpTransport, IdentityProvider, Launch, OAuthConfig, Protocol,
    ServerConfig, ToolMode, ToolboxConfig,
};
use mcp_workbench_wire::json::RawJson;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;
use url::{Position, Url};

struct Scenario {
    name: String,
    context: Value,
    protocol: Protocol,
}

impl Scenario {
    fn read() -> Self {
        let variable = |name: &str| std::env::var(format!("MCP_CONFORMANCE_{name}"));
        let context = variable("CONTEXT").ok();
        let is_modern =
            variable("PROTOCOL_VERSION").is_ok_and(|version| version.as_str() >= "2026-07-28");
        Self {
            name: variable("SCENARIO").unwrap_or_default(),
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
        .and_then(|runtime| runtime.block_on(run(&url, &Scenario::read())));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str, wanted: &Scenario) -> Result<(), String> {
    let config = config(url, wanted)?;
    let tasks = TaskTracker::new();
    let options = PoolOptions { logins: Some(LoginStorage::Memory), ..PoolOptions::default() };
    let gateways = GatewayRegistry::new(Arc::new(config), options, &tasks);
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, Some(&RawJson::encode(&capabilities)));
    let (events, heard) = events::channel(64);
    tasks.spawn(answer_questions(heard));
    let handle = AgentHandle::new(Some(events.clone()));
    let agent = Agent { gateway, handle, events };
    let outcome = agent.play(wanted).await;
    gateways.shut_down().await;
    outcome
}

fn config(url: &str, wanted: &Scenario) -> Result<Config, String> {
    let url = url.parse().map_err(|error| format!("expected a URL as the argument: {error}"))?;
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
        description: "The server of the suite".to_owned(),
        servers: vec![server],
    };
    Ok(Config { mode: ToolMode::Direct, toolboxes: vec![toolbox], ..Config::default() })
}

/// The redirect URI that the suite expects.
const CALLBACK: &str = "http://localhost:3000/callback";
/// Sign-ins per request before giving up.
const SIGN_INS: usize = 2;

fn oauth(wanted: &Scenario) -> Result<OAuthConfig, String> {
    let context = &wanted.context;
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let address = |text: String| text.parse().map_err(|error| format!("{text}: {error}"));
    let document = "https://conformance-test.local/client-metadata.json".to_owned();
    let grant = if let Some(token_endpoint) = text("idp_token_endpoint") {
        GrantType::IdentityAssertion(Box::new(IdentityProvider {
            token_endpoint: address(token_endpoint)?,
            client_id: text("idp_client_id").unwrap_or_default(),
            client_secret: None,
            id_token: text("idp_id_token").unwrap_or_default(),
        }))
    } else if let Some(token) = text("valid_jwt") {
        let file = std::env::temp_dir().join(format!("workload-{}", std::process::id()));
        std::fs::write(&file, token).map_err(|error| error.to_string())?;
        GrantType::WorkloadJwt { token_file: file }
    } else if let Some(key) = text("private_key_pem") {
        let algorithm = text("signing_algorithm").unwrap_or_default();
        GrantType::PrivateKeyJwt { key, algorithm, key_id: None }
    } else if wanted.name.contains("client-credentials") {
        GrantType::ClientCredentials
    } else {
        GrantType::AuthorizationCode
    };
    Ok(OAuthConfig {
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        client_metadata_url: Some(address(document)?),
        redirect_uri: Some(address(CALLBACK.to_owned())?),
        grant,
        ..OAuthConfig::default()
    })
}

/// Acts as a browser whose user agrees to everything.
async fn sign_in(gateway: &Gateway) -> Result<(), String> {
    let back = RedirectTarget::External(CALLBACK.parse().map_err(|error| format!("{error}"))?);
    let failed =
        |failure: mcp_workbench_login::LoginError| format!("{} ({})", failure.reason, failure.hint);
    let pending = gateway.sign_ins().sign_in(&server_ref(), back).await.map_err(failed)?;
    let back = look_at(pending.address()).await?;
    pending.submit_callback_url(&back).await.map_err(failed)?;
    pending.done().await.map_err(failed)
}

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
    location.ok_or_else(|| format!("the response has no redirect: {shown}"))
}

struct Agent {
    gateway: Arc<Gateway>,
    handle: AgentHandle,
    events: events::Sender,
}

impl Agent {
    fn context(&self) -> RequestContext<'_> {
        RequestContext {
            log: LogLevel::UNSET,
            events: Some(&self.events),
            wants_progress: true,
            ..RequestContext::detached(&self.handle)
        }
    }

    async fn play(&self, wanted: &Scenario) -> Result<(), String> {
        let toolbox = self.gateway.scope().toolbox("suite").map_err(|error| error.to_string())?;
        let mut opened = self.gateway.startup().open_toolbox(toolbox, &self.context()).await;
        for _ in 0..SIGN_INS {
            if !opened.failed.first().is_some_and(|failed| failed.wants_sign_in) {
                break;
            }
            sign_in(&self.gateway).await?;
            opened = self.gateway.startup().open_toolbox(toolbox, &self.context()).await;
        }
        if let Some(failed) = opened.failed.first() {
            return Err(format!("{} ({})", failed.reason, failed.hint));
        }
        if wanted.name == "json-schema-ref-no-deref" {
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
            self.request(RequestTarget::Resource(resource.definition.uri.clone())).await?;
        }
        for prompt in view.prompts() {
            self.request(RequestTarget::Prompt(prompt.definition.name.clone())).await?;
        }
        Ok(())
    }

    async fn call(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        let ServerRef { toolbox, server } = server_ref();
        let id = ToolId { toolbox, server, tool: tool.to_owned() };
        let call = async |arguments: &Value| {
            let arguments = RawJson::encode(arguments);
            self.gateway.calls().call(&id, Some(&arguments), &[], &self.context()).await
        };
        let mut outcome = call(arguments).await;
        for _ in 0..SIGN_INS {
            let wants_sign_in = |error: &CallError| match error {
                CallError::Server { error: backend::BackendError::Remote(why), .. } => {
                    why.wants_sign_in
                }
                CallError::Server { error: backend::BackendError::StartFailed(why), .. } => {
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
        if let Err(CallError::InvalidArguments { .. }) = outcome {
            // `null` stands for an absent argument in the suite, but its own schema rejects it.
            let mut arguments = arguments.clone();
            arguments.as_object_mut().into_iter().for_each(|all| all.retain(|_, v| !v.is_null()));
            outcome = call(&arguments).await;
        }
        report(tool, outcome.map_err(|error| error.to_string())?);
        Ok(())
    }

    async fn request(&self, target: RequestTarget) -> Result<(), String> {
        let outcome =
            self.gateway.calls().request(&server_ref(), &target, &[], &self.context()).await;
        report(&format!("{target:?}"), outcome.map_err(|error| error.to_string())?);
        Ok(())
    }
}

fn server_ref() -> ServerRef {
    ServerRef { toolbox: ToolboxName::new("suite"), server: ServerName::new("server") }
}

fn report(what: &str, outcome: RpcOutcome) {
    match outcome {
        RpcOutcome::Result(result) => eprintln!("{what}: {}", result.as_str()),
        RpcOutcome::Error(error) => eprintln!("{what} failed: {}", error.as_str()),
    }
}

async fn answer_questions(mut events: events::Receiver) {
    while let Some(event) = events.recv().await {
        if let AgentEvent::Request(request) = event {
            let outcome = RpcOutcome::Result(RawJson::encode(&answer(&request)));
            request.answer(outcome).await;
        }
    }
}

fn answer(request: &ServerRequest) -> Value {
    let params: Value =
        request.params.as_ref().and_then(|params| params.parse().ok()).unwrap_or_default();
    match request.method.as_str() {
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

/// Returns a value that matches a schema, preferring its defaults.
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
