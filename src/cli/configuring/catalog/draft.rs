//! A catalog folder in memory, before it is written.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::authoring::catalog_files::{render_tool_file, to_yaml};
use crate::authoring::import::NativeEntries;
use crate::authoring::references::relocate_references;
use crate::cli::configuring::catalog::schema;
use crate::cli::files::atomic_write;
use crate::cli::files::secret_variables::SecretVariables;
use crate::cli::output::{CommandError, quoted};
use crate::cli::servers::startup::listed_tools;
use crate::cli::servers::startup::{self, StartReport};
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_config::{ConfigLocation, ConfigOrigin, expand_variables};
use mcp_workbench_core::catalog::{first_sentence, shorten};
use mcp_workbench_core::gateway::{Gateway, Snapshot};
use mcp_workbench_names::ServerRef;
use mcp_workbench_os::write_output;
use mcp_workbench_settings::{CatalogTool, FileNameAllocator};

#[derive(Default)]
pub(super) struct CatalogDraft {
    config: String,
    /// Contents of all files but `_config.yaml`, by relative path.
    files: BTreeMap<String, String>,
    /// The servers of `_config.yaml`. `plain` has the same entries before secrets were replaced by
    /// variables.
    servers: Map<String, Value>,
    plain: BTreeMap<String, Map<String, Value>>,
    pub(super) variables: SecretVariables,
    pub(super) remarks: Vec<String>,
    pub(super) categories: usize,
    pub(super) services: usize,
    pub(super) tools: usize,
}

impl CatalogDraft {
    /// Starts all servers and collects their tools. Relative paths in the configuration are
    /// resolved against `base`. Also returns an explanation for each server that failed to start.
    pub(super) async fn collect(
        gateway: &Gateway,
        launches: &NativeEntries,
        base: &Path,
    ) -> (Self, Vec<String>) {
        let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
        let starts = startup::start_servers(gateway, &toolboxes, |_| true).await;
        let snapshot = gateway.snapshot();
        let mut draft =
            Self { variables: SecretVariables::with_reserved(launches.texts()), ..Self::default() };
        let mut names = FileNameAllocator::default();
        for toolbox in toolboxes {
            let Some(folder) = names.take(toolbox.name.as_str()) else {
                let remark = format!("skipped `{}`: not a valid folder name", toolbox.name);
                draft.remarks.push(remark);
                continue;
            };
            let before = draft.services;
            let mut names = FileNameAllocator::default();
            for server in toolbox.launchable_servers() {
                let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
                let has_failed = |start: &StartReport| {
                    let is_it = start.toolbox == at.toolbox && start.server == at.server;
                    is_it && start.failure.is_some()
                };
                if starts.iter().any(has_failed) {
                    continue;
                }
                let folder =
                    names.take(server.name.as_str()).map(|name| format!("{folder}/{name}"));
                let block = launches.get(at.toolbox.as_str(), at.server.as_str());
                let added = match (folder, block) {
                    (Some(folder), Some(block)) => {
                        draft.add_service(&folder, &at, block, &snapshot, base)
                    }
                    (None, _) => Err("not a valid folder name"),
                    (_, None) => Err("no entry in the configuration file"),
                };
                if let Err(reason) = added {
                    draft.remarks.push(format!("skipped `{}`: {reason}", shown(&at)));
                }
            }
            if draft.services > before {
                let about = to_yaml(&json!({ "description": toolbox.description }));
                draft.files.insert(format!("{folder}/_category.yaml"), about);
                draft.categories += 1;
            }
        }
        draft.copy_settings(launches, base);
        (draft, starts.iter().filter_map(StartReport::failure_text).collect())
    }

