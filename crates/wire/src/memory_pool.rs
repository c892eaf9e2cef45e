//! Memory pools: limits on the bytes of messages that are held at a time.
//!
//! A message longer than [`UNMETERED_BYTES`] reserves memory from a [`MemoryPool`] while it is
//! read, and releases it when its last slice is dropped. If the pool is full, the reader waits.
//! Each [`MemoryConsumer`] has a share of the common memory, and a consumer that waits for its own
//! share doesn't block others. If partly read messages hold all common memory and would wait for
//! each other, one at a time gets the reserve, which lets it finish.
//!
//! In a pool with a lease ([`MemoryPoolConfig::lease`]), a consumer beyond its share gets the
//! reserve only after its complete messages are released, so it delays only its own messages.
//!
//! To avoid deadlock, a reader must never wait for memory whose release depends on that reader.
//! Agent requests, server messages and responses not yet taken by agents therefore use separate
//! pools. If nothing bounds how long a message is needed, its lease expires.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

/// The longest message, in bytes, that needs no reservation.
pub const UNMETERED_BYTES: usize = 64 * 1024;
const RECONNECTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(30).unwrap();
/// How often waiting reservations check for expired leases.
const CHECK: Duration = Duration::from_secs(1);

/// A limited number of bytes; clones share the pool. The default is unlimited.
#[derive(Clone, Default)]
pub struct MemoryPool(Option<Arc<Shared>>);

#[derive(Clone, Copy, Debug)]
pub struct MemoryPoolConfig {
    /// The total, in bytes, including the reserve.
    pub bytes: usize,
    /// Bytes outside the reserve that one consumer may hold. A consumer that holds nothing may
    /// exceed this with one message. In a pool with a lease, that message must leave a share for
    /// others.
    pub share: usize,
    /// Bytes reserved for one message at a time that would have to wait for others.
    pub reserve: usize,
    /// The longest message, in bytes, that needs no reservation.
    pub unmetered: usize,
    /// How long a complete message may hold its memory, and an incomplete one the reserve; `None`
    /// for no limit.
    pub lease: Option<Duration>,
}

struct Shared {
    bounds: MemoryPoolConfig,
    state: Mutex<State>,
}

struct State {
    bounds: MemoryPoolConfig,
    /// Bytes held, including the reserve.
    held: usize,
    /// Bytes held of the common memory.
    common: usize,
    accounts: HashMap<u64, Usage>,
    charges: HashMap<u64, Entry>,
    /// Waiting reservations, in the order of their requests.
    waiting: VecDeque<u64>,
    /// The reservation that uses the reserve, and since when.
    reserved: Option<(u64, Instant)>,
    next: u64,
}

/// A consumer's usage of the pool.
#[derive(Clone, Copy)]
struct Usage {
    /// Bytes held of the common memory.
    bytes: usize,
    /// Number of its complete messages.
    complete: usize,
    /// When it began to hold memory, or last released some.
    since: Instant,
}

struct Entry {
    account: u64,
    /// All bytes held; `common` is the part outside the reserve.
    bytes: usize,
    common: usize,
    /// The total it waits for; `None` if it isn't waiting.
    wanted: Option<usize>,
    /// When the message was completely read.
    whole: Option<Instant>,
    /// `true` once it had the reserve for too long: it needs no further memory.
    is_exempt: bool,
    granted: Arc<Notify>,
}

/// A participant that gets a share of the pool; clones share it.
#[derive(Clone, Default)]
pub struct MemoryConsumer {
    budget: MemoryPool,
    number: u64,
    on_full: Option<LimitHook>,
}

/// Called when a limit is reached. Must not block.
pub type LimitHook = Arc<dyn Fn() + Send + Sync>;

/// The memory reserved for one message, released on drop.
#[derive(Default)]
pub struct MemoryReservation {
    account: MemoryConsumer,
    /// `None` until the message exceeds the unmetered length.
    slot: Option<Slot>,
}

struct Slot {
    shared: Arc<Shared>,
    number: u64,
    granted: Arc<Notify>,
}

/// The limits for reading from one peer.
#[derive(Clone)]
pub struct ReadLimits {
    /// The longest message, in bytes.
    pub max_message_bytes: usize,
    /// The consumer that reserves memory for the messages.
    pub account: MemoryConsumer,
    /// How often each event stream of a server over HTTP is reopened at most.
    pub reconnects: ReconnectLimit,
}

