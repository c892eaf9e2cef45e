//! The actor that owns a server process, from first start to final stop.

mod backoff;
mod state;
mod waiters;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;

use crate::backend::actor::backoff::{RelistBackoff, RestartBackoff};
use crate::backend::actor::state::{ActorState, Relisting, RunningServer, StartingServer};
use crate::backend::actor::waiters::{
    fail_waiters, idle_deadline, join, link_trouble_changed, reply_to_waiters, sleep_until_some,
    wait_for_sign_in,
};
use crate::backend::change_feed::ChangeFeed;
use crate::backend::connection::{ConnectionParts, CrashReport};
use crate::backend::handshake::Era;
use crate::backend::listing_reader;
use crate::backend::listing_store::{PendingSave, ProtocolHint};
use crate::backend::message_router::MessageRouter;
use crate::backend::server_quota::ServerQuota;
use crate::backend::start::{self, FailedStart, StartGate, StartedServer};
use crate::backend::status::StatusRecorder;
use crate::backend::{
    BackendChange, BackendConnection, BackendError, BackendId, BackendSpec, ChangeKind,
    ListingRecord, PoolContext, ServerTransport, StartError, StartPriority, VersionedListing,
};
use crate::catalog::{DefinitionTracker, Listing};
use crate::telemetry::{QuotaKind, ServerRunGuard, ServerStopReason};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::pacer::Pacer;
use mcp_workbench_wire::server::ServerConnection;

pub(crate) use crate::backend::actor::waiters::Waiter;

/// Maximum number of violations that are logged for one server.
const MAX_LOGGED: usize = 1000;
/// A server that has run this long resets its restart backoff.
const STABLE: Duration = Duration::from_secs(30);
/// Time to read a server's remaining output after it has exited.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

pub(crate) enum ActorCommand {
    /// Start the server if needed; replies once it runs or has failed.
    EnsureRunning(Waiter, StartPriority),
    /// Stop the server; the next use starts it again.
    Recycle,
    /// Stop the server even during calls. The sender is dropped when it has stopped.
    Stop(oneshot::Sender<()>),
    /// Stop the server once it is unused, also after later starts.
    StopWhenUnused,
    /// Use this spec from now on, and undo `StopWhenUnused`.
    UpdateSpec(Arc<BackendSpec>),
    /// Delay the next start until another server has stopped (`true`).
    StartAfter(watch::Receiver<bool>),
}

#[derive(Clone)]
pub(crate) enum BackendState {
    /// Not running; the next call starts it.
    Stopped,
    /// The start failed; the next call retries. The error is safe to show to every agent.
    Failed(Arc<StartError>),
    Ready(BackendConnection),
}

pub(crate) struct Actor {
    pub(crate) id: BackendId,
    pub(crate) spec: Arc<BackendSpec>,
    pub(crate) context: Arc<PoolContext>,
    pub(crate) commands: mpsc::Receiver<ActorCommand>,
    pub(crate) status: watch::Sender<BackendState>,
    pub(crate) router: Arc<MessageRouter>,
    pub(crate) reports: Arc<ChangeFeed>,
    pub(crate) vitals: StatusRecorder,
    pub(crate) listed: ListingHistory,
    pub(crate) succession: Succession,
}

/// Facts about earlier listings of the server.
#[derive(Default)]
pub(crate) struct ListingHistory {
    known: DefinitionTracker,
    /// The violations that were logged.
    logged: HashSet<String>,
    /// The last listing, until it is saved.
    outgoing: PendingSave,
}

/// The servers that this one replaces, or that replace it.
pub(crate) struct Succession {
    /// Turns `true` when the server that this one replaces has stopped.
    predecessor_gone: Option<watch::Receiver<bool>>,
    stops_when_unused: bool,
    /// Tells a successor that this server has stopped because it was unused.
    gone: watch::Sender<bool>,
}

impl Succession {
    pub(crate) fn new(gone: watch::Sender<bool>) -> Self {
        Self { predecessor_gone: None, stops_when_unused: false, gone }
    }

    /// Tells a successor that this server has stopped.
    fn report_stopped(&self) {
        self.gone.send_replace(self.stops_when_unused);
    }
}

