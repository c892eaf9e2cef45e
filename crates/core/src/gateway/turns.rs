//! Places that callers take in turns: who has much waiting waits for itself, and for one call of each
//! other caller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::name::AgentName;

/// A number of places, of which each is one call's at a time. Clones are the same.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<State>>);

struct State {
    free: usize,
    /// The callers that wait, the one whose turn is next first, each with its calls in their order.
    waiting: VecDeque<(Option<AgentName>, VecDeque<oneshot::Sender<Place>>)>,
}

/// A place that is taken, until this is dropped.
pub(crate) struct Place(Option<Turns>);

impl Turns {
    /// Makes so many places, all of them free.
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: places, waiting: VecDeque::new() })))
    }

    /// Waits for a place for a call of `caller`; `None`: of somebody without a name. Of one caller the calls get theirs in their order; of
    /// several, in turns. When this is dropped, somebody else has the turn.
    pub(crate) async fn take(&self, caller: Option<AgentName>) -> Place {
        let turn = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Place(Some(self.clone()));
            }
            state.enqueue(caller)
        };
        match turn.await {
            Ok(place) => place,
            // What waits is dropped with all places alone, and here is one who has them.
            Err(_) => std::future::pending().await,
        }
    }

    fn give_back(&self) {
        let mut state = self.state();
        while let Some(next) = state.next() {
            drop(state);
            let Err(mut place) = next.send(Place(Some(self.clone()))) else { return };
            // That one has given up, and the place is for the next.
            place.0 = None;
            state = self.state();
        }
        state.free += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enqueue(&mut self, caller: Option<AgentName>) -> oneshot::Receiver<Place> {
        let (turn, waiting) = oneshot::channel();
        match self.waiting.iter_mut().find(|(other, _)| *other == caller) {
            Some((_, calls)) => {
                // Those that have given up would be kept for as long as nobody gives a place back.
                calls.retain(|call| !call.is_closed());
                calls.push_back(turn);
            }
            None => self.waiting.push_back((caller, VecDeque::from([turn]))),
        }
        waiting
    }

    /// Takes the call out that is next; its caller is the last one then.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        loop {
            let (caller, mut calls) = self.waiting.pop_front()?;
            // A call that has given up takes no turn of its caller's.
            calls.retain(|call| !call.is_closed());
            let Some(next) = calls.pop_front() else { continue };
            if !calls.is_empty() {
                self.waiting.push_back((caller, calls));
            }
            return Some(next);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use tokio::task::{JoinHandle, yield_now};
    use tokio_util::task::TaskTracker;

    use super::*;

    fn name(caller: u8) -> AgentName {
        AgentName::new(caller.to_string())
    }

    /// Starts a call that notes its turn, and ends.
    fn call(
        turns: &Turns,
        (caller, number): (u8, usize),
        order: &Arc<Mutex<Vec<(u8, usize)>>>,
    ) -> JoinHandle<()> {
        let (turns, order) = (turns.clone(), Arc::clone(order));
        TaskTracker::new().spawn(async move {
            let _place = turns.take(Some(name(caller))).await;
            order.lock().unwrap().push((caller, number));
        })
    }

    /// The order of calls that all wait, of which some are given up.
    async fn order(calls: &[(u8, bool)]) -> Vec<(u8, usize)> {
        let (turns, order) = (Turns::new(1), Arc::default());
        let taken = turns.take(None).await;
        let mut waiting = Vec::new();
        for (number, (caller, _)) in calls.iter().enumerate() {
            waiting.push(call(&turns, (*caller, number), &order));
            yield_now().await;
        }
        for (call, (_, is_given_up)) in waiting.iter().zip(calls) {
            if *is_given_up {
                call.abort();
                yield_now().await;
            }
        }
        drop(taken);
        for call in waiting {
            let _ = call.await;
        }
        // The place is free again.
        drop(turns.take(None).await);
        std::mem::take(&mut order.lock().unwrap())
    }

    #[tokio::test]
    async fn who_has_much_waiting_lets_others_in_between() {
        let calls = [(1, false), (1, false), (1, false), (2, false), (1, false), (3, false)];
        let expected = [(1, 0), (2, 3), (3, 5), (1, 1), (1, 2), (1, 4)];
        assert_eq!(order(&calls).await, expected);
    }

    proptest! {
        #[test]
        fn nobody_waits_for_two_calls_of_another(
            calls in proptest::collection::vec((0_u8..4, proptest::bool::weighted(0.2)), 0..40),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let order = runtime.block_on(order(&calls));
            let mut left: Vec<(u8, usize)> = Vec::new();
            for (number, (caller, is_given_up)) in calls.iter().enumerate() {
                if !is_given_up {
                    left.push((*caller, number));
                }
            }
            prop_assert_eq!(order.len(), left.len());
            for (at, turn) in order.iter().enumerate() {
                // Of one caller, the first that waits.
                let first = left.iter().position(|call| call.0 == turn.0).unwrap();
                prop_assert_eq!(left.remove(first), *turn);
                // Since its last turn, no other caller had two.
                let before = order[..at].iter().rev().take_while(|call| call.0 != turn.0);
                let mut others: Vec<u8> = before.map(|call| call.0).collect();
                let count = others.len();
                others.sort_unstable();
                others.dedup();
                prop_assert_eq!(others.len(), count, "{:?}", order);
            }
        }
    }
}
