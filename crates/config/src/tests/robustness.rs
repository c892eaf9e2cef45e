//! No input makes the reader panic, hang or overflow the stack.

use std::fmt::Write as _;

use crate::tests::{findings, json_files};

/// Reads `text` and returns its findings. The point is that the call returns.
fn survives(text: &str) -> String {
    findings(text)
}

#[test]
fn deep_nesting_is_rejected() {
    for open in ["[", "{\"a\":", "{\"mcpServers\":{\"a\":[", "[{\"a\":"] {
        let text = open.repeat(100_000);
        let shown = survives(&text);
        assert!(shown.contains("nested too deeply"), "{}", &shown[..200]);
    }
}

#[test]
fn truncated_configurations_do_not_panic() {
    for path in json_files("tests/configs/valid") {
        let text = std::fs::read_to_string(path).unwrap();
        for (end, _) in text.char_indices() {
            survives(&text[..end]);
        }
    }
}

#[test]
fn replaced_characters_do_not_panic() {
    for path in json_files("tests/configs/valid") {
        let text = std::fs::read_to_string(path).unwrap();
        // Every fifth position: all of them take too long, and neighbors behave alike.
        for (at, was) in text.char_indices().step_by(5) {
            for now in ["", "{", "\"", "\\", "é"] {
                let changed = [&text[..at], now, &text[at + was.len_utf8()..]].concat();
                survives(&changed);
            }
        }
    }
}

#[test]
fn malformed_texts_are_errors_not_panics() {
    for text in [
        "",
        " ",
        "\n",
        "//",
        "/*",
        "/",
        "\u{feff}",
        "null",
        "0",
        "\"",
        "\"\\u",
        "\"\\ud800\"",
        "-",
        "1e",
        "{\"a\"",
        "{\"a\":",
        "{,}",
        "[,]",
        "{}{}",
        "\\",
        "\0",
        "{\"mcpServers\":null}",
        "é",
        "{\"\":{}}",
        "{\"mcpServers\":{\"\":{}}}",
        "{\"mcpServers\":{\"a\":null}}",
        "'",
        "`",
        "NaN",
    ] {
        assert!(survives(text).starts_with("error: "), "{text}");
    }
}

#[test]
fn leading_bom_is_skipped() {
    let text = "\u{feff}{\"mcpServers\": {\"a\": {\"command\": 1}}}";
    assert!(survives(text).contains("test.json:1:34: mcpServers.a.command"));
}

#[test]
fn huge_numbers_are_rejected() {
    let number = "9".repeat(100_000);
    let shown = survives(&format!("{{\"maxToolNameLength\": {number}}}"));
    assert!(shown.contains("found `999999999999999999999999…`"), "{shown}");
}

#[test]
fn thousands_of_findings_stay_readable() {
    let mut text = String::from("{\"mcpServers\": {");
    for index in 0..20_000 {
        write!(text, "\"s{index}\": {{\"args\": 1}}, ").unwrap();
    }
    text.push_str("}}");
    let shown = survives(&text);
    assert!(shown.ends_with("… and 39950 more"), "{}", &shown[shown.len() - 100..]);
}
