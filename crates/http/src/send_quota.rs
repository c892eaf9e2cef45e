//! Send quota: bounds the bytes sent to a caller and not yet read.
//!
//! A message over the quota waits while the caller reads others, at most 30 s without progress.
//! Then it is dropped; an answer is replaced by an error.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::CallerQuota;
use mcp_workbench_core::telemetry::QuotaKind;
use mcp_workbench_wire::code::UNAVAILABLE;
use mcp_workbench_wire::incoming::{self, MessageKind, error_object};
use mcp_workbench_wire::memory_pool::MemoryReservation;
use mcp_workbench_wire::writer::QueuedMessage;

/// Maximum wait during which the caller reads nothing.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
#[derive(Clone)]
pub(crate) struct SendQuota(Arc<CallerQuota>);

impl SendQuota {
    pub(crate) fn of(quota: &Arc<CallerQuota>) -> Self {
        Self(Arc::clone(quota))
    }

    /// Waits for quota and returns the message with its reservation. Without progress, returns an
    /// error if the message is an answer, and `None` otherwise.
    pub(crate) async fn reserve(
        &self,
        message: QueuedMessage,
    ) -> Option<(QueuedMessage, MemoryReservation)> {
        let mut charge = self.0.untaken().charge();
        let length = message.parts.iter().map(Bytes::len).sum();
        if charge.grow_timeout(length, STALL_TIMEOUT).await {
            return Some((message, charge));
        }
        self.0.report_limit_reached(QuotaKind::Bytes);
        let QueuedMessage { parts, written } = message;
        let Some(id) = incoming::response_id(&parts) else {
            // Dropping `written` tells the sender that its request never reached the client.
            if incoming::classify(&parts) != MessageKind::Request {
                QueuedMessage::done(written);
            }
            return None;
        };
        let text = format!(
            "answer of {length} bytes dropped: {} has too many unread bytes \
             (limits.perCaller.maxBytesInFlight, limits.maxBytesInFlight); read the other answers \
             first",
            self.0.payer()
        );
        let error = RpcOutcome::Error(error_object(UNAVAILABLE, &text, None));
        let parts = incoming::encode_response(id, error);
        Some((QueuedMessage { parts, written }, MemoryReservation::default()))
    }
}

#[cfg(test)]
mod tests;
