//! How many bytes of messages may be held at a time.
//!
//! *Theory of operation.* A message that is longer than [`FREE`] is taken only as far as there is room
//! for it in a [`Budget`]. It keeps its room until its last slice is dropped; whoever has no room for
//! more waits, and nothing is lost. Each [`Account`] has a share of the common room, so that none can
//! hold all of it; who waits for its own share holds up nobody else. Beside the common room there may be
//! a reserve for the longest message: where messages that are partly read hold all the rest and would
//! wait for each other, one at a time has the reserve, and comes to its end.
//!
//! That is what keeps reading from waiting for itself. Nothing that is read may wait for room because of
//! something that waits for it in turn, so what agents send, what servers send and what agents have not
//! taken yet have budgets of their own. Where it cannot be known for how long a message that was read is
//! needed, its room is lent for a while ([`Bounds::lease`]).

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

/// The most bytes of a message that need no room.
pub const FREE: usize = 64 * 1024;
/// How often those who wait look for room that was lent for too long.
const CHECK: Duration = Duration::from_secs(1);

/// A number of bytes that may be held; clones are the same. By default there is no bound.
#[derive(Clone, Default)]
pub struct Budget(Option<Arc<Shared>>);

/// How much may be held, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// All bytes, the reserve among them.
    pub bytes: usize,
    /// How many of those outside the reserve one account may hold. One that holds nothing may have any
    /// message.
    pub share: usize,
    /// How many are for one message that would have to wait for others.
    pub reserve: usize,
    /// The most bytes of a message that need no room.
    pub free: usize,
    /// How long a message that was read may hold its room; `None`: for as long as it is there.
    pub lease: Option<Duration>,
}

struct Shared {
    bounds: Bounds,
    state: Mutex<State>,
}

struct State {
    bounds: Bounds,
    /// The bytes that are held.
    held: usize,
    /// The bytes of those that are in the common room.
    common: usize,
    accounts: HashMap<u64, Usage>,
    charges: HashMap<u64, Entry>,
    /// The charges that wait, in the order in which they began to.
    waiting: VecDeque<u64>,
    /// The charge that has the reserve.
    reserved: Option<u64>,
    next: u64,
}

/// The part of an account in the common room.
#[derive(Clone, Copy)]
struct Usage {
    bytes: usize,
    /// When it began to hold something, or last gave something back.
    since: Instant,
}

struct Entry {
    account: u64,
    /// All bytes that it holds, and how many of them are in the common room.
    bytes: usize,
    common: usize,
    /// How many it waits for, if it does.
    wanted: Option<usize>,
    /// Since when it is a whole message.
    whole: Option<Instant>,
    granted: Arc<Notify>,
}

/// One of those among whom the common room is shared; clones are the same.
#[derive(Clone, Default)]
pub struct Account {
    budget: Budget,
    number: u64,
}

/// The bytes that one message holds, until this is dropped.
#[derive(Default)]
pub struct Charge {
    account: Account,
    /// Its place in the budget, once it needs one.
    slot: Option<Slot>,
}

struct Slot {
    shared: Arc<Shared>,
    number: u64,
    granted: Arc<Notify>,
}

/// The bounds of what is read from somebody.
#[derive(Clone)]
pub struct Intake {
    /// The longest single message, in bytes.
    pub max: usize,
    /// Who pays for what is read.
    pub account: Account,
}

impl From<usize> for Intake {
    /// Messages of at most `max` bytes, and any number of them.
    fn from(max: usize) -> Self {
        Self { max, account: Account::default() }
    }
}

/// How large the buffer of a body should be of which `length` bytes have come, `said` at most is to
/// come and `max` may: what is said and does not come takes no room from others.
pub fn room_for(length: usize, said: Option<usize>, max: usize) -> usize {
    let most = said.unwrap_or(max).min(max);
    length.saturating_mul(2).min(most).max(length)
}

impl Budget {
    /// A budget of which nothing is held yet.
    pub fn new(bounds: Bounds) -> Self {
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

    /// A new account, which holds nothing yet.
    pub fn account(&self) -> Account {
        let number = self.0.as_ref().map_or(0, |shared| shared.state().number());
        Account { budget: self.clone(), number }
    }

    /// The bytes that are held.
    pub fn held(&self) -> usize {
        self.0.as_ref().map_or(0, |shared| shared.state().held)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("held", &self.held()).finish_non_exhaustive()
    }
}

impl Account {
    /// A charge for a new message, which holds nothing yet.
    pub fn charge(&self) -> Charge {
        Charge { account: self.clone(), slot: None }
    }
}

impl Charge {
    /// Waits until the message may hold `bytes` in all. Nothing is lost when this is cancelled: the
    /// message keeps what it holds, and its place among those that wait.
    pub async fn grow(&mut self, bytes: usize) {
        if let Some(slot) = self.asks_for(bytes) {
            while !slot.has_got_it() {
                // Boxed, for it is rare, and would make every message's future larger.
                Box::pin(slot.wait()).await;
            }
        }
    }