#[derive(Clone)]
pub struct ReconnectLimit {
    pub per_minute: NonZeroU32,
    /// Called when a stream has to wait because of the limit.
    pub on_reached: Option<LimitHook>,
}

impl Default for ReconnectLimit {
    fn default() -> Self {
        Self { per_minute: RECONNECTS_PER_MINUTE, on_reached: None }
    }
}

impl From<usize> for ReadLimits {
    /// Limits only the length of each message.
    fn from(max: usize) -> Self {
        let reconnects = ReconnectLimit::default();
        Self { max_message_bytes: max, account: MemoryConsumer::default(), reconnects }
    }
}

/// Returns the buffer capacity for a body after `length` received bytes, with an announced length
/// of `said` and a maximum of `max`. It grows with the data, so a large `Content-Length` without
/// data reserves no memory.
pub fn room_for(length: usize, said: Option<usize>, max: usize) -> usize {
    let most = said.unwrap_or(max).min(max);
    length.saturating_mul(2).min(most).max(length)
}

impl MemoryPool {
    pub fn new(bounds: MemoryPoolConfig) -> Self {
        let state = State {
            bounds,
            held: 0,
            common: 0,
            accounts: HashMap::new(),
            charges: HashMap::new(),
            waiting: VecDeque::new(),
            reserved: None,
            next: 0,
        };
        Self(Some(Arc::new(Shared { bounds, state: Mutex::new(state) })))
    }

    /// Creates a consumer that holds nothing yet.
    pub fn account(&self) -> MemoryConsumer {
        let number = self.0.as_ref().map_or(0, |shared| shared.state().number());
        MemoryConsumer { budget: self.clone(), number, on_full: None }
    }

    pub fn held(&self) -> usize {
        self.0.as_ref().map_or(0, |shared| shared.state().held)
    }
}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPool").field("held", &self.held()).finish_non_exhaustive()
    }
}

impl MemoryConsumer {
    /// Calls `hook` when a message has to wait because the consumer holds its share.
    #[must_use]
    pub fn on_full(self, hook: LimitHook) -> Self {
        Self { on_full: Some(hook), ..self }
    }

    /// Creates an empty reservation for a new message.
    pub fn charge(&self) -> MemoryReservation {
        MemoryReservation { account: self.clone(), slot: None }
    }
}

impl MemoryReservation {
    /// Waits until the message may hold `bytes` in total. Cancel safe: the reservation keeps its
    /// memory and its position in the queue.
    pub async fn grow(&mut self, bytes: usize) {
        if let Some(slot) = self.asks_for(bytes) {
            while !slot.has_got_it() {
                // Boxed because waiting is rare and would enlarge the future of every message.
                Box::pin(slot.wait()).await;
            }
        }
    }

    /// Like [`grow`](Self::grow), but gives up and releases the reservation once the consumer has
    /// released no memory for `patience`. Returns `true` on success.
    pub async fn grow_timeout(&mut self, bytes: usize, patience: Duration) -> bool {
        let Some(slot) = self.asks_for(bytes) else { return true };
        let begin = Instant::now();
        loop {
            if slot.has_got_it() {
                return true;
            }
            let since = slot.shared.state().since(slot.number).unwrap_or(begin);
            let deadline = since + patience;
            if deadline <= Instant::now() {
                self.slot = None;
                return false;
            }
            // On timeout, the next turn checks the deadline again.
            let _ = Box::pin(timeout_at(deadline, slot.wait())).await;
        }
    }

    /// Requests memory. Returns the slot to wait on; `None` if no reservation is needed.
    fn asks_for(&mut self, bytes: usize) -> Option<&Slot> {
        let shared = self.account.budget.0.as_ref()?;
        if bytes <= shared.bounds.unmetered {
            return None;
        }
        let slot = self.slot.get_or_insert_with(|| {
            let (number, granted) = shared.state().begin(self.account.number);
            Slot { shared: Arc::clone(shared), number, granted }
        });
        let is_over_share = shared.state().want(slot.number, bytes);
        if is_over_share && let Some(hook) = &self.account.on_full {
            hook();
        }
        Some(slot)
    }

