//! The digest by which a command finds a workbench that would do exactly what the command itself
//! would do.

use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};

use crate::{AutoReload, Config, HttpConfig, Launch, TelemetryConfig, ToolMode};

/// Returns a digest of every setting that decides which tools a command has and how its calls are
/// made, including secrets that are written in the file or come from variables. So a process that
/// knows the digest has the same access anyway. `salt` makes it useless for other processes.
///
/// Only equal programs produce equal digests. Settings of the listener are left out, and so are
/// values of secret references: both processes fetch them from the same place.
pub fn digest_for_commands(config: &Config, salt: &str) -> String {
    let mut hasher = Sha256Hasher(Sha256::new());
    salt.hash(&mut hasher);
    normalized(config).hash(&mut hasher);
    hex::encode(hasher.0.finalize())
}

fn normalized(config: &Config) -> Config {
    let mut config = Config {
        auth: None,
        http: HttpConfig::default(),
        telemetry: TelemetryConfig::default(),
        auto_reload: AutoReload::default(),
        ..config.clone()
    };
    // Commands name tools by toolbox and server in every mode.
    if !config.mode.has_namespaces() && !config.mode.is_passthrough() {
        config.mode = ToolMode::default();
    }
    let mut conditions = config.policy.agents.values().flat_map(|agent| &agent.when);
    if conditions.all(|condition| condition.working_directory.is_none()) {
        config.policy.working_directory = None;
    }
    for server in config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        match &mut server.launch {
            Launch::Stdio(launch) => {
                launch.env.retain(|name, _| !launch.secret_refs.contains_key(name));
            }
            Launch::Http(launch) => {
                let referred = &launch.referred;
                launch.headers.retain(|(name, _)| !referred.iter().any(|(other, _)| other == name));
            }
            Launch::Unsupported { .. } | Launch::Broken { .. } | Launch::Macros(_) => {}
        }
    }
    config
}

struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Unused: the digest is longer.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use pretty_assertions::{assert_eq, assert_ne};

    use super::*;
    use crate::{
        AgentPolicy, PolicyCondition, SecretRef, ServerConfig, StdioLaunch, ToolboxConfig,
    };
    use mcp_workbench_names::{AgentName, ServerName, ToolboxName};

    fn config() -> Config {
        let mut launch = StdioLaunch::new("server".to_owned(), Vec::new(), "/".into());
        launch.env = BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]);
        let server = ServerConfig::new(ServerName::new("srv"), Launch::Stdio(launch));
        let toolbox = ToolboxConfig {
            name: ToolboxName::new("box"),
            description: "A box".to_owned(),
            namespace: "box".to_owned(),
            servers: vec![server],
        };
        Config { toolboxes: vec![toolbox], ..Config::default() }
    }

    fn launch(config: &mut Config) -> &mut StdioLaunch {
        match &mut config.toolboxes[0].servers[0].launch {
            Launch::Stdio(launch) => launch,
            other => panic!("{other:?}"),
        }
    }

    fn digest_after(change: impl FnOnce(&mut Config)) -> String {
        let mut config = config();
        change(&mut config);
        digest_for_commands(&config, "salt")
    }

    #[test]
    fn digest_covers_secrets_launches_and_rules() {
        let plain = digest_after(|_| ());
        assert_eq!(plain.len(), 64);
        assert_eq!(plain, digest_after(|_| ()));
        assert_ne!(plain, digest_for_commands(&config(), "other"));
        let changes: [fn(&mut Config); 6] = [
            |config| _ = launch(config).env.insert("TOKEN".to_owned(), "other".to_owned()),
            |config| launch(config).args.push("x".to_owned()),
            |config| launch(config).cwd = "/tmp".into(),
            |config| config.policy.dangerous_tools.push("x".to_owned()),
            |config| config.mode = ToolMode::Passthrough,
            |config| config.limits.max_result_bytes = Some(1),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_ne!(digest_after(change), plain, "{number}");
        }
    }

    #[test]
    fn digest_ignores_the_listener_the_mode_and_fetched_values() {
        let plain = digest_after(|_| ());
        let changes: [fn(&mut Config); 3] = [
            |config| config.mode = ToolMode::Direct,
            |config| config.auto_reload = AutoReload::All,
            |config| config.policy.working_directory = Some("/work".into()),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_eq!(digest_after(change), plain, "{number}");
        }
        let fetched = |value: Option<&str>| {
            digest_after(|config| {
                let launch = launch(config);
                launch.env =
                    value.map(|value| ("KEY".to_owned(), value.to_owned())).into_iter().collect();
                let reference = SecretRef::File("/key".into());
                launch.secret_refs.insert("KEY".to_owned(), reference);
            })
        };
        assert_eq!(fetched(Some("a")), fetched(None));
    }

    #[test]
    fn working_directory_matters_only_to_rules_about_it() {
        let inside = |folder: &str| {
            digest_after(|config| {
                let condition = PolicyCondition {
                    working_directory: Some(vec!["/work/**".to_owned()]),
                    ..PolicyCondition::default()
                };
                let agent = AgentPolicy { when: vec![condition], ..AgentPolicy::default() };
                config.policy.agents.insert(AgentName::new("ann"), agent);
                config.policy.working_directory = Some(PathBuf::from(folder));
            })
        };
        assert_ne!(inside("/work"), inside("/home"));
    }
}
