use std::net::IpAddr;
use std::pin::pin;
use std::sync::Mutex;

use axum::body::Body;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST};
use pretty_assertions::assert_eq;
use tokio::time::Instant;
use tower::ServiceExt;

use super::*;
use crate::backend::PoolOptions;
use crate::frontend::http::clock::Clock;
use crate::frontend::http::connections::Peer;
use crate::frontend::http::connections::table::Place;
use crate::gateway::Gateways;
use crate::name::AgentName;
use crate::observe::{DeniedFor, Event, Kinds, Listener, Observer, Payer};
use crate::settings::{Anonymous, AuthConfig, Config, TokenConfig, token_digest};
use crate::state::Store;

/// Notes who is not let in.
#[derive(Default)]
struct Denials(Mutex<Vec<DeniedFor>>);

impl Listener for Denials {
    fn wants(&self) -> Kinds {
        Kinds::DENIALS
    }

    fn hear(&self, event: Event<'_>) {
        if let Event::AccessDenied(denied, _) = event {
            self.0.lock().unwrap().push(denied.why);
        }
    }
}

/// A configuration whose one agent has this token.
fn with_token(token: &str) -> Config {
    let token = TokenConfig {
        agent: AgentName::new("ann"),
        digest: token_digest(token),
        variable: None,
        referred: None,
    };
    let auth = AuthConfig {
        tokens: vec![token],
        operators: Vec::new(),
        jwt: None,
        anonymous: Anonymous::Refused,
    };
    Config { auth: Some(auth), ..Config::default() }
}

fn server(config: Config, observer: Observer) -> Arc<Server> {
    server_at(None, config, observer)
}

fn server_at(address: Option<&str>, config: Config, observer: Observer) -> Arc<Server> {
    server_over(None, address, config, observer)
}

/// A server at this address whose agents' state is in this store; `None`: in its own.
pub(crate) fn server_over(
    store: Option<Arc<dyn Store>>,
    address: Option<&str>,
    config: Config,
    observer: Observer,
) -> Arc<Server> {
    let address = address.map(|address| address.parse().unwrap());
    let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
    let options = PoolOptions { observer: Arc::new(observer), ..PoolOptions::default() };
    let config = Arc::new(config);
    let gateways = Arc::new(match store {
        Some(store) => Gateways::with_store(config, options, store, &tasks),
        None => Gateways::new(config, options, &tasks),
    });
    let app = AppState::new(gateways, &tasks).unwrap();
    let leaving = shutdown.child_token();
    Arc::new(Server {
        page: Arc::new(Page::new(app.desk().clone(), &tasks, &leaving)),
        identity: Identity::new(&app, address, Door::default(), &shutdown),
        delays: Delays::default(),
        under_way: UnderWay::new(CancellationToken::new()),
        sessions: Arc::default(),
        adopting: Adopting::default(),
        connections: TaskTracker::new(),
        table: Table::default(),
        health: Table::default(),
        tls: None,
        tasks,
        leaving,
        shutdown,
        app,
    })
}

#[tokio::test]
async fn who_is_not_let_in_is_told_of_once_with_the_reason() {
    let denials = Arc::new(Denials::default());
    let heard: Arc<dyn Listener> = Arc::clone(&denials) as Arc<dyn Listener>;
    let server = server(Config::default(), Observer::default().heard_by(heard));
    let router = router(&server);
    for (host, path, status) in [
        ("evil.example", ENDPOINT, StatusCode::FORBIDDEN),
        ("localhost", ENDPOINT, StatusCode::UNAUTHORIZED),
        ("localhost", "/metrics", StatusCode::UNAUTHORIZED),
        ("evil.example", WELL_KNOWN, StatusCode::FORBIDDEN),
        ("localhost", "/ready", StatusCode::OK),
    ] {
        let request = Request::get(path).header(HOST, host).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{host} {path}");
    }
    assert_eq!(
        *denials.0.lock().unwrap(),
        [DeniedFor::Origin, DeniedFor::NoToken, DeniedFor::NoToken, DeniedFor::Origin]
    );
}

