//! The actor that owns one server's process, from its first start to its last end.

mod life;
mod restarts;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::backend::actor::life::{Running, Starting, State};
use crate::backend::actor::restarts::Restarts;
use crate::backend::actor::waiting::{
    answer, idle_deadline, join, news, refuse, signed_in, sleep_until_some,
};
use crate::backend::condition::Vitals;
use crate::backend::handshake::Era;
use crate::backend::lists;
use crate::backend::live::{Death, Parts};
use crate::backend::reports::Reports;
use crate::backend::start::{self, Failed, Started, When};
use crate::backend::store::{Found, Outgoing};
use crate::backend::switchboard::Switchboard;
use crate::backend::{
    BackendId, Change, Changed, Context, Error, Listed, Live, Reach, Record, Spec, StartFailure,
    Urgency,
};
use crate::catalog::{KnownDefinitions, Listing};
use crate::observe::{ServerRun, StoppedFor};
use crate::raw::Raw;
use crate::wire::server::Link;

pub(crate) use crate::backend::actor::waiting::Waiter;

/// Changes of lists within this time are read together.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// A server that lived this long did not die of its start.
const STABLE: Duration = Duration::from_secs(30);
/// How long what a server still wrote before it ended may take to be read.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// A request of a handle to its actor.
pub(crate) enum Command {
    /// Start the server if it is not running, and answer once it is or cannot be.
    Ensure(Waiter, Urgency),
    /// End the server if it is running.
    Retire,
    /// End the server whatever it does, and drop this when it has ended.
    Halt(oneshot::Sender<()>),
    /// End the server as soon as it is not used, now and whenever it is started again.
    Dismiss,
    /// Let this hold from now on, and keep the server.
    Adopt(Arc<Spec>),
    /// Do not start before this says that another server has gone.
    Follow(watch::Receiver<bool>),
}

/// The state of a backend, for everybody to know.
#[derive(Clone)]
pub(crate) enum Status {
    /// Not running; the next call starts it.
    Stopped,
    /// Not running, after a start that failed; the next call tries again. This is for everybody.
    Failed(Arc<StartFailure>),
    /// Running and listed.
    Ready(Live),
}

/// Everything the actor knows.
pub(crate) struct Actor {
    pub(crate) id: BackendId,
    pub(crate) spec: Arc<Spec>,
    pub(crate) context: Arc<Context>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) board: Arc<Switchboard>,
    pub(crate) reports: Arc<Reports>,
    /// Its condition, for whoever looks on.
    pub(crate) vitals: Vitals,
    /// The definitions that it had last, in this run or in an earlier one.
    pub(crate) known: KnownDefinitions,
    /// The last listing, while it is on its way to the store.
    pub(crate) outgoing: Outgoing,
    /// Says when the server that was in this one's place has gone.
    pub(crate) after: Option<watch::Receiver<bool>>,
    /// `true` if the server is only there for those who use it already.
    pub(crate) is_dismissed: bool,
    /// Where it says that the server has gone for that reason.
    pub(crate) gone: watch::Sender<bool>,
}

