//! The fingerprint of a configuration. Replicas compare theirs to detect different configurations.
//!
//! The digest covers an explicit JSON encoding, so renaming a Rust type or field changes nothing.
//! Replicas of different program versions also compare theirs, so raise [`VERSION`] with every
//! change to the encoding.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    AgentPolicy, ApprovalConfig, ArgumentTest, ClientConfig, Config, ConfirmationPolicy,
    DriftPolicy, Isolation, Launch, LockedDefinition, LockedDefinitions, LockedServer,
    PolicyCondition, PolicyConfig, ProjectRules, RateLimits, ServerConfig, TimeWindow,
    ToolboxConfig, UnknownAgentPolicy,
};

/// Version of the encoding.
const VERSION: u32 = 5;
/// Bytes of the digest in a fingerprint, which has twice as many hex digits.
const LENGTH: usize = 6;

/// Returns a short digest of everything that agents are served: toolboxes, servers and how they
/// are reached, filters, overrides, policy and mode. Equal configurations have equal
/// fingerprints in every process.
///
/// Potential secrets (arguments, variables, headers, URLs, pinned values, logins) and settings
/// of one process (folders, listening addresses) are left out.
pub fn fingerprint(config: &Config) -> String {
    let toolboxes: Vec<Value> = config.toolboxes.iter().map(encode_toolbox).collect();
    let clients: Vec<Value> =
        config.clients.iter().map(|(name, client)| encode_client(name, client)).collect();
    let encoded = json!([
        VERSION,
        config.mode.as_str(),
        config.max_tool_name_length,
        config.active_toolsets,
        clients,
        encode_policy(&config.policy),
        encode_approvals(&config.approvals),
        toolboxes,
    ]);
    let digest = Sha256::digest(encoded.to_string());
    hex::encode(&digest[..LENGTH])
}

fn encode_client(name: &str, client: &ClientConfig) -> Value {
    json!([
        name,
        client.description_limit,
        client.instructions_limit,
        client.answer_limit,
        client.name_limit,
        client.refreshes_tool_list,
        client.tool_list_delay.map(|delay| delay.as_millis().to_string()),
        client.call_timeout.map(|timeout| timeout.as_millis().to_string()),
        client.has_tool_search,
        client.has_code_mode,
    ])
}

fn encode_policy(policy: &PolicyConfig) -> Value {
    let agents: Vec<Value> =
        policy.agents.iter().map(|(name, agent)| json!([name, encode_agent(agent)])).collect();
    let confirmation = match &policy.confirmation {
        ConfirmationPolicy::Never => Value::Null,
        ConfirmationPolicy::Dangerous(tools) => json!(tools),
    };
    json!([
        agents,
        policy.exposed_tools,
        policy.exposed_resources,
        policy.exposed_prompts,
        policy.default.allow_unknown_tools,
        policy.default.allow_unknown_servers,
        policy.default.require_explicit_approval,
        policy.strangers == UnknownAgentPolicy::Deny,
        policy.dangerous_tools,
        policy.is_hint_dangerous,
        confirmation,
        policy.projects.iter().map(encode_project).collect::<Vec<_>>(),
    ])
}

fn encode_project(project: &ProjectRules) -> Value {
    json!([
        project.allowed_servers,
        project.exposed_tools,
        project.exposed_resources,
        project.exposed_prompts,
        project.denied_tools,
        project.dangerous_tools,
        encode_rates(project.limits),
    ])
}

fn encode_approvals(approvals: &ApprovalConfig) -> Value {
    let key = approvals.key.map(|key| key.to_string());
    json!([approvals.first.as_str(), approvals.timeout.as_millis().to_string(), key])
}

fn encode_agent(agent: &AgentPolicy) -> Value {
    json!([
        agent.extends,
        agent.allowed_servers,
        agent.tool_overrides,
        agent.resource_overrides,
        agent.prompt_overrides,
        agent.when.iter().map(encode_condition).collect::<Vec<_>>(),
        encode_rates(agent.limits),
    ])
}

fn encode_condition(condition: &PolicyCondition) -> Value {
    let argument = |(name, test): &(String, ArgumentTest)| {
        json!([name, test.matches, test.not_matches, test.min, test.max, test.one_of])
    };
    let window =
        |time: &TimeWindow| json!([time.from, time.to, time.days.as_slice(), time.utc_offset]);
    json!([
        condition.tools,
        condition.arguments.iter().map(argument).collect::<Vec<_>>(),
        condition.working_directory,
        condition.time.as_ref().map(window),
    ])
}

fn encode_rates(rates: RateLimits) -> Value {
    json!([rates.calls_per_minute(), rates.max_concurrent_calls()])
}

fn encode_toolbox(toolbox: &ToolboxConfig) -> Value {
    json!([
        toolbox.name,
        toolbox.description,
        toolbox.namespace,
        toolbox.servers.iter().map(encode_server).collect::<Vec<_>>(),
    ])
}