#[tokio::test(start_paused = true)]
async fn many_wrong_tokens_are_answered_late_and_nobody_else_is() {
    let server = server(with_token("right"), Observer::default());
    let router = router(&server);
    let address = IpAddr::from([10, 0, 0, 1]);
    let purse = server.app.gateways.payers().purse(&Payer::new(None, Some(address)));
    let place = || server.table.take(&purse, [2, 9]);
    let ask = async |token: Option<&str>, place: Arc<Place>| {
        let began = Instant::now();
        let request = Request::get(ENDPOINT).header(HOST, "localhost");
        let request = match token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        let request = request
            .extension(Peer { address, place, secured: None, clock: Clock::default() })
            .body(Body::empty())
            .unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        (answer.status().as_u16(), began.elapsed())
    };
    let mine = place();
    let mut told = Vec::new();
    for _ in 0..22 {
        told.push(ask(Some("wrong"), Arc::clone(&mine)).await);
    }
    let late = |ms| (401, Duration::from_millis(ms));
    assert_eq!((told[0], told[19], told[20], told[21]), (late(0), late(0), late(50), late(100)));

    // Others behind the same address are answered at once, while one waits and after it.
    let waiting = pin!(ask(Some("wrong"), Arc::clone(&mine)));
    let others = async {
        let (right, none) = (ask(Some("right"), place()).await, ask(None, place()).await);
        assert_eq!((right.0, right.1), (405, Duration::ZERO));
        assert_eq!(none, late(0));
    };
    tokio::select! {
        biased;
        _ = waiting => panic!("it does not wait"),
        () = others => {}
    }

    // One that waits gives its connection to the next, and is answered then.
    let full = [place(), place()];
    for place in &full {
        place.is_used(true);
    }
    let newcomer = async {
        let newcomer = place();
        assert!(!newcomer.is_kept(), "a wrong token keeps nobody out");
    };
    let (gave_way, ()) = tokio::join!(biased; ask(Some("wrong"), Arc::clone(&full[0])), newcomer);
    assert_eq!(gave_way, late(0));
}

#[tokio::test]
async fn who_may_look_at_the_page_is_not_who_may_act() {
    let entry = |agent: &str, token: &str| TokenConfig {
        agent: AgentName::new(agent),
        digest: token_digest(token),
        variable: None,
        referred: None,
    };
    let auth = |anonymous| AuthConfig {
        tokens: vec![entry("ann", "token-of-ann")],
        operators: vec![entry("me", "token-of-mine")],
        jwt: None,
        anonymous,
    };
    let post = |token: Option<&str>, ask: &str| {
        let request = Request::post("/page/ask").header(HOST, "localhost");
        let request = match token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        let text = format!(r#"{{"to":{},"ask":{ask}}}"#, std::process::id());
        request.header("content-type", "application/json").body(Body::from(text)).unwrap()
    };
    let act = r#"{"ask":"act","act":"stop","toolbox":"none","server":null}"#;
    let asks = [r#"{"ask":"unused"}"#, r#"{"ask":"findings"}"#, act];
    let (local, far) = (Some("127.0.0.1:80"), Some("10.0.0.1:80"));
    for (at, anonymous, token, expected) in [
        (local, Anonymous::Nameless, None, [200, 403, 403]),
        (local, Anonymous::Refused, None, [403, 403, 403]),
        (local, Anonymous::Refused, Some("token-of-ann"), [403, 403, 403]),
        (local, Anonymous::Nameless, Some("token-of-nobody"), [401, 401, 401]),
        (local, Anonymous::Refused, Some("token-of-mine"), [200, 200, 200]),
        (far, Anonymous::Refused, None, [401, 401, 401]),
        (far, Anonymous::Nameless, None, [403, 403, 403]),
        (far, Anonymous::Refused, Some("token-of-ann"), [403, 403, 403]),
        (far, Anonymous::Refused, Some("token-of-mine"), [200, 200, 200]),
    ] {
        let config = Config { auth: Some(auth(anonymous.clone())), ..Config::default() };
        let server = server_at(at, config, Observer::default());
        let router = router(&server);
        let mut given = Vec::new();
        for ask in asks {
            let answer = router.clone().oneshot(post(token, ask)).await.unwrap();
            given.push(answer.status().as_u16());
        }
        assert_eq!(given, expected, "{at:?} {anonymous:?} {token:?}");
        // An operator is no agent.
        let request = post(Some("token-of-mine"), act).into_parts().0;
        let mut request = Request::from_parts(request, Body::empty());
        *request.uri_mut() = ENDPOINT.parse().unwrap();
        assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn a_request_from_before_brings_no_old_rules_back() {
    let server = server(with_token("old"), Observer::default());
    let asks = async |token: &str, config: &Arc<Config>| {
        let request = Request::get(ENDPOINT).header(HOST, "localhost");
        let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        server.identity.caller(&mut head, config).await.ok()
    };
    let before = server.app.gateways.config();
    assert!(asks("old", &before).await.is_some());
    server.app.gateways.replace(Arc::new(with_token("new"))).await;
    let now = server.app.gateways.config();
    let (_, pass) = asks("new", &now).await.unwrap();
    assert!(asks("old", &before).await.is_none(), "what it came with has been taken back");
    assert!(asks("new", &now).await.is_some());
    assert!(!pass.revoked.unwrap().is_cancelled(), "what has just begun goes on");
}
