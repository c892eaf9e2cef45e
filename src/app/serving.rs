//! Serves until all agents have left or a signal comes, followed by a shutdown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::certificates::CertificateReloader;
use crate::app::error::AppError;
use crate::app::memory_reclaimer::MemoryReclaimer;
use crate::app::reload::{ConfigReloader, ReloadSource};
use crate::app::signals::ShutdownSignals;
use mcp_workbench_core::backend::PoolOptions;
use mcp_workbench_core::gateway::{Caller, GatewayRegistry};
use mcp_workbench_core::telemetry::Event;
use mcp_workbench_login::LoginStorage;
use mcp_workbench_os::LocalListener;
use mcp_workbench_serve::admin::socket::{CommandHandlerFn, CommandService};
use mcp_workbench_serve::admin::{self, AdminApi, ConfigSource};
use mcp_workbench_serve::frontend::AppState;
use mcp_workbench_settings::Config;

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
    pub shared_store: Option<mcp_workbench_redis::RedisTarget>,
    pub admin_socket: Option<LocalListener>,
    pub commands: CommandOptions,
    pub memory_reclaimer: MemoryReclaimer,
}

/// The commands of other processes, which reach this one through the admin socket.
pub struct CommandOptions {
    pub handler: Arc<CommandHandlerFn>,
    /// How long running commands may take after all agents have left.
    pub grace: Duration,
}

pub(crate) struct HttpLifecycle {
    pub(crate) endpoint_url: Option<String>,
    /// Cancelled by the first signal, which starts draining. The second signal shuts down.
    pub(crate) draining: CancellationToken,
    pub(crate) certificates: Option<CertificateReloader>,
}

pub(crate) async fn serve<F>(
    served: ServeOptions,
    options: PoolOptions,
    caller: Caller,
    over_http: Option<HttpLifecycle>,
    frontend: impl FnOnce(AppState, TaskTracker, CancellationToken) -> F,
) -> Result<(), AppError>
where
    F: Future<Output = ()> + Send + 'static,
{
    mcp_workbench_os::raise_file_limit();
    let ServeOptions {
        config,
        config_source: source,
        admin_config: papers,
        shared_store: shared,
        admin_socket: socket,
        commands,
        memory_reclaimer: settling,
    } = served;
    let shutdown = CancellationToken::new();
    let tasks = TaskTracker::new();
    let observer = Arc::clone(&options.observer);
    let has_http = over_http.is_some();
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
    let gateways = make_gateways(config, options, shared, &tasks, &shutdown).await;
    let gateways = Arc::new(gateways);
    gateways.start_eager();
    let app = AppState::new(Arc::clone(&gateways), &tasks).map_err(AppError::RandomSource)?;
    let admin = AdminApi::new(Arc::clone(&gateways), caller, papers);
    let closing = CancellationToken::new();
    let running = TaskTracker::new();
    if has_http {
        gateways.approvals().open_http();
    }
    if let Some(socket) = socket {
        gateways.approvals().open_socket();
        let service = CommandService {
            handler: commands.handler,
            running: running.clone(),
            closing: closing.clone(),
        };
        let receiving = admin::socket::serve(admin.clone(), Some(service), socket, tasks.clone());
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
        closing.cancel();
        ended = signals.run_until_signal(agents).await;
    }
    if ended.is_ok() {
        closing.cancel();
        running.close();
        let finished = signals.run_until_signal(timeout(commands.grace, running.wait())).await;
        if let Err(stopped) = finished {
            tracing::info!("{stopped}");
        }
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

/// Creates the gateways, with the state of agents in the shared store if there is one.
async fn make_gateways(
    config: Arc<Config>,
    mut options: PoolOptions,
    shared: Option<mcp_workbench_redis::RedisTarget>,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) -> GatewayRegistry {
    let Some(address) = shared else { return GatewayRegistry::new(config, options, tasks) };
    let limits = mcp_workbench_redis::StoreTimeouts::default();
    let of_store =
        mcp_workbench_redis::RedisStoreOptions { session_idle: config.http.session_idle, limits };
    let (observer, stop) = (Arc::clone(&options.observer), shutdown.clone());
    let store =
        mcp_workbench_redis::RedisStore::open(address, of_store, observer, tasks, stop).await;
    if let (Some(logins), true) = (store.logins(), options.logins.is_some()) {
        options.logins = Some(LoginStorage::Custom(logins));
    }
    if let (Some(kept), Some(listings)) = (&options.store, store.listings()) {
        kept.share(listings);
    }
    GatewayRegistry::with_store(config, options, Arc::new(store), tasks)
}

/// Logs how to connect a client, and the URL of the dashboard.
fn log_next_steps(endpoint_url: &str, needs_token: bool) {
    let header = if needs_token { " --header 'Authorization: Bearer <token>'" } else { "" };
    tracing::info!(
        "add this URL to your MCP clients, for example: claude mcp add --transport http workbench \
         {endpoint_url}{header}"
    );
    let origin = endpoint_url.trim_end_matches(mcp_workbench_http::ENDPOINT);
    tracing::info!("dashboard: {origin}/");
}
