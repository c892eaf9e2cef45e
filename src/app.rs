//! The program as a whole: what is built from what, in which order, and how it all ends.

mod certificates;
mod reload;
mod settling;
mod watching;

use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::certificates::Certificates;
use crate::app::reload::Reload;
use crate::app::watching::Wish;
use crate::backend::PoolOptions;
use crate::desk::{Desk, Papers};
use crate::frontend::http::{Door, Ending, Grace, Listening, Tls};
use crate::frontend::{self, AppState};
use crate::gateway::{Caller, Gateway, Gateways};
use crate::login::Keep;
use crate::observe::Event;
use crate::os::{self, LocalListener, Signal, has_terminal};
use crate::raw::Raw;
use crate::settings::{Config, is_loopback};
use crate::shared;
use crate::wire::remote::bridge::{self, End, Shore};
use crate::wire::stdio;

pub use crate::app::reload::{Difference, Renewal, Source};
pub use crate::app::settling::Settling;

/// How long the end may take.
const LEAVING: Duration = Duration::from_millis(1900);
/// How long the last records may take to be written at least, and at most where there is time.
pub(crate) const LAST_RECORDS: (Duration, Duration) =
    (Duration::from_millis(300), Duration::from_secs(1));

/// A configuration that is to be served, and what belongs to it.
pub struct Served {
    /// The configuration.
    pub config: Config,
    /// Where it can be read again; `None`: it does not change.
    pub source: Option<Source>,
    /// The configuration as its user has it.
    pub papers: Papers,
    /// The store that agents' state is in; `None`: it is in memory, and ends with us.
    pub shared: Option<shared::Address>,
    /// Where other processes of the user look at what goes on; `None`: nowhere.
    pub socket: Option<LocalListener>,
    /// Hears of what goes on, so that memory is given back when it is over.
    pub settling: Settling,
}

/// Serves one agent, `caller`, on standard input and output, until the input ends or a signal comes.
/// Returns when every server is gone, within 2 s. With a source, the configuration is read again
/// when it changes, and at SIGHUP.
///
/// # Errors
///
/// When the operating system lets us hear no signals.
pub async fn serve_stdio(
    served: Served,
    options: PoolOptions,
    caller: Caller,
) -> Result<(), Stopped> {
    serve(served, options, caller.clone(), None, |app, tasks, shutdown| async move {
        let (input, output) = stdio::streams();
        frontend::serve(&app, caller, input, output, &tasks, &shutdown).await;
        tracing::info!("the agent has left");
    })
    .await
}

/// Carries messages between the agent on standard input and output and the workbench at `shore`, until
/// the input ends or a signal comes. `revive` is asked for that workbench when it does not answer.
///
/// # Errors
///
/// When the operating system lets us hear no signals.
pub async fn bridge(
    shore: Shore,
    revive: impl AsyncFn() -> Result<(), String>,
) -> Result<Result<End, String>, Stopped> {
    os::raise_file_limit();
    os::reuse_memory();
    let mut signals = Signals::listen(Vec::new()).map_err(Stopped::Deaf)?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let carried = bridge::carry(stdio::streams(), shore, revive, &stop, &tasks);
    tokio::pin!(carried);
    match signals.until(&mut carried).await {
        Ok(end) => Ok(end),
        Err(stopped) => {
            tracing::info!("{stopped}");
            stop.cancel();
            Ok(carried.await)
        }
    }
}

/// Serves the agents that come to `listener` over HTTP, until a signal comes. What is under way then, and what
/// comes in the delay of `grace`, is finished in its time and if no other signal comes; it returns when every server is gone,
/// within 3 s more. The configuration is read again as in [`serve_stdio`].
///
/// # Errors
///
/// When the operating system lets us hear no signals.
pub async fn serve_http(
    served: Served,
    options: PoolOptions,
    listener: TcpListener,
    door: Door,
    grace: Grace,
    tls: Option<Tls>,
) -> Result<(), Stopped> {
    let config = &served.config;
    let health = match config.http.health_listen {
        Some(address) => Some(TcpListener::bind(address).await.map_err(Stopped::NoHealth)?),
        None => None,
    };
    if let Some(Ok(address)) = health.as_ref().map(TcpListener::local_addr) {
        tracing::info!("answering /health, /ready and /metrics at http://{address}");
    }
    let config_wants = config.http.max_connections;
    let most_connections = connections_for(os::raise_file_limit(), config_wants);
    let tls = tls.map(Arc::new);
    let certificates = tls.as_ref().zip(config.http.tls.as_ref());
    let certificates = certificates.map(|(tls, files)| Certificates::new(tls, files));
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listening = Listening { agents: listener, health, most_connections, tls };
    let address = listening.agents.local_addr().ok();
    let address = address.map(|at| format!("{scheme}://{at}{}", frontend::http::ENDPOINT));
    let is_served_elsewhere = !is_for_this_machine(&listening.agents, config);
    let options = PoolOptions { serves_many: true, is_served_elsewhere, ..options };
    let draining = CancellationToken::new();
    let caller = Caller { agent: door.agent.clone(), toolbox: None };
    let over_http = OverHttp { address, draining: draining.clone(), certificates };
    serve(served, options, caller, Some(over_http), |app, tasks, shutdown| async move {
        let ending = Ending { draining, grace, shutdown };
        frontend::http::serve(app, listening, door, &tasks, ending).await;
    })
    .await
}

