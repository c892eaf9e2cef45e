//! Call slots with round-robin fairness: before a caller's next call, at most one call of each
//! other caller gets a slot.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use mcp_workbench_names::AgentName;

/// A fixed number of slots. Clones share them.
#[derive(Clone)]
pub(crate) struct FairQueue(Arc<Mutex<State>>);

struct State {
    free: usize,
    /// Waiting callers, next one first, each with its calls in order.
    waiting: VecDeque<(Option<AgentName>, VecDeque<oneshot::Sender<SlotGuard>>)>,
}

pub(crate) struct SlotGuard(Option<FairQueue>);

impl FairQueue {
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: places, waiting: VecDeque::new() })))
    }

    /// Waits for a slot; `None` means an anonymous caller. Calls of one caller get slots in order,
    /// callers take turns. Dropping the future gives up the place in the queue.
    pub(crate) async fn acquire(&self, caller: Option<AgentName>) -> SlotGuard {
        let turn = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return SlotGuard(Some(self.clone()));
            }
            state.enqueue(caller)
        };
        match turn.await {
            Ok(place) => place,
            // Unreachable: senders are dropped only with the queue, and `self` keeps it alive.
            Err(_) => std::future::pending().await,
        }
    }

    fn give_back(&self) {
        let mut state = self.state();
        while let Some(next) = state.next() {
            drop(state);
            let Err(mut place) = next.send(SlotGuard(Some(self.clone()))) else { return };
            // That call was dropped. Clear the slot, or its drop would release it a second time.
            place.0 = None;
            state = self.state();
        }
        state.free += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn enqueue(&mut self, caller: Option<AgentName>) -> oneshot::Receiver<SlotGuard> {
        let (turn, waiting) = oneshot::channel();
        match self.waiting.iter_mut().find(|(other, _)| *other == caller) {
            Some((_, calls)) => {
                // Otherwise dropped calls would accumulate until the next release.
                calls.retain(|call| !call.is_closed());
                calls.push_back(turn);
            }
            None => self.waiting.push_back((caller, VecDeque::from([turn]))),
        }
        waiting
    }

    fn next(&mut self) -> Option<oneshot::Sender<SlotGuard>> {
        loop {
            let (caller, mut calls) = self.waiting.pop_front()?;
            // A dropped call doesn't use up its caller's turn.
            calls.retain(|call| !call.is_closed());
            let Some(next) = calls.pop_front() else { continue };
            if !calls.is_empty() {
                self.waiting.push_back((caller, calls));
            }
            return Some(next);
        }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.give_back();
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

    fn call(
        queue: &FairQueue,
        (caller, number): (u8, usize),
        order: &Arc<Mutex<Vec<(u8, usize)>>>,
    ) -> JoinHandle<()> {
        let (queue, order) = (queue.clone(), Arc::clone(order));
        TaskTracker::new().spawn(async move {
            let _place = queue.acquire(Some(name(caller))).await;
            order.lock().push((caller, number));
        })
    }

    /// Returns the order in which waiting calls get the slot, after some were dropped.
    async fn order(calls: &[(u8, bool)]) -> Vec<(u8, usize)> {
        let (queue, order) = (FairQueue::new(1), Arc::default());
        let taken = queue.acquire(None).await;
        let mut waiting = Vec::new();
        for (number, (caller, _)) in calls.iter().enumerate() {
            waiting.push(call(&queue, (*caller, number), &order));
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
        drop(queue.acquire(None).await);
        std::mem::take(&mut order.lock())
    }

    #[tokio::test]
    async fn callers_with_many_waiting_calls_alternate_with_others() {
        let calls = [(1, false), (1, false), (1, false), (2, false), (1, false), (3, false)];
        let expected = [(1, 0), (2, 3), (3, 5), (1, 1), (1, 2), (1, 4)];
        assert_eq!(order(&calls).await, expected);
    }

    proptest! {
        #[test]
        fn each_other_caller_goes_first_at_most_once(
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
                let first = left.iter().position(|call| call.0 == turn.0).unwrap();
                prop_assert_eq!(left.remove(first), *turn);
                // Since its last turn, each other caller had at most one.
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