impl Actor {
    /// Runs until the pool shuts down or the last handle is dropped, then stops the server.
    pub(crate) async fn run(mut self) {
        let mut state = ActorState::Stopped;
        let mut restarts = RestartBackoff::new();
        let mut versions = 0;
        let mut found = None;
        // `true` if the last start failed only for lack of a sign-in.
        let mut wants_sign_in = false;
        let shutdown = self.context.shutdown.clone();
        while !shutdown.is_cancelled() && self.is_wanted() {
            state = match state {
                ActorState::Stopped => tokio::select! {
                    () = shutdown.cancelled() => ActorState::Stopped,
                    command = self.commands.recv() => match command {
                        Some(ActorCommand::EnsureRunning(waiter, _))
                            if self.context.paused.has(&self.spec.reach) =>
                        {
                            fail_waiters(vec![waiter], StartError::paused());
                            ActorState::Stopped
                        }
                        Some(ActorCommand::EnsureRunning(waiter, urgency)) => {
                            ActorState::Starting(self.begin(found, &mut restarts, Some((waiter, urgency))))
                        }
                        Some(command) => {
                            self.apply_command(command);
                            self.succession.report_stopped();
                            ActorState::Stopped
                        }
                        None => ActorState::Stopped,
                    },
                    () = wait_for_sign_in(self.spec.reach.login().cloned()), if wants_sign_in => {
                        wants_sign_in = false;
                        ActorState::Starting(self.begin(found, &mut restarts, None))
                    }
                },
                ActorState::Starting(mut starting) => tokio::select! {
                    () = shutdown.cancelled() => ActorState::Starting(starting),
                    command = self.commands.recv() => match command {
                        Some(ActorCommand::EnsureRunning(waiter, wanted)) => {
                            starting.waiting.push(waiter);
                            wanted.raise(&starting.urgency);
                            ActorState::Starting(starting)
                        }
                        Some(ActorCommand::Stop(_halted)) => {
                            let waiting = starting.give_up(ServerStopReason::UserRequest).await;
                            fail_waiters(waiting, StartError::halted());
                            self.vitals.stopped();
                            ActorState::Stopped
                        }
                        Some(command) => {
                            self.apply_command(command);
                            ActorState::Starting(starting)
                        }
                        // All handles are gone, and the loop ends.
                        None => ActorState::Starting(starting),
                    },
                    result = &mut starting.start => {
                        let StartingServer { waiting, run, .. } = starting;
                        match result.unwrap_or_else(|_| Err(StartError::internal().into())) {
                            Ok(started) => {
                                found = Some(started.found());
                                versions += 1;
                                let running = self.publish(started, versions, run).await;
                                reply_to_waiters(waiting, &Ok(running.live.clone()));
                                ActorState::Running(Box::new(running))
                            }
                            Err(failed) => {
                                run.fail(&failed.whole.reason);
                                wants_sign_in = failed.whole.wants_sign_in;
                                restarts.failed_unless(wants_sign_in);
                                self.tell_failure(failed, waiting).await;
                                ActorState::Stopped
                            }
                        }
                    }
                },
                ActorState::Running(mut running) => {
                    let next = self.next_transition(&mut running, &mut versions).await;
                    if running.since.elapsed() >= STABLE {
                        restarts = RestartBackoff::new();
                    }
                    match next {
                        Transition::None => ActorState::Running(running),
                        Transition::Died => {
                            restarts.record_failure();
                            self.record_crash(*running).await;
                            ActorState::Stopped
                        }
                        Transition::Stopped(why, _halted) => {
                            running.started.end().await;
                            running.run.stop(why);
                            self.vitals.stopped();
                            ActorState::Stopped
                        }
                    }
                }
            };
            if matches!(state, ActorState::Stopped) {
                self.succession.report_stopped();
            }
        }
        self.finish(state).await;
    }

