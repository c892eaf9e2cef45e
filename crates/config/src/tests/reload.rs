//! Tests of the automatic reload: the changes that a running workbench applies by itself.

use super::*;
use mcp_workbench_settings::can_auto_reload;

/// Returns a configuration with `members` at the top level and `server` in the entry of its only
/// server.
fn changed(members: &str, server: &str) -> Config {
    let text = format!(
        r#"{{ {members} "toolboxes": {{ "box": {{
            "description": "x", "mcpServers": {{ "srv": {{ "command": "c" {server} }} }} }} }} }}"#
    );
    config(&text)
}

// invariant: access-changes-wait
#[test]
fn presentation_changes_reload_automatically_and_policy_changes_do_not() {
    let served = changed("", "");
    for (members, server) in [
        (r#""toolMode": "proxy","#, ""),
        (r#""clients": {"x": {"refreshesToolList": true}},"#, ""),
        (r#""activeToolsets": ["box_*"],"#, ""),
        ("", r#", "callTimeoutMs": 1000"#),
        ("", r#", "description": "y""#),
    ] {
        assert!(can_auto_reload(&served, &changed(members, server)), "{members} {server}");
    }
    for (members, server) in [
        (r#""autoReload": "all","#, ""),
        (r#""limits": {"maxMessageBytes": 100000},"#, ""),
        (r#""auth": {"anonymous": true},"#, ""),
        (r#""audit": {"file": "/tmp/audit"},"#, ""),
        (r#""agentPolicies": {"ann": {}},"#, ""),
        (r#""dangerousTools": ["x"],"#, ""),
        (r#""approvals": {"askFirst": "operator"},"#, ""),
        ("", r#", "args": ["x"]"#),
        ("", r#", "env": {"X": "y"}"#),
        ("", r#", "toolFilters": ["x"]"#),
        ("", r#", "isolation": "session""#),
    ] {
        assert!(!can_auto_reload(&served, &changed(members, server)), "{members} {server}");
    }
    let served = changed(r#""autoReload": "all","#, "");
    assert!(can_auto_reload(&served, &changed("", r#", "args": ["x"]"#)));
}

#[test]
fn added_and_removed_servers_do_not_reload_automatically() {
    let served = changed("", "");
    let mut fewer = served.clone();
    fewer.toolboxes.clear();
    assert!(!can_auto_reload(&served, &fewer) && !can_auto_reload(&fewer, &served));
}