    fn add_service(
        &mut self,
        folder: &str,
        at: &ServerRef,
        block: &Map<String, Value>,
        snapshot: &Snapshot,
        base: &Path,
    ) -> Result<(), &'static str> {
        let mut names = FileNameAllocator::default();
        let mut files = Vec::new();
        for tool in listed_tools(snapshot, at) {
            let description = tool.description.clone().unwrap_or_default().trim().to_owned();
            let schema = schema(&tool);
            let file = CatalogTool { name: tool.name.clone(), description, schema };
            let written = match render_tool_file(&file) {
                Some(text) => {
                    names.take(&tool.name).map(|name| (name, text)).ok_or("not a valid file name")
                }
                None => Err("its definition does not fit the file format"),
            };
            match written {
                Ok((name, text)) => files.push((format!("{folder}/{name}.yaml"), text)),
                Err(reason) => self.remarks.push(format!(
                    "skipped tool `{}` of `{}`: {reason}",
                    shorten(&tool.name.escape_debug().to_string(), 64),
                    shown(at)
                )),
            }
        }
        if files.is_empty() {
            return Err("no tools");
        }
        let view = snapshot.view(&at.toolbox);
        let said = view.instructions_of(&at.server).map(first_sentence);
        let said = said.filter(|said| !said.is_empty());
        let described = block.get("description").and_then(Value::as_str).map(str::to_owned);
        let described = described.or(said).unwrap_or_else(|| format!("Tools of `{}`", at.server));
        let server = self.add_server(at, block, base);
        let about = json!({ "description": described, "mcp_server": server });
        self.files.insert(format!("{folder}/_service.yaml"), to_yaml(&about));
        self.services += 1;
        self.tools += files.len();
        self.files.extend(files);
        Ok(())
    }

    /// Adds a server, unless an identical one exists. Returns its name in `_config.yaml`.
    fn add_server(&mut self, at: &ServerRef, block: &Map<String, Value>, base: &Path) -> String {
        let mut block = block.clone();
        for key in ["description", "namespace", "showServer"] {
            block.shift_remove(key);
        }
        absolutize_command(&mut block, base);
        let mut whole = Value::Object(block);
        relocate_references(&mut whole, &|path| Some(to_absolute(path, base)));
        let Value::Object(mut block) = whole else { return at.server.to_string() };
        let longer = format!("{}-{}", at.toolbox, at.server);
        let numbered = (2_u32..).map(|number| format!("{longer}-{number}"));
        let mut names = [at.server.to_string(), longer.clone()].into_iter().chain(numbered);
        let can_be = |name: &String| self.plain.get(name).is_none_or(|other| *other == block);
        let name = names.find(can_be).unwrap_or_else(|| longer.clone());
        if !self.plain.contains_key(&name) {
            self.plain.insert(name.clone(), block.clone());
            self.variables.hide_in_block(&name, &mut block);
            self.servers.insert(name.clone(), block.into());
        }
        name
    }

    fn copy_settings(&mut self, launches: &NativeEntries, base: &Path) {
        let mut settings = launches.settings.clone();
        if let Some(Value::String(file)) =
            settings.get_mut("audit").and_then(|audit| audit.get_mut("file"))
        {
            *file = to_absolute(file, base);
        }
        for key in ["agentPolicies", "agent_policies"] {
            settings
                .get_mut(key)
                .into_iter()
                .for_each(|policies| absolutize_conditions(policies, base));
        }
        for place in ["navigator", "search", "telemetry", "auth"] {
            settings.get_mut(place).into_iter().for_each(|settings| {
                relocate_references(settings, &|path| Some(to_absolute(path, base)));
            });
            let members = settings.get_mut(place).and_then(Value::as_object_mut);
            let hide = |members| self.variables.hide_in_settings(place, members);
            members.into_iter().for_each(hide);
        }
        if !launches.unsupported_keys.is_empty() {
            self.remarks.push(format!(
                "not copied: {}; the catalog does not enforce these settings",
                quoted(&launches.unsupported_keys, ", ")
            ));
        }
        let mut config = Map::from_iter([("mcp_servers".to_owned(), json!(self.servers))]);
        config.extend(settings);
        self.config = to_yaml(&config.into());
    }

    /// Writes the folder. `source` is the configuration file that the catalog was generated from.
    pub(super) fn write(&self, folder: &Path, source: Option<&Path>) -> Result<(), CommandError> {
        for (path, text) in &self.files {
            let path = folder.join(path);
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            let written = written.and_then(|()| write_output(&path, text));
            // Otherwise an older file with the other extension would define the tool twice.
            written.and_then(|()| remove(&path.with_extension("yml"))).map_err(|error| {
                let message = format!("cannot write `{}`", path.display());
                CommandError::failed(message).because(&error)
            })?;
        }
        // Written last, because it makes the folder a catalog. Gets the permissions of the source,
        // which may be private.
        let path = folder.join("_config.yaml");
        let target =
            ConfigLocation { display_path: path.clone(), path, chosen_by: ConfigOrigin::Flag };
        atomic_write::write_atomically(&target, &self.config, source.as_slice())?;
        remove(&target.path.with_extension("yml")).map_err(CommandError::internal)
    }
}