    /// Publishes a failed start. Only the agent that caused it gets the full error.
    async fn tell_failure(&self, failed: FailedStart, waiting: Vec<Waiter>) {
        let FailedStart { whole, public, stderr_tail, .. } = failed;
        self.vitals.failed(&whole.reason, stderr_tail);
        if whole.wants_sign_in {
            self.vitals.mark_sign_in_wanted();
        }
        let known = if self.context.is_sole { &whole } else { &public };
        self.status.send_replace(BackendState::Failed(Arc::clone(known)));
        self.report(ChangeKind::Failed).await;
        // The first waiter caused the start.
        let starter = waiting.first().and_then(|w| w.principal.clone());
        for Waiter { principal, reply } in waiting {
            let is_its = starter.is_some() && principal == starter;
            let failure = if is_its { &whole } else { known };
            // The caller may have given up.
            let _ = reply.send(Err(BackendError::StartFailed(Arc::clone(failure))));
        }
    }

    fn begin(
        &mut self,
        found: Option<ProtocolHint>,
        restarts: &mut RestartBackoff,
        waiter: Option<(Waiter, StartPriority)>,
    ) -> StartingServer {
        let (waiting, urgency) = match waiter {
            Some((waiter, urgency)) => (vec![waiter], urgency),
            None => (Vec::new(), StartPriority::Background),
        };
        let (urgency, wanted) = watch::channel(urgency);
        self.succession.gone.send_replace(false);
        let (not_before, after) =
            (restarts.not_before.take(), self.succession.predecessor_gone.take());
        let when = StartGate { not_before, after, urgency: wanted };
        let (spec, context) = (Arc::clone(&self.spec), Arc::clone(&self.context));
        self.vitals.starting();
        let run = self.context.observer.begin_server_run(spec.toolbox(), &spec.server, &spec.label);
        let start = start::start(spec, context, Arc::clone(&self.router), found, when);
        StartingServer {
            start: self.context.tasks.spawn(start.in_current_span()),
            waiting,
            urgency,
            run,
        }
    }

    async fn finish(&self, state: ActorState) {
        self.status.send_replace(BackendState::Stopped);
        let is_end = self.context.shutdown.is_cancelled();
        let why = if is_end { ServerStopReason::Shutdown } else { ServerStopReason::NoUsersLeft };
        match state {
            ActorState::Stopped => {}
            ActorState::Starting(starting) => {
                reply_to_waiters(starting.give_up(why).await, &Err(BackendError::ShuttingDown));
            }
            ActorState::Running(running) => {
                running.started.end().await;
                running.run.stop(why);
            }
        }
        self.vitals.stopped();
    }

    fn is_wanted(&self) -> bool {
        !self.commands.is_closed() || !self.commands.is_empty()
    }

    /// Publishes a started server, to snapshots before waiters.
    async fn publish(
        &mut self,
        started: StartedServer,
        version: u64,
        mut run: ServerRunGuard,
    ) -> RunningServer {
        self.log_violations(&started.listing);
        let first = VersionedListing { version, listing: Arc::clone(&started.listing) };
        self.report(ChangeKind::Listed(first.clone())).await;
        self.keep(started.found(), Arc::clone(&first.listing));
        let (listed, listed_receiver) = watch::channel(first);
        let (death, death_receiver) = watch::channel(None);
        let live = BackendConnection::new(ConnectionParts {
            connection: started.connection.clone(),
            handshake: Arc::clone(&started.handshake),
            listed: listed_receiver,
            death: death_receiver,
            is_remote: matches!(self.spec.reach, ServerTransport::Http(_)),
            login: self.spec.reach.login().cloned(),
        });
        self.status.send_replace(BackendState::Ready(live.clone()));
        self.replay_agent_state(live.clone());
        self.vitals.running(started.id(), started.stderr_tail());
        run.mark_ready(started.id(), version > 1, &started.listing);
        run.record_changes(&self.listed.known.update(&started.listing, Instant::now().into_std()));
        let since = Instant::now();
        let trouble = started.connection.unavailable_reason();
        RunningServer {
            started,
            live,
            since,
            listed,
            death,
            run,
            trouble,
            relisting: Relisting {
                task: None,
                backoff: RelistBackoff::new(),
                pacer: Pacer::per_minute(self.spec.quotas.list_changes_per_minute),
                has_warned: false,
            },
        }
    }

    /// Replays the agents' log level and subscriptions to a new process.
    fn replay_agent_state(&self, live: BackendConnection) {
        let router = Arc::clone(&self.router);
        let replay = async move {
            live.pass_on_log_level(&router).await;
            if live.era() == Era::Legacy {
                for uri in router.subscriptions() {
                    let uri = RawJson::encode(&uri);
                    // A resource that no longer exists can't change either.
                    let _ = live.request_ack("resources/subscribe", &[("uri", &uri)]).await;
                }
            }
        };
        self.context.tasks.spawn(replay.in_current_span());
    }

