#![cfg(unix)]

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pretty_assertions::{assert_eq, assert_ne};

use super::*;
use crate::backend::watchdog::MAX_SHORT_LIVES;
use crate::backend::{Account, ClientCapabilities, HttpEndpoint, ServerTransport, StartPriority};
use mcp_workbench_names::ServerName;
use mcp_workbench_settings::{
    GrantType, HttpLaunch, HttpTransport, Launch, OAuthConfig, Protocol, ServerConfig, StdioLaunch,
    TokenExchange,
};
use mcp_workbench_wire::http_client::StaticHeaders;

/// A server whose instructions are its process ID and environment variables.
const SERVER: &str = r#"
read -r line
id=${line#*'"id":'}
printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18",' "${id%%[,\}]*}"
printf '"capabilities":{},"serverInfo":{"name":"x","version":"1"},"instructions":"%s"}}\n' \
    "$$ $TZ ${OWN-none}"
while read -r line; do :; done
"#;

fn environment(variables: &[(&str, &str)]) -> Arc<ChildEnvironment> {
    let all = variables.iter().map(|(key, value)| (OsString::from(key), OsString::from(value)));
    Arc::new(ChildEnvironment::new(all))
}

fn child(variables: &[(&str, &str)], inherit_env: bool) -> BackendSpec {
    let launch = StdioLaunch {
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), SERVER.to_owned()],
        env: [].into(),
        cwd: "/".into(),
        inherit_env,
        secret_refs: [].into(),
        withheld: ["WITHHELD".to_owned()].into(),
        has_own_folder: false,
        sandbox: None,
        starts_directly: true,
    };
    BackendSpec {
        label: "box/server".to_owned(),
        server: "server".to_owned(),
        reach: ServerTransport::Stdio(launch),
        environment: environment(variables),
        protocol: Protocol::Legacy,
        capabilities: ClientCapabilities::NONE,
        startup_timeout: Duration::from_secs(30),
        idle_timeout: None,
        max_message_bytes: 1 << 20,
        quotas: mcp_workbench_settings::ServerLimits::default(),
        reviewed: None,
    }
}

async fn started(pool: &Pool, spec: BackendSpec) -> (Backend, String, String) {
    let backend = pool.get_or_create(Arc::new(spec), true);
    let live = backend.ensure_running(None, StartPriority::Call).await.unwrap();
    let said = live.listed().listing.instructions.clone().unwrap();
    let (process, variables) = said.split_once(' ').unwrap();
    (backend, process.to_owned(), variables.to_owned())
}

// invariant: sharing-needs-equality
#[tokio::test]
async fn only_equal_environments_share_a_process() {
    let pool = Pool::new(PoolOptions::default());
    let (one, process, variables) =
        started(&pool, child(&[("TZ", "Asia/Tokyo"), ("LANG", "C"), ("OWN", "1")], false)).await;
    assert_eq!(variables, "Asia/Tokyo none");
    let (other, others, variables) =
        started(&pool, child(&[("TZ", "Europe/Bern"), ("LANG", "C"), ("OWN", "1")], false)).await;
    assert_eq!(variables, "Europe/Bern none");
    assert_ne!((one.id(), &process), (other.id(), &others));
    // Variables that the server doesn't get make no difference, and neither does the order.
    let (again, same, _) =
        started(&pool, child(&[("OWN", "2"), ("LANG", "C"), ("TZ", "Asia/Tokyo")], false)).await;
    assert_eq!((again.id(), same), (one.id(), process));
    pool.shut_down().await;
}

#[tokio::test]
async fn inherit_env_compares_all_but_withheld_variables() {
    let pool = Pool::new(PoolOptions::default());
    let (one, _, variables) = started(&pool, child(&[("OWN", "1")], true)).await;
    assert_eq!(variables, " 1");
    let (other, _, variables) = started(&pool, child(&[("OWN", "2")], true)).await;
    assert_eq!(variables, " 2");
    assert_ne!(one.id(), other.id());
    let (again, ..) = started(&pool, child(&[("OWN", "1"), ("WITHHELD", "x")], true)).await;
    assert_eq!(again.id(), one.id(), "withheld variables make no difference");
    pool.shut_down().await;
}

