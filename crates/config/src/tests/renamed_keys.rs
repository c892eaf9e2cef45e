//! Tests of the hints for old names of keys and values.

use pretty_assertions::assert_eq;

use crate::syntax::finding::Finding;
use crate::tests::{env, findings, read};

#[test]
fn old_names_of_keys_are_errors_with_the_new_name() {
    let hint = |text: &str| {
        let report = read(text, &env(&[])).unwrap_err();
        let unknown = |finding: &&Finding| finding.message == "unknown key";
        report.findings.iter().find(unknown).unwrap().hint.clone().unwrap()
    };
    let servers = r#""mcpServers": {"a": {"command": "a"}}"#;
    for (key, new) in [
        (r#""cache": {"ttlMs": 5}"#, "resultCache"),
        (r#""definitions": "deny""#, "onDefinitionChange"),
        (r#""definitions": "deny", "categories": {}"#, "onDefinitionChange"),
        (r#""watch": "everything""#, "autoReload"),
        (r#""shared": {"url": "redis://127.0.0.1"}"#, "sharedStore"),
        (r#""search": {"offered": true}"#, "tool"),
        (r#""limits": {"concurrentCalls": 5}"#, "maxConcurrentCalls"),
        (r#""limits": {"perAgent": {"concurrentCalls": 5}}"#, "maxConcurrentCalls"),
        (r#""limits": {"perCaller": {"maxCalls": 5}}"#, "maxConcurrentCalls"),
        (r#""navigator": {"budget": {"max_calls": 5}}"#, "maxRequests"),
        (r#""clients": {"x": {"relistsInTime": true}}"#, "refreshesToolList"),
        (r#""clients": {"x": {"settlingMs": 5}}"#, "toolListDelayMs"),
        (r#""clients": {"x": {"toolSearch": true}}"#, "hasToolSearch"),
    ] {
        let text = format!("{{{servers}, {key}}}");
        assert_eq!(hint(&text), format!("did you mean `{new}`?"), "{text}");
    }
    let leeway = format!(r#"{{{servers}, "auth": {{"jwt": {{"leewaySeconds": 60}}}}}}"#);
    assert_eq!(hint(&leeway), "did you mean `leewayMs` (in milliseconds)?");
    let misplaced = hint(&format!(r#"{{{servers}, "toolMode": "auto", "concurrentCalls": 5}}"#));
    assert!(misplaced.starts_with("`maxConcurrentCalls` belongs in "), "{misplaced}");
    for (word, new) in [("presentation", "safe"), ("everything", "all")] {
        let found = findings(&format!(r#"{{{servers}, "autoReload": "{word}"}}"#));
        assert!(found.contains("expected `safe` or `all`, found"), "{found}");
        assert!(found.contains(&format!("did you mean `{new}`?")), "{found}");
    }
}

#[test]
fn old_names_in_a_server_entry_disable_the_server() {
    for (key, new) in [
        (r#""shared": false"#, "shareProcess"),
        (r#""cache": {"ttlMs": 5}"#, "resultCache"),
        (r#""definitions": "deny""#, "onDefinitionChange"),
    ] {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "a", {key}}}}}}}"#);
        let loaded = read(&text, &env(&[])).unwrap();
        assert_eq!(loaded.broken_servers(), ["a/a"], "{text}");
        let report = loaded.report().unwrap().to_string();
        assert!(report.contains(&format!("hint: did you mean `{new}`?")), "{report}");
    }
}
