use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pretty_assertions::assert_eq;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{AgentEvent, AgentHandle, PoolOptions};
use crate::gateway::{Caller, Gateway, GatewayRegistry};
use crate::llm::ResponseFormat;
use crate::llm::fake_endpoint::{FakeEndpoint, chat_answer, chat_answer_ending, http_response};
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::Config;
use mcp_workbench_wire::incoming::error_object;

const SERVERS: &str =
    r#""mcpServers": {"db": {"command": "db", "env": {"DB_TOKEN": "hunter2\"hunter2"}}}"#;

fn config(navigator: &Value) -> Arc<Config> {
    let text = format!(r#"{{"navigator": {navigator}, {SERVERS}}}"#);
    let env = BTreeMap::new();
    Arc::new(
        mcp_workbench_config::parse(&text, Path::new("x.json"), Path::new("/"), &env)
            .unwrap()
            .config,
    )
}

fn gateway(config: &Arc<Config>) -> Arc<Gateway> {
    let tasks = TaskTracker::new();
    GatewayRegistry::new(Arc::clone(config), PoolOptions::default(), &tasks)
        .gateway_for(&Caller::ANONYMOUS, None)
}

fn prompt() -> ChatPrompt {
    let told = json!({"task": "log in with hunter2\"hunter2"});
    ChatPrompt {
        system: "Say hunter2\"hunter2.".to_owned(),
        user: format!("{told}\nsk-1234567890"),
        response_format: ResponseFormat::Object,
        max_tokens: 1000,
        purpose: "tool",
    }
}

fn soon() -> RequestLimits {
    RequestLimits { deadline: Instant::now() + Duration::from_secs(20), requests: 3 }
}

// invariant: model-requests-bounded
#[tokio::test]
async fn prompts_contain_no_secrets_of_the_configuration() {
    let scripted =
        FakeEndpoint::start(|_, _| http_response(200, "", r#"{"error": "no sk-1234567890"}"#))
            .await;
    let llm = json!({
        "baseUrl": scripted.config.base_url.as_str(), "model": "small", "apiKey": "sk-1234567890",
    });
    let gateway = gateway(&config(&json!({ "llm": llm })));
    let no_agent = AgentHandle::new(None);
    let asked = gateway
        .models()
        .query_llm(&prompt(), soon(), &RequestContext::detached(&no_agent))
        .await
        .unwrap();
    assert_eq!(
        asked.result.unwrap_err().to_string(),
        "invalid response: the endpoint reported an error: no ***"
    );
    let messages = scripted.bodies()[0]["messages"].clone();
    assert_eq!(
        messages,
        json!([
            {"role": "system", "content": "Say ***."},
            {"role": "user", "content": "{\"task\":\"log in with ***\"}\n***"},
        ])
    );
    let (told, ()) = ask_client(&gateway, |asked, request| async move {
        let text = asked.to_string();
        assert!(text.contains("Say ***.") && !text.contains("hunter2"), "{text}");
        request.decline(-32000, "I will not tell sk-1234567890");
    })
    .await;
    assert_eq!(told, Err(SamplingError::Failed("I will not tell ***".to_owned())));
}

#[tokio::test]
async fn endpoint_answer_has_its_cost() {
    let scripted = FakeEndpoint::start(|_, _| chat_answer("{}")).await;
    let llm = json!({"baseUrl": scripted.config.base_url.as_str(), "model": "small"});
    let with = gateway(&config(&json!({ "llm": llm })));
    let no_agent = AgentHandle::new(None);
    let asked = with
        .models()
        .query_llm(&prompt(), soon(), &RequestContext::detached(&no_agent))
        .await
        .unwrap();
    assert_eq!(asked.result.unwrap().text, "{}");
    assert_eq!(
        asked.cost,
        RequestCost { usage: TokenUsage { input_tokens: 7, output_tokens: 2 }, requests: 1 }
    );
    let without = gateway(&config(&json!({})));
    assert!(
        without
            .models()
            .query_llm(&prompt(), soon(), &RequestContext::detached(&no_agent))
            .await
            .is_none()
    );
}

// invariant: model-requests-bounded
#[tokio::test]
async fn every_llm_request_is_audited_without_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let scripted = FakeEndpoint::start(|_, asked| {
        let words = asked["messages"][1]["content"].as_str().unwrap_or_default();
        match words {
            "simple" if asked.get("temperature").is_some() => http_response(400, "", ""),
            "fine" | "simple" => chat_answer("secret words"),
            "long" => chat_answer_ending("secret words", "length"),
            _ => http_response(200, "", "<html>"),
        }
    })
    .await;
    let text = json!({
        "audit": {"file": file},
        "navigator": {"llm": {"baseUrl": scripted.config.base_url.as_str(), "model": "small"}},
        "mcpServers": {"clock": {"command": "clock"}},
    });
    let env = BTreeMap::new();
    let loaded =
        mcp_workbench_config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let config = Arc::new(loaded.unwrap().config);
    let options = PoolOptions::default();
    let observer = Arc::clone(&options.observer);
    observer.open_audit(&config).unwrap();
    let gateways = GatewayRegistry::new(Arc::clone(&config), options, &TaskTracker::new());
    let claude = Caller { agent: Some(AgentName::new("claude")), ..Caller::default() };
    let gateway = gateways.gateway_for(&claude, None);
    let no_agent = AgentHandle::new(None);
    let context = RequestContext { caller: &claude, ..RequestContext::detached(&no_agent) };
    let asking = |words: &str| ChatPrompt { user: words.to_owned(), ..prompt() };
    for words in ["fine", "rubbish", "simple", "long"] {
        gateway.models().query_llm(&asking(words), soon(), &context).await.unwrap();
    }
    let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let past = RequestLimits { deadline: past, ..soon() };
    gateway.models().query_llm(&asking("late"), past, &context).await.unwrap();
    let given_up = asking("given up");
    let mut asked = Box::pin(gateway.models().query_llm(&given_up, soon(), &context));
    assert!(ready_now(asked.as_mut()).is_none(), "the request is pending");
    drop(asked);
    let unable = gateway.models().sample_client(&prompt(), soon(), &context).await;
    assert_eq!(unable.result, Err(SamplingError::Unsupported));
    assert_eq!(unable.cost, RequestCost { usage: TokenUsage::default(), requests: 1 });
    let answer = json!({"model": "haiku", "content": {"type": "text", "text": "secret words"}});
    let answer = RpcOutcome::Result(RawJson::encode(&answer));
    ask_client(&gateway, |_, request| request.answer(answer)).await.0.unwrap();
    observer.close(Duration::from_secs(20));
    let lines = std::fs::read_to_string(&file).unwrap();
    assert!(!lines.contains("secret words") && !lines.contains("log in"), "{lines}");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<_> = lines
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            assert_eq!([text("kind"), text("purpose")], ["llm", "tool"]);
            let numbers = ["tokensRead", "tokensWritten", "attempts"].map(|key| line[key].as_u64());
            (text("agent"), text("model"), text("outcome"), numbers)
        })
        .collect();
    let line = |agent: &str, model: &str, outcome: &str, numbers: [Option<u64>; 3]| {
        (agent.to_owned(), model.to_owned(), outcome.to_owned(), numbers)
    };
    assert_eq!(
        told,
        [
            line("claude", "small", "ok", [Some(7), Some(2), None]),
            line("claude", "small", "invalid_response", [Some(7), Some(0), None]),
            line("claude", "small", "ok", [Some(7), Some(2), Some(2)]),
            line("claude", "small", "invalid_response", [Some(7), Some(2), None]),
            line("claude", "small", "timed_out", [Some(6), Some(0), None]),
            line("claude", "small", "cancelled", [Some(7), Some(0), None]),
            line("claude", "sampling", "sampling_unsupported", [Some(0), Some(0), None]),
            line("", "haiku", "ok", [Some(19), Some(3), None]),
        ]
    );
}

