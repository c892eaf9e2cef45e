//! Builds the program from its parts: serves agents over stdio or HTTP, or runs a single task with
//! a gateway. Both end on their own or on a signal, followed by a shutdown.

mod certificates;
mod file_watcher;
mod memory_reclaimer;
mod reload;

use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::{AdminApi, ConfigSource};
use crate::app::certificates::CertificateReloader;
use crate::app::file_watcher::ReloadTrigger;
use crate::app::reload::ConfigReloader;
use crate::backend::PoolOptions;
use crate::frontend::http::{
    DefaultAccess, DrainControl, DrainTimeouts, HttpListeners, TlsCertificates,
};
use crate::frontend::{self, AppState, StreamDrain};
use crate::gateway::{Caller, Gateway, GatewayRegistry};
use crate::json::RawJson;
use crate::login::LoginStorage;
use crate::os::{self, LocalListener, Signal, has_terminal};
use crate::redis_store;
use crate::settings::{Config, is_loopback};
use crate::telemetry::Event;
use crate::wire::http_client::bridge::{self, BridgeOutcome, BridgeUpstream};
use crate::wire::stdio;

pub use crate::app::memory_reclaimer::MemoryReclaimer;
pub use crate::app::reload::{DescribeDiffFn, ReloadSource, ValueRefresh};

/// Target for the whole shutdown. Servers stop first, and records are flushed in the time left.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1900);
pub(crate) const FLUSH_TIMEOUT_RANGE: (Duration, Duration) =
    (Duration::from_millis(300), Duration::from_secs(1));

/// A configuration to serve, with its source, stores and sockets.
pub struct ServeOptions {
    pub config: Config,
    /// Reloads the configuration; `None` if it never changes.
    pub config_source: Option<ReloadSource>,
    pub admin_config: ConfigSource,
    /// Redis store for agents' state; `None` keeps the state in memory and loses it on exit.
    pub shared_store: Option<redis_store::RedisTarget>,
    pub admin_socket: Option<LocalListener>,
    pub memory_reclaimer: MemoryReclaimer,
}

/// Serves one agent, `caller`, on standard input and output until the input ends or a signal comes.
/// After the end of the input, requests in flight get the time of `grace`, unless the agent has
/// closed its end of the output. Returns when all servers are gone, within another 2 s. With a source, the configuration is reloaded when
/// its file changes and on SIGHUP.
///
/// # Errors
///
/// Returns an error if signal handlers can't be installed or the audit log can't be opened.
pub async fn serve_stdio(
    served: ServeOptions,
    options: PoolOptions,
    caller: Caller,
    grace: Duration,
) -> Result<(), AppError> {
    serve(served, options, caller.clone(), None, move |app, tasks, shutdown| async move {
        let streams = stdio::streams();
        let drain = StreamDrain { timeout: grace, agent_left: os::output_closed() };
        frontend::serve_stream(&app, caller, streams, &tasks, &shutdown, drain).await;
        tracing::info!("the client disconnected");
    })
    .await
}

/// Bridges the agent on standard input and output to the workbench at `upstream` until the input
/// ends or a signal comes. `revive` is called if that workbench doesn't answer.
///
/// # Errors
///
/// Returns an error if signal handlers can't be installed.
pub async fn run_bridge(
    upstream: BridgeUpstream,
    revive: impl AsyncFn() -> Result<(), String>,
) -> Result<Result<BridgeOutcome, String>, AppError> {
    os::raise_file_limit();
    let mut signals =
        ShutdownSignals::listen(Vec::new()).map_err(AppError::InstallSignalHandler)?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let carried = bridge::run(stdio::streams(), upstream, revive, &stop, &tasks);
    tokio::pin!(carried);
    match signals.run_until_signal(&mut carried).await {
        Ok(end) => Ok(end),
        Err(stopped) => {
            tracing::info!("{stopped}");
            stop.cancel();
            Ok(carried.await)
        }
    }
}

