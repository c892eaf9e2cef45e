use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use proptest::prelude::*;
use tokio::time::advance;

use super::*;

const LEASE: Duration = Duration::from_secs(30);

fn bounds(bytes: usize, share: usize, reserve: usize) -> MemoryPoolConfig {
    MemoryPoolConfig { bytes, share, reserve, unmetered: 0, lease: None }
}

/// Returns `true` if the reservation grows without waiting.
async fn grows(charge: &mut MemoryReservation, bytes: usize) -> bool {
    let mut growing = pin!(charge.grow(bytes));
    poll_fn(|context| Poll::Ready(growing.as_mut().poll(context).is_ready())).await
}

#[tokio::test]
async fn memory_is_released_with_the_last_slice() {
    let budget = MemoryPool::new(bounds(150, 100, 50));
    let mut charge = budget.account().charge();
    assert!(grows(&mut charge, 80).await);
    let message = charge.attach_to(Bytes::from_static(b"a message"));
    let slice = message.slice(2..);
    drop(message);
    assert_eq!((budget.held(), &slice[..]), (80, &b"message"[..]));
    drop(slice);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn short_or_unlimited_messages_need_no_reservation() {
    let budget = MemoryPool::new(MemoryPoolConfig { unmetered: 10, ..bounds(20, 20, 0) });
    let (mut full, mut short) = (budget.account().charge(), budget.account().charge());
    assert!(grows(&mut full, 20).await && grows(&mut short, 10).await);
    assert!(!short.is_tracked() && !grows(&mut short, 11).await);
    let mut unbounded = MemoryConsumer::default().charge();
    assert!(grows(&mut unbounded, usize::MAX).await && !unbounded.is_tracked());
}

#[tokio::test]
async fn consumers_are_limited_to_their_share() {
    let budget = MemoryPool::new(bounds(100, 40, 0));
    let [ann, eve] = [budget.account(), budget.account()];
    let mut hers: Vec<_> = (0..5).map(|_| eve.charge()).collect();
    let mut got = Vec::new();
    for charge in &mut hers {
        got.push(grows(charge, 20).await);
    }
    assert_eq!(got, [true, true, false, false, false]);
    // A consumer that waits for its own share doesn't block others.
    assert!(grows(&mut ann.charge(), 40).await);
    // A consumer that holds nothing may exceed its share.
    let mut long = ann.charge();
    assert!(grows(&mut long, 60).await);
    assert!(budget.held() <= 100);
}

#[tokio::test]
async fn partly_read_messages_never_deadlock() {
    let budget = MemoryPool::new(bounds(160, 100, 60));
    let account = budget.account();
    let mut all: Vec<_> = (0..5).map(|_| account.charge()).collect();
    for charge in &mut all {
        assert!(grows(charge, 20).await);
    }
    // Partly read messages hold all memory. They finish one at a time.
    let mut done = Vec::new();
    for charge in &mut all {
        done.push(grows(charge, 60).await);
    }
    assert_eq!(done, [true, false, false, false, false]);
    drop(all.remove(0));
    assert!(!grows(&mut all[3], 60).await, "longer waiters go first");
    assert!(grows(&mut all[0], 60).await);
    assert!(budget.held() <= 160);
    // Dropped reservations leave the queue.
    drop(all);
    assert_eq!(budget.held(), 0);
    assert!(grows(&mut account.charge(), 100).await);
}

#[tokio::test]
async fn complete_message_frees_the_reserve() {
    let budget = MemoryPool::new(bounds(100, 50, 50));
    let [ann, eve] = [budget.account(), budget.account()];
    let [mut first, mut second, mut third] = [ann.charge(), eve.charge(), ann.charge()];
    assert!(grows(&mut first, 50).await && grows(&mut second, 40).await);
    let second = second.attach_to(Bytes::from_static(b"whole"));
    assert!(!grows(&mut third, 40).await, "the second holds the reserve");
    drop(first);
    // The second message moves to the common memory, and the third gets the rest.
    assert!(grows(&mut third, 40).await);
    assert_eq!(budget.held(), 80);
    drop(second);
    assert!(grows(&mut ann.charge(), 10).await);
}

#[tokio::test(start_paused = true)]
async fn waiting_reservation_is_woken() {
    let budget = MemoryPool::new(bounds(101, 101, 0));
    let account = budget.account();
    let [mut first, mut second, mut third] = [(); 3].map(|()| account.charge());
    assert!(grows(&mut first, 100).await && grows(&mut second, 1).await);
    let waiting = third.grow(50);
    let giving = async {
        tokio::task::yield_now().await;
        drop(second);
        tokio::task::yield_now().await;
        drop(first);
    };
    tokio::join!(waiting, giving);
    assert_eq!(budget.held(), 50);
}

// invariant: limits-hit-own-caller
#[tokio::test(start_paused = true)]
async fn expired_leases_are_released() {
    let budget = MemoryPool::new(MemoryPoolConfig { lease: Some(LEASE), ..bounds(200, 50, 100) });
    let account = budget.account();
    let mut kept = Vec::new();
    for (account, bytes) in [(&account, 50), (&budget.account(), 50), (&budget.account(), 100)] {
        let mut charge = account.charge();
        assert!(grows(&mut charge, bytes).await);
        kept.push(charge.attach_to(Bytes::from_static(b"kept by somebody")));
    }
    let start = Instant::now();
    let mut partly = account.charge();
    partly.grow(50).await;
    assert!(start.elapsed() >= LEASE && start.elapsed() < LEASE + 2 * CHECK);
    // Incomplete messages keep their memory.
    advance(2 * LEASE).await;
    let mut next = account.charge();
    assert!(grows(&mut next, 100).await && !grows(&mut account.charge(), 50).await);
    drop(kept);
    assert_eq!(budget.held(), 150);
}

#[tokio::test(start_paused = true)]
async fn released_memory_extends_the_timeout() {
    let budget = MemoryPool::new(bounds(1000, 100, 0));
    let account = budget.account();
    let [mut first, mut second, mut third] = [(); 3].map(|()| account.charge());
    assert!(grows(&mut first, 50).await && grows(&mut second, 50).await);
    let giving = async {
        // Paused time: release memory shortly before the timeout.
        tokio::time::sleep(LEASE.mul_f64(0.9)).await;
        drop(first);
        // Paused time: and again.
        tokio::time::sleep(LEASE.mul_f64(0.9)).await;
        drop(second);
    };
    let (has_room, ()) = tokio::join!(third.grow_timeout(100, LEASE), giving);
    assert!(has_room);
    let start = Instant::now();
    assert!(!account.charge().grow_timeout(10, LEASE).await);
    assert!(start.elapsed() <= LEASE);
    assert_eq!(budget.held(), 100);
}

/// A pool with a lease: 100 bytes common, of which a consumer may hold 25, and 100 in reserve.
fn leased() -> MemoryPool {
    MemoryPool::new(MemoryPoolConfig { lease: Some(LEASE), ..bounds(200, 25, 100) })
}

fn whole(charge: MemoryReservation) -> Bytes {
    charge.attach_to(Bytes::from_static(b"whole"))
}

// invariant: limits-hit-own-caller
#[tokio::test]
async fn consumer_beyond_its_share_waits_only_for_itself() {
    let pool = leased();
    let [greedy, other, third] = [pool.account(), pool.account(), pool.account()];
    let mut kept = Vec::new();
    for bytes in [40, 60, 90] {
        let mut charge = greedy.charge();
        if grows(&mut charge, bytes).await {
            kept.push(whole(charge));
        }
    }
    assert_eq!((kept.len(), pool.held()), (1, 40), "only one message may exceed the share");
    for account in [&other, &third] {
        let mut charge = account.charge();
        assert!(grows(&mut charge, 25).await, "others get their share");
        kept.push(whole(charge));
    }
    let mut long = pool.account().charge();
    assert!(grows(&mut long, 100).await, "others can read a message of any length");
    drop(kept);
    assert!(grows(&mut greedy.charge(), 25).await);
}

#[tokio::test]
async fn long_message_leaves_a_share_for_others() {
    let pool = leased();
    let mut long = pool.account().charge();
    for bytes in [20, 40, 80, 100] {
        assert!(grows(&mut long, bytes).await);
    }
    let _long = whole(long);
    let mut others: Vec<_> = (0..3).map(|_| pool.account().charge()).collect();
    for other in &mut others {
        assert!(grows(other, 20).await);
    }
    assert!(pool.held() <= 200);
}

#[tokio::test(start_paused = true)]
async fn stalled_message_loses_the_reserve() {
    let pool = leased();
    let [mut stalled, mut held] = [pool.account().charge(), pool.account().charge()];
    assert!(grows(&mut stalled, 100).await && grows(&mut held, 60).await);
    let start = Instant::now();
    let mut other = pool.account().charge();
    other.grow(90).await;
    assert!(start.elapsed() >= LEASE && start.elapsed() < LEASE + 2 * CHECK);
    stalled.grow(1000).await;
    drop((stalled, held, other));
    assert_eq!(pool.held(), 0);
}

#[tokio::test]
async fn full_share_is_reported() {
    let full = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = || full.load(std::sync::atomic::Ordering::Relaxed);
    let counter = Arc::clone(&full);
    let hook = move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let pool = leased();
    let account = pool.account().on_full(Arc::new(hook));
    let [mut first, mut second] = [account.charge(), account.charge()];
    assert!(grows(&mut first, 15).await);
    let first = whole(first);
    assert!(grows(&mut second, 10).await);
    assert_eq!(count(), 0);
    let second = whole(second);
    let mut third = account.charge();
    assert!(!grows(&mut third, 1).await && !grows(&mut third, 1).await);
    assert_eq!(count(), 1, "a wait is reported once");
    drop((first, second));
    assert!(grows(&mut third, 100).await);
    assert_eq!(count(), 1, "a single message may be longer than the share");
}

#[tokio::test]
async fn cancelled_wait_keeps_memory_and_queue_position() {
    let budget = MemoryPool::new(bounds(40, 20, 20));
    let account = budget.account();
    let [mut first, mut reserved, mut charge] = [(); 3].map(|()| account.charge());
    assert!(grows(&mut charge, 10).await && grows(&mut first, 10).await);
    assert!(grows(&mut reserved, 5).await);
    assert!(!grows(&mut charge, 20).await);
    assert!(!grows(&mut charge, 20).await && charge.is_waiting());
    let mut later = account.charge();
    assert!(!grows(&mut later, 5).await);
    drop(first);
    assert!(!later.is_waiting() || !charge.is_waiting());
    assert!(grows(&mut charge, 20).await);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Grow(usize),
    Read,
    Drop,
}

proptest! {
    // invariant: limits-hit-own-caller
    /// For any sequence of operations, the pool is never exceeded, every waiting reservation
    /// succeeds once complete messages are released, and finally nothing is held.
    #[test]
    fn pool_is_never_exceeded_and_never_deadlocks(
        acts in prop::collection::vec(
            (0..6_usize, prop_oneof![
                (1..=50_usize).prop_map(Act::Grow),
                Just(Act::Read),
                Just(Act::Drop),
            ]),
            0..60,
        ),
        is_leased in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let lease = is_leased.then_some(LEASE);
            let budget = MemoryPool::new(MemoryPoolConfig { lease, ..bounds(170, 60, 50) });
            let accounts = [budget.account(), budget.account(), budget.account()];
            let mut charges: Vec<_> = (0..6).map(|n| accounts[n % 3].charge()).collect();
            let mut read = Vec::new();
            let mut wanted = [0; 6];
            for (at, act) in acts {
                match act {
                    Act::Grow(bytes) => {
                        wanted[at] = bytes.max(wanted[at]);
                        grows(&mut charges[at], wanted[at]).await;
                    }
                    Act::Read if charges[at].is_waiting() => {}
                    Act::Read | Act::Drop => {
                        let charge =
                            std::mem::replace(&mut charges[at], accounts[at % 3].charge());
                        wanted[at] = 0;
                        if matches!(act, Act::Read) {
                            read.push(charge.attach_to(Bytes::from_static(b"read")));
                        }
                    }
                }
                assert!(budget.held() <= 170, "{} are held", budget.held());
            }
            // Release all complete messages. Then complete and release each one that isn't waiting.
            drop(read);
            while !charges.is_empty() {
                let waiting = charges.len();
                charges.retain(MemoryReservation::is_waiting);
                assert!(charges.len() < waiting, "the remaining charges are deadlocked");
                assert!(budget.held() <= 170);
            }
            assert_eq!(budget.held(), 0);
        });
    }
}