    /// Waits until the message may hold `bytes` in all, for as long as the account gives room back: at
    /// most for so long without. Returns whether it may.
    pub async fn grow_within(&mut self, bytes: usize, patience: Duration) -> bool {
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
            // Then it is looked at again.
            let _ = Box::pin(timeout_at(deadline, slot.wait())).await;
        }
    }

    /// Asks for room. Returns where it waits, if it may have to.
    fn asks_for(&mut self, bytes: usize) -> Option<&Slot> {
        let shared = self.account.budget.0.as_ref()?;
        if bytes <= shared.bounds.free {
            return None;
        }
        let slot = self.slot.get_or_insert_with(|| {
            let (number, granted) = shared.state().begin(self.account.number);
            Slot { shared: Arc::clone(shared), number, granted }
        });
        shared.state().want(slot.number, bytes);
        Some(slot)
    }

    /// Returns `true` if the message holds or wants room.
    pub fn is_held(&self) -> bool {
        self.slot.is_some()
    }

    /// Returns `true` if the message waits for room.
    pub fn is_waiting(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| !slot.has_got_it())
    }

    /// Lets a whole message hold its room until the last slice of it is dropped.
    pub fn attach(self, message: Bytes) -> Bytes {
        let Some(slot) = self.slot else { return message };
        slot.shared.state().is_whole(slot.number);
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
            self.shared.state().call_in(lease);
        }
    }
}

/// A message with the room that it holds.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            granted: Arc::clone(&granted),
        };
        self.charges.insert(number, entry);
        (number, granted)
    }

    /// Notes that a charge wants `bytes` in all, and gives it those if there is room.
    fn want(&mut self, number: u64, bytes: usize) {
        let Some(entry) = self.charges.get_mut(&number) else { return };
        if bytes <= entry.bytes {
            return;
        }
        if entry.wanted.replace(bytes).is_none() {
            self.waiting.push_back(number);
        }
        self.share_out();
    }

    fn is_whole(&mut self, number: u64) {
        if let Some(entry) = self.charges.get_mut(&number) {
            entry.whole = Some(Instant::now());
        }
        self.share_out();
    }

    /// When the account of a charge that waits for its share last gave something back.
    fn since(&self, number: u64) -> Option<Instant> {
        let entry = self.charges.get(&number)?;
        self.accounts.get(&entry.account).map(|usage| usage.since)
    }

    fn used(&self, account: u64) -> usize {
        self.accounts.get(&account).map_or(0, |usage| usage.bytes)
    }

    /// How many bytes of the common room nobody holds.
    fn free(&self) -> usize {
        self.bounds.bytes.saturating_sub(self.bounds.reserve).saturating_sub(self.common)
    }

    /// Gives room to those who wait, in their order. Who waits for its own share holds up nobody else.
    fn share_out(&mut self) {
        self.clear_reserve();
        let mut is_full = false;
        for number in std::mem::take(&mut self.waiting) {
            let Some((account, more)) = self.need(number) else { continue };
            let used = self.used(account);
            let is_within_share = used == 0 || used.saturating_add(more) <= self.bounds.share;
            if self.reserved == Some(number) {
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
        // The account that holds least, and of its charges the one that waits longest.
        let used = |number: &u64| self.need(*number).map_or(0, |(account, _)| self.used(account));
        if let Some(number) = self.waiting.iter().copied().min_by_key(used) {
            self.reserved = Some(number);
            self.waiting.retain(|waiting| *waiting != number);
            self.grant(number, false);
        }
    }

    /// The account of a charge, and how much more it wants.
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
        let nothing = || Usage { bytes: 0, since: Instant::now() };
        self.accounts.entry(account).or_insert_with(nothing).bytes += more;
    }

    /// Lets a whole message that has the reserve have room of the common one instead, if there is some.
    fn clear_reserve(&mut self) {
        let free = self.free();
        let Some(entry) = self.reserved.and_then(|number| self.charges.get_mut(&number)) else {
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

    /// Takes back what was lent for longer than `lease`.
    fn call_in(&mut self, lease: Duration) {
        let is_over = |entry: &Entry| entry.whole.is_some_and(|whole| whole.elapsed() >= lease);
        let over = self.charges.iter().filter(|(_, entry)| is_over(entry));
        for number in over.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end(number);
        }
        self.share_out();
    }

    fn end(&mut self, number: u64) {
        let Some(entry) = self.charges.remove(&number) else { return };
        if entry.wanted.is_some() {
            self.waiting.retain(|waiting| *waiting != number);
        }
        if self.reserved == Some(number) {
            self.reserved = None;
        }
        self.held -= entry.bytes;
        self.common -= entry.common;
        if entry.common > 0
            && let Some(usage) = self.accounts.get_mut(&entry.account)
        {
            usage.bytes -= entry.common;
            usage.since = Instant::now();
            if usage.bytes == 0 {
                self.accounts.remove(&entry.account);
            }
        }
    }
}

#[cfg(test)]
mod tests;