impl Actor {
    /// Runs until the pool shuts down; afterwards nothing of the server is left.
    pub(crate) async fn run(mut self) {
        let mut state = State::Stopped;
        let mut restarts = Restarts::new();
        let mut versions = 0;
        let mut found = None;
        // `true` if it failed for want of a sign-in alone.
        let mut wants_sign_in = false;
        let shutdown = self.context.shutdown.clone();
        while !shutdown.is_cancelled() && self.is_wanted() {
            state = match state {
                State::Stopped => tokio::select! {
                    () = shutdown.cancelled() => State::Stopped,
                    command = self.commands.recv() => match command {
                        Some(Command::Ensure(waiter, _))
                            if self.context.muted.has(&self.spec.reach) =>
                        {
                            refuse(vec![waiter], StartFailure::muted());
                            State::Stopped
                        }
                        Some(Command::Ensure(waiter, urgency)) => {
                            State::Starting(self.begin(found, &mut restarts, Some((waiter, urgency))))
                        }
                        Some(command) => {
                            self.learn(command);
                            self.gone.send_replace(self.is_dismissed);
                            State::Stopped
                        }
                        None => State::Stopped,
                    },
                    () = signed_in(self.spec.reach.login().cloned()), if wants_sign_in => {
                        wants_sign_in = false;
                        State::Starting(self.begin(found, &mut restarts, None))
                    }
                },
                State::Starting(mut starting) => tokio::select! {
                    () = shutdown.cancelled() => State::Starting(starting),
                    command = self.commands.recv() => match command {
                        Some(Command::Ensure(waiter, wanted)) => {
                            starting.waiting.push(waiter);
                            wanted.raise(&starting.urgency);
                            State::Starting(starting)
                        }
                        Some(Command::Halt(_halted)) => {
                            let waiting = starting.give_up(StoppedFor::Wish).await;
                            refuse(waiting, StartFailure::halted());
                            self.vitals.stopped();
                            State::Stopped
                        }
                        Some(command) => {
                            self.learn(command);
                            State::Starting(starting)
                        }
                        // Without a handle left, nobody waits for it.
                        None => State::Starting(starting),
                    },
                    result = &mut starting.start => {
                        let Starting { waiting, run, .. } = starting;
                        match result.unwrap_or_else(|_| Err(StartFailure::internal().into())) {
                            Ok(started) => {
                                found = Some(started.found());
                                versions += 1;
                                let running = self.publish(started, versions, run).await;
                                answer(waiting, &Ok(running.live.clone()));
                                State::Running(Box::new(running))
                            }
                            Err(failed) => {
                                run.fail(&failed.whole.reason);
                                wants_sign_in = failed.whole.wants_sign_in;
                                restarts.failed_unless(wants_sign_in);
                                self.tell_failure(failed, waiting).await;
                                State::Stopped
                            }
                        }
                    }
                },
                State::Running(mut running) => {
                    let next = self.accompany(&mut running, &mut versions).await;
                    if running.since.elapsed() >= STABLE {
                        restarts = Restarts::new();
                    }
                    match next {
                        Next::Stay => State::Running(running),
                        Next::Died => {
                            restarts.failed();
                            self.bury(*running).await;
                            State::Stopped
                        }
                        Next::Stopped(why, _halted) => {
                            running.started.end().await;
                            running.run.stop(why);
                            self.vitals.stopped();
                            State::Stopped
                        }
                    }
                }
            };
            if matches!(state, State::Stopped) {
                self.gone.send_replace(self.is_dismissed);
            }
        }
        self.finish(state).await;
    }

    /// Takes note of a start that has failed, and tells those who wait why it did.
    async fn tell_failure(&self, failed: Failed, waiting: Vec<Waiter>) {
        let Failed { whole, public, words, .. } = failed;
        self.vitals.failed(&whole.reason, words);
        if whole.wants_sign_in {
            self.vitals.wants_sign_in();
        }
        let known = if self.context.is_sole { &whole } else { &public };
        self.status.send_replace(Status::Failed(Arc::clone(known)));
        self.report(Change::Failed).await;
        // It was started for the first of them.
        let starter = waiting.first().and_then(|w| w.principal.clone());
        for Waiter { principal, reply } in waiting {
            let is_its = starter.is_some() && principal == starter;
            let failure = if is_its { &whole } else { known };
            // Whoever asked may have given up in the meantime.
            let _ = reply.send(Err(Error::StartFailed(Arc::clone(failure))));
        }
    }

    /// Begins to start the server, for somebody who waits for it or behind everything else.
    fn begin(
        &mut self,
        found: Option<Found>,
        restarts: &mut Restarts,
        waiter: Option<(Waiter, Urgency)>,
    ) -> Starting {
        let (waiting, urgency) = match waiter {
            Some((waiter, urgency)) => (vec![waiter], urgency),
            None => (Vec::new(), Urgency::Background),
        };
        let (urgency, wanted) = watch::channel(urgency);
        self.gone.send_replace(false);
        let (not_before, after) = (restarts.not_before.take(), self.after.take());
        let when = When { not_before, after, urgency: wanted };
        let (spec, context) = (Arc::clone(&self.spec), Arc::clone(&self.context));
        self.vitals.starting();
        let run = self.context.observer.begin_run(spec.toolbox(), &spec.server, &spec.label);
        let start = start::start(spec, context, Arc::clone(&self.board), found, when);
        Starting { start: self.context.tasks.spawn(start), waiting, urgency, run }
    }

