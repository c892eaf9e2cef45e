use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

// invariant: bad-input-fails-alone
#[test]
fn drops_only_the_invalid_tool_of_a_list() {
    let (tools, bad) = ToolDefinition::read_all(
        [
            json!({"name": "good", "inputSchema": {"type": "object"}, "later": {"x": 1.0}}),
            json!({"name": "broken", "inputSchema": true}),
            json!({"inputSchema": {}}),
            json!("text"),
            json!({"name": "good", "inputSchema": {}}),
        ]
        .iter()
        .map(RawJson::encode),
    );
    assert_eq!(tools.len(), 1);
    assert_eq!(
        tools[0].raw.as_str(),
        r#"{"name":"good","inputSchema":{"type":"object"},"later":{"x":1.0}}"#
    );
    let bad: Vec<_> = bad.iter().map(|bad| format!("{}: {}", bad.what, bad.why)).collect();
    assert_eq!(bad[0], "`broken`: `inputSchema` is not an object");
    assert_eq!(bad[1], "entry 3: has no `name`");
    assert_eq!(bad[2], "entry 4: it is not an object");
    assert_eq!(bad[3], "`good`: listed twice");
}

#[test]
fn null_capabilities_are_not_declared() {
    let read = |declared: serde_json::Value| {
        let read = ServerCapabilities::read(Some(&RawJson::encode(&declared)));
        serde_json::to_string(&read).unwrap()
    };
    for nothing in [json!(null), json!([]), json!({}), json!({"tools": null, "prompts": false})] {
        assert_eq!(read(nothing.clone()), "{}", "{nothing}");
    }
    assert_eq!(ServerCapabilities::read(None), ServerCapabilities::default());
    let declared = json!({"tools": {"listChanged": true}, "prompts": true, "own": {}});
    assert_eq!(read(declared), r#"{"tools":{"listChanged":true},"prompts":true}"#);
}

#[test]
fn first_sentence_does_not_end_at_abbreviations() {
    assert_eq!(first_sentence("Reads a file. Use it often."), "Reads a file.");
    assert_eq!(first_sentence("\nReads\n  a file\n\nArgs: more"), "Reads a file");
    assert_eq!(first_sentence("Does thing 3. More"), "Does thing 3.");
    assert_eq!(first_sentence("Asks J. Doe. More"), "Asks J. Doe.");
    assert_eq!(
        first_sentence("Reads files, e.g. a.txt, i.e. text. Then"),
        "Reads files, e.g. a.txt, i.e. text."
    );
    assert_eq!(first_sentence("Version 2.5 of it! Yes"), "Version 2.5 of it!");
    assert_eq!(first_sentence(""), "");
}

#[test]
fn texts_are_cut_between_words() {
    assert_eq!(shorten("one two three", 13), "one two three");
    assert_eq!(shorten("one two three", 12), "one two…");
    assert_eq!(shorten("one, two three", 6), "one…");
    assert_eq!(shorten("one two three", 8), "one two…");
    assert_eq!(shorten("unbreakable", 5), "unbr…");
    assert_eq!(shorten("a 大きなファイルは範囲指定を推奨", 9), "a 大きなファイ…");
    assert_eq!(shorten("text", 0), "");
    assert_eq!(shorten("äöü äöü", 6), "äöü…");
}
