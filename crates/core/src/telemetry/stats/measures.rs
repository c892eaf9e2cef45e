//! Kinds of outcomes, and latencies.

use crate::telemetry::outcome::CallOutcome;

pub(super) fn is_denial(outcome: &str) -> bool {
    [CallOutcome::Denied, CallOutcome::UnknownTool].iter().any(|denial| denial.as_str() == outcome)
}

pub(super) fn is_failure(outcome: &str) -> bool {
    !is_denial(outcome)
        && !matches!(outcome, "ok" | "input_required" | "cancelled" | "shutting_down")
}

/// Returns a percentile in milliseconds of sorted times in microseconds (nearest rank).
pub(super) fn percentile(times: &[u32], percent: usize) -> Option<f64> {
    let last = times.len().checked_sub(1)?;
    let at = (times.len() * percent).div_ceil(100).saturating_sub(1).min(last);
    times.get(at).map(|micros| f64::from(*micros) / 1000.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; durations are positive and under an hour"
)]
pub(super) fn micros(ms: f64) -> u32 {
    (ms * 1000.0).round() as u32
}
