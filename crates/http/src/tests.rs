use std::net::IpAddr;
use std::pin::pin;

use axum::body::Body;
use hyper::Request;
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HOST};
use parking_lot::Mutex;
use pretty_assertions::assert_eq;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::connections::connection_info::ConnectionInfo;
use crate::connections::slots::ConnectionSlot;
use mcp_workbench_core::backend::PoolOptions;
use mcp_workbench_core::gateway::GatewayRegistry;
use mcp_workbench_core::state::StateStore;
use mcp_workbench_core::telemetry::{
    AccessDenialReason, Event, EventKinds, EventListener, QuotaOwner, Telemetry,
};
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::{AnonymousPolicy, AuthConfig, Config, TokenConfig, token_digest};

#[derive(Default)]
struct Denials(Mutex<Vec<AccessDenialReason>>);

impl EventListener for Denials {
    fn interest(&self) -> EventKinds {
        EventKinds::DENIALS
    }

    fn on_event(&self, event: Event<'_>) {
        if let Event::AccessDenied(denied, _) = event {
            self.0.lock().push(denied.reason);
        }
    }
}

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
        anonymous: AnonymousPolicy::Refused,
    };
    Config { auth: Some(auth), ..Config::default() }
}

fn server(config: Config, observer: Telemetry) -> Arc<HttpServer> {
    server_at(None, config, observer)
}

fn server_at(address: Option<&str>, config: Config, observer: Telemetry) -> Arc<HttpServer> {
    server_over(None, address, config, observer)
}

/// Creates a server with this state store, or with its own if `None`.
pub(crate) fn server_over(
    store: Option<Arc<dyn StateStore>>,
    address: Option<&str>,
    config: Config,
    observer: Telemetry,
) -> Arc<HttpServer> {
    let address = address.map(|address| address.parse().unwrap());
    let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
    let options = PoolOptions { observer: Arc::new(observer), ..PoolOptions::default() };
    let config = Arc::new(config);
    let gateways = Arc::new(match store {
        Some(store) => GatewayRegistry::with_store(config, options, store, &tasks),
        None => GatewayRegistry::new(config, options, &tasks),
    });
    let app = AppState::new(gateways, &tasks).unwrap();
    let leaving = shutdown.child_token();
    Arc::new(HttpServer {
        page: Arc::new(AdminPage::new(app.admin().clone(), &tasks, &leaving)),
        identity: Authenticator::new(&app, address, DefaultAccess::default(), &shutdown),
        delays: AuthThrottle::default(),
        under_way: InFlightTracker::new(CancellationToken::new()),
        sessions: Arc::default(),
        adopting: SessionTakeover::default(),
        connections: OpenConnections {
            open: TaskTracker::new(),
            agents: SlotTable::default(),
            health: SlotTable::default(),
            tls: None,
        },
        tasks,
        ending: ServerShutdown { closing: leaving, shutdown },
        app,
    })
}