/// Polls a future once.
fn ready_now<T>(work: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match work.poll(&mut context) {
        std::task::Poll::Ready(done) => Some(done),
        std::task::Poll::Pending => None,
    }
}

/// Samples a client that handles the request with `deal`.
async fn ask_client<F: Future<Output = ()>>(
    gateway: &Gateway,
    deal: impl FnOnce(Value, ServerRequest) -> F,
) -> (Result<ChatAnswer, SamplingError>, ()) {
    let (sender, mut heard) = events::channel(1);
    let no_agent = AgentHandle::new(None);
    let context = RequestContext { events: Some(&sender), ..RequestContext::detached(&no_agent) };
    let dealing = async {
        let Some(AgentEvent::Request(request)) = heard.recv().await else { panic!("no question") };
        assert_eq!(request.method, METHOD);
        let asked = request.params.as_ref().unwrap().parse().unwrap();
        deal(asked, *request).await;
    };
    let prompt = prompt();
    let asking = async { gateway.models().sample_client(&prompt, soon(), &context).await.result };
    tokio::join!(asking, dealing)
}

#[tokio::test]
async fn sampling_prefers_a_small_model_without_context() {
    let gateway = gateway(&config(&json!({})));
    let answer = json!({
        "role": "assistant", "model": "haiku", "stopReason": "endTurn",
        "content": {"type": "text", "text": " {\"choice\": \"1\"}\n"},
    });
    let (said, ()) = ask_client(&gateway, |asked, request| async move {
        assert_eq!(
            asked,
            json!({
                "messages": [{"role": "user", "content": {
                    "type": "text", "text": "{\"task\":\"log in with ***\"}\nsk-1234567890",
                }}],
                "systemPrompt": "Say ***.",
                "includeContext": "none",
                "temperature": 0,
                "maxTokens": 1000,
                "modelPreferences": {
                    "hints": [{"name": "haiku"}, {"name": "flash"}, {"name": "mini"}],
                    "costPriority": 0.8,
                    "speedPriority": 1,
                    "intelligencePriority": 0.2,
                },
            })
        );
        request.answer(RpcOutcome::Result(RawJson::encode(&answer))).await;
    })
    .await;
    let said = said.unwrap();
    assert_eq!((&*said.text, said.is_truncated), ("{\"choice\": \"1\"}", false));
    assert_eq!(said.usage, TokenUsage { input_tokens: 12, output_tokens: 4 });
}

