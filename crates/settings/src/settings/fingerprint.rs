//! The fingerprint of a configuration: whether several workbenches serve the same.

use std::fmt::{Debug, Write};

use sha2::{Digest, Sha256};

use crate::settings::{Config, Definitions, Launch, ServerConfig};

/// How many bytes of the digest tell configurations apart.
const LENGTH: usize = 6;

impl Config {
    /// Returns a short word for what agents are served: toolboxes, servers by how they are reached, filters,
    /// changes to tools, rules, and the mode. It is the same in every process. Nothing that may be secret is
    /// in it (arguments of programs, variables, headers, addresses, pinned values, logins), and nothing that
    /// is a process's own, such as folders and where it listens.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |part: &dyn Debug| hash.update(format!("{part:?}\n"));
        add(&(self.mode, self.max_tool_name_length, &self.active_toolsets, &self.clients));
        let policy = &self.policy;
        add(&(&policy.agents, &policy.exposed_tools, policy.default, policy.strangers));
        add(&(&policy.exposed_resources, &policy.exposed_prompts));
        add(&(&policy.dangerous_tools, policy.is_hint_dangerous, &policy.confirmation));
        for toolbox in &self.toolboxes {
            add(&(&toolbox.name, &toolbox.description, &toolbox.namespace));
            for server in &toolbox.servers {
                add_server(server, &mut add);
            }
        }
        hash.finalize()[..LENGTH].iter().fold(String::new(), |mut word, byte| {
            // Writing to a string does not fail.
            let _ = write!(word, "{byte:02x}");
            word
        })
    }
}

fn add_server(server: &ServerConfig, add: &mut impl FnMut(&dyn Debug)) {
    add(&(&server.name, &server.description, &server.tool_filters, &server.include));
    add(&(&server.resource_filters, &server.prompt_filters));
    add(&(server.shared, server.isolation, server.protocol, server.roots));
    match &server.launch {
        Launch::Stdio(launch) => add(&launch.command),
        Launch::Http(_) => add(&"http"),
        Launch::Unsupported { .. } => add(&"unsupported"),
        Launch::Broken { .. } => add(&"broken"),
        Launch::Macros(macros) => {
            for config in macros {
                add(&(&config.name, &config.description, &config.input_schema));
            }
        }
    }
    if server.definitions() != Definitions::Off {
        add(&(server.definitions(), &server.locked));
    }
    for (tool, over) in &server.overrides {
        let pinned: Vec<&String> = over.arguments.keys().collect();
        add(&(tool, over.enabled, &over.name, &over.description, pinned));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::name::{ServerName, ToolboxName};
    use crate::settings::{Isolation, StdioLaunch, ToolMode, ToolOverride, ToolboxConfig};

    /// A configuration with one server that has a secret at each place where there may be one.
    fn config(secret: &str) -> Config {
        let launch = Launch::Stdio(StdioLaunch {
            command: "server".to_owned(),
            args: vec![format!("--key={secret}")],
            env: BTreeMap::from([("KEY".to_owned(), secret.to_owned())]),
            referred: BTreeMap::new(),
            cwd: PathBuf::from("/").join(secret),
            inherit_env: false,
            withheld: std::collections::BTreeSet::new(),
            has_own_folder: false,
            sandbox: None,
        });
        let mut server = ServerConfig::new(ServerName::new("srv"), launch);
        let arguments = BTreeMap::from([("key".to_owned(), json!(secret))]);
        let over = ToolOverride { enabled: None, name: None, description: None, arguments };
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
    fn secrets_and_places_of_their_own_do_not_tell_replicas_apart() {
        assert_eq!(config("a").fingerprint(), config("b").fingerprint());
        assert_eq!(config("a").fingerprint().len(), 2 * LENGTH);
    }

    #[test]
    fn what_agents_are_served_tells_replicas_apart() {
        let changes: [fn(&mut Config); 8] = [
            |config| config.mode = ToolMode::Activate,
            |config| config.policy.dangerous_tools.push("x".to_owned()),
            |config| config.toolboxes[0].servers[0].isolation = Isolation::Session,
            |config| config.toolboxes[0].servers[0].tool_filters.push("x".to_owned()),
            |config| config.toolboxes[0].servers[0].resource_filters.push("x".to_owned()),
            |config| config.toolboxes[0].servers[0].prompt_filters.push("x".to_owned()),
            |config| config.toolboxes[0].servers[0].overrides.clear(),
            |config| config.toolboxes.clear(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = config("a");
            change(&mut other);
            assert_ne!(other.fingerprint(), config("a").fingerprint(), "{number}");
        }
    }

    #[test]
    fn a_fingerprint_is_the_same_in_every_process() {
        assert_eq!(config("a").fingerprint(), "19936eecbf4a");
    }
}