/// Serves agents on `listener` over HTTP until a signal comes. The first signal drains: new
/// requests are accepted during the drain delay, and calls in flight get the time of `grace`. A
/// second signal skips the rest. Returns when all servers are gone, within another 3 s. The
/// configuration is reloaded as in [`serve_stdio`].
///
/// # Errors
///
/// Returns an error if signal handlers can't be installed, or the audit log or the health listener
/// can't be opened.
pub async fn serve_http(
    served: ServeOptions,
    options: PoolOptions,
    listener: TcpListener,
    default_access: DefaultAccess,
    grace: DrainTimeouts,
    tls: Option<TlsCertificates>,
) -> Result<(), AppError> {
    let config = &served.config;
    let health = match config.http.health_listen {
        Some(address) => Some(TcpListener::bind(address).await.map_err(AppError::BindHealth)?),
        None => None,
    };
    if let Some(Ok(address)) = health.as_ref().map(TcpListener::local_addr) {
        tracing::info!("serving /health, /ready and /metrics at http://{address}");
    }
    let config_wants = config.http.max_connections;
    let most_connections = connection_limit(os::raise_file_limit(), config_wants);
    let tls = tls.map(Arc::new);
    let certificates = tls.as_ref().zip(config.http.tls.as_ref());
    let certificates = certificates.map(|(tls, files)| CertificateReloader::new(tls, files));
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listening =
        HttpListeners { agents: listener, health, max_connections: most_connections, tls };
    let address = listening.agents.local_addr().ok();
    let address = address.map(|at| format!("{scheme}://{at}{}", frontend::http::ENDPOINT));
    let is_served_elsewhere = !is_for_this_machine(&listening.agents, config);
    let options =
        PoolOptions { serves_many: true, serves_remote_agents: is_served_elsewhere, ..options };
    let draining = CancellationToken::new();
    let caller = Caller { agent: default_access.agent.clone(), toolbox: None };
    let over_http =
        HttpLifecycle { endpoint_url: address, draining: draining.clone(), certificates };
    serve(served, options, caller, Some(over_http), |app, tasks, shutdown| async move {
        let ending = DrainControl { draining, grace, shutdown };
        frontend::http::serve(app, listening, default_access, &tasks, ending).await;
    })
    .await
}

/// Returns `true` if only clients on this machine are expected, directly or through a proxy.
fn is_for_this_machine(listener: &TcpListener, config: &Config) -> bool {
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let jwt = config.auth.as_ref().and_then(|auth| auth.jwt.as_ref());
    let resource = jwt.and_then(|jwt| jwt.resource.as_ref());
    let mut addresses = resource.into_iter().chain(&config.http.public_url);
    is_local && config.http.allowed_hosts.is_empty() && addresses.all(is_loopback)
}

/// Open files that aren't client connections, such as pipes of servers.
const RESERVED_FDS: u64 = 256;

/// Returns the connection limit for this many open `files`. Warns if it is below `wanted`.
fn connection_limit(files: Option<u64>, wanted: usize) -> usize {
    let most = files.map_or(u64::MAX, |files| files.saturating_sub(RESERVED_FDS).max(files / 2));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most < wanted {
        tracing::warn!(
            "the open-file limit of {} allows at most {most} connections, fewer than \
             `http.maxConnections` ({wanted}): raise the hard limit (`ulimit -Hn`) or lower \
             `http.maxConnections`",
            files.unwrap_or_default(),
        );
    }
    most
}

struct HttpLifecycle {
    endpoint_url: Option<String>,
    /// Cancelled by the first signal, which starts draining. The second signal shuts down.
    draining: CancellationToken,
    certificates: Option<CertificateReloader>,
}