/// Returns `true` if nobody on another machine is meant to come, be it through a proxy.
fn is_for_this_machine(listener: &TcpListener, config: &Config) -> bool {
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let jwt = config.auth.as_ref().and_then(|auth| auth.jwt.as_ref());
    let resource = jwt.and_then(|jwt| jwt.resource.as_ref());
    let mut addresses = resource.into_iter().chain(&config.http.public_url);
    is_local && config.http.allowed_hosts.is_empty() && addresses.all(is_loopback)
}

/// How many files are for other things than connections of agents: the streams of servers, and our own.
const OTHER_FILES: u64 = 256;

/// Returns how many connections there may be where so many files can be open, and says in the log if
/// that is fewer than the configuration wants.
fn connections_for(files: Option<u64>, wanted: usize) -> usize {
    let most = files.map_or(u64::MAX, |files| files.saturating_sub(OTHER_FILES).max(files / 2));
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most < wanted {
        tracing::warn!(
            "this system lets the program open {} files, so there are at most {most} connections, fewer \
             than the {wanted} of `http.maxConnections`: raise the hard limit of open files \
             (`ulimit -Hn`), or lower the key",
            files.unwrap_or_default(),
        );
    }
    most
}

/// The parts that serving over HTTP has besides.
struct OverHttp {
    /// Where agents come in.
    address: Option<String>,
    /// Is cancelled by the first signal, and only the second ends everything.
    draining: CancellationToken,
    certificates: Option<Certificates>,
}

/// Serves agents as `frontend` does, until it returns or a signal comes.
async fn serve<F>(
    served: Served,
    options: PoolOptions,
    caller: Caller,
    over_http: Option<OverHttp>,
    frontend: impl FnOnce(AppState, TaskTracker, CancellationToken) -> F,
) -> Result<(), Stopped>
where
    F: Future<Output = ()> + Send + 'static,
{
    os::raise_file_limit();
    os::reuse_memory();
    let Served { config, source, papers, shared, socket, settling } = served;
    let shutdown = CancellationToken::new();
    let tasks = TaskTracker::new();
    let observer = Arc::clone(&options.observer);
    let (address, draining, certificates) =
        over_http.map_or((None, None, None), |it| (it.address, Some(it.draining), it.certificates));
    let source = match &certificates {
        Some(certificates) => source.map(|source| certificates.following(source)),
        None => source,
    };
    let reload = source.map(|source| Reload::new(source, config.navigator.folder.as_deref()));
    let wishes = reload.iter().map(Reload::wish);
    let wishes = wishes.chain(certificates.iter().map(Certificates::wish)).collect();
    // From here on a file that may grow no longer ends nothing.
    let mut signals = Signals::listen(wishes).map_err(Stopped::Deaf)?;
    observer.audit(&config).map_err(Stopped::NoAudit)?;
    // Whoever reads that may change the file at once, which is watched by now.
    if let Some(address) = &address {
        observer.listeners().tell(Event::Serving(address));
    }
    let config = Arc::new(config);
    let mut options = options;
    let gateways = match shared {
        Some(address) => {
            let limits = shared::Limits::default();
            let of_store = shared::Options { session_idle: config.http.session_idle, limits };
            let (observer, stop) = (Arc::clone(&observer), shutdown.clone());
            let store = shared::Redis::open(address, of_store, observer, &tasks, stop).await;
            if let (Some(logins), true) = (store.logins(), options.logins.is_some()) {
                options.logins = Some(Keep::In(logins));
            }
            if let (Some(kept), Some(listings)) = (&options.store, store.listings()) {
                kept.share(listings);
            }
            Gateways::with_store(config, options, Arc::new(store), &tasks)
        }
        None => Gateways::new(config, options, &tasks),
    };
    let gateways = Arc::new(gateways);
    gateways.start_eager();
    let app = AppState::new(Arc::clone(&gateways), &tasks).map_err(Stopped::NoRandomNumbers)?;
    let desk = Desk::new(Arc::clone(&gateways), caller, papers);
    if let Some(socket) = socket {
        let receiving = desk.clone().receive(socket, tasks.clone());
        tasks.spawn(shutdown.clone().run_until_cancelled_owned(receiving));
    }
    let app = app.with_desk(desk);
    if let Some(reload) = reload {
        let reload = reload.run(Arc::clone(&gateways), tasks.clone());
        tasks.spawn(shutdown.clone().run_until_cancelled_owned(reload));
    }
    if let Some(certificates) = certificates {
        let renewing = certificates.run(Arc::clone(&gateways), tasks.clone());
        tasks.spawn(shutdown.clone().run_until_cancelled_owned(renewing));
    }
    tasks.spawn(shutdown.clone().run_until_cancelled_owned(settling.run()));
    // In a task of its own: each time the main future of a runtime is woken costs a system call.
    let mut agents = tasks.spawn(frontend(app, tasks.clone(), shutdown.clone()));
    let mut ended = signals.until(&mut agents).await;
    if let (Err(stopped), Some(draining)) = (&ended, draining) {
        tracing::info!("{stopped}; another signal ends everything at once");
        draining.cancel();
        ended = signals.until(agents).await;
    }
    match &ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the session was lost"),
        Err(stopped) => tracing::info!("{stopped}"),
    }
    let ending = Instant::now();
    observer.begin_ending();
    shutdown.cancel();
    gateways.shut_down().await;
    let left = LEAVING.saturating_sub(ending.elapsed());
    observer.close(left.clamp(LAST_RECORDS.0, LAST_RECORDS.1));
    match ended {
        Ok(_) | Err(Stopped::Signal(_)) => Ok(()),
        Err(stopped) => Err(stopped),
    }
}