    fn keep(&self, found: ProtocolHint, listing: Arc<Listing>) {
        let Some(worker) = &self.context.worker else { return };
        let ProtocolHint { era, uses_sse: is_old } = found;
        let record = ListingRecord { server: self.spec.server.clone(), era, is_old, listing };
        let context = Arc::clone(&self.context);
        let quiet = async move { context.scheduler.wait_idle().await };
        worker.schedule_save(&self.spec, &self.listed.outgoing, record, quiet);
    }

    async fn report(&self, change: ChangeKind) {
        self.reports.publish(BackendChange { backend: self.id, change }).await;
    }

    fn apply_command(&mut self, command: ActorCommand) {
        match command {
            ActorCommand::StopWhenUnused => self.succession.stops_when_unused = true,
            ActorCommand::UpdateSpec(spec) => {
                self.spec = spec;
                self.succession.stops_when_unused = false;
            }
            ActorCommand::StartAfter(gone) => self.succession.predecessor_gone = Some(gone),
            // Nothing to stop. Dropping the sender in `Stop` tells its caller that the server is
            // stopped.
            ActorCommand::EnsureRunning(..) | ActorCommand::Recycle | ActorCommand::Stop(_) => {}
        }
    }

    async fn next_transition(
        &mut self,
        running: &mut RunningServer,
        versions: &mut u64,
    ) -> Transition {
        let shutdown = self.context.shutdown.clone();
        let idle = idle_deadline(&running.live, self.spec.idle_timeout, &self.router);
        let (connection, live) = (running.started.connection.clone(), running.live.clone());
        tokio::select! {
            () = shutdown.cancelled() => Transition::None,
            // Either half may notice the end of the connection first.
            () = connection.closed() => self.lost(&connection, &live),
            () = connection.input_closed() => self.lost(&connection, &live),
            why = link_trouble_changed(&mut running.trouble) => {
                self.vitals.unreachable(why.as_deref());
                running.run.mark_unreachable(why.as_deref());
                Transition::None
            }
            () = running.started.left() => {
                // Read the remaining output first. A child of the server may hold it open.
                let _ = timeout(OUTPUT_DRAIN_TIMEOUT, connection.closed()).await;
                Transition::Died
            }
            command = self.commands.recv() => {
                // `None` means that all handles are gone, and the loop ends.
                match command {
                    Some(ActorCommand::EnsureRunning(waiter, _)) => {
                        reply_to_waiters(vec![waiter], &Ok(running.live.clone()));
                        Transition::None
                    }
                    Some(ActorCommand::Recycle) => {
                        self.status.send_replace(BackendState::Stopped);
                        Transition::Stopped(ServerStopReason::Renewal, None)
                    }
                    Some(ActorCommand::Stop(halted)) => {
                        self.status.send_replace(BackendState::Stopped);
                        Transition::Stopped(ServerStopReason::UserRequest, Some(halted))
                    }
                    Some(command) => {
                        self.apply_command(command);
                        Transition::None
                    }
                    None => Transition::None,
                }
            }
            () = self.router.lists_changed.notified(), if running.relisting.task.is_none() => {
                let connection = connection.clone();
                let handshake = Arc::clone(&running.started.handshake);
                let last = running.live.listed().listing;
                let (spec, router) = (Arc::clone(&self.spec), Arc::clone(&self.router));
                let quota = ServerQuota::of(&spec, &self.context.observer);
                let pause = self.relist_pause(running, &quota);
                let relisting = async move {
                    sleep(pause).await;
                    let kinds = router.take_changed();
                    if kinds.is_empty() {
                        return Ok(None);
                    }
                    let listing = listing_reader::read(&connection, &handshake, &last, kinds, &quota);
                    let listing = timeout(spec.startup_timeout, listing).await;
                    let listing = listing.map_err(|_| "no response in time".to_owned())?;
                    listing.map_err(|unread| unread.why).map(Some)
                };
                running.relisting.task = Some(self.context.tasks.spawn(relisting.in_current_span()));
                Transition::None
            }
            listing = join(&mut running.relisting.task) => {
                running.relisting.task = None;
                match listing {
                    Ok(Ok(None)) | Err(_) => {}
                    Ok(Ok(Some(listing))) => self.relisted(running, versions, listing).await,
                    Ok(Err(reason)) => {
                        let server = &self.spec.label;
                        tracing::warn!(server, "failed to reread changed lists: {reason}");
                    }
                }
                Transition::None
            }
            () = live.wait_unused(), if self.succession.stops_when_unused => {
                if running.live.close_if_unused() {
                    self.status.send_replace(BackendState::Stopped);
                    Transition::Stopped(ServerStopReason::RemovedFromConfig, None)
                } else {
                    Transition::None
                }
            }
            () = sleep_until_some(idle) => {
                let timeout = self.spec.idle_timeout.unwrap_or(Duration::MAX);
                let is_idle = running.live.idle_since().is_some_and(|s| s.elapsed() >= timeout);
                let is_wanted = self.router.has_subscriptions();
                if is_idle && !is_wanted && running.live.close_if_unused() {
                    self.status.send_replace(BackendState::Stopped);
                    Transition::Stopped(ServerStopReason::Idle, None)
                } else {
                    Transition::None
                }
            }
        }
    }

