use pretty_assertions::assert_eq;
use tokio::time::Instant;

use super::*;
use crate::backend::AgentEvent;
use mcp_workbench_wire::incoming::error_object;

async fn put_to<F: Future<Output = ()>>(
    deal: impl FnOnce(ServerRequest) -> F,
) -> Result<(), ConfirmationError> {
    let (sender, mut heard) = events::channel(1);
    let patience = Duration::from_secs(7);
    let dealing = async {
        let Some(AgentEvent::Request(request)) = heard.recv().await else { panic!("no question") };
        assert_eq!(request.method, "elicitation/create");
        let params = request.params.as_ref().map(|params| params.as_str().into_owned());
        let expected = r#"{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}"#;
        assert_eq!(params.as_deref(), Some(expected));
        deal(*request).await;
    };
    let asked = form("Sure?");
    tokio::join!(elicit(&sender, &asked, patience), dealing).0
}

#[tokio::test(start_paused = true)]
async fn only_action_accept_confirms_a_call() {
    for (answer, expected) in [
        (json!({"action": "accept", "content": {}}), Ok(())),
        (json!({"action": "accept"}), Ok(())),
        (json!({"action": "decline"}), Err(ConfirmationError::Declined)),
        (json!({"action": "cancel"}), Err(ConfirmationError::Cancelled)),
        (json!({"action": "Accept"}), Err(ConfirmationError::Failed)),
        (json!({"action": true}), Err(ConfirmationError::Failed)),
        (json!({}), Err(ConfirmationError::Failed)),
        (json!([]), Err(ConfirmationError::Failed)),
    ] {
        let said = RpcOutcome::Result(RawJson::encode(&answer));
        assert_eq!(put_to(async |request| request.answer(said).await).await, expected, "{answer}");
    }
    for (code, expected) in
        [(-32601, ConfirmationError::Unsupported), (-32603, ConfirmationError::Failed)]
    {
        let said = RpcOutcome::Error(error_object(code, "x", None));
        assert_eq!(put_to(async |request| request.answer(said).await).await, Err(expected));
    }
    assert_eq!(put_to(async |request| drop(request)).await, Err(ConfirmationError::Unsupported));
    let (sender, heard) = events::channel(1);
    drop(heard);
    let put = elicit(&sender, &form("Sure?"), Duration::from_secs(1)).await;
    assert_eq!(put, Err(ConfirmationError::Unsupported));
}

#[tokio::test(start_paused = true)]
async fn unanswered_confirmation_is_withdrawn_after_the_timeout() {
    let since = Instant::now();
    let ignored = put_to(async |mut request| request.cancelled().await).await;
    assert_eq!(ignored, Err(ConfirmationError::TimedOut(Duration::from_secs(7))));
    assert_eq!(since.elapsed(), Duration::from_secs(7));
    let (reason, _) = ignored.unwrap_err().explain(RiskReason::Dangerous);
    assert_eq!(reason, "the user did not answer within 7 s");
}

#[tokio::test(start_paused = true)]
async fn late_answer_to_a_suspended_confirmation_is_refused() {
    let patience = Duration::from_secs(7);
    for (late, expected) in [
        (patience, Err(ConfirmationError::TimedOut(patience))),
        (patience.checked_sub(Duration::from_millis(2)).unwrap(), Ok(())),
    ] {
        let (sender, mut heard) = events::channel(1);
        let asked = form("Sure?");
        let mut asking = Box::pin(elicit(&sender, &asked, patience));
        let question = tokio::select! {
            biased;
            _ = &mut asking => panic!("no question"),
            event = heard.recv() => event,
        };
        let Some(AgentEvent::Request(question)) = question else { panic!("no question") };
        assert_eq!(question.deadline, Some(Instant::now() + patience));
        // Nothing polls the call meanwhile.
        tokio::time::advance(late).await;
        let yes = json!({"action": "accept", "content": {}});
        question.answer(RpcOutcome::Result(RawJson::encode(&yes))).await;
        assert_eq!(asking.await, expected, "{late:?}");
    }
}
