//! Tests of inheritance between agent policies (`extends`).

use pretty_assertions::assert_eq;

use super::*;

/// Lists the tools that an agent can use, as `server:tool`.
fn tools(config: &Arc<Config>, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for server in ["fs", "git", "web"] {
        for called in ["read", "write", "drop"] {
            if allows(config, name, server, called) {
                found.push(format!("{server}:{called}"));
            }
        }
    }
    found
}

fn of(agents: &Value) -> Arc<Config> {
    let keys = json!({"agentPolicies": agents, "exposedTools": {"web": ["read"]}});
    config(&["fs", "git", "web"], &keys)
}

#[test]
fn agent_inherits_the_keys_it_does_not_set() {
    let config = of(&json!({
        "reader": {
            "allowedServers": ["fs", "web"],
            "toolOverrides": {"fs": ["read"], "git": ["read"]},
        },
        "same": {"extends": "reader"},
        "writer": {"extends": "reader", "toolOverrides": {"fs": ["read", "write"]}},
        "narrow": {"extends": "writer", "toolOverrides": {"web": []}},
        "elsewhere": {"extends": "reader", "allowedServers": ["git"]},
    }));
    assert_eq!(tools(&config, "reader"), ["fs:read", "web:read"]);
    assert_eq!(tools(&config, "same"), ["fs:read", "web:read"]);
    assert_eq!(tools(&config, "writer"), ["fs:read", "fs:write", "web:read"]);
    assert_eq!(tools(&config, "narrow"), ["fs:read", "fs:write"]);
    assert_eq!(seen(&config, "narrow"), ["fs"]);
    assert_eq!(tools(&config, "elsewhere"), ["git:read"]);
    let owner = |name: &str| rule(&config, name, "fs", "read");
    assert_eq!(owner("same"), "agent_policies.reader.tool_overrides.fs");
    assert_eq!(owner("narrow"), "agent_policies.writer.tool_overrides.fs");
}

#[test]
fn several_parents_grant_their_union() {
    let config = of(&json!({
        "files": {"allowedServers": ["fs"], "toolOverrides": {"fs": ["read"], "web": ["drop"]}},
        "web": {"allowedServers": ["web"]},
        "writer": {"allowedServers": ["fs"], "toolOverrides": {"fs": ["write"]}},
        "both": {"extends": ["files", "web"]},
        "all": {"extends": ["both", "writer"]},
        "fewer": {"extends": ["both", "writer"], "allowedServers": ["fs"]},
    }));
    assert_eq!(
        tools(&config, "both"),
        ["fs:read", "web:read"],
        "a list gives its heir only tools that its owner can use"
    );
    assert_eq!(tools(&config, "all"), ["fs:read", "fs:write", "web:read"]);
    assert_eq!(tools(&config, "fewer"), ["fs:read", "fs:write"]);
}

#[test]
fn conditions_of_all_ancestors_apply() {
    let config = of(&json!({
        "careful": {"when": [{"tools": ["read"], "arguments": {"/a": {"min": 1}}}]},
        "fs": {"extends": "careful", "toolOverrides": {"fs": ["*"]}},
        "bold": {"extends": ["fs"], "when": {"tools": ["drop"], "time": {"between": ["01:00", "02:00"]}}},
    }));
    let call = |name: &str, called: &str, arguments: &str| {
        let grant = decide(&config, name, "fs", called).ok()?;
        Some(grant.permit(Some(arguments.as_bytes())).is_ok())
    };
    assert_eq!(call("bold", "read", r#"{"a": 0}"#), Some(false));
    assert_eq!(call("bold", "read", r#"{"a": 1}"#), Some(true));
    assert_eq!(call("bold", "write", "{}"), Some(true));
    assert_eq!(call("bold", "drop", "{}"), None);
    assert_eq!(call("fs", "drop", "{}"), Some(true));
}

#[test]
fn denies_everything_on_cyclic_or_dangling_extends() {
    let mut broken = (*of(&json!({"a": {}, "b": {}, "c": {}}))).clone();
    let mut extend = |name: &str, other: &str| {
        let policy = broken.policy.agents.get_mut(&AgentName::new(name)).unwrap();
        policy.extends = vec![AgentName::new(other)];
    };
    extend("a", "b");
    extend("b", "a");
    extend("c", "nobody");
    let broken = Arc::new(broken);
    for name in ["a", "b", "c"] {
        assert_eq!(tools(&broken, name), [""; 0], "{name}");
    }
}

#[test]
fn diamond_inheritance_resolves_each_agent_once() {
    let mut agents = serde_json::Map::new();
    agents.insert("a0".to_owned(), json!({"toolOverrides": {"fs": ["read"]}}));
    for step in 1..20 {
        let below = format!("a{}", step - 1);
        agents.insert(format!("b{step}"), json!({"extends": below}));
        agents.insert(format!("a{step}"), json!({"extends": [below, format!("b{step}")]}));
    }
    let policies = json!({"agentPolicies": agents, "defaultPolicy": {"allowUnknownTools": false}});
    let config = config(&["fs"], &policies);
    assert!(allows(&config, "a19", "fs", "read"));
}
