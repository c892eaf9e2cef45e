//! What is known of servers before any of them is used: who has been listed, who could not be
//! started, and the start of those that nothing is known of.

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::backend;
use crate::gateway::error::failed;
use crate::gateway::members::Member;
use crate::gateway::opening::{Progress, heartbeat};
use crate::gateway::{FailedServer, Gateway, Origin, START_PATIENCE, place, places};
use crate::name::Place;

impl Gateway {
    /// The servers that nothing is known of, in the order of the configuration: they have never
    /// been listed, neither by us nor as far as the store of listings knows. Those that cannot be
    /// started at all are not among them.
    pub fn unlisted(&self) -> Vec<Place> {
        let snapshot = self.snapshot();
        let places = places(&self.config).map(|(t, s)| place(&t.name, &s.name));
        let is_unlisted = |place: &Place| match self.members.get(place) {
            Some(Member::Server(server)) => !snapshot.has_listed(server.shared.id()),
            Some(Member::Unsupported(_)) | None => false,
        };
        places.filter(is_unlisted).collect()
    }

    /// The servers that cannot be started, or could not the last time that it was tried, in the
    /// order of the configuration. Whoever waits for [`Self::snapshots`] hears of a change in it.
    pub fn failures(&self) -> Vec<(Place, FailedServer)> {
        let places = places(&self.config).map(|(t, s)| place(&t.name, &s.name));
        let failure = |place: Place| {
            let failure = match self.members.get(&place)? {
                Member::Server(server) => server.shared.failure()?,
                Member::Unsupported(failure) => failure.clone(),
            };
            let error = backend::Error::StartFailed(failure);
            let failed = failed(&place.server, &error);
            Some((place, failed))
        };
        places.filter_map(failure).collect()
    }

    /// Starts the servers that nothing is known of, all at once, if that has not been done yet,
    /// and waits for those that are ready within 10 s; the others go on by themselves. A server
    /// that fails is among [`Self::failures`] and holds up nobody.
    ///
    /// Dropping the future stops the waiting, not the servers, and the next one waits anew.
    pub async fn ensure_listed(&self, origin: Origin<'_>) {
        self.has_listed_all.get_or_init(|| self.start_unlisted(origin)).await;
    }

    async fn start_unlisted(&self, origin: Origin<'_>) {
        let unlisted = self.unlisted();
        let mut starting = JoinSet::new();
        for (index, place) in unlisted.iter().enumerate() {
            let start = self.start(&place.toolbox, &place.server, origin.agent);
            starting.spawn(async move { (index, start.await) });
        }
        let mut outcomes: Vec<_> = unlisted.iter().map(|_| None).collect();
        let names = unlisted.iter().map(|place| place.server.to_string()).collect();
        let mut report = Progress::new("first start of servers".to_owned(), names, origin);
        let mut heartbeat = heartbeat();
        let patience = sleep(START_PATIENCE);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                started = starting.join_next() => match started {
                    None => break,
                    Some(Ok((index, outcome))) => outcomes[index] = Some(outcome),
                    // The task panicked; its server counts as still starting.
                    Some(Err(error)) => tracing::error!(%error, "a start was lost"),
                },
                _ = heartbeat.tick() => {}
                () = &mut patience => {
                    tracing::info!("not all servers were ready after {} s", START_PATIENCE.as_secs());
                    break;
                }
            }
            report.send(&outcomes).await;
        }
        starting.detach_all();
    }
}
