//! Tests of environment variables in strings.

use pretty_assertions::assert_eq;

use crate::syntax::variables::expand_variables;
use crate::tests::{config, env, findings, read};
use mcp_workbench_settings::Launch;

fn check(input: &str, expected: &str) {
    let env = env(&[("A", "a"), ("B_2", "${A}"), ("EMPTY", ""), ("_X", "x"), ("lower", "no")]);
    let (expanded, unset) = expand_variables(input, &env);
    let unset = unset.join(",");
    assert_eq!(format!("{expanded}|{unset}"), expected, "{input}");
}

#[test]
fn variables_are_expanded() {
    check("${A}", "a|");
    check("<${A}${_X}>", "<ax>|");
    check("${EMPTY}", "|");
    check("${EMPTY:-default}", "|");
    check("${NONE:-default}", "default|");
    check("${NONE:-}", "|");
    check("${NONE:-two\nlines}", "two\nlines|");
    check("first\n${A}\nlast", "first\na\nlast|");
    check("${NONE:-a:-b}", "a:-b|");
}

// invariant: key-described-once
#[test]
fn expansion_is_a_single_pass() {
    check("${B_2}", "${A}|");
    check("${NONE:-${A}}", "${A}|");
    check("$${A}", "$a|");
}

#[test]
fn unset_variables_are_named_once() {
    check("${NONE}/${NONE}/${OTHER}", "${NONE}/${NONE}/${OTHER}|NONE,OTHER");
}

#[test]
fn other_dollar_forms_are_left_alone() {
    for text in [
        "$A",
        "${lower}",
        "${Mixed}",
        "%A%",
        "${A",
        "${}",
        "${1A}",
        "${A-x}",
        "${ A }",
        "{A}",
        "$",
        "${A:default}",
        "",
    ] {
        check(text, &format!("{text}|"));
    }
}

#[test]
fn variables_are_expanded_in_every_string() {
    let config = config(
        r#"{"toolMode": "${MODE:-proxy}", "toolboxes": {"${SET}-box": {
            "description": "For ${SET}",
            "mcpServers": {"${SET}-server": {
                "command": "${SET}", "args": ["${SET}"], "env": {"${SET}": "${SET}"},
                "cwd": "${SET}", "toolFilters": ["${SET}_*"]}}}}}"#,
    );
    let toolbox = config.toolbox("value-box").unwrap();
    assert_eq!(toolbox.description, "For value");
    let server = toolbox.server("value-server").unwrap();
    assert_eq!(server.tool_filters, ["value_*"]);
    let Launch::Stdio(launch) = &server.launch else {
        panic!("{server:?}");
    };
    assert_eq!(launch.command, "value");
    assert_eq!(launch.args, ["value"]);
    assert_eq!(launch.env["value"], "value");
    assert_eq!(launch.cwd, std::path::Path::new("/project/value"));
}

#[test]
fn keys_that_collide_after_expansion_are_rejected() {
    let shown =
        findings(r#"{"mcpServers": {"value": {"command": "a"}, "${SET}": {"command": "b"}}}"#);
    assert!(shown.contains("duplicate name after expanding variables"), "{shown}");
}

#[test]
fn disabled_server_may_use_unset_variables() {
    for off in [r#""disabled": true"#, r#""enabled": false"#] {
        let shown = findings(&format!(
            r#"{{"mcpServers": {{"a": {{"command": "a"}},
                "b": {{"command": "${{NONE}}", "args": ["${{input:x}}"], "timeout": 5, {off}}}}}}}"#
        ));
        assert!(shown.starts_with("warning: 1 warning in "), "{shown}");
    }
}

#[test]
fn ignored_keys_need_no_variables() {
    let shown = findings(r#"{"mcpServers": {"a": {"command": "a", "icon": "${NONE}"}}}"#);
    assert!(shown.starts_with("warning: 1 warning"), "{shown}");
}

#[test]
fn secrets_are_not_repeated() {
    let env = env(&[("TOKEN", "hunter2")]);
    let text = r#"{"mcpServers": {"a": {"command": "a",
        "env": {"T": "${TOKEN}", "U": "hunter2 ${input:x} ${NONE}", "V": ["hunter2"], "W": 4711}}}}"#;
    let loaded = read(text, &env).unwrap();
    let launch = &loaded.config.toolboxes[0].servers[0].launch;
    let shown = format!("{}\n{launch:?}", loaded.report().unwrap());
    assert!(matches!(launch, Launch::Broken { .. }), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("4711"), "{shown}");
}