    /// Ends whatever there is of the server.
    async fn finish(&self, state: State) {
        self.status.send_replace(Status::Stopped);
        let is_end = self.context.shutdown.is_cancelled();
        let why = if is_end { StoppedFor::Shutdown } else { StoppedFor::NoUse };
        match state {
            State::Stopped => {}
            State::Starting(starting) => {
                answer(starting.give_up(why).await, &Err(Error::ShuttingDown));
            }
            State::Running(running) => {
                running.started.end().await;
                running.run.stop(why);
            }
        }
        self.vitals.stopped();
    }

    /// Returns `true` if anybody can still ask for the server.
    fn is_wanted(&self) -> bool {
        !self.commands.is_closed() || !self.commands.is_empty()
    }

    /// Makes a started server known: first to the snapshot, then to those who wait for it.
    async fn publish(&mut self, started: Started, version: u64, mut run: ServerRun) -> Running {
        let first = Listed { version, listing: Arc::clone(&started.listing) };
        self.report(Change::Listed(first.clone())).await;
        self.keep(started.found(), Arc::clone(&first.listing));
        let (listed, listed_receiver) = watch::channel(first);
        let (death, death_receiver) = watch::channel(None);
        let live = Live::new(Parts {
            link: started.link.clone(),
            greeting: Arc::clone(&started.greeting),
            listed: listed_receiver,
            death: death_receiver,
            deadlines: Arc::clone(&self.context.deadlines),
            is_remote: matches!(self.spec.reach, Reach::Http(_)),
            login: self.spec.reach.login().cloned(),
        });
        self.status.send_replace(Status::Ready(live.clone()));
        self.restore(live.clone());
        self.vitals.running(started.id(), started.last_words());
        run.is_ready(started.id(), version > 1, &started.listing);
        run.has_changed(&self.known.learn(&started.listing, Instant::now().into_std()));
        let since = Instant::now();
        let trouble = started.link.trouble();
        Running { started, live, since, listed, death, run, trouble, relisting: None }
    }

    /// Tells a server what its agents asked of the one before it.
    fn restore(&self, live: Live) {
        let board = Arc::clone(&self.board);
        self.context.tasks.spawn(async move {
            live.pass_on_log_level(&board).await;
            if live.era() == Era::Legacy {
                for uri in board.subscriptions() {
                    let uri = Raw::encode(&uri);
                    // One that it no longer has changes no more.
                    let _ = live.outcome("resources/subscribe", &[("uri", &uri)]).await;
                }
            }
        });
    }

    /// Puts a listing into the store.
    fn keep(&self, found: Found, listing: Arc<Listing>) {
        let Some(keeper) = &self.context.keeper else { return };
        let Found { era, is_old } = found;
        let record = Record { server: self.spec.server.clone(), era, is_old, listing };
        let context = Arc::clone(&self.context);
        let quiet = async move { context.turns.quiet().await };
        keeper.keep(&self.spec, &self.outgoing, record, quiet);
    }

    async fn report(&self, change: Change) {
        self.reports.tell(Changed { backend: self.id, change }).await;
    }

    /// Takes note of what concerns the server whether or not it runs.
    fn learn(&mut self, command: Command) {
        match command {
            Command::Dismiss => self.is_dismissed = true,
            Command::Adopt(spec) => {
                self.spec = spec;
                self.is_dismissed = false;
            }
            Command::Follow(gone) => self.after = Some(gone),
            // Of who waits for the end of a server that does not run, nothing is kept.
            Command::Ensure(..) | Command::Retire | Command::Halt(_) => {}
        }
    }