    /// Returns `true` if the message holds memory or waits for it.
    pub fn is_tracked(&self) -> bool {
        self.slot.is_some()
    }

    pub fn is_waiting(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| !slot.has_got_it())
    }

    /// Ties the reservation to a complete message: it is released with the message's last slice.
    pub fn attach_to(self, message: Bytes) -> Bytes {
        let Some(slot) = self.slot else { return message };
        slot.shared.state().mark_complete(slot.number);
        Bytes::from_owner(Attached { message, _slot: slot })
    }
}

impl Slot {
    fn has_got_it(&self) -> bool {
        let state = self.shared.state();
        state.charges.get(&self.number).is_none_or(|entry| entry.wanted.is_none())
    }

    async fn wait(&self) {
        let granted = self.granted.notified();
        let Some(lease) = self.shared.bounds.lease else { return granted.await };
        if timeout(CHECK.min(lease), granted).await.is_err() {
            self.shared.state().revoke_expired(lease);
        }
    }
}

struct Attached {
    message: Bytes,
    _slot: Slot,
}

impl AsRef<[u8]> for Attached {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.end(self.number);
        state.share_out();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn begin(&mut self, account: u64) -> (u64, Arc<Notify>) {
        let (number, granted) = (self.number(), Arc::new(Notify::new()));
        let entry = Entry {
            account,
            bytes: 0,
            common: 0,
            wanted: None,
            whole: None,
            is_exempt: false,
            granted: Arc::clone(&granted),
        };
        self.charges.insert(number, entry);
        (number, granted)
    }

    /// Records that a reservation needs `bytes` in total, and grants them if available. Returns
    /// `true` if it now waits because its consumer holds its share.
    fn want(&mut self, number: u64, bytes: usize) -> bool {
        let Some(entry) = self.charges.get_mut(&number) else { return false };
        if bytes <= entry.bytes || entry.is_exempt {
            return false;
        }
        let is_new = entry.wanted.replace(bytes).is_none();
        if is_new {
            self.waiting.push_back(number);
        }
        self.share_out();
        is_new
            && self.need(number).is_some_and(|(account, more)| {
                let own = self.charges.get(&number).map_or(0, |entry| entry.common);
                let used = self.used(account);
                used > own && used.saturating_add(more) > self.bounds.share
            })
    }

    fn mark_complete(&mut self, number: u64) {
        if let Some(entry) = self.charges.get_mut(&number) {
            entry.whole = Some(Instant::now());
            let account = entry.account;
            self.usage(account).complete += 1;
        }
        self.share_out();
    }

    fn usage(&mut self, account: u64) -> &mut Usage {
        let nothing = || Usage { bytes: 0, complete: 0, since: Instant::now() };
        self.accounts.entry(account).or_insert_with(nothing)
    }

    /// Returns when the consumer of a reservation last released memory.
    fn since(&self, number: u64) -> Option<Instant> {
        let entry = self.charges.get(&number)?;
        self.accounts.get(&entry.account).map(|usage| usage.since)
    }

    fn used(&self, account: u64) -> usize {
        self.accounts.get(&account).map_or(0, |usage| usage.bytes)
    }

    /// Returns the unused bytes of the common memory.
    fn free(&self) -> usize {
        self.bounds.bytes.saturating_sub(self.bounds.reserve).saturating_sub(self.common)
    }

    /// Grants memory to waiting reservations in order. One that exceeds its consumer's share
    /// doesn't block those behind it.
    fn share_out(&mut self) {
        self.clear_reserve();
        let mut is_full = false;
        for number in std::mem::take(&mut self.waiting) {
            let Some((account, more)) = self.need(number) else { continue };
            let is_within_share = self.is_within_share(number, account, more);
            if self.reserved.is_some_and(|(reserved, _)| reserved == number) {
                self.grant(number, false);
            } else if is_within_share && !is_full && more <= self.free() {
                self.grant(number, true);
            } else {
                is_full |= is_within_share;
                self.waiting.push_back(number);
            }
        }
        if self.bounds.reserve == 0 || self.reserved.is_some() {
            return;
        }
        // Give the reserve to the consumer that holds least, and among its reservations to the
        // oldest.
        let used = |number: &u64| self.need(*number).map_or(0, |(account, _)| self.used(account));
        let waiting = self.waiting.iter().copied().filter(|number| self.may_use_reserve(*number));
        if let Some(number) = waiting.min_by_key(used) {
            self.reserved = Some((number, Instant::now()));
            self.waiting.retain(|waiting| *waiting != number);
            self.grant(number, false);
        }
    }