async fn serve<F>(
    served: ServeOptions,
    options: PoolOptions,
    caller: Caller,
    over_http: Option<HttpLifecycle>,
    frontend: impl FnOnce(AppState, TaskTracker, CancellationToken) -> F,
) -> Result<(), AppError>
where
    F: Future<Output = ()> + Send + 'static,
{
    os::raise_file_limit();
    let ServeOptions {
        config,
        config_source: source,
        admin_config: papers,
        shared_store: shared,
        admin_socket: socket,
        memory_reclaimer: settling,
    } = served;
    let shutdown = CancellationToken::new();
    let tasks = TaskTracker::new();
    let observer = Arc::clone(&options.observer);
    let (address, draining, certificates) = over_http
        .map_or((None, None, None), |it| (it.endpoint_url, Some(it.draining), it.certificates));
    let source = match &certificates {
        Some(certificates) => source.map(|source| certificates.trigger_on_config(source)),
        None => source,
    };
    let reload =
        source.map(|source| ConfigReloader::new(source, config.navigator.folder.as_deref()));
    let wishes = reload.iter().map(ConfigReloader::wish);
    let wishes = wishes.chain(certificates.iter().map(CertificateReloader::wish)).collect();
    // `listen` also handles SIGXFSZ, so a write beyond `RLIMIT_FSIZE` (to the audit log) returns
    // EFBIG instead of killing the process.
    let mut signals = ShutdownSignals::listen(wishes).map_err(AppError::InstallSignalHandler)?;
    observer.open_audit(&config).map_err(AppError::OpenAudit)?;
    // Announced only now that the file is watched, because a reader of this line may edit it
    // immediately.
    if let Some(address) = &address {
        observer.bus().emit(Event::Serving(address));
        log_next_steps(address, config.auth.is_some());
    }
    let config = Arc::new(config);
    let mut options = options;
    let gateways = match shared {
        Some(address) => {
            let limits = redis_store::StoreTimeouts::default();
            let of_store =
                redis_store::RedisStoreOptions { session_idle: config.http.session_idle, limits };
            let (observer, stop) = (Arc::clone(&observer), shutdown.clone());
            let store =
                redis_store::RedisStore::open(address, of_store, observer, &tasks, stop).await;
            if let (Some(logins), true) = (store.logins(), options.logins.is_some()) {
                options.logins = Some(LoginStorage::Custom(logins));
            }
            if let (Some(kept), Some(listings)) = (&options.store, store.listings()) {
                kept.share(listings);
            }
            GatewayRegistry::with_store(config, options, Arc::new(store), &tasks)
        }
        None => GatewayRegistry::new(config, options, &tasks),
    };
    let gateways = Arc::new(gateways);
    gateways.start_eager();
    let app = AppState::new(Arc::clone(&gateways), &tasks).map_err(AppError::RandomSource)?;
    let admin = AdminApi::new(Arc::clone(&gateways), caller, papers);
    if let Some(socket) = socket {
        let receiving = admin.clone().serve_socket(socket, tasks.clone());
        tasks.spawn(shutdown.clone().run_until_cancelled_owned(receiving));
    }
    let app = app.with_admin(admin);
    if let Some(reload) = reload {
        let reload = reload.run(Arc::clone(&gateways), tasks.clone());
        tasks.spawn(shutdown.clone().run_until_cancelled_owned(reload));
    }
    if let Some(certificates) = certificates {
        let renewing = certificates.run(Arc::clone(&gateways), tasks.clone());
        tasks.spawn(shutdown.clone().run_until_cancelled_owned(renewing));
    }
    tasks.spawn(shutdown.clone().run_until_cancelled_owned(settling.run()));
    // A separate task, because each wakeup of the runtime's main future costs a system call.
    let mut agents = tasks.spawn(frontend(app, tasks.clone(), shutdown.clone()));
    let mut ended = signals.run_until_signal(&mut agents).await;
    if let (Err(stopped), Some(draining)) = (&ended, draining) {
        tracing::info!("{stopped}: finishing running calls; a second signal stops immediately");
        draining.cancel();
        ended = signals.run_until_signal(agents).await;
    }
    match &ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the session ended unexpectedly"),
        Err(stopped) => tracing::info!("{stopped}"),
    }
    let ending = Instant::now();
    observer.begin_shutdown();
    shutdown.cancel();
    gateways.shut_down().await;
    let left = SHUTDOWN_TIMEOUT.saturating_sub(ending.elapsed());
    observer.close(left.clamp(FLUSH_TIMEOUT_RANGE.0, FLUSH_TIMEOUT_RANGE.1));
    match ended {
        Ok(_) | Err(AppError::Interrupted(_)) => Ok(()),
        Err(stopped) => Err(stopped),
    }
}