fn encode_server(server: &ServerConfig) -> Value {
    let isolation = match server.isolation {
        Isolation::Shared => "shared",
        Isolation::Session => "session",
    };
    let protocol = server.protocol.word();
    let launch = match &server.launch {
        Launch::Stdio(launch) => json!(["stdio", launch.command]),
        Launch::Http(_) => json!(["http"]),
        Launch::Unsupported { .. } => json!(["unsupported"]),
        Launch::Broken { .. } => json!(["broken"]),
        Launch::Macros(macros) => {
            let tools =
                macros.iter().map(|tool| json!([tool.name, tool.description, tool.input_schema]));
            json!(["macros", tools.collect::<Vec<_>>()])
        }
    };
    let overrides = server.overrides.iter().map(|(tool, over)| {
        let pinned: Vec<&String> = over.arguments.keys().collect();
        json!([tool, over.enabled, over.name, over.description, pinned, over.select])
    });
    let locked = match server.effective_drift_policy() {
        DriftPolicy::Off => None,
        definitions => Some(json!([
            definitions.as_str(),
            server.lock_entry.as_deref().map(encode_locked_server),
        ])),
    };
    json!([
        server.name,
        server.description,
        server.tool_filters,
        server.include,
        server.resource_filters,
        server.prompt_filters,
        server.extension_methods,
        server.shares_process,
        isolation,
        protocol,
        server.roots,
        launch,
        locked,
        overrides.collect::<Vec<_>>(),
    ])
}

fn encode_locked_server(server: &LockedServer) -> Value {
    let kind = |kind: &LockedDefinitions| -> Vec<Value> {
        kind.iter().map(|(name, locked)| json!([name, encode_locked(locked)])).collect()
    };
    let package = server.package.as_ref().map(|package| {
        json!([package.ecosystem.as_str(), package.name, package.version, package.integrity])
    });
    json!([
        &*server.launch,
        package,
        server.info.as_deref(),
        server.instructions.as_ref().map(encode_locked),
        kind(&server.tools),
        kind(&server.prompts),
        kind(&server.templates),
        server.resources.as_ref().map(kind),
    ])
}

fn encode_locked(locked: &LockedDefinition) -> Value {
    let sums: Vec<String> = locked.spellings.iter().map(|one| one.digest.to_string()).collect();
    json!([sums, locked.ignore, locked.is_conditional])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::{FirstAsked, Isolation, StdioLaunch, ToolMode, ToolOverride, ToolboxConfig};
    use mcp_workbench_names::{ServerName, ToolboxName};

    /// A configuration with `secret` in every field that may hold one.
    fn config(secret: &str) -> Config {
        let launch = Launch::Stdio(StdioLaunch {
            command: "server".to_owned(),
            args: vec![format!("--key={secret}")],
            env: BTreeMap::from([("KEY".to_owned(), secret.to_owned())]),
            secret_refs: BTreeMap::new(),
            cwd: PathBuf::from("/").join(secret),
            inherit_env: false,
            withheld: std::collections::BTreeSet::new(),
            has_own_folder: false,
            sandbox: None,
            starts_directly: true,
        });
        let mut server = ServerConfig::new(ServerName::new("srv"), launch);
        let arguments = BTreeMap::from([("key".to_owned(), json!(secret))]);
        let over = ToolOverride { arguments, ..ToolOverride::default() };
        server.overrides.insert("tool".to_owned(), over);
        let toolbox = ToolboxConfig {
            name: ToolboxName::new("box"),
            description: "A box".to_owned(),
            namespace: "box".to_owned(),
            servers: vec![server],
        };
        Config { toolboxes: vec![toolbox], ..Config::default() }
    }

    #[test]
    fn fingerprint_ignores_secrets_and_local_paths() {
        assert_eq!(fingerprint(&config("a")), fingerprint(&config("b")));
        assert_eq!(fingerprint(&config("a")).len(), 2 * LENGTH);
    }

    #[test]
    fn fingerprint_covers_everything_served_to_agents() {
        let changes: [fn(&mut Config); 12] = [
            |config| config.policy.projects.push(ProjectRules::default()),
            |config| config.approvals.first = FirstAsked::Operator,
            |config| config.mode = ToolMode::Activate,
            |config| config.policy.dangerous_tools.push("x".to_owned()),
            |config| config.toolboxes[0].servers[0].isolation = Isolation::Session,
            |config| config.toolboxes[0].servers[0].tool_filters.push("x".to_owned()),
            |config| config.toolboxes[0].servers[0].resource_filters.push("x".to_owned()),
            |config| config.toolboxes[0].servers[0].prompt_filters.push("x".to_owned()),
            |config| config.toolboxes[0].servers[0].extension_methods.push("x/y".to_owned()),
            |config| config.toolboxes[0].servers[0].overrides.clear(),
            |config| {
                let over = config.toolboxes[0].servers[0].overrides.get_mut("tool").unwrap();
                over.select = Some(vec!["/x".to_owned()]);
            },
            |config| config.toolboxes.clear(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = config("a");
            change(&mut other);
            assert_ne!(fingerprint(&other), fingerprint(&config("a")), "{number}");
        }
    }

    #[test]
    fn fingerprint_is_stable_across_processes() {
        assert_eq!(fingerprint(&config("a")), "af4d0224b673");
    }
}
