//! A catalog folder before it is written.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::authoring::catalog_files::{tool_file, yaml};
use crate::authoring::import::Launches;
use crate::authoring::references::relocate;
use crate::catalog::{first_sentence, shorten};
use crate::cli::catalog::{schema, tools};
use crate::cli::error::Error;
use crate::cli::replace;
use crate::cli::secrets::Variables;
use crate::cli::servers::{self, Start};
use crate::config::env::ProcessEnv;
use crate::config::{ChosenBy, Location, expand};
use crate::gateway::{Gateway, Snapshot};
use crate::name::ServerRef;
use crate::settings::{CatalogTool, FileNames};

/// A catalog that is not written yet.
#[derive(Default)]
pub(super) struct Draft {
    /// The text of `_config.yaml`.
    config: String,
    /// The texts of all other files, by their paths.
    files: BTreeMap<String, String>,
    /// The servers of `_config.yaml`, and what they are without variables for their secrets.
    servers: Map<String, Value>,
    plain: BTreeMap<String, Map<String, Value>>,
    /// The variables that stand for secrets.
    pub(super) variables: Variables,
    pub(super) remarks: Vec<String>,
    pub(super) categories: usize,
    pub(super) services: usize,
    pub(super) tools: usize,
}

impl Draft {
    /// Makes one of what servers list, which are started for it, and of what their configuration
    /// says, whose relative paths start at `base`; and what could not be started.
    pub(super) async fn new(
        gateway: &Gateway,
        launches: &Launches,
        base: &Path,
    ) -> (Self, Vec<String>) {
        let toolboxes: Vec<_> = gateway.config().toolboxes.iter().collect();
        let starts = servers::start(gateway, &toolboxes, |_| true).await;
        let snapshot = gateway.snapshot();
        let mut draft = Self { variables: Variables::beside(launches.texts()), ..Self::default() };
        let mut names = FileNames::default();
        for toolbox in toolboxes {
            let Some(folder) = names.take(toolbox.name.as_str()) else {
                let remark = format!("`{}` is left out: no folder can be called so", toolbox.name);
                draft.remarks.push(remark);
                continue;
            };
            let before = draft.services;
            let mut names = FileNames::default();
            for server in toolbox.launched() {
                let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
                let has_failed = |start: &Start| {
                    let is_it = start.toolbox == at.toolbox && start.server == at.server;
                    is_it && start.failure.is_some()
                };
                if starts.iter().any(has_failed) {
                    continue;
                }
                let folder =
                    names.take(server.name.as_str()).map(|name| format!("{folder}/{name}"));
                let block = launches.at(at.toolbox.as_str(), at.server.as_str());
                let added = match (folder, block) {
                    (Some(folder), Some(block)) => {
                        draft.service(&folder, &at, block, &snapshot, base)
                    }
                    (None, _) => Err("no folder can be called so"),
                    (_, None) => Err("its block cannot be found"),
                };
                if let Err(reason) = added {
                    draft.remarks.push(format!("`{}` is left out: {reason}", shown(&at)));
                }
            }
            if draft.services > before {
                let about = yaml(&json!({ "description": toolbox.description }));
                draft.files.insert(format!("{folder}/_category.yaml"), about);
                draft.categories += 1;
            }
        }
        draft.configure(launches, base);
        (draft, starts.iter().filter_map(Start::explanation).collect())
    }