#[tokio::test]
async fn http_server_is_shared_across_environments() {
    let pool = Pool::new(PoolOptions::default());
    let remote = |variables: &[(&str, &str)]| {
        let reach = ServerTransport::Http(HttpEndpoint {
            url: "http://127.0.0.1:9/mcp".parse().unwrap(),
            transport: HttpTransport::Auto,
            account: Account::from_headers("server", &[]),
            credentials: Arc::new(StaticHeaders::new([].into_iter().collect())),
            login: None,
        });
        pool.get_or_create(Arc::new(BackendSpec { reach, ..child(variables, true) }), true)
    };
    let (one, other) = (remote(&[("TZ", "Asia/Tokyo")]), remote(&[("TZ", "Europe/Bern")]));
    assert_eq!(one.id(), other.id());
    pool.shut_down().await;
}

// invariant: sharing-needs-equality
#[tokio::test]
async fn callers_whose_tokens_are_exchanged_share_no_connection() {
    let options = PoolOptions { logins: Some(LoginStorage::Memory), ..PoolOptions::default() };
    let pool = Pool::new(options);
    let exchange = TokenExchange {
        issuer: "https://auth.example.com".parse().unwrap(),
        audience: None,
        key: None,
    };
    let launch = HttpLaunch {
        url: "http://127.0.0.1:9/mcp".parse().unwrap(),
        transport: HttpTransport::Auto,
        headers: Vec::new(),
        referred: Vec::new(),
        oauth: OAuthConfig {
            grant: GrantType::TokenExchange(Box::new(exchange)),
            ..OAuthConfig::default()
        },
    };
    let server = ServerConfig::new(ServerName::new("srv"), Launch::Http(launch));
    let (agent, ann, bob) = (AgentName::new("claude"), Arc::from("ann"), Arc::from("bob"));
    let reach = |subject: Option<&Arc<str>>| {
        ServerTransport::from_config(&server, &pool.login_scope(Some(&agent), subject))
    };
    let backend = |subject| {
        let reach = reach(Some(subject)).unwrap();
        pool.get_or_create(Arc::new(BackendSpec { reach, ..child(&[], false) }), true)
    };
    let (one, again, other) = (backend(&ann), backend(&ann), backend(&bob));
    assert_eq!(one.id(), again.id());
    assert_ne!(one.id(), other.id());
    let ServerTransport::Http(endpoint) = reach(Some(&ann)).unwrap() else { panic!() };
    let ServerTransport::Http(others) = reach(Some(&bob)).unwrap() else { panic!() };
    assert_ne!(endpoint.account.name(), others.account.name(), "they must share no stored listing");
    assert!(endpoint.credentials.is_token_required());
    // A caller without a token doesn't reach the server, with no other identity either.
    let refused = reach(None).unwrap_err();
    assert!(refused.reason.contains("no token to exchange"), "{refused:?}");
    pool.shut_down().await;
}

#[test]
fn debug_output_has_no_environment_values() {
    let text = format!("{:?}", child(&[("TZ", "s3cret")], true));
    assert!(text.contains("TZ") && !text.contains("s3cret"), "{text}");
}

#[test]
fn watchdog_that_keeps_exiting_is_given_up() {
    static STARTS: AtomicUsize = AtomicUsize::new(0);
    let start = |program: &Path, input| {
        STARTS.fetch_add(1, Ordering::Relaxed);
        launch::spawn_watchdog(program, input)
    };
    // Ignores its arguments and exits immediately.
    let mut guard = Watchdog::new(Some("/bin/true".into()), start, "run.".to_owned());
    // No process group has this ID.
    guard.watch(u32::MAX, None);
    let starts = || STARTS.load(Ordering::Relaxed);
    while starts() < MAX_SHORT_LIVES {
        guard.ensure_running();
    }
    for _ in 0..100_000 {
        guard.ensure_running();
    }
    assert_eq!(starts(), MAX_SHORT_LIVES);
    // The next server resets the count, once the last watchdog has exited.
    while starts() == MAX_SHORT_LIVES {
        guard.watch(u32::MAX, None);
    }
}

#[test]
fn watchdog_gets_the_process_groups_before_it_is_spawned() {
    static READ: Mutex<String> = Mutex::new(String::new());
    let start = |_: &Path, mut input: PipeReader| {
        let mut read = [0; 4096];
        let count = input.read(&mut read)?;
        READ.lock().push_str(str::from_utf8(&read[..count]).unwrap());
        Err(io::Error::other("no process starts"))
    };
    let mut guard = Watchdog::new(Some("any".into()), start, "run.".to_owned());
    guard.watch(7, None);
    assert_eq!(*READ.lock(), "=run.\n+7 \n");
}