#[tokio::test]
async fn invalid_sampling_results_are_explained() {
    let gateway = gateway(&config(&json!({})));
    let unusable = |why: &str| SamplingError::Unusable(why.to_owned());
    for (answer, expected) in [
        (json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}, 7]}), Ok("ab")),
        (json!({"content": {"type": "text", "text": "so… </think>\nab"}}), Ok("ab")),
        (json!({"content": {"type": "image", "text": "a"}}), Err(unusable("no text"))),
        (json!({"content": "a"}), Err(unusable("no text"))),
        (
            json!({"content": [], "stopReason": "maxTokens"}),
            Err(unusable("the model ran out of tokens")),
        ),
        (json!([]), Err(unusable("no text"))),
        (json!(null), Err(unusable("no text"))),
    ] {
        let outcome = RpcOutcome::Result(RawJson::encode(&answer));
        let deal = |_, request: ServerRequest| request.answer(outcome);
        let (said, ()) = ask_client(&gateway, deal).await;
        assert_eq!(said.map(|said| said.text), expected.map(str::to_owned), "{answer}");
    }
    for (code, expected) in [
        (-32601, SamplingError::Unsupported),
        (-1, SamplingError::Declined),
        (-32603, SamplingError::Failed("x y".to_owned())),
    ] {
        let outcome = RpcOutcome::Error(error_object(code, "x\n y", None));
        let (said, ()) = ask_client(&gateway, |_, request| request.answer(outcome)).await;
        assert_eq!(said, Err(expected));
    }
    let (said, ()) = ask_client(&gateway, |_, request| async { drop(request) }).await;
    assert_eq!(said, Err(SamplingError::Unsupported));
    let no_agent = AgentHandle::new(None);
    let asked = gateway
        .models()
        .sample_client(&prompt(), soon(), &RequestContext::detached(&no_agent))
        .await;
    assert_eq!(asked.result, Err(SamplingError::Unsupported));
}

#[tokio::test]
async fn truncated_sampling_result_is_flagged() {
    let gateway = gateway(&config(&json!({})));
    let answer =
        json!({"content": {"type": "text", "text": "{\"a\": {}"}, "stopReason": "maxTokens"});
    let outcome = RpcOutcome::Result(RawJson::encode(&answer));
    let (said, ()) = ask_client(&gateway, |_, request| request.answer(outcome)).await;
    assert!(said.unwrap().is_truncated);
}

#[tokio::test(start_paused = true)]
async fn unanswered_sampling_times_out() {
    let gateway = gateway(&config(&json!({})));
    let since = Instant::now();
    let (answer, ()) = ask_client(&gateway, |_, mut request| async move {
        request.cancelled().await;
    })
    .await;
    assert_eq!((answer, since.elapsed()), (Err(SamplingError::TimedOut), Duration::from_secs(20)));
}