/// Logs how to connect a client, and the URL of the dashboard.
fn log_next_steps(endpoint_url: &str, needs_token: bool) {
    let header = if needs_token { " --header 'Authorization: Bearer <token>'" } else { "" };
    tracing::info!(
        "add this URL to your MCP clients, for example: claude mcp add --transport http workbench \
         {endpoint_url}{header}"
    );
    let origin = endpoint_url.trim_end_matches(frontend::http::ENDPOINT);
    tracing::info!("dashboard: {origin}/");
}

/// Why `serve_stdio`, `serve_http` or other work ended early.
#[derive(Debug, Error)]
pub enum AppError {
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
    #[error("failed to listen on `http.healthListen`")]
    BindHealth(#[source] std::io::Error),
    /// Work doesn't start if it couldn't be interrupted.
    #[error("failed to install signal handlers")]
    InstallSignalHandler(#[source] std::io::Error),
    /// Calls aren't served if they can't be audited.
    #[error("failed to open the audit log configured in `audit`")]
    OpenAudit(#[source] std::io::Error),
    /// Without random numbers, an agent could forge the `requestState` of another agent.
    #[error("failed to get random numbers from the operating system")]
    RandomSource(#[source] getrandom::Error),
}

/// Runs `work` with a gateway for `caller`, until it is done or a signal comes. Returns when all
/// servers are gone.
pub async fn with_gateway<T>(
    config: Config,
    options: PoolOptions,
    caller: &Caller,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, AppError> {
    with_gateway_for_client(config, options, (caller, None), work).await
}

/// Like [`with_gateway`], with the MCP capabilities that the client declares.
pub async fn with_gateway_for_client<T>(
    config: Config,
    options: PoolOptions,
    (caller, capabilities): (&Caller, Option<&RawJson>),
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, AppError> {
    let tasks = TaskTracker::new();
    let gateways = GatewayRegistry::new(Arc::new(config), options, &tasks);
    let gateway = gateways.gateway_for(caller, capabilities);
    let done = run_until_signal(work(&gateway)).await;
    gateways.shut_down().await;
    gateways.observer().close(FLUSH_TIMEOUT_RANGE.0);
    done
}

pub async fn run_until_signal<T>(work: impl Future<Output = T>) -> Result<T, AppError> {
    ShutdownSignals::listen(Vec::new())
        .map_err(AppError::InstallSignalHandler)?
        .run_until_signal(work)
        .await
}

impl ShutdownSignals {
    async fn run_until_signal<T>(&mut self, work: impl Future<Output = T>) -> Result<T, AppError> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next() => Err(AppError::Interrupted(signal)),
        }
    }
}

struct ShutdownSignals {
    heard: os::Signals,
    /// Reloads that SIGHUP triggers. If empty, SIGHUP ends the program.
    reload_triggers: Vec<Arc<ReloadTrigger>>,
    has_terminal: bool,
}

impl ShutdownSignals {
    fn listen(wishes: Vec<Arc<ReloadTrigger>>) -> std::io::Result<Self> {
        Ok(Self {
            heard: os::Signals::listen()?,
            has_terminal: !wishes.is_empty() && has_terminal(),
            reload_triggers: wishes,
        })
    }

    async fn next(&mut self) -> &'static str {
        loop {
            match self.heard.next().await {
                Signal::End(name) => return name,
                // A closing terminal also sends SIGHUP. That one has to end the program.
                Signal::Hangup
                    if !self.reload_triggers.is_empty()
                        && (!self.has_terminal || has_terminal()) =>
                {
                    for wish in &self.reload_triggers {
                        wish.request();
                    }
                }
                Signal::Hangup => return "SIGHUP",
            }
        }
    }
}