    /// Returns `true` if the common memory may hold `more` bytes of a reservation, if it is free.
    fn is_within_share(&self, number: u64, account: u64, more: usize) -> bool {
        let used = self.used(account);
        if used.saturating_add(more) <= self.bounds.share {
            return true;
        }
        if self.bounds.lease.is_none() {
            return used == 0;
        }
        let own = self.charges.get(&number).map_or(0, |entry| entry.common);
        used == own && more <= self.free_beyond_share()
    }

    /// Returns the unused common memory for a message beyond its consumer's share. In a pool with a
    /// lease, it leaves a share for others.
    fn free_beyond_share(&self) -> usize {
        let kept = if self.bounds.lease.is_some() { self.bounds.share } else { 0 };
        self.free().saturating_sub(kept)
    }

    fn may_use_reserve(&self, number: u64) -> bool {
        let Some((account, more)) = self.need(number) else { return false };
        self.bounds.lease.is_none()
            || self.used(account).saturating_add(more) <= self.bounds.share
            || self.accounts.get(&account).is_none_or(|usage| usage.complete == 0)
    }

    /// Returns the consumer of a waiting reservation, and how many more bytes it needs.
    fn need(&self, number: u64) -> Option<(u64, usize)> {
        let entry = self.charges.get(&number)?;
        Some((entry.account, entry.wanted?.saturating_sub(entry.bytes)))
    }

    fn grant(&mut self, number: u64, is_common: bool) {
        let Some(entry) = self.charges.get_mut(&number) else { return };
        let Some(wanted) = entry.wanted.take() else { return };
        let (account, more) = (entry.account, wanted.saturating_sub(entry.bytes));
        entry.bytes += more;
        entry.granted.notify_one();
        self.held += more;
        if is_common {
            entry.common += more;
            self.take_common(account, more);
        }
    }

    fn take_common(&mut self, account: u64, more: usize) {
        self.common += more;
        self.usage(account).bytes += more;
    }

    /// Moves a complete message from the reserve to the common memory, if there is space for it.
    fn clear_reserve(&mut self) {
        let free = self.free_beyond_share();
        let Some(entry) = self.reserved.and_then(|(number, _)| self.charges.get_mut(&number))
        else {
            return;
        };
        let more = entry.bytes - entry.common;
        if entry.whole.is_some() && more <= free {
            entry.common = entry.bytes;
            let account = entry.account;
            self.reserved = None;
            self.take_common(account, more);
        }
    }

    fn revoke_expired(&mut self, lease: Duration) {
        let is_over = |entry: &Entry| entry.whole.is_some_and(|whole| whole.elapsed() >= lease);
        let over = self.charges.iter().filter(|(_, entry)| is_over(entry));
        for number in over.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end(number);
        }
        // An incomplete message keeps its common memory. It goes on without the reserve.
        if let Some((number, _)) = self.reserved.take_if(|(_, since)| since.elapsed() >= lease)
            && let Some(entry) = self.charges.get_mut(&number)
        {
            self.held -= entry.bytes - entry.common;
            entry.bytes = entry.common;
            entry.is_exempt = true;
        }
        self.share_out();
    }

    fn end(&mut self, number: u64) {
        let Some(entry) = self.charges.remove(&number) else { return };
        if entry.wanted.is_some() {
            self.waiting.retain(|waiting| *waiting != number);
        }
        self.reserved.take_if(|(reserved, _)| *reserved == number);
        self.held -= entry.bytes;
        self.common -= entry.common;
        let Some(usage) = self.accounts.get_mut(&entry.account) else { return };
        usage.bytes -= entry.common;
        usage.complete -= usize::from(entry.whole.is_some());
        if entry.common > 0 {
            usage.since = Instant::now();
        }
        if usage.bytes == 0 && usage.complete == 0 {
            self.accounts.remove(&entry.account);
        }
    }
}

#[cfg(test)]
mod tests;