    /// Uses lists that were read again after a change.
    async fn relisted(
        &mut self,
        running: &mut RunningServer,
        versions: &mut u64,
        listing: Listing,
    ) {
        let is_changed = !listing.has_same_definitions(&running.live.listed().listing);
        running.relisting.backoff.record(is_changed, Instant::now());
        self.log_violations(&listing);
        *versions += 1;
        let next = VersionedListing { version: *versions, listing: Arc::new(listing) };
        running.run.record_listing(&next.listing);
        let now = Instant::now().into_std();
        running.run.record_changes(&self.listed.known.update(&next.listing, now));
        running.listed.send_replace(next.clone());
        self.keep(running.started.found(), Arc::clone(&next.listing));
        self.report(ChangeKind::Listed(next)).await;
    }

    /// Counts a change of the lists, and returns how long to wait before they are read.
    fn relist_pause(&self, running: &mut RunningServer, quota: &ServerQuota) -> Duration {
        let now = Instant::now();
        let usual = running.relisting.backoff.pause(now);
        let pause = running.relisting.pacer.count(now);
        if pause <= usual {
            return usual;
        }
        quota.report_limit_reached(QuotaKind::Reconnects);
        if !std::mem::replace(&mut running.relisting.has_warned, true) {
            tracing::warn!(
                server = self.spec.label,
                "the server changes its lists too often; they are read at most {} times per minute \
                 (limits.perServer.listChangesPerMinute)",
                self.spec.quotas.list_changes_per_minute
            );
        }
        pause
    }

    /// Logs each violation of the specification once.
    fn log_violations(&mut self, listing: &Listing) {
        for violation in listing.violations.values().flatten() {
            if self.listed.logged.len() < MAX_LOGGED && self.listed.logged.insert(violation.clone())
            {
                tracing::warn!(server = self.spec.label, "{violation}");
            }
        }
    }

    /// An HTTP server that was lost while unused has not crashed: the next use reconnects.
    fn lost(&self, connection: &ServerConnection, live: &BackendConnection) -> Transition {
        if connection.disconnect_reason().is_none() || live.idle_since().is_none() {
            return Transition::Died;
        }
        self.status.send_replace(BackendState::Stopped);
        Transition::Stopped(ServerStopReason::ConnectionLost, None)
    }

    async fn record_crash(&self, running: RunningServer) {
        self.status.send_replace(BackendState::Stopped);
        self.report(ChangeKind::Crashed).await;
        let users = (!self.context.is_sole).then(|| self.router.users());
        let cause = running.started.end().await;
        self.vitals.died(&cause.describe_exit("unexpectedly", true));
        running.run.mark_died(&cause.describe(true));
        running.death.send_replace(Some(Arc::new(CrashReport { cause, users })));
    }
}

enum Transition {
    None,
    Died,
    /// The sender is dropped when the server has stopped.
    Stopped(ServerStopReason, Option<oneshot::Sender<()>>),
}