#[tokio::test]
async fn denials_are_reported_once_with_the_reason() {
    let denials = Arc::new(Denials::default());
    let heard: Arc<dyn EventListener> = Arc::clone(&denials) as Arc<dyn EventListener>;
    let server = server(Config::default(), Telemetry::default().with_listener(heard));
    let router = router(&server);
    for (host, path, status) in [
        ("evil.example", ENDPOINT, StatusCode::FORBIDDEN),
        ("localhost", ENDPOINT, StatusCode::UNAUTHORIZED),
        ("localhost", "/metrics", StatusCode::UNAUTHORIZED),
        ("evil.example", WELL_KNOWN, StatusCode::FORBIDDEN),
        ("localhost", "/ready", StatusCode::OK),
        ("localhost", "/oauth/callback?state=unknown&code=x", StatusCode::BAD_REQUEST),
        ("localhost", "/page/events", StatusCode::UNAUTHORIZED),
    ] {
        let request = Request::get(path).header(HOST, host).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{host} {path}");
    }
    assert_eq!(
        *denials.0.lock(),
        [
            AccessDenialReason::Origin,
            AccessDenialReason::NoToken,
            AccessDenialReason::NoToken,
            AccessDenialReason::Origin,
            AccessDenialReason::UnknownSignIn,
            AccessDenialReason::NoToken,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_delay_only_their_own_connection() {
    let server = server(with_token("right"), Telemetry::default());
    let router = router(&server);
    let address = IpAddr::from([10, 0, 0, 1]);
    let quota = server.app.gateways.quotas().quota_for(&QuotaOwner::new(None, Some(address)));
    let slot = || server.connections.agents.take(&quota, [2, 9]);
    let ask = async |token: Option<&str>, slot: Arc<ConnectionSlot>| {
        let began = Instant::now();
        let request = Request::get(ENDPOINT).header(HOST, "localhost");
        let request = match token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        let request = request
            .extension(ConnectionInfo { address, slot, secured: None })
            .body(Body::empty())
            .unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        (answer.status().as_u16(), began.elapsed())
    };
    let mine = slot();
    let mut told = Vec::new();
    for _ in 0..22 {
        told.push(ask(Some("wrong"), Arc::clone(&mine)).await);
    }
    let late = |ms| (401, Duration::from_millis(ms));
    assert_eq!((told[0], told[19], told[20], told[21]), (late(0), late(0), late(50), late(100)));

    // Other connections from the same address aren't delayed.
    let waiting = pin!(ask(Some("wrong"), Arc::clone(&mine)));
    let others = async {
        let (right, none) = (ask(Some("right"), slot()).await, ask(None, slot()).await);
        assert_eq!((right.0, right.1), (405, Duration::ZERO));
        assert_eq!(none, late(0));
    };
    tokio::select! {
        biased;
        _ = waiting => panic!("no delay"),
        () = others => {}
    }

    // A delayed response frees its connection for a new one and is sent immediately.
    let full = [slot(), slot()];
    for slot in &full {
        slot.set_in_use(true);
    }
    let newcomer = async {
        let newcomer = slot();
        assert!(!newcomer.is_reserved(), "a wrong token must not slow down other callers");
    };
    let (gave_way, ()) = tokio::join!(biased; ask(Some("wrong"), Arc::clone(&full[0])), newcomer);
    assert_eq!(gave_way, late(0));
}

#[tokio::test]
async fn page_actions_require_an_operator_token() {
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
        (local, AnonymousPolicy::Nameless, None, [200, 403, 403]),
        (local, AnonymousPolicy::Refused, None, [403, 403, 403]),
        (local, AnonymousPolicy::Refused, Some("token-of-ann"), [403, 403, 403]),
        (local, AnonymousPolicy::Nameless, Some("token-of-nobody"), [401, 401, 401]),
        (local, AnonymousPolicy::Refused, Some("token-of-mine"), [200, 200, 200]),
        (far, AnonymousPolicy::Refused, None, [401, 401, 401]),
        (far, AnonymousPolicy::Nameless, None, [403, 403, 403]),
        (far, AnonymousPolicy::Refused, Some("token-of-ann"), [403, 403, 403]),
        (far, AnonymousPolicy::Refused, Some("token-of-mine"), [200, 200, 200]),
    ] {
        let config = Config { auth: Some(auth(anonymous.clone())), ..Config::default() };
        let server = server_at(at, config, Telemetry::default());
        let router = router(&server);
        let mut given = Vec::new();
        for ask in asks {
            let answer = router.clone().oneshot(post(token, ask)).await.unwrap();
            given.push(answer.status().as_u16());
        }
        assert_eq!(given, expected, "{at:?} {anonymous:?} {token:?}");
        // An operator's token doesn't work for MCP requests.
        let request = post(Some("token-of-mine"), act).into_parts().0;
        let mut request = Request::from_parts(request, Body::empty());
        *request.uri_mut() = ENDPOINT.parse().unwrap();
        assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn an_old_request_does_not_restore_old_rules() {
    let server = server(with_token("old"), Telemetry::default());
    let asks = async |token: &str, config: &Arc<Config>| {
        let request = Request::get(ENDPOINT).header(HOST, "localhost");
        let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        server.identity.authenticate(&mut head, config).await.ok()
    };
    let before = server.app.gateways.config();
    assert!(asks("old", &before).await.is_some());
    server.app.gateways.replace_config(Arc::new(with_token("new"))).await;
    let now = server.app.gateways.config();
    let (_, lifetime) = asks("new", &now).await.unwrap();
    assert!(asks("old", &before).await.is_none(), "the stream of the removed token must end");
    assert!(asks("new", &now).await.is_some());
    assert!(!lifetime.revoked.unwrap().is_cancelled(), "the new stream must stay open");
}