/// Why work was not done to its end.
#[derive(Debug, Error)]
pub enum Stopped {
    /// A signal came.
    #[error("interrupted by {0}")]
    Signal(&'static str),
    /// `http.healthListen` names an address that cannot be listened at.
    #[error("nobody can be answered at `http.healthListen`")]
    NoHealth(#[source] std::io::Error),
    /// Work is not begun where it could not be stopped.
    #[error("the operating system lets us hear no signals")]
    Deaf(#[source] std::io::Error),
    /// Nothing is done that could not be recorded.
    #[error("calls cannot be recorded as `audit` wants it")]
    NoAudit(#[source] std::io::Error),
    /// There are no random numbers, so an agent could guess what another is told to come back with.
    #[error("the operating system has no random numbers")]
    NoRandomNumbers(#[source] getrandom::Error),
}

/// Does `work` with what `caller` may have of the servers of a configuration. Returns when every
/// server is gone, be the work done or a signal have come.
pub async fn with_gateway<T>(
    config: Config,
    options: PoolOptions,
    caller: &Caller,
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, Stopped> {
    with_gateway_of(config, options, (caller, None), work).await
}

/// Does `work` as [`with_gateway`] does, for a client that says this of what it can do.
pub async fn with_gateway_of<T>(
    config: Config,
    options: PoolOptions,
    (caller, capabilities): (&Caller, Option<&Raw>),
    work: impl AsyncFnOnce(&Gateway) -> T,
) -> Result<T, Stopped> {
    let tasks = TaskTracker::new();
    let gateways = Gateways::new(Arc::new(config), options, &tasks);
    let gateway = gateways.of(caller, capabilities);
    let done = until_signal(work(&gateway)).await;
    gateways.shut_down().await;
    gateways.observer().close(LAST_RECORDS.0);
    done
}

/// Does `work`, and gives it up when a signal comes.
pub async fn until_signal<T>(work: impl Future<Output = T>) -> Result<T, Stopped> {
    Signals::listen(Vec::new()).map_err(Stopped::Deaf)?.until(work).await
}

impl Signals {
    /// Does `work`, and gives it up when a signal comes.
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stopped> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next() => Err(Stopped::Signal(signal)),
        }
    }
}

/// The signals that end the program.
struct Signals {
    heard: os::Signals,
    /// Who is told of a SIGHUP; nobody: that ends the program, too.
    wishes: Vec<Arc<Wish>>,
    has_terminal: bool,
}

impl Signals {
    fn listen(wishes: Vec<Arc<Wish>>) -> std::io::Result<Self> {
        Ok(Self {
            heard: os::Signals::listen()?,
            has_terminal: !wishes.is_empty() && has_terminal(),
            wishes,
        })
    }

    async fn next(&mut self) -> &'static str {
        loop {
            match self.heard.next().await {
                Signal::End(name) => return name,
                // A terminal that is closed says so with a SIGHUP.
                Signal::Hangup
                    if !self.wishes.is_empty() && (!self.has_terminal || has_terminal()) =>
                {
                    for wish in &self.wishes {
                        wish.ask();
                    }
                }
                Signal::Hangup => return "SIGHUP",
            }
        }
    }
}