    /// Adds a service, with a file for each tool; or why it is left out.
    fn service(
        &mut self,
        folder: &str,
        at: &ServerRef,
        block: &Map<String, Value>,
        snapshot: &Snapshot,
        base: &Path,
    ) -> Result<(), &'static str> {
        let mut names = FileNames::default();
        let mut files = Vec::new();
        for tool in tools(snapshot, at) {
            let description = tool.description.clone().unwrap_or_default().trim().to_owned();
            let schema = schema(&tool);
            let file = CatalogTool { name: tool.name.clone(), description, schema };
            let written = match tool_file(&file) {
                Some(text) => names
                    .take(&tool.name)
                    .map(|name| (name, text))
                    .ok_or("no file can be called so"),
                None => Err("no file can say the same"),
            };
            match written {
                Ok((name, text)) => files.push((format!("{folder}/{name}.yaml"), text)),
                Err(reason) => self.remarks.push(format!(
                    "`{}` of `{}` is left out: {reason}",
                    shorten(&tool.name.escape_debug().to_string(), 64),
                    shown(at)
                )),
            }
        }
        if files.is_empty() {
            return Err("it has no tools");
        }
        let view = snapshot.view(&at.toolbox);
        let said = view.instructions_of(&at.server).map(first_sentence);
        let said = said.filter(|said| !said.is_empty());
        let described = block.get("description").and_then(Value::as_str).map(str::to_owned);
        let described = described.or(said).unwrap_or_else(|| format!("Tools of `{}`", at.server));
        let server = self.server(at, block, base);
        let about = json!({ "description": described, "mcp_server": server });
        self.files.insert(format!("{folder}/_service.yaml"), yaml(&about));
        self.services += 1;
        self.tools += files.len();
        self.files.extend(files);
        Ok(())
    }

    /// Adds a server, unless it is there already; the name it has then.
    fn server(&mut self, at: &ServerRef, block: &Map<String, Value>, base: &Path) -> String {
        let mut block = block.clone();
        for key in ["description", "namespace", "showServer"] {
            block.shift_remove(key);
        }
        located(&mut block, base);
        let mut whole = Value::Object(block);
        relocate(&mut whole, &|path| Some(full(path, base)));
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

    /// Makes `_config.yaml` of the servers, and of what else the configuration says.
    fn configure(&mut self, launches: &Launches, base: &Path) {
        let mut settings = launches.settings.clone();
        if let Some(Value::String(file)) =
            settings.get_mut("audit").and_then(|audit| audit.get_mut("file"))
        {
            *file = full(file, base);
        }
        for key in ["agentPolicies", "agent_policies"] {
            settings.get_mut(key).into_iter().for_each(|policies| anchor(policies, base));
        }
        for place in ["navigator", "search", "telemetry", "auth"] {
            settings.get_mut(place).into_iter().for_each(|settings| {
                relocate(settings, &|path| Some(full(path, base)));
            });
            let members = settings.get_mut(place).and_then(Value::as_object_mut);
            let hide = |members| self.variables.hide_in_settings(place, members);
            members.into_iter().for_each(hide);
        }
        if !launches.elsewhere.is_empty() {
            let keys: Vec<_> = launches.elsewhere.iter().map(|key| format!("`{key}`")).collect();
            self.remarks.push(format!(
                "not carried over: {}; what they forbid or ask for does not hold in the catalog",
                keys.join(", ")
            ));
        }
        let mut config = Map::from_iter([("mcp_servers".to_owned(), json!(self.servers))]);
        config.extend(settings);
        self.config = yaml(&config.into());
    }

    /// Writes it; `source` is the file that it is made of, if there is one.
    pub(super) fn write(&self, folder: &Path, source: Option<&Path>) -> Result<(), Error> {
        for (path, text) in &self.files {
            let path = folder.join(path);
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            let written = written.and_then(|()| fs::write(&path, text));
            // The same name with the other ending would be there twice.
            written.and_then(|()| remove(&path.with_extension("yml"))).map_err(|error| {
                let message = format!("cannot write `{}`", path.display());
                Error::failed(message).because(&error.to_string())
            })?;
        }
        // With this it is a catalog. It is not for everybody's eyes where the source is not.
        let path = folder.join("_config.yaml");
        let target = Location { shown: path.clone(), path, chosen_by: ChosenBy::Flag };
        replace::file(&target, &self.config, source.as_slice())?;
        remove(&target.path.with_extension("yml")).map_err(Error::internal)
    }
}

fn shown(at: &ServerRef) -> String {
    format!("{}/{}", at.toolbox, at.server)
}

/// Removes a file, if there is one.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Says in full where a server starts, which was at the folder of the configuration.
fn located(block: &mut Map<String, Value>, base: &Path) {
    if let Some(Value::String(command)) = block.get_mut("command") {
        if command.contains(std::path::is_separator) {
            *command = full(command, base);
        }
        let cwd = block.get("cwd").and_then(Value::as_str).unwrap_or_default();
        let cwd = if cwd.is_empty() { base.display().to_string() } else { full(cwd, base) };
        block.insert("cwd".to_owned(), cwd.into());
    }
}

/// A path in full, variables in it as they are.
fn full(path: &str, base: &Path) -> String {
    let (now, _) = expand(path, &ProcessEnv);
    let is_full = now.starts_with('~') || Path::new(&*now).is_absolute();
    if is_full { path.to_owned() } else { base.join(path).display().to_string() }
}

/// Says in full which folders conditions of policies mean.
fn anchor(policies: &mut Value, base: &Path) {
    let glob = |text: &mut String| {
        let rest = text.strip_prefix("./").unwrap_or(text);
        let rest = if rest == "." { "" } else { rest };
        let (now, _) = expand(rest, &ProcessEnv);
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
                    value => anchor(value, base),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| anchor(value, base)),
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
    use crate::name::{ServerName, ToolboxName};

    fn added(draft: &mut Draft, (toolbox, server): (&str, &str), token: &str) -> String {
        let block = json!({ "command": "x", "env": { "GITHUB_TOKEN": token } });
        let Value::Object(block) = block else { unreachable!() };
        let at = ServerRef { toolbox: ToolboxName::new(toolbox), server: ServerName::new(server) };
        draft.server(&at, &block, Path::new("/base"))
    }

    #[test]
    fn servers_are_the_same_only_where_their_secrets_are() {
        let mut draft = Draft::default();
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
    fn what_starts_at_the_configuration_is_said_in_full() {
        let base = Path::new("/base");
        for (path, wanted) in [
            ("sub", "/base/sub"),
            ("${A_FOLDER_THAT_IS_NOT_SET:-sub}", "/base/${A_FOLDER_THAT_IS_NOT_SET:-sub}"),
            ("${A_FOLDER_THAT_IS_NOT_SET:-/sub}", "${A_FOLDER_THAT_IS_NOT_SET:-/sub}"),
            ("~/sub", "~/sub"),
            ("/sub", "/sub"),
        ] {
            assert_eq!(full(path, base), wanted);
        }
        let mut policies = json!({ "ann": { "when": [
            { "workingDirectory": ["./a", ".", "~/b", "**/c", "/d"] },
            { "workingDirectory": "e" },
        ] } });
        anchor(&mut policies, base);
        let folders = ["/base/a", "/base", "~/b", "**/c", "/d"];
        let wanted = json!([{ "workingDirectory": folders }, { "workingDirectory": "/base/e" }]);
        assert_eq!(policies["ann"]["when"], wanted);
    }
}
