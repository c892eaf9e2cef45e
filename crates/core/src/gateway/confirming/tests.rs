use pretty_assertions::assert_eq;
use tokio::time::Instant;

use super::*;
use crate::backend::Event;
use crate::wire::incoming::error_object;

/// Asks a question that is dealt with so, and returns how that ends.
async fn put_to<F: Future<Output = ()>>(
    deal: impl FnOnce(Question) -> F,
) -> Result<(), Unconfirmed> {
    let (sender, mut heard) = events::channel(1);
    let patience = Duration::from_secs(7);
    let dealing = async {
        let Some(Event::Question(question)) = heard.recv().await else { panic!("no question") };
        assert_eq!(question.method, "elicitation/create");
        let params = question.params.as_ref().map(|params| params.as_str().into_owned());
        let expected = r#"{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}"#;
        assert_eq!(params.as_deref(), Some(expected));
        deal(*question).await;
    };
    let asked = form("Sure?");
    tokio::join!(put(&sender, &asked, patience), dealing).0
}

#[tokio::test(start_paused = true)]
async fn only_who_says_yes_agrees() {
    for (answer, expected) in [
        (json!({"action": "accept", "content": {}}), Ok(())),
        (json!({"action": "accept"}), Ok(())),
        (json!({"action": "decline"}), Err(Unconfirmed::Declined)),
        (json!({"action": "cancel"}), Err(Unconfirmed::Dismissed)),
        (json!({"action": "Accept"}), Err(Unconfirmed::Failed)),
        (json!({"action": true}), Err(Unconfirmed::Failed)),
        (json!({}), Err(Unconfirmed::Failed)),
        (json!([]), Err(Unconfirmed::Failed)),
    ] {
        let said = Outcome::Result(Raw::encode(&answer));
        assert_eq!(
            put_to(async |question| question.answer(said).await).await,
            expected,
            "{answer}"
        );
    }
    for (code, expected) in [(-32601, Unconfirmed::Unable), (-32603, Unconfirmed::Failed)] {
        let said = Outcome::Error(error_object(code, "x", None));
        assert_eq!(put_to(async |question| question.answer(said).await).await, Err(expected));
    }
    assert_eq!(put_to(async |question| drop(question)).await, Err(Unconfirmed::Unable));
    let (sender, heard) = events::channel(1);
    drop(heard);
    let put = put(&sender, &form("Sure?"), Duration::from_secs(1)).await;
    assert_eq!(put, Err(Unconfirmed::Unable));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_is_taken_back() {
    let since = Instant::now();
    let ignored = put_to(async |mut question| question.withdrawn().await).await;
    assert_eq!(ignored, Err(Unconfirmed::Ignored(Duration::from_secs(7))));
    assert_eq!(since.elapsed(), Duration::from_secs(7));
    let (reason, _) = ignored.unwrap_err().explain(Concern::Dangerous);
    assert_eq!(reason, "the user was asked, and did not answer for 7 s");
}
