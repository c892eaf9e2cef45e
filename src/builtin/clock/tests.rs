use chrono::{DateTime, Utc};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::builtin::Clock;
use crate::builtin::tests::Client;

/// A client of a clock that is stopped at 2026-07-28 23:30 UTC.
async fn stopped() -> Client {
    Client::connect(Clock {
        now: || DateTime::<Utc>::from_timestamp(1_785_281_400, 987_654_321).unwrap(),
    })
    .await
}

#[tokio::test]
async fn now_is_in_utc() {
    assert_eq!(
        stopped().await.structured("now", json!({})).await,
        json!({ "time": "2026-07-28T23:30:00Z", "unix": 1_785_281_400, "weekday": "Tuesday" })
    );
}

#[tokio::test]
async fn now_is_at_an_offset_and_in_a_format() {
    let arguments = json!({ "offset": "+02:00", "format": "%d.%m.%Y" });
    assert_eq!(
        stopped().await.structured("now", arguments).await,
        json!({
            "time": "2026-07-29T01:30:00+02:00",
            "unix": 1_785_281_400,
            "weekday": "Wednesday",
            "formatted": "29.07.2026",
        })
    );
    let west = stopped().await.structured("now", json!({ "offset": "-05:30" })).await;
    assert_eq!(west["time"], "2026-07-28T18:00:00-05:30");
    let zulu = stopped().await.structured("now", json!({ "offset": "Z" })).await;
    assert_eq!(zulu["time"], "2026-07-28T23:30:00Z");
}

#[tokio::test]
async fn now_rejects_unknown_offsets_and_formats() {
    let client = stopped().await;
    assert_eq!(
        client.failure("now", json!({ "offset": "Berlin" })).await,
        "`offset` must look like `+02:00`, `-05:30` or `Z`"
    );
    assert_eq!(
        client.failure("now", json!({ "format": "%!" })).await,
        "`format` is not a strftime pattern: `%!`"
    );
}

#[tokio::test]
async fn elapsed_is_between_two_times() {
    let client = stopped().await;
    let times = json!({ "from": "2026-07-28T00:00:00+02:00", "to": "2026-07-29T02:03:04Z" });
    assert_eq!(
        client.structured("elapsed", times).await,
        json!({ "seconds": 100_984, "text": "1 day 4 h 3 min 4 s" })
    );
    let backwards = json!({ "from": "2026-07-28T00:00:10Z", "to": "2026-07-28T00:00:00Z" });
    assert_eq!(
        client.structured("elapsed", backwards).await,
        json!({ "seconds": -10, "text": "-10 s" })
    );
    let until_now = json!({ "from": "2026-07-28T23:30:00Z" });
    assert_eq!(
        client.structured("elapsed", until_now).await,
        json!({ "seconds": 0, "text": "0 s" })
    );
}

#[tokio::test]
async fn elapsed_rejects_times_that_are_not_rfc_3339() {
    let message = stopped().await.failure("elapsed", json!({ "from": "yesterday" })).await;
    assert!(
        message.starts_with("`from` must be a time like `2026-07-28T09:30:00Z`, not `yesterday`"),
        "{message}"
    );
}
