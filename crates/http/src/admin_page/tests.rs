use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use http_body_util::BodyExt;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, ORIGIN};
use hyper::{Request, StatusCode};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::*;
use crate::admin_page::page::AdminPage;
use crate::admin_page::request::PageRequest;
use crate::admin_page::workbenches::{AdminBackend, PageSender};
use crate::auth::AccessLevel;
use crate::response::HttpResponse;
use mcp_workbench_core::gateway::{MemoryPools, QuotaRegistry};
use mcp_workbench_core::telemetry::{FinishedCall, QuotaOwner, Telemetry};
use mcp_workbench_serve::admin::{
    AdminRequest, LockDrift, ServerStatus, ToolboxStatus, WorkbenchStatus,
};

const MOST: usize = 8;

#[derive(Clone, Default)]
pub(crate) struct Still(Arc<AtomicUsize>);

impl AdminBackend for Still {
    const ASKS_PASSPHRASE: bool = true;

    async fn statuses(&self) -> Vec<WorkbenchStatus> {
        let looks = self.0.fetch_add(1, Ordering::Relaxed);
        let (stderr_tail, accept) = (vec!["secret".to_owned()], "secret".to_owned());
        let drift = LockDrift { differences: stderr_tail.clone(), accept, ..LockDrift::default() };
        let server = ServerStatus { stderr_tail, drift: Some(drift), ..ServerStatus::default() };
        let toolbox = ToolboxStatus { servers: vec![server], ..ToolboxStatus::default() };
        let call = |agent: Option<&str>| FinishedCall {
            agent: agent.map(str::to_owned),
            reason: Some("secret".to_owned()),
            ..FinishedCall::default()
        };
        vec![WorkbenchStatus {
            at: looks as u64,
            pid: 7,
            toolboxes: vec![toolbox],
            calls: vec![call(None), call(Some("ann"))],
            ..WorkbenchStatus::default()
        }]
    }

    async fn handle(&self, pid: u32, ask: AdminRequest, _: PageSender) -> Vec<u8> {
        let AdminRequest::Call { arguments, .. } = ask else { return format!("{pid}").into() };
        arguments.unwrap().get().as_bytes().to_vec()
    }
}

