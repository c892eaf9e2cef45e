//! What choosing may cost for one task: time, requests and tokens.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::BudgetConfig;
use crate::llm::Usage;

/// What is left of it.
#[derive(Debug)]
pub struct Budget {
    until: Mutex<Instant>,
    calls: AtomicU32,
    tokens: AtomicU64,
}

impl Budget {
    /// All of it, from now on.
    pub fn new(config: &BudgetConfig) -> Self {
        Self {
            until: Mutex::new(Instant::now() + config.time),
            calls: AtomicU32::new(config.calls),
            tokens: AtomicU64::new(config.tokens),
        }
    }

    /// Until when it lasts.
    pub fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back time that went by without anybody choosing, as while a server started.
    pub fn give_back(&self, time: Duration) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }

    /// Takes one request out of it; what is spent if there is none left.
    pub fn take_request(&self) -> Result<(), &'static str> {
        if Instant::now() >= self.until() {
            return Err("time");
        }
        if self.tokens.load(Ordering::Relaxed) == 0 {
            return Err("tokens");
        }
        let taken =
            self.calls.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.map(drop).map_err(|_| "requests")
    }

    /// How many tokens are left.
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Takes what a request has cost.
    pub fn spend(&self, usage: Usage) {
        let cost = usage.read.saturating_add(usage.written);
        let _ = self.tokens.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(cost))
        });
    }
}
