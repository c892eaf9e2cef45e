//! Agents that the access rules leave without any server.

use std::sync::Arc;

use mcp_workbench_config::Finding;
use mcp_workbench_core::policy::Policies;
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::Config;

/// Returns a warning about each agent, and about agents without a name, that can't use any server.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    if config.servers().next().is_none() {
        return Vec::new();
    }
    let policies = Policies::new(Arc::new(config.clone()));
    let is_powerless = |agent: Option<&AgentName>| {
        policies.visible_config(agent, None).toolboxes.iter().all(|all| all.servers.is_empty())
    };
    let mut findings = Vec::new();
    for agent in config.policy.agents.keys().filter(|agent| is_powerless(Some(agent))) {
        let hint = "add servers to its `allowedServers` and tools to its `toolOverrides`";
        findings.push(Finding::warning(
            format!("agentPolicies.{agent}"),
            format!("agent `{agent}` can't use any tool"),
            Some(hint.to_owned()),
        ));
    }
    if is_powerless(None) {
        let key = if config.policy.agents.is_empty() { "exposedTools" } else { "agentPolicies" };
        let hint = "start clients with `--agent NAME`, or allow tools with `exposedTools` or \
                    `\"defaultPolicy\": { \"allowUnknownTools\": true }`";
        findings.push(Finding::warning(
            key.to_owned(),
            "agents without a name can't use any tool".to_owned(),
            Some(hint.to_owned()),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn found(mut file: Value) -> Vec<String> {
        file["mcpServers"] = json!({"a": {"command": "x"}, "b": {"command": "x"}});
        let env = BTreeMap::<String, String>::new();
        let loaded = mcp_workbench_config::parse(
            &file.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
        let config = loaded.unwrap_or_else(|report| panic!("{report}")).config;
        findings(&config).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn agents_without_any_tool_are_reported() {
        let nameless = "agents without a name can't use any tool".to_owned();
        let policies = json!({"agentPolicies": {"reader": {"toolOverrides": {"a": ["get"]}}}});
        assert_eq!(found(policies), std::slice::from_ref(&nameless));
        let gone = json!({"agentPolicies": {"reader": {"allowedServers": ["gone"]}},
            "defaultPolicy": {"allowUnknownTools": true}});
        assert_eq!(found(gone), ["agent `reader` can't use any tool"]);
        assert_eq!(found(json!({"exposedTools": {"a": []}})), [nameless]);
        for usable in [
            json!({}),
            json!({"exposedTools": {"a": ["get"]}}),
            json!({"exposedTools": {"*": ["@readOnly"]}}),
            json!({"agentPolicies": {"reader": {"toolOverrides": {"a": ["get"]}}},
                "defaultPolicy": {"allowUnknownTools": true}}),
        ] {
            assert_eq!(found(usable.clone()), [""; 0], "{usable}");
        }
    }
}
