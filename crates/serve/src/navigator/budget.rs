//! Limits of one task's navigation: time, requests and tokens.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use mcp_workbench_core::llm::{RequestCost, RequestLimits};
use mcp_workbench_settings::BudgetConfig;

#[derive(Debug)]
pub struct NavigationBudget {
    until: Mutex<Instant>,
    requests: AtomicU32,
    tokens: AtomicU64,
}

impl NavigationBudget {
    /// Starts the budget now.
    pub fn new(config: &BudgetConfig) -> Self {
        Self {
            until: Mutex::new(Instant::now() + config.time),
            requests: AtomicU32::new(config.requests),
            tokens: AtomicU64::new(config.tokens),
        }
    }

    pub fn deadline(&self) -> Instant {
        *self.until.lock()
    }

    /// Extends the deadline by time spent on other work, such as starting a server.
    pub fn extend(&self, time: Duration) {
        *self.until.lock() += time;
    }

    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Returns the limits of the next request, or the name of the exhausted limit.
    pub fn next_request_limits(&self) -> Result<RequestLimits, &'static str> {
        let (until, requests) = (self.deadline(), self.requests.load(Ordering::Relaxed));
        if Instant::now() >= until {
            return Err("time");
        }
        if self.tokens() == 0 {
            return Err("tokens");
        }
        if requests == 0 {
            return Err("requests");
        }
        Ok(RequestLimits { deadline: until, requests })
    }

    pub fn spend(&self, cost: RequestCost) {
        let tokens = cost.usage.input_tokens.saturating_add(cost.usage.output_tokens);
        let _ = self.tokens.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(tokens))
        });
        let _ = self.requests.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(cost.requests))
        });
    }
}
