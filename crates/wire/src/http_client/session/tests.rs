use super::*;

fn session() -> Session {
    Session { id: Some(HeaderValue::from_static("s1")), ..Session::default() }
}

fn loss_of(status: u16, body: &str) -> SessionLoss {
    loss(&session(), StatusCode::from_u16(status).unwrap(), body.as_bytes())
}

#[test]
fn lost_session_is_recognized_in_many_wordings() {
    for (status, body) in [
        (404, ""),
        (400, "Bad Request: No valid session ID provided"),
        (400, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Server not initialized"}}"#),
        (401, r#"{"error":"Session not found"}"#),
        (403, "Mcp-Session-Id does not exist"),
        (409, "the session was closed"),
        (410, "Session expired"),
        (422, "unknown session_id"),
        (500, r#"{"error":"Session terminated"}"#),
        (500, r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Session terminated"}}"#),
        (503, "unknown session"),
    ] {
        assert_eq!(loss_of(status, body), SessionLoss::BeforeExecution, "{status} {body}");
    }
}

#[test]
fn other_rejections_keep_the_session() {
    for (status, body) in [
        (400, "unknown column"),
        (401, "token expired"),
        (403, "you may not open a session here"),
        (404, r#"{"error":{"code":-32601,"message":"method not found"}}"#),
        (500, "internal error"),
        (502, "upstream not found"),
        (503, "too many sessions, try again later"),
    ] {
        assert_eq!(loss_of(status, body), SessionLoss::No, "{status} {body}");
    }
}

// invariant: at-most-once
#[test]
fn request_is_not_repeated_after_a_failure_that_only_mentions_a_session() {
    for body in [
        "committed, but the database session expired in the meantime",
        r#"{"error":{"code":-32603,"message":"browser session closed"}}"#,
        r#"{"error":"browser session closed"}"#,
    ] {
        assert_eq!(loss_of(500, body), SessionLoss::Possible, "{body}");
    }
}

#[test]
fn only_a_session_of_ours_can_be_lost() {
    let none = Session::default();
    for (status, body) in [(404, ""), (400, "session id required"), (401, "Session not found")] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(loss(&none, status, body.as_bytes()), SessionLoss::No, "{status} {body}");
    }
    // A server without session ids can have restarted.
    let initialized =
        Session { version: Some(HeaderValue::from_static("2025-06-18")), ..Session::default() };
    let body = b"Server not initialized";
    assert_eq!(loss(&initialized, StatusCode::BAD_REQUEST, body), SessionLoss::BeforeExecution);
}

#[test]
fn success_status_can_carry_the_loss() {
    let is_lost = |text: &str| {
        is_lost_error(&session(), &RawJson::from_range(&text.to_owned().into(), 0..text.len()))
    };
    assert!(is_lost(r#"{"code":-32001,"message":"Session not found"}"#));
    assert!(is_lost(r#"{"code":-32000,"message":"Bad Request: Server not initialized"}"#));
    // The browser session of a tool.
    assert!(!is_lost(r#"{"code":-32603,"message":"session closed"}"#));
    assert!(!is_lost(r#"{"code":-32000,"message":"browser session closed"}"#));
    assert!(!is_lost(r#"{"code":-32001,"message":"Request timed out"}"#));
    assert!(!is_lost(r#"{"message":"Session not found"}"#));
}