fn ask(token: Option<&str>, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let mut request = Request::post("/page/ask").header(HOST, "127.0.0.1:7");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if !headers.iter().any(|(name, _)| *name == CONTENT_TYPE.as_str()) {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

fn alone(tasks: &TaskTracker) -> (Router, CancellationToken, Still) {
    let (leaving, still) = (CancellationToken::new(), Still::default());
    (standalone::router(still.clone(), "right-token", tasks, &leaving), leaving, still)
}

async fn status(router: &Router, request: Request<Body>) -> StatusCode {
    router.clone().oneshot(request).await.unwrap().status()
}

const ACT: &str = r#"{"to":7,"ask":{"ask":"act","act":"stop","toolbox":"a","server":null}}"#;

#[tokio::test]
async fn files_need_no_token_and_have_strict_security_headers() {
    let (router, ..) = alone(&TaskTracker::new());
    for path in ["/", "/page/app.js", "/page/page.css", "/page/icon.svg"] {
        let get = || Request::get(path).header(HOST, "localhost:7");
        let reply = router.clone().oneshot(get().body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(reply.status(), StatusCode::OK, "{path}");
        let said = |name: &str| reply.headers()[name].to_str().unwrap().to_owned();
        let policy = said("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(said("x-content-type-options"), "nosniff");
        assert_eq!(said("referrer-policy"), "no-referrer");
        assert_eq!(said("cache-control"), "no-cache");
        let again = get().header(IF_NONE_MATCH, reply.headers()[ETAG].clone());
        let again = status(&router, again.body(Body::empty()).unwrap()).await;
        assert_eq!(again, StatusCode::NOT_MODIFIED, "{path}");
    }
    for (path, host) in [("/page/none.js", "localhost"), ("/page/..%2fsrc", "localhost")] {
        let request = Request::get(path).header(HOST, host).body(Body::empty()).unwrap();
        assert_eq!(status(&router, request).await, StatusCode::NOT_FOUND, "{path}");
    }
    let rebound = Request::get("/").header(HOST, "evil.example").body(Body::empty()).unwrap();
    assert_eq!(status(&router, rebound).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_standalone_page_requires_its_token() {
    let (router, ..) = alone(&TaskTracker::new());
    for token in [None, Some("wrong-token"), Some("right-token2")] {
        assert_eq!(status(&router, ask(token, &[], ACT)).await, StatusCode::UNAUTHORIZED);
        let events = Request::get("/page/events").header(HOST, "127.0.0.1");
        let events = match token {
            Some(token) => events.header(AUTHORIZATION, format!("Bearer {token}")),
            None => events,
        };
        let events = events.body(Body::empty()).unwrap();
        assert_eq!(status(&router, events).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(status(&router, ask(Some("right-token"), &[], ACT)).await, StatusCode::OK);
}

#[tokio::test]
async fn rejects_cross_origin_requests_despite_a_valid_token() {
    let (router, ..) = alone(&TaskTracker::new());
    let right = Some("right-token");
    let origin = ORIGIN.as_str();
    let form = CONTENT_TYPE.as_str();
    for (headers, body, expected) in [
        (vec![(origin, "http://127.0.0.1:7")], ACT, StatusCode::OK),
        (vec![(origin, "http://127.0.0.1:8")], ACT, StatusCode::FORBIDDEN),
        (vec![(origin, "http://localhost:7")], ACT, StatusCode::FORBIDDEN),
        (vec![(origin, "https://evil.example")], ACT, StatusCode::FORBIDDEN),
        (vec![(origin, "null")], ACT, StatusCode::FORBIDDEN),
        (vec![(form, "text/plain")], ACT, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (vec![], "{", StatusCode::BAD_REQUEST),
        (vec![], r#"{"to":7,"ask":{"ask":"dance"}}"#, StatusCode::BAD_REQUEST),
        (vec![], r#"{"to":7,"ask":{"ask":"view"},"more":1}"#, StatusCode::BAD_REQUEST),
    ] {
        let given = status(&router, ask(right, &headers, body)).await;
        assert_eq!(given, expected, "{headers:?} {body}");
    }
}

#[tokio::test]
async fn call_arguments_are_forwarded_verbatim() {
    let (router, ..) = alone(&TaskTracker::new());
    let body = r#"{"to":7,"ask":{"ask":"call","toolbox":"a","server":"b","tool":"c","confirmed":"id",
        "arguments":{"n":12345678901234567890.10}}}"#;
    let reply = router.oneshot(ask(Some("right-token"), &[], body)).await.unwrap();
    let said = to_bytes(reply.into_body(), 1 << 20).await.unwrap();
    assert_eq!(said, r#"{"n":12345678901234567890.10}"#);
}

#[tokio::test]
async fn server_text_needs_a_higher_access_level() {
    let tasks = TaskTracker::new();
    let page = Arc::new(AdminPage::new(Still::default(), &tasks, &CancellationToken::new()));
    let seen = async |access| {
        let said = event(&mut view(&page, access).into_body()).await.unwrap();
        let server = said["workbenches"][0]["toolboxes"][0]["servers"][0].clone();
        (said["mayAct"].clone(), server["stderrTail"].clone())
    };
    assert_eq!(seen(AccessLevel::Metrics).await, (json!(false), json!([])));
    assert_eq!(seen(AccessLevel::Details).await, (json!(false), json!(["secret"])));
    assert_eq!(seen(AccessLevel::Operate).await, (json!(true), json!(["secret"])));
}

#[tokio::test]
async fn reasons_of_calls_of_named_agents_are_for_operators() {
    let tasks = TaskTracker::new();
    let page = Arc::new(AdminPage::new(Still::default(), &tasks, &CancellationToken::new()));
    let seen = async |access| {
        let said = event(&mut view(&page, access).into_body()).await.unwrap();
        let calls = &said["workbenches"][0]["calls"];
        [calls[0]["reason"].clone(), calls[1]["reason"].clone()]
    };
    assert_eq!(seen(AccessLevel::Metrics).await, [json!(null), json!(null)]);
    assert_eq!(seen(AccessLevel::Details).await, [json!("secret"), json!(null)]);
    assert_eq!(seen(AccessLevel::Operate).await, [json!("secret"), json!("secret")]);
}

#[test]
fn actions_need_a_higher_access_level() {
    let needs = |ask: Value| {
        let text = json!({ "to": 7, "ask": ask }).to_string();
        PageRequest::read(&text.into()).unwrap().required_access()
    };
    let at = |ask: &str| json!({ "ask": ask, "toolbox": "a", "server": "b" });
    assert_eq!(needs(json!({ "ask": "view" })), AccessLevel::Details);
    assert_eq!(needs(json!({ "ask": "search", "query": "a" })), AccessLevel::Details);
    assert_eq!(needs(at("tools")), AccessLevel::Details);
    assert_eq!(needs(json!({ "ask": "unused" })), AccessLevel::Details);
    assert_eq!(needs(json!({ "ask": "findings" })), AccessLevel::Operate);
    assert_eq!(needs(json!({ "ask": "approvals" })), AccessLevel::Operate);
    let answer = json!({ "ask": "answer", "id": "1", "approve": false });
    assert_eq!(needs(answer), AccessLevel::Operate);
    for act in ["start", "stop", "restart", "pause", "resume"] {
        let mut ask = at("act");
        ask["act"] = json!(act);
        assert_eq!(needs(ask), AccessLevel::Operate);
    }
    let mut call = at("call");
    call["tool"] = json!("c");
    assert_eq!(needs(call), AccessLevel::Operate);
}

#[tokio::test(start_paused = true)]
async fn polls_once_for_all_watchers_and_not_without_any() {
    let (tasks, leaving, still) = (TaskTracker::new(), CancellationToken::new(), Still::default());
    let looks = || still.0.load(Ordering::Relaxed);
    let page = Arc::new(AdminPage::new(still.clone(), &tasks, &leaving));
    let mut pages: Vec<Body> =
        (0..MOST).map(|_| view(&page, AccessLevel::Operate).into_body()).collect();
    for body in &mut pages {
        assert!(event(body).await.is_some());
    }
    assert_eq!(looks(), 1, "all watchers get the same status");
    // One more replaces the oldest, and tells it not to reconnect.
    pages.push(view(&page, AccessLevel::Operate).into_body());
    assert_eq!(event(&mut pages[0]).await, Some(json!({ "isReplaced": true })));
    assert_eq!(event(&mut pages[0]).await, None);
    drop(pages.remove(0));
    assert!(event(pages.last_mut().unwrap()).await.is_some());
    assert_eq!(looks(), 1);

    // Unchanged status is repeated only after a while.
    let began = Instant::now();
    assert!(event(&mut pages[0]).await.is_some());
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());

    // Closed pages free their slots, and polling stops after the last one.
    pages.truncate(1);
    tokio::task::yield_now().await;
    assert_eq!(view(&page, AccessLevel::Operate).status(), StatusCode::OK);
    pages.clear();
    tasks.close();
    tasks.wait().await;
    let before = looks();
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(looks(), before);
}

#[tokio::test]
async fn streams_end_at_shutdown() {
    let (tasks, leaving) = (TaskTracker::new(), CancellationToken::new());
    let page = Arc::new(AdminPage::new(Still::default(), &tasks, &leaving));
    let mut body = view(&page, AccessLevel::Operate).into_body();
    assert!(event(&mut body).await.is_some());
    leaving.cancel();
    assert!(event(&mut body).await.is_none());
}

/// Opens an event stream of a caller who can have `MOST`.
fn view(page: &Arc<AdminPage<Still>>, access: AccessLevel) -> HttpResponse {
    let quotas = QuotaRegistry::new(&Arc::new(Telemetry::default()), MemoryPools::default());
    page.events(access, &quotas.quota_for(&QuotaOwner::Local), MOST)
}

async fn event(body: &mut Body) -> Option<Value> {
    let frame = body.frame().await?.unwrap().into_data().unwrap();
    let text = String::from_utf8(frame.to_vec()).unwrap();
    Some(serde_json::from_str(text.strip_prefix("data:")?.trim()).unwrap())
}
