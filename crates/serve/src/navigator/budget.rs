//! The limits of choosing for one task: time, requests and tokens.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::llm::{Cost, Within};
use crate::settings::BudgetConfig;

/// The rest of a task's limits.
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

    /// How many tokens are left.
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// The limits of the next question; if nothing may be asked any more, the name of the limit
    /// that is used up.
    pub fn within(&self) -> Result<Within, &'static str> {
        let (until, requests) = (self.until(), self.calls.load(Ordering::Relaxed));
        if Instant::now() >= until {
            return Err("time");
        }
        if self.tokens() == 0 {
            return Err("tokens");
        }
        if requests == 0 {
            return Err("requests");
        }
        Ok(Within { until, requests })
    }

    /// Takes what a question has cost.
    pub fn spend(&self, cost: Cost) {
        let tokens = cost.usage.read.saturating_add(cost.usage.written);
        let _ = self.tokens.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(tokens))
        });
        let _ = self.calls.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(cost.requests))
        });
    }
}
