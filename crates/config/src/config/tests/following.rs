//! Which changes of a file are taken over by themselves.

use super::*;

/// A file with these members, and a toolbox of one server with those.
fn changed(members: &str, server: &str) -> Config {
    let text = format!(
        r#"{{ {members} "toolboxes": {{ "box": {{
            "description": "x", "mcpServers": {{ "srv": {{ "command": "c" {server} }} }} }} }} }}"#
    );
    config(&text)
}

#[test]
fn what_presents_is_taken_over_and_what_decides_waits() {
    let served = changed("", "");
    for (members, server) in [
        (r#""toolMode": "proxy","#, ""),
        (r#""clients": {"x": {"relistsInTime": true}},"#, ""),
        (r#""activeToolsets": ["box_*"],"#, ""),
        ("", r#", "callTimeoutMs": 1000"#),
        ("", r#", "description": "y""#),
    ] {
        assert!(served.may_be_followed_by(&changed(members, server)), "{members} {server}");
    }
    for (members, server) in [
        (r#""watch": "everything","#, ""),
        (r#""limits": {"maxMessageBytes": 100000},"#, ""),
        (r#""auth": {"anonymous": true},"#, ""),
        (r#""audit": {"file": "/tmp/audit"},"#, ""),
        (r#""agentPolicies": {"ann": {}},"#, ""),
        (r#""dangerousTools": ["x"],"#, ""),
        ("", r#", "args": ["x"]"#),
        ("", r#", "env": {"X": "y"}"#),
        ("", r#", "toolFilters": ["x"]"#),
        ("", r#", "isolation": "session""#),
    ] {
        assert!(!served.may_be_followed_by(&changed(members, server)), "{members} {server}");
    }
    let served = changed(r#""watch": "everything","#, "");
    assert!(served.may_be_followed_by(&changed("", r#", "args": ["x"]"#)));
}

#[test]
fn a_server_that_is_new_or_gone_waits() {
    let served = changed("", "");
    let mut fewer = served.clone();
    fewer.toolboxes.clear();
    assert!(!served.may_be_followed_by(&fewer) && !fewer.may_be_followed_by(&served));
}
