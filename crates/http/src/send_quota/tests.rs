use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;
use mcp_workbench_core::gateway::{self, QuotaRegistry};
use mcp_workbench_core::telemetry::{QuotaOwner, Telemetry};
use mcp_workbench_settings::Limits;
use mcp_workbench_wire::json::RawJson;

const BYTES: usize = 3_000_000;

/// A quota that holds one long message, but not two.
fn room() -> SendQuota {
    let limits = Limits { max_message_bytes: BYTES, max_bytes_in_flight: 0, ..Limits::default() };
    let quotas =
        QuotaRegistry::new(&Arc::new(Telemetry::default()), gateway::MemoryPools::of(&limits));
    SendQuota::of(&quotas.quota_for(&QuotaOwner::Local))
}

fn long_answer() -> QueuedMessage {
    let long = RawJson::from_text(&"x".repeat(BYTES));
    let parts = incoming::encode_response(RawJson::encode(&7), RpcOutcome::Result(long));
    QueuedMessage { parts, written: None }
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_quota_becomes_an_error() {
    let send_quota = room();
    let (first, charge) = send_quota.reserve(long_answer()).await.unwrap();
    let untaken = charge.attach_to(first.parts.concat().into());
    let start = Instant::now();
    let (given_up, _) = send_quota.reserve(long_answer()).await.unwrap();
    assert_eq!(start.elapsed(), STALL_TIMEOUT);
    let text = String::from_utf8(given_up.parts.concat()).unwrap();
    assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"#), "{text}");
    assert!(text.contains("read the other answers first"), "{text}");
    // Without progress, further messages fail immediately.
    let (_, charge) = send_quota.reserve(long_answer()).await.unwrap();
    assert_eq!((start.elapsed(), charge.is_tracked()), (STALL_TIMEOUT, false));
    let parts = incoming::encode_response(
        RawJson::encode(&8),
        RpcOutcome::Result(RawJson::from_text("short")),
    );
    assert!(send_quota.reserve(QueuedMessage { parts, written: None }).await.is_some());
    drop(untaken);
    let (whole, charge) = send_quota.reserve(long_answer()).await.unwrap();
    assert!(charge.is_tracked() && whole.parts.concat().len() > BYTES);
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_while_the_client_reads_others() {
    let send_quota = room();
    let (_, untaken) = send_quota.reserve(long_answer()).await.unwrap();
    let later = async {
        // Time is paused: the client reads this slowly.
        tokio::time::sleep(STALL_TIMEOUT / 2).await;
        drop(untaken);
    };
    let (second, ()) = tokio::join!(send_quota.reserve(long_answer()), later);
    assert!(second.unwrap().0.parts.concat().len() > BYTES);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_question_is_not_reported_as_sent() {
    let send_quota = room();
    let (_, _untaken) = send_quota.reserve(long_answer()).await.unwrap();
    let long = Bytes::from(vec![b' '; BYTES]);
    let with = |head: &'static [u8]| {
        let (written, done) = oneshot::channel();
        let parts = vec![Bytes::from_static(head), long.clone()];
        (QueuedMessage { parts, written: Some(written) }, done)
    };
    let (question, is_asked) = with(br#"{"jsonrpc":"2.0","id":1,"method":"#);
    assert!(send_quota.reserve(question).await.is_none() && is_asked.await.is_err());
    let (notice, is_told) = with(br#"{"jsonrpc":"2.0","method":"#);
    assert!(send_quota.reserve(notice).await.is_none() && is_told.await.is_ok());
}
