//! The shapes of answers.

use pretty_assertions::assert_eq;

use super::*;

fn used() -> Used {
    tool("communication", "slack", "send_message", &json!({})).used()
}

/// The answer to a result, as it is written.
fn of(result: &str) -> String {
    let raw: Raw = serde_json::from_str(result).expect("JSON");
    let done = Done { tool: Some(used()), came: Came::Result(raw) };
    answer(&done).as_str().into_owned()
}

fn result_of(result: &str) -> String {
    let answer: Raw = serde_json::from_str(&of(result)).expect("JSON");
    let shape = answer.member("structuredContent").expect("a shape");
    let first = answer.member("content").and_then(|c| c.items()).expect("content")[0].clone();
    assert_eq!(
        first.member("text").and_then(|t| t.text().map(std::borrow::Cow::into_owned)).as_deref(),
        Some(&*shape.as_str())
    );
    shape.member("result").expect("a result").as_str().into_owned()
}

#[test]
fn structured_content_is_the_result_as_it_is_written() {
    let result = r#"{"content":[{"type":"text","text":"{\"n\": 1.50}"}],"structuredContent":{"n":  1.50},"_meta":{"k":1e2}}"#;
    assert_eq!(
        of(result),
        concat!(
            r#"{"content":[{"type":"text","text":"{\"success\":true,\"tool_used\":\"slack.send_message\",\"result\":{\"n\":  1.50}}"}],"#,
            r#""structuredContent":{"success":true,"tool_used":"slack.send_message","result":{"n":  1.50}},"_meta":{"k":1e2}}"#,
        )
    );
}

#[test]
fn a_text_is_the_result_and_what_it_says_where_that_is_json() {
    let text =
        |text: &str| result_of(&json!({"content": [{"type": "text", "text": text}]}).to_string());
    assert_eq!(text("hello"), r#""hello""#);
    assert_eq!(text("42"), r#""42""#, "which is a text that somebody wrote");
    assert_eq!(
        text("{\n  \"n\": 1.50,\r\n  \"t\": \"a\\nb\"\n}"),
        r#"{  "n": 1.50,  "t": "a\nb"}"#
    );
    assert_eq!(text("[1, 2"), r#""[1, 2""#);
    assert_eq!(result_of(r#"{"content": []}"#), "null");
    let two =
        json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "[1e1]"}]});
    assert_eq!(result_of(&two.to_string()), r#"["a",[1e1]]"#);
}

#[test]
fn what_is_no_text_comes_after_it() {
    let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png","x":1.0}"#;
    let answer = of(&format!(r#"{{"content":[{{"type":"text","text":"a"}},{image}]}}"#));
    assert!(answer.contains(&format!(",{image}]")), "{answer}");
    // A text that says something else than what is structured is kept too.
    let said = r#"{"type":"text","text":"two tasks were found"}"#;
    let answer = of(&format!(r#"{{"content":[{said}],"structuredContent":{{"n":2}}}}"#));
    assert!(answer.contains(&format!(",{said}]")), "{answer}");
}

#[test]
fn a_failure_has_its_type_its_message_and_a_suggestion() {
    let failure = Failure::new(Kind::ToolExecutionError, "no such channel", "list the channels");
    let done = Done { tool: Some(used()), came: Came::Failed(failure) };
    let answer: Value = answer(&done).parse().expect("JSON");
    assert_eq!(answer["isError"], true);
    assert_eq!(
        answer["structuredContent"],
        json!({"success": false, "tool_used": "slack.send_message", "error": {
            "type": "tool_execution_error",
            "message": "no such channel",
            "suggestion": "list the channels",
        }})
    );
}

#[test]
fn what_a_tool_that_failed_says_at_length_is_not_lost() {
    let long = "reason ".repeat(1000);
    let result = json!({"content": [{"type": "text", "text": long}, {"type": "image", "data": "AA=="}], "isError": true, "_meta": {"a": 1}});
    let came = executing::judge(
        Ok(crate::backend::Outcome::Result(Raw::encode(&result))),
        &tool("a", "b", "c", &json!({})),
        None,
    );
    let answer: Value = answer(&Done { tool: Some(used()), came }).parse().expect("JSON");
    assert_eq!(answer["content"][1]["text"], long);
    assert_eq!(answer["content"][2]["data"], "AA==");
    assert_eq!(answer["_meta"], json!({"a": 1}));
    let error = &answer["structuredContent"]["error"];
    assert!(error["message"].as_str().expect("a text").len() < 2100);
    assert_eq!(error["context"], "b.c was called with {}");
}