    /// Waits for the next thing that happens to a running server, and deals with it.
    async fn accompany(&mut self, running: &mut Running, versions: &mut u64) -> Next {
        let shutdown = self.context.shutdown.clone();
        let idle = idle_deadline(&running.live, self.spec.idle_timeout, &self.board);
        let (link, live) = (running.started.link.clone(), running.live.clone());
        tokio::select! {
            () = shutdown.cancelled() => Next::Stay,
            // The end of a link shows at both of its ends, in any order.
            () = link.closed() => self.lost(&link, &live),
            () = link.input_closed() => self.lost(&link, &live),
            why = news(&mut running.trouble) => {
                self.vitals.unreachable(why.as_deref());
                running.run.is_away(why.as_deref());
                Next::Stay
            }
            () = running.started.left() => {
                // What it still wrote is read first; a child of it may hold its output open.
                let _ = timeout(LAST_WORDS, link.closed()).await;
                Next::Died
            }
            command = self.commands.recv() => {
                // Without a handle left, nobody can use the server any more.
                match command {
                    Some(Command::Ensure(waiter, _)) => {
                        answer(vec![waiter], &Ok(running.live.clone()));
                        Next::Stay
                    }
                    Some(Command::Retire) => {
                        self.status.send_replace(Status::Stopped);
                        Next::Stopped(StoppedFor::Renewal, None)
                    }
                    Some(Command::Halt(halted)) => {
                        self.status.send_replace(Status::Stopped);
                        Next::Stopped(StoppedFor::Wish, Some(halted))
                    }
                    Some(command) => {
                        self.learn(command);
                        Next::Stay
                    }
                    None => Next::Stay,
                }
            }
            () = self.board.lists_changed.notified(), if running.relisting.is_none() => {
                let link = link.clone();
                let greeting = Arc::clone(&running.started.greeting);
                let last = running.live.listed().listing;
                let (spec, board) = (Arc::clone(&self.spec), Arc::clone(&self.board));
                running.relisting = Some(self.context.tasks.spawn(async move {
                    sleep(DEBOUNCE).await;
                    let kinds = board.take_changed();
                    if kinds.is_empty() {
                        return Ok(None);
                    }
                    let listing = lists::read(&link, &greeting, &last, kinds, &spec.label);
                    let listing = timeout(spec.startup_timeout, listing).await;
                    let listing = listing.map_err(|_| "it does not answer".to_owned())?;
                    listing.map_err(|unread| unread.why).map(Some)
                }));
                Next::Stay
            }
            listing = join(&mut running.relisting) => {
                running.relisting = None;
                match listing {
                    Ok(Ok(None)) | Err(_) => {}
                    Ok(Ok(Some(listing))) => {
                        *versions += 1;
                        let next = Listed { version: *versions, listing: Arc::new(listing) };
                        running.run.lists(&next.listing);
                        let now = Instant::now().into_std();
                        running.run.has_changed(&self.known.learn(&next.listing, now));
                        running.listed.send_replace(next.clone());
                        self.keep(running.started.found(), Arc::clone(&next.listing));
                        self.report(Change::Listed(next)).await;
                    }
                    Ok(Err(reason)) => {
                        let server = &self.spec.label;
                        tracing::warn!(server, "its changed lists could not be read: {reason}");
                    }
                }
                Next::Stay
            }
            () = live.unused(), if self.is_dismissed => {
                if running.live.close_if_unused() {
                    self.status.send_replace(Status::Stopped);
                    Next::Stopped(StoppedFor::Dismissal, None)
                } else {
                    Next::Stay
                }
            }
            () = sleep_until_some(idle) => {
                let timeout = self.spec.idle_timeout.unwrap_or(Duration::MAX);
                let is_idle = running.live.idle_since().is_some_and(|s| s.elapsed() >= timeout);
                let is_wanted = self.board.has_subscriptions();
                if is_idle && !is_wanted && running.live.close_if_unused() {
                    self.status.send_replace(Status::Stopped);
                    Next::Stopped(StoppedFor::Idle, None)
                } else {
                    Next::Stay
                }
            }
        }
    }

    /// Says what it means that a link has ended: a server over HTTP that was not in use has not died,
    /// for the next use connects again.
    fn lost(&self, link: &Link, live: &Live) -> Next {
        if link.lost().is_none() || live.idle_since().is_none() {
            return Next::Died;
        }
        self.status.send_replace(Status::Stopped);
        Next::Stopped(StoppedFor::Lost, None)
    }

    /// Takes note of a death, and tells those who lost a call by it.
    async fn bury(&self, running: Running) {
        self.status.send_replace(Status::Stopped);
        self.report(Change::Crashed).await;
        let users = (!self.context.is_sole).then(|| self.board.users());
        let cause = running.started.end().await;
        self.vitals.died(&cause.told(true));
        running.run.die(&cause.told(true));
        running.death.send_replace(Some(Arc::new(Death { cause, users })));
    }
}

/// The next turn in a running server's life.
enum Next {
    Stay,
    Died,
    /// It ends for this reason; this is dropped when it has ended.
    Stopped(StoppedFor, Option<oneshot::Sender<()>>),
}
