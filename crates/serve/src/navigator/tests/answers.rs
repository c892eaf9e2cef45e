//! Results of tasks.

use pretty_assertions::assert_eq;

use super::*;

fn used() -> SelectedTool {
    tool("communication", "slack", "send_message", &json!({})).used()
}

fn of(result: &str) -> String {
    let raw: RawJson = serde_json::from_str(result).expect("JSON");
    let done = TaskOutcome { tool: Some(used()), outcome: ToolOutcome::Result(raw) };
    tool_result(&done).as_str().into_owned()
}

fn result_of(result: &str) -> String {
    let answer: RawJson = serde_json::from_str(&of(result)).expect("JSON");
    let shape = answer.member("structuredContent").expect("a shape");
    let first = answer.member("content").and_then(|c| c.items()).expect("content")[0].clone();
    assert_eq!(
        first
            .member("text")
            .and_then(|t| t.decode_string().map(std::borrow::Cow::into_owned))
            .as_deref(),
        Some(&*shape.as_str())
    );
    shape.member("result").expect("a result").as_str().into_owned()
}

#[test]
fn structured_content_is_passed_through_byte_for_byte() {
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
fn text_is_the_result_and_is_parsed_if_json() {
    let text =
        |text: &str| result_of(&json!({"content": [{"type": "text", "text": text}]}).to_string());
    assert_eq!(text("hello"), r#""hello""#);
    assert_eq!(text("42"), r#""42""#, "third-party text");
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
fn other_blocks_follow_the_text() {
    let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png","x":1.0}"#;
    let answer = of(&format!(r#"{{"content":[{{"type":"text","text":"a"}},{image}]}}"#));
    assert!(answer.contains(&format!(",{image}]")), "{answer}");
    // A text that differs from the structured content is preserved.
    let said = r#"{"type":"text","text":"two tasks were found"}"#;
    let answer = of(&format!(r#"{{"content":[{said}],"structuredContent":{{"n":2}}}}"#));
    assert!(answer.contains(&format!(",{said}]")), "{answer}");
}

#[test]
fn error_has_a_type_a_message_and_a_suggestion() {
    let failure =
        TaskError::new(TaskErrorKind::ToolExecutionError, "no such channel", "list the channels");
    let done = TaskOutcome { tool: Some(used()), outcome: ToolOutcome::Failed(failure) };
    let answer: Value = tool_result(&done).parse().expect("JSON");
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
fn long_output_of_a_failed_tool_is_preserved() {
    let long = "reason ".repeat(1000);
    let result = json!({"content": [{"type": "text", "text": long}, {"type": "image", "data": "AA=="}], "isError": true, "_meta": {"a": 1}});
    let came = execution::outcome_from_call(
        Ok(mcp_workbench_core::backend::RpcOutcome::Result(RawJson::encode(&result))),
        &tool("a", "b", "c", &json!({})),
        None,
    );
    let answer: Value =
        tool_result(&TaskOutcome { tool: Some(used()), outcome: came }).parse().expect("JSON");
    assert_eq!(answer["content"][1]["text"], long);
    assert_eq!(answer["content"][2]["data"], "AA==");
    assert_eq!(answer["_meta"], json!({"a": 1}));
    let error = &answer["structuredContent"]["error"];
    assert!(error["message"].as_str().expect("a text").len() < 2100);
    assert_eq!(error["context"], "b.c was called with {}");
}