fn shown(at: &ServerRef) -> String {
    format!("{}/{}", at.toolbox, at.server)
}

/// Removes a file if it exists.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn absolutize_command(block: &mut Map<String, Value>, base: &Path) {
    if let Some(Value::String(command)) = block.get_mut("command") {
        if command.contains(std::path::is_separator) {
            *command = to_absolute(command, base);
        }
        let cwd = block.get("cwd").and_then(Value::as_str).unwrap_or_default();
        let cwd = if cwd.is_empty() { base.display().to_string() } else { to_absolute(cwd, base) };
        block.insert("cwd".to_owned(), cwd.into());
    }
}

/// Makes a path absolute, and leaves its variables unexpanded.
fn to_absolute(path: &str, base: &Path) -> String {
    let (now, _) = expand_variables(path, &ProcessEnv);
    let is_full = now.starts_with('~') || Path::new(&*now).is_absolute();
    if is_full { path.to_owned() } else { base.join(path).display().to_string() }
}

fn absolutize_conditions(policies: &mut Value, base: &Path) {
    let glob = |text: &mut String| {
        let rest = text.strip_prefix("./").unwrap_or(text);
        let rest = if rest == "." { "" } else { rest };
        let (now, _) = expand_variables(rest, &ProcessEnv);
        if !now.starts_with(['*', '~']) && !Path::new(&*now).is_absolute() {
            let base = globset::escape(&base.to_string_lossy());
            let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
            *text = format!("{}{rest}", base.trim_end_matches('/'));
        }
    };
    match policies {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if is_folder(key) => glob(text),
                    Value::Array(values) if is_folder(key) => {
                        for value in values {
                            if let Value::String(text) = value {
                                glob(text);
                            }
                        }
                    }
                    value => absolutize_conditions(value, base),
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                absolutize_conditions(value, base);
            }
        }
        _ => {}
    }
}

fn is_folder(key: &str) -> bool {
    matches!(key, "workingDirectory" | "working_directory")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use mcp_workbench_names::{ServerName, ToolboxName};

    fn added(draft: &mut CatalogDraft, (toolbox, server): (&str, &str), token: &str) -> String {
        let block = json!({ "command": "x", "env": { "GITHUB_TOKEN": token } });
        let Value::Object(block) = block else { unreachable!() };
        let at = ServerRef { toolbox: ToolboxName::new(toolbox), server: ServerName::new(server) };
        draft.add_server(&at, &block, Path::new("/base"))
    }

    #[test]
    fn does_not_merge_servers_with_different_secrets() {
        let mut draft = CatalogDraft::default();
        let names = [
            (("work", "github"), "a"),
            (("home", "github"), "b"),
            (("third", "github"), "a"),
            (("x", "home-github"), "c"),
            (("home", "github"), "c"),
        ]
        .map(|(at, token)| added(&mut draft, at, token));
        assert_eq!(names, ["github", "home-github", "github", "x-home-github", "home-github-2"]);
        let tokens: Vec<_> =
            draft.servers.values().map(|block| &block["env"]["GITHUB_TOKEN"]).collect();
        let one = json!("${GITHUB_TOKEN}");
        let (two, three) = (json!("${GITHUB_TOKEN_2}"), json!("${GITHUB_TOKEN_3}"));
        assert_eq!(tokens, [&one, &two, &three, &three]);
    }

    #[test]
    fn makes_paths_relative_to_the_configuration_absolute() {
        let base = Path::new("/base");
        for (path, wanted) in [
            ("sub", "/base/sub"),
            ("${A_FOLDER_THAT_IS_NOT_SET:-sub}", "/base/${A_FOLDER_THAT_IS_NOT_SET:-sub}"),
            ("${A_FOLDER_THAT_IS_NOT_SET:-/sub}", "${A_FOLDER_THAT_IS_NOT_SET:-/sub}"),
            ("~/sub", "~/sub"),
            ("/sub", "/sub"),
        ] {
            assert_eq!(to_absolute(path, base), wanted);
        }
        let mut policies = json!({ "ann": { "when": [
            { "workingDirectory": ["./a", ".", "~/b", "**/c", "/d"] },
            { "workingDirectory": "e" },
        ] } });
        absolutize_conditions(&mut policies, base);
        let folders = ["/base/a", "/base", "~/b", "**/c", "/d"];
        let wanted = json!([{ "workingDirectory": folders }, { "workingDirectory": "/base/e" }]);
        assert_eq!(policies["ann"]["when"], wanted);
    }
}
