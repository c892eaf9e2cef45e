use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, Lines};
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::quota::{MemoryPools, QuotaRegistry};
use crate::telemetry::{QuotaKind, QuotaOwner};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolboxName};
use mcp_workbench_wire::incoming::receive;
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::peer::Peer;
use mcp_workbench_wire::writer::MessageWriter;

/// A server that sends messages and reads the responses.
struct Server {
    peer: Peer,
    writer: MessageWriter,
    answers: Lines<BufReader<DuplexStream>>,
}

impl Server {
    fn new() -> Self {
        let (ours, its) = tokio::io::duplex(64 * 1024);
        let writer = MessageWriter::start(ours, &TaskTracker::new());
        Self { peer: Peer::new(), writer, answers: BufReader::new(its).lines() }
    }

    fn says(&self, router: &Arc<MessageRouter>, message: &Value) {
        let message = Bytes::from(message.to_string());
        if let Ok(Some(incoming)) = receive(&self.peer, &message, &self.writer) {
            router.dispatch(router.state(|state| state.process.number), incoming);
        }
    }

    fn asks(&self, router: &Arc<MessageRouter>, method: &str) {
        self.says(router, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}));
    }

    async fn answer(&mut self) -> Value {
        let line = self.answers.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

fn shared(has_roots: bool) -> Arc<MessageRouter> {
    let secrets = Redactor::from_environment([("TOKEN", "hunter2hunter2")]);
    Arc::new(MessageRouter::new("s".to_owned(), has_roots, false, Arc::new(secrets)))
}

/// An agent with one request in flight that is unreachable outside it.
fn calling(router: &Arc<MessageRouter>) -> (InFlightRequest, events::Receiver) {
    let (sender, events) = events::channel(8);
    let agent = AgentHandle::new(None);
    (router.register_request(&agent, &"s".into(), LogLevel::UNSET, Some(&sender)), events)
}

fn question(events: &mut events::Receiver) -> Option<ServerRequest> {
    match events.try_recv() {
        Some(AgentEvent::Request(request)) => Some(*request),
        _ => None,
    }
}

#[tokio::test]
async fn request_goes_to_the_only_agent_with_a_request_in_flight() {
    let (mut server, router) = (Server::new(), shared(false));
    let (standing, mut outside) = events::channel(8);
    router.attach(&AgentHandle::new(Some(standing)), &"s".into());
    let (entry, mut events) = calling(&router);
    server.asks(&router, "elicitation/create");
    assert!(question(&mut outside).is_none());
    let asked = question(&mut events).unwrap();
    assert!(entry.agent_active_at().is_some(), "waiting for the user counts as activity");
    asked.answer(RpcOutcome::Result(RawJson::encode(&json!({"action": "accept"})))).await;
    assert_eq!(server.answer().await["result"]["action"], "accept");
    entry.mark_answered();
    drop(entry);
    server.asks(&router, "elicitation/create");
    assert!(
        question(&mut outside).is_none(),
        "the request may concern the agent that used the process"
    );
    router.begin_process();
    server.asks(&router, "elicitation/create");
    assert!(question(&mut outside).is_some(), "no agent has used this process");
}

// invariant: server-request-routing
#[tokio::test]
async fn ambiguous_server_request_is_declined() {
    let (mut server, router) = (Server::new(), shared(false));
    let ((_a, mut first), (_b, mut second)) = (calling(&router), calling(&router));
    assert!(!router.is_interactive());
    server.asks(&router, "sampling/createMessage");
    assert_eq!(server.answer().await["error"]["code"], INVALID_REQUEST);
    assert!(question(&mut first).is_none() && question(&mut second).is_none());
    assert!(router.is_interactive(), "later agents get their own connections");
}

// invariant: server-request-routing
#[tokio::test]
async fn server_request_waits_for_the_first_agent() {
    let (server, router) = (Server::new(), shared(true));
    server.asks(&router, "roots/list");
    let (_entry, mut events) = calling(&router);
    assert_eq!(question(&mut events).unwrap().method, "roots/list");
}

// invariant: server-request-routing
#[tokio::test]
async fn roots_list_is_rejected_without_permission() {
    let (mut server, router) = (Server::new(), shared(false));
    let (_entry, mut events) = calling(&router);
    server.asks(&router, "roots/list");
    assert_eq!(server.answer().await["error"]["code"], METHOD_NOT_FOUND);
    assert!(question(&mut events).is_none());
}

// invariant: limits-hit-own-caller
#[tokio::test]
async fn unanswered_server_requests_beyond_the_limit_are_rejected() {
    let mut server = Server::new();
    let limits = ServerLimits { max_open_requests: 3, ..ServerLimits::default() };
    let at = ServerRef { toolbox: ToolboxName::new("box"), server: ServerName::new("s") };
    let secrets = Arc::new(Redactor::from_environment([("TOKEN", "hunter2hunter2")]));
    let router = MessageRouter::new("s".to_owned(), false, false, secrets);
    let router = Arc::new(router.limited(ServerQuota::new(at, limits, Arc::default())));
    let (_entry, mut events) = calling(&router);
    // Requests that wrongly share an id count, too.
    for _ in 0..4 {
        server.asks(&router, "elicitation/create");
    }
    assert_eq!(server.answer().await["error"]["code"], UNAVAILABLE);
    let asked = [(); 3].map(|()| question(&mut events).unwrap());
    assert!(question(&mut events).is_none());
    server.asks(&router, "ping");
    assert_eq!(server.answer().await["result"], json!({}));
    drop(asked);
    for _ in 0..3 {
        server.answer().await;
    }
    server.asks(&router, "elicitation/create");
    assert!(question(&mut events).is_some(), "answered requests are free again");
}

#[tokio::test]
async fn undefined_server_requests_are_not_forwarded() {
    let (mut server, router) = (Server::new(), shared(false));
    let (_entry, mut events) = calling(&router);
    for method in ["tools/call", "elicitation/other", "", &"x".repeat(10_000)] {
        server.asks(&router, method);
        let error = &server.answer().await["error"];
        assert_eq!(error["code"], METHOD_NOT_FOUND);
        assert!(error.to_string().len() < 200, "{error}");
    }
    let id = "x".repeat(2000);
    server.says(&router, &json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create"}));
    assert_eq!(server.answer().await["error"]["code"], INVALID_REQUEST);
    assert!(question(&mut events).is_none());
    assert!(!router.is_interactive());
    for method in ["tasks/get", "sampling/createMessage"] {
        server.asks(&router, method);
        assert_eq!(question(&mut events).unwrap().method, method);
    }
}

#[tokio::test]
async fn log_messages_are_filtered_by_level_and_labeled() {
    let (server, router) = (Server::new(), shared(false));
    let (sender, mut quiet) = events::channel(8);
    let agent = AgentHandle::new(None);
    let entry = router.register_request(
        &agent,
        &"s".into(),
        LogLevel::from_word("error").unwrap(),
        Some(&sender),
    );
    let params = json!({"level": "info", "logger": "db", "data": 1.50});
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
    server.says(&router, &log);
    assert!(quiet.try_recv().is_none());
    drop(entry);
    router.begin_process();
    let (_entry, mut loud) = calling(&router);
    server.says(&router, &log);
    let Some(AgentEvent::Notification { params, .. }) = loud.try_recv() else {
        panic!("no notice")
    };
    assert_eq!(params.unwrap().as_str(), r#"{"level":"info","logger":"s/db","data":1.5}"#);
}

#[tokio::test]
async fn log_label_is_the_agents_name_for_the_server() {
    let (server, router) = (Server::new(), shared(false));
    let (standing, mut outside) = events::channel(8);
    let (ann, name) = (AgentHandle::new(Some(standing)), "hers".into());
    router.attach(&ann, &name);
    let (sender, mut within) = events::channel(8);
    let entry = router.register_request(&ann, &name, LogLevel::UNSET, Some(&sender));
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}});
    let logger = |events: &mut events::Receiver| {
        let Some(AgentEvent::Notification { params: Some(params), .. }) = events.try_recv() else {
            panic!("no notice")
        };
        params.member("logger").map(|logger| logger.as_str().into_owned())
    };
    server.says(&router, &log);
    assert_eq!(logger(&mut within).as_deref(), Some(r#""hers""#));
    entry.mark_answered();
    drop(entry);
    server.says(&router, &log);
    assert_eq!(logger(&mut outside).as_deref(), Some(r#""hers""#));
}

fn attached(router: &Arc<MessageRouter>, name: Option<&str>) -> (AgentHandle, events::Receiver) {
    let (standing, outside) = events::channel(8);
    let agent = AgentHandle::new(Some(standing)).with_name(name.map(AgentName::new));
    router.attach(&agent, &"s".into());
    (agent, outside)
}

fn called(router: &Arc<MessageRouter>, agent: &AgentHandle) {
    router.register_request(agent, &"s".into(), LogLevel::UNSET, None).mark_answered();
}

fn methods(events: &mut events::Receiver) -> Vec<String> {
    let methods = std::iter::from_fn(|| events.try_recv()).map(|event| match event {
        AgentEvent::Notification { method, .. } => method,
        AgentEvent::Request(request) => request.method.clone(),
        AgentEvent::Progress(_) => "progress".to_owned(),
    });
    methods.collect()
}

/// Notifications that concern a single agent.
const TALK: [&str; 4] = [
    "notifications/message",
    "notifications/elicitation/complete",
    "notifications/tasks/status",
    "notifications/unheard/of",
];

fn talks(server: &Server, router: &Arc<MessageRouter>) {
    for method in TALK {
        let params = json!({"level": "error", "data": "of whom?", "taskId": "t"});
        server.says(router, &json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
}

#[tokio::test]
async fn notifications_reach_the_sole_user_and_nobody_else() {
    let (server, router) = (Server::new(), shared(false));
    let (ann, mut to_ann) = attached(&router, Some("ann"));
    let (bob, mut to_bob) = attached(&router, Some("bob"));
    talks(&server, &router);
    assert_eq!(
        (methods(&mut to_ann).len(), methods(&mut to_bob).len()),
        (0, 0),
        "no recipient is certain"
    );
    called(&router, &ann);
    talks(&server, &router);
    assert_eq!(methods(&mut to_ann), TALK);
    called(&router, &bob);
    router.detach(ann.id);
    talks(&server, &router);
    let (sender, mut within) = events::channel(8);
    let _entry = router.register_request(&bob, &"s".into(), LogLevel::UNSET, Some(&sender));
    talks(&server, &router);
    assert_eq!(methods(&mut to_bob).len() + methods(&mut within).len(), 0, "it may be for ann");
    router.begin_process();
    talks(&server, &router);
    assert_eq!(methods(&mut within), TALK, "ann has not used this process");
}

#[tokio::test]
async fn messages_of_a_replaced_process_are_dropped() {
    let (server, router) = (Server::new(), shared(false));
    let (ann, mut to_ann) = attached(&router, Some("ann"));
    let before = router.begin_process();
    called(&router, &ann);
    router.begin_process();
    let late = json!({"jsonrpc": "2.0", "method": TALK[0], "params": {"data": "late"}});
    if let Ok(Some(incoming)) =
        receive(&server.peer, &Bytes::from(late.to_string()), &server.writer)
    {
        router.dispatch(before, incoming);
    }
    assert!(methods(&mut to_ann).is_empty());
}

#[tokio::test]
async fn notification_goes_to_the_only_calling_session_of_an_agent() {
    let (server, router) = (Server::new(), shared(false));
    let (one, mut to_one) = attached(&router, Some("ann"));
    let (other, mut to_other) = attached(&router, Some("ann"));
    let (sender, mut within) = events::channel(8);
    let _entry = router.register_request(&one, &"s".into(), LogLevel::UNSET, Some(&sender));
    talks(&server, &router);
    assert_eq!(methods(&mut within), TALK);
    let _other = router.register_request(&other, &"s".into(), LogLevel::UNSET, None);
    talks(&server, &router);
    let heard = [&mut within, &mut to_one, &mut to_other].map(methods);
    assert!(heard.iter().all(Vec::is_empty), "{heard:?}");
}

// invariant: server-request-routing
#[tokio::test]
async fn request_that_may_concern_another_agents_call_is_declined() {
    let (mut server, router) = (Server::new(), shared(false));
    let named = |name: &str| AgentHandle::new(None).with_name(Some(AgentName::new(name)));
    called(&router, &named("ann"));
    let (sender, mut events) = events::channel(8);
    let entry = router.register_request(&named("bob"), &"s".into(), LogLevel::UNSET, Some(&sender));
    server.asks(&router, "elicitation/create");
    assert_eq!(server.answer().await["error"]["code"], INVALID_REQUEST);
    assert!(question(&mut events).is_none() && router.is_interactive());
    drop(entry);
    // Anonymous sessions qualify if they have left nothing behind.
    router.begin_process();
    called(&router, &AgentHandle::new(None));
    let (entry, mut events) = calling(&router);
    server.asks(&router, "elicitation/create");
    assert!(question(&mut events).is_some());
    drop((entry, events));
    let (_entry, mut events) = calling(&router);
    server.asks(&router, "elicitation/create");
    assert!(question(&mut events).is_none(), "the abandoned call may still run in the process");
}

#[tokio::test]
async fn task_notification_goes_to_its_owner_if_unambiguous() {
    let (server, router) = (Server::new(), shared(false));
    let (ann, mut to_ann) = attached(&router, Some("ann"));
    let (bob, mut to_bob) = attached(&router, Some("bob"));
    let [anns, bobs]: [Arc<str>; 2] = ["ann".into(), "bob".into()];
    called(&router, &ann);
    called(&router, &bob);
    router.claim_task(&ann, "t", &anns);
    assert!(router.may_hold_task("t", &anns) && !router.may_hold_task("t", &bobs));
    talks(&server, &router);
    assert_eq!(methods(&mut to_ann), [TALK[2]]);
    router.claim_task(&bob, "t", &bobs);
    assert!(!router.may_hold_task("t", &anns) && !router.may_hold_task("t", &bobs));
    talks(&server, &router);
    assert_eq!((methods(&mut to_ann).len(), methods(&mut to_bob).len()), (0, 0));
}

/// Limits a caller to three subscriptions of 30 bytes.
fn subscribe(
    router: &MessageRouter,
    agent: &AgentHandle,
    uri: &str,
    as_known: &str,
) -> Result<NewSubscription, SubscriptionLimitError> {
    router.subscribe(agent, uri, as_known, None, &few())
}

fn few() -> CallerLimits {
    CallerLimits { max_subscriptions: 3, max_subscription_bytes: 30, ..CallerLimits::default() }
}

// invariant: limits-hit-own-caller
#[test]
fn subscriptions_are_limited_per_caller_and_freed() {
    let router = shared(false);
    let quotas = QuotaRegistry::new(&Arc::default(), MemoryPools::default());
    let [ann, bob] = ["ann", "bob"].map(|name| {
        let owner = QuotaOwner::Agent(AgentName::new(name));
        AgentHandle::new(None).with_quota(quotas.quota_for(&owner))
    });
    assert_eq!(subscribe(&router, &ann, "a", "a"), Ok(NewSubscription::First));
    assert_eq!(subscribe(&router, &ann, "a", "a"), Ok(NewSubscription::None));
    assert_eq!(subscribe(&router, &bob, "a", "a"), Ok(NewSubscription::Further));
    router.watch_task(&ann, "t", &few()).unwrap();
    router.watch_task(&ann, "t", &few()).unwrap();
    assert!(subscribe(&router, &ann, "b", &"b".repeat(29)).is_err(), "too many bytes");
    assert_eq!(subscribe(&router, &ann, "b", &"b".repeat(28)), Ok(NewSubscription::First));
    assert!(router.watch_task(&ann, "u", &few()).is_err(), "too many subscriptions");
    assert_eq!(subscribe(&router, &ann, "a", "a"), Ok(NewSubscription::None));
    assert_eq!(router.tasks(), ["t"]);
    assert_eq!(subscribe(&router, &bob, "c", "c"), Ok(NewSubscription::First));
    router.unsubscribe(ann.id, "b");
    assert_eq!(subscribe(&router, &ann, "d", "d"), Ok(NewSubscription::First));
    // A server that replaces this one takes them over, and they count once.
    let next = shared(false);
    next.inherit(&router);
    drop(router);
    assert!(subscribe(&next, &ann, "e", "e").is_ok(), "the task isn't watched there");
    assert!(subscribe(&next, &ann, "f", "f").is_err());
    next.detach(ann.id);
    let quota = quotas.quota_for(&QuotaOwner::Agent(AgentName::new("ann")));
    assert_eq!(quota.count(QuotaKind::Subscriptions), 0);
}

#[test]
fn long_task_ids_are_stored_as_digests() {
    let router = shared(false);
    let (ann, holder, other) = (AgentHandle::new(None), "ann".into(), "bob");
    let task = "t".repeat(100_000);
    router.claim_task(&ann, &task, &holder);
    assert!(router.may_hold_task(&task, &holder) && !router.may_hold_task(&task, other));
    assert!(router.may_hold_task(&task[1..], other));
    assert!(router.state(|state| state.tasks.claims.keys().all(|key| key.len() <= 256)));
}

#[tokio::test]
async fn resource_updates_depend_on_own_subscriptions_only() {
    let (server, router) = (Server::new(), shared(false));
    let (ann, mut to_ann) = attached(&router, Some("ann"));
    let (bob, mut to_bob) = attached(&router, Some("bob"));
    subscribe(&router, &ann, "file:///a", "a_file:///a").unwrap();
    let said = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": "file:///a/b"}});
    let uris = |events: &mut events::Receiver| {
        let uris = std::iter::from_fn(|| events.try_recv()).map(|event| match event {
            AgentEvent::Notification { params, .. } => {
                params.unwrap().member("uri").unwrap().as_str().into_owned()
            }
            _ => panic!("another event"),
        });
        uris.collect::<Vec<_>>()
    };
    server.says(&router, &said);
    let alone = uris(&mut to_ann);
    subscribe(&router, &bob, "file:///a/b", "b_file:///a/b").unwrap();
    server.says(&router, &said);
    assert_eq!(uris(&mut to_ann), alone);
    assert_eq!(alone, [r#""file:///a/b""#]);
    assert_eq!(uris(&mut to_bob), [r#""b_file:///a/b""#]);
}
