//! Parses project files, and lays them over the user's configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::env::EnvSource;
use crate::loader::loaded_config::{LoadedConfig, ProjectState, ProjectStatus};
use crate::sections::project::{ProjectConfig, RawProject, TakenNames, user_key_hint};
use crate::syntax::document::{self, Node};
use crate::syntax::finding::{ConfigReport, Finding, Severity};
use crate::syntax::paths::PathResolver;
use crate::syntax::reader::ConfigReader;
use crate::syntax::section::FromNode;
use mcp_workbench_settings::{Config, Launch, Sandbox};

/// Parses the text of a project file. `file` names it in messages, and relative paths start at
/// `folder`. Without `env`, strings stay as they are written.
///
/// # Errors
///
/// Returns all findings if the file is unusable as a whole.
pub fn parse_project(
    text: &str,
    file: &str,
    folder: &Path,
    taken: &TakenNames,
    env: Option<&dyn EnvSource>,
) -> Result<(ProjectConfig, Vec<Finding>), ConfigReport> {
    let none = BTreeMap::<String, String>::new();
    let paths = PathResolver { base_dir: folder, env: env.unwrap_or(&none) };
    let text = document::strip_bom(text);
    let invalid = |findings| ConfigReport { file: file.to_owned(), findings };
    let tree = document::parse_jsonc(text).map_err(|finding| invalid(vec![finding]))?;
    let root = Node::root(&tree);
    // References to secrets are rejected: they would read files and run commands.
    let mut reader = ConfigReader::new(env).with_key_hint(user_key_hint);
    reader.report_duplicate_keys(text, &root, |_| true);
    let raw = RawProject::from_node(&root, &mut reader);
    let config = raw.map(|raw| raw.checked(file, taken, &paths, &mut reader));
    let is_rejected = reader.is_rejected();
    let mut findings = reader.into_findings(text);
    match config.filter(|_| !is_rejected) {
        Some(config) => {
            for finding in &mut findings {
                finding.file.get_or_insert_with(|| file.into());
            }
            Ok((config, findings))
        }
        None => Err(invalid(findings)),
    }
}

/// A project file at or above the working directory, as it is and as the user trusted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFile {
    pub path: PathBuf,
    /// The current text, if the file applies: it exists, and no nearer one does.
    pub text: Option<String>,
    /// The text that the user trusted.
    pub trusted: Option<String>,
    /// `true` if the user trusted the file, and it doesn't exist anymore.
    pub is_gone: bool,
}

impl LoadedConfig {
    /// Lays project files over this configuration. Rules always apply: those of the current file,
    /// and those of each trusted one, so that changing or deleting a file can't widen access. Servers are added only if the user trusts the current text.
    ///
    /// # Errors
    ///
    /// Returns the findings if a file is invalid: its rules are unknown.
    pub fn lay_over(
        &mut self,
        files: &[ProjectFile],
        env: &dyn EnvSource,
    ) -> Result<(), ConfigReport> {
        let taken = TakenNames::of(&self.config, &self.disabled);
        for ProjectFile { path, text, trusted, is_gone } in files {
            let file = path.display().to_string();
            let folder = path.parent().unwrap_or(Path::new("/"));
            if let Some(trusted) = trusted.as_ref().filter(|trusted| text.as_ref() != Some(trusted))
            {
                let name = format!("{file} (as trusted)");
                let (project, _) = parse_project(trusted, &name, folder, &taken, Some(env))?;
                self.config.policy.projects.push(project.rules);
            }
            let state = match (text, trusted) {
                (None, _) if *is_gone => ProjectState::Gone,
                (None, _) => continue,
                (Some(text), Some(trusted)) if text == trusted => ProjectState::Trusted,
                (Some(_), Some(_)) => ProjectState::Changed,
                (Some(_), None) => ProjectState::Untrusted,
            };
            let mut status = ProjectStatus::new(file.clone(), state);
            if let Some(text) = text {
                let (project, findings) = parse_project(text, &file, folder, &taken, Some(env))?;
                status.rules = project.rules.keys();
                status.has_servers = !project.toolboxes.is_empty();
                self.config.policy.projects.push(project.rules.clone());
                if state == ProjectState::Trusted {
                    self.findings.extend(findings);
                    status.toolboxes = project.toolboxes.iter().map(|t| t.name.clone()).collect();
                    self.add_project_toolboxes(project, &file);
                }
            }
            self.findings.extend(status.finding());
            self.project = Some(status);
        }
        Ok(())
    }

    fn add_project_toolboxes(&mut self, project: ProjectConfig, file: &str) {
        let ProjectConfig { mut toolboxes, disabled, rules: _ } = project;
        let config = &mut self.config;
        // Their definitions aren't reviewed, so an enforced lock hides them.
        let drift_policy = config.drift_policy.filter(|policy| policy.is_enforced());
        for server in toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
            server.drift_policy = drift_policy;
            let Launch::Stdio(launch) = &mut server.launch else { continue };
            if config.sandbox == Sandbox::Off {
                continue;
            }
            if launch.sandbox.as_ref().is_some_and(|own| *own != config.sandbox) {
                let message = format!("the `sandbox` of server `{}` is ignored", server.name);
                let hint = "the `sandbox` of your configuration applies to servers of projects";
                let finding = Finding::warning(String::new(), message, Some(hint.to_owned()));
                self.findings.push(Finding { file: Some(file.into()), ..finding });
            }
            launch.sandbox = Some(config.sandbox.clone());
        }
        let names = toolboxes.iter().map(|toolbox| toolbox.name.clone());
        config.policy.project_toolboxes.extend(names);
        config.toolboxes.append(&mut toolboxes);
        self.disabled.extend(disabled);
        crate::loader::validation::apply_launch_defaults(config);
    }
}

impl TakenNames {
    /// Returns the names of a configuration, including disabled servers.
    pub fn of(
        config: &Config,
        disabled: &[(mcp_workbench_names::ToolboxName, mcp_workbench_names::ServerName)],
    ) -> Self {
        let enabled = config.servers().map(|(toolbox, server)| (&toolbox.name, &server.name));
        let disabled = disabled.iter().map(|(toolbox, server)| (toolbox, server));
        let (toolboxes, servers) = enabled
            .chain(disabled)
            .map(|(toolbox, server)| (toolbox.to_string(), server.to_string()))
            .unzip();
        Self { toolboxes, servers }
    }
}

impl ProjectStatus {
    fn new(file: String, state: ProjectState) -> Self {
        Self { file, state, has_servers: false, toolboxes: Vec::new(), rules: Vec::new() }
    }

    /// Returns the warning about a file that isn't trusted, if it matters.
    pub fn finding(&self) -> Option<Finding> {
        let (message, hint) = match self.state {
            ProjectState::Trusted => return None,
            ProjectState::Untrusted if !self.has_servers => return None,
            ProjectState::Untrusted => (
                "not trusted: its rules apply, but its servers don't start",
                "review it with `mcp-workbench trust`",
            ),
            ProjectState::Changed => (
                "changed since you trusted it: the rules of both versions apply, and its servers \
                 don't start",
                "review it with `mcp-workbench trust`",
            ),
            ProjectState::Gone => (
                "the project file is gone; the rules that you trusted still apply",
                "restore it, or run `mcp-workbench trust --remove`",
            ),
        };
        Some(Finding {
            severity: Severity::Warning,
            file: Some(self.file.as_str().into()),
            path: String::new(),
            position: None,
            message: message.to_owned(),
            hint: Some(hint.to_owned()),
        })
    }
}
