use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pretty_assertions::assert_eq;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{Event, PoolOptions, Presence};
use crate::config;
use crate::gateway::{Caller, Gateways};
use crate::llm::Form;
use crate::llm::scripted::{Scripted, answer, ends, says};
use crate::name::AgentName;
use crate::settings::Config;
use crate::wire::incoming::error_object;

const SERVERS: &str =
    r#""mcpServers": {"db": {"command": "db", "env": {"DB_TOKEN": "hunter2\"hunter2"}}}"#;

fn config(navigator: &Value) -> Arc<Config> {
    let text = format!(r#"{{"navigator": {navigator}, {SERVERS}}}"#);
    let env = BTreeMap::new();
    Arc::new(config::parse(&text, Path::new("x.json"), Path::new("/"), &env).unwrap().config)
}

fn gateway(config: &Arc<Config>) -> Arc<Gateway> {
    let tasks = TaskTracker::new();
    Gateways::new(Arc::clone(config), PoolOptions::default(), &tasks).of(&Caller::NOBODY, None)
}

fn prompt() -> Prompt {
    let told = json!({"task": "log in with hunter2\"hunter2"});
    Prompt {
        system: "Say hunter2\"hunter2.".to_owned(),
        user: format!("{told}\nsk-1234567890"),
        form: Form::Object,
        max_tokens: 1000,
        purpose: "tool",
    }
}

fn soon() -> Within {
    Within { until: Instant::now() + Duration::from_secs(20), requests: 3 }
}

#[tokio::test]
async fn no_secret_of_the_configuration_is_in_a_prompt() {
    let scripted =
        Scripted::start(|_, _| answer(200, "", r#"{"error": "no sk-1234567890"}"#)).await;
    let llm = json!({
        "baseUrl": scripted.config.base_url.as_str(), "model": "small", "apiKey": "sk-1234567890",
    });
    let gateway = gateway(&config(&json!({ "llm": llm })));
    let nobody = Presence::new(None);
    let asked =
        gateway.ask_model(&prompt(), soon(), &RequestContext::nobody(&nobody)).await.unwrap();
    assert_eq!(
        asked.said.unwrap_err().to_string(),
        "its answer cannot be used: it says that something went wrong: no ***"
    );
    let messages = scripted.bodies()[0]["messages"].clone();
    assert_eq!(
        messages,
        json!([
            {"role": "system", "content": "Say ***."},
            {"role": "user", "content": "{\"task\":\"log in with ***\"}\n***"},
        ])
    );
    let (told, ()) = ask_client(&gateway, |asked, question| async move {
        let text = asked.to_string();
        assert!(text.contains("Say ***.") && !text.contains("hunter2"), "{text}");
        question.decline(-32000, "I will not tell sk-1234567890");
    })
    .await;
    assert_eq!(told, Err(Unlent::Failed("I will not tell ***".to_owned())));
}

#[tokio::test]
async fn what_an_endpoint_says_is_given_with_its_cost() {
    let scripted = Scripted::start(|_, _| says("{}")).await;
    let llm = json!({"baseUrl": scripted.config.base_url.as_str(), "model": "small"});
    let with = gateway(&config(&json!({ "llm": llm })));
    let nobody = Presence::new(None);
    let asked = with.ask_model(&prompt(), soon(), &RequestContext::nobody(&nobody)).await.unwrap();
    assert_eq!(asked.said.unwrap().text, "{}");
    assert_eq!(asked.cost, Cost { usage: Usage { read: 7, written: 2 }, requests: 1 });
    let without = gateway(&config(&json!({})));
    assert!(without.ask_model(&prompt(), soon(), &RequestContext::nobody(&nobody)).await.is_none());
}

#[tokio::test]
async fn every_request_has_a_line_whatever_becomes_of_it_and_nothing_of_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let scripted = Scripted::start(|_, asked| {
        let words = asked["messages"][1]["content"].as_str().unwrap_or_default();
        match words {
            "simple" if asked.get("temperature").is_some() => answer(400, "", ""),
            "fine" | "simple" => says("secret words"),
            "long" => ends("secret words", "length"),
            _ => answer(200, "", "<html>"),
        }
    })
    .await;
    let text = json!({
        "audit": {"file": file},
        "navigator": {"llm": {"baseUrl": scripted.config.base_url.as_str(), "model": "small"}},
        "mcpServers": {"clock": {"command": "clock"}},
    });
    let env = BTreeMap::new();
    let loaded = config::parse(&text.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let config = Arc::new(loaded.unwrap().config);
    let options = PoolOptions::default();
    let observer = Arc::clone(&options.observer);
    observer.audit(&config).unwrap();
    let gateways = Gateways::new(Arc::clone(&config), options, &TaskTracker::new());
    let claude = Caller { agent: Some(AgentName::new("claude")), toolbox: None };
    let gateway = gateways.of(&claude, None);
    let nobody = Presence::new(None);
    let context = RequestContext { caller: &claude, ..RequestContext::nobody(&nobody) };
    let asking = |words: &str| Prompt { user: words.to_owned(), ..prompt() };
    for words in ["fine", "rubbish", "simple", "long"] {
        gateway.ask_model(&asking(words), soon(), &context).await.unwrap();
    }
    let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let past = Within { until: past, ..soon() };
    gateway.ask_model(&asking("late"), past, &context).await.unwrap();
    let given_up = asking("given up");
    let mut asked = Box::pin(gateway.ask_model(&given_up, soon(), &context));
    assert!(ready_now(asked.as_mut()).is_none(), "it waits for its answer");
    drop(asked);
    let unable = gateway.ask_agent_model(&prompt(), soon(), &context).await;
    assert_eq!(unable.said, Err(Unlent::Unable));
    assert_eq!(unable.cost, Cost { usage: Usage::default(), requests: 1 });
    let answer = json!({"model": "haiku", "content": {"type": "text", "text": "secret words"}});
    let answer = Outcome::Result(Raw::encode(&answer));
    ask_client(&gateway, |_, question| question.answer(answer)).await.0.unwrap();
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
            line("claude", "small", "unusable", [Some(7), Some(0), None]),
            line("claude", "small", "ok", [Some(7), Some(2), Some(2)]),
            line("claude", "small", "unusable", [Some(7), Some(2), None]),
            line("claude", "small", "timed_out", [Some(6), Some(0), None]),
            line("claude", "small", "cancelled", [Some(7), Some(0), None]),
            line("claude", "sampling", "unable", [Some(0), Some(0), None]),
            line("", "haiku", "ok", [Some(19), Some(3), None]),
        ]
    );
}

/// Returns the result of some work if it is ready now.
fn ready_now<T>(work: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match work.poll(&mut context) {
        std::task::Poll::Ready(done) => Some(done),
        std::task::Poll::Pending => None,
    }
}

/// Asks a client's model; the client deals with the question so.
async fn ask_client<F: Future<Output = ()>>(
    gateway: &Gateway,
    deal: impl FnOnce(Value, Question) -> F,
) -> (Result<Said, Unlent>, ()) {
    let (sender, mut heard) = events::channel(1);
    let nobody = Presence::new(None);
    let context = RequestContext { events: Some(&sender), ..RequestContext::nobody(&nobody) };
    let dealing = async {
        let Some(Event::Question(question)) = heard.recv().await else { panic!("no question") };
        assert_eq!(question.method, METHOD);
        let asked = question.params.as_ref().unwrap().parse().unwrap();
        deal(asked, *question).await;
    };
    let prompt = prompt();
    let asking = async { gateway.ask_agent_model(&prompt, soon(), &context).await.said };
    tokio::join!(asking, dealing)
}

#[tokio::test]
async fn a_client_is_asked_for_a_small_model_and_no_context() {
    let gateway = gateway(&config(&json!({})));
    let answer = json!({
        "role": "assistant", "model": "haiku", "stopReason": "endTurn",
        "content": {"type": "text", "text": " {\"choice\": \"1\"}\n"},
    });
    let (said, ()) = ask_client(&gateway, |asked, question| async move {
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
        question.answer(Outcome::Result(Raw::encode(&answer))).await;
    })
    .await;
    let said = said.unwrap();
    assert_eq!((&*said.text, said.is_cut), ("{\"choice\": \"1\"}", false));
    assert_eq!(said.usage, Usage { read: 12, written: 4 });
}

#[tokio::test]
async fn what_is_no_answer_of_a_client_says_why() {
    let gateway = gateway(&config(&json!({})));
    let unusable = |why: &str| Unlent::Unusable(why.to_owned());
    for (answer, expected) in [
        (json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}, 7]}), Ok("ab")),
        (json!({"content": {"type": "text", "text": "so… </think>\nab"}}), Ok("ab")),
        (json!({"content": {"type": "image", "text": "a"}}), Err(unusable("it has no text"))),
        (json!({"content": "a"}), Err(unusable("it has no text"))),
        (
            json!({"content": [], "stopReason": "maxTokens"}),
            Err(unusable("the model used up all its tokens")),
        ),
        (json!([]), Err(unusable("it has no text"))),
        (json!(null), Err(unusable("it has no text"))),
    ] {
        let outcome = Outcome::Result(Raw::encode(&answer));
        let deal = |_, question: Question| question.answer(outcome);
        let (said, ()) = ask_client(&gateway, deal).await;
        assert_eq!(said.map(|said| said.text), expected.map(str::to_owned), "{answer}");
    }
    for (code, expected) in [
        (-32601, Unlent::Unable),
        (-1, Unlent::Declined),
        (-32603, Unlent::Failed("x y".to_owned())),
    ] {
        let outcome = Outcome::Error(error_object(code, "x\n y", None));
        let (said, ()) = ask_client(&gateway, |_, question| question.answer(outcome)).await;
        assert_eq!(said, Err(expected));
    }
    let (said, ()) = ask_client(&gateway, |_, question| async { drop(question) }).await;
    assert_eq!(said, Err(Unlent::Unable));
    let nobody = Presence::new(None);
    let asked = gateway.ask_agent_model(&prompt(), soon(), &RequestContext::nobody(&nobody)).await;
    assert_eq!(asked.said, Err(Unlent::Unable));
}

#[tokio::test]
async fn what_a_clients_model_had_no_tokens_for_is_told() {
    let gateway = gateway(&config(&json!({})));
    let answer =
        json!({"content": {"type": "text", "text": "{\"a\": {}"}, "stopReason": "maxTokens"});
    let outcome = Outcome::Result(Raw::encode(&answer));
    let (said, ()) = ask_client(&gateway, |_, question| question.answer(outcome)).await;
    assert!(said.unwrap().is_cut);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_answer_is_asked_no_longer_than_there_is_time() {
    let gateway = gateway(&config(&json!({})));
    let since = Instant::now();
    let (said, ()) = ask_client(&gateway, |_, mut question| async move {
        question.withdrawn().await;
    })
    .await;
    assert_eq!((said, since.elapsed()), (Err(Unlent::TimedOut), Duration::from_secs(20)));
}
