//! `catalog init`: a catalog folder, made of what the configured servers list.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::catalog::first_sentence;
use crate::cli::catalog::{schema, secrets, tools};
use crate::cli::error::Error;
use crate::cli::servers::{self, Start};
use crate::cli::size::count;
use crate::cli::{EMBEDDED_CONFIG, Global, print, with_gateway, without_rules};
use crate::config::import::{Launches, Source};
use crate::config::{CatalogTool, Config, Loaded, catalog_file_name, catalog_tool_file, to_yaml};
use crate::gateway::Gateway;
use crate::name::Place;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench catalog init catalog
  mcp-workbench check --config catalog
  mcp-workbench --config catalog              Serve it, in navigate mode";

/// Write a catalog folder from the configured servers
///
/// Starts every server and writes what it lists: a category is a toolbox, a service one of its
/// servers, and each tool has a file. `_config.yaml` has the servers as the configuration has them;
/// variables stay variables, and what looks secret becomes one. A server that cannot be started is
/// left out, and said.
///
/// Exits with 0 if all servers are in it, 1 if one could not be started.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder to write
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write into a folder that has something in it, over files of the same names
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let loaded = global.load()?;
    if loaded.config.navigator.catalog.is_some() {
        let message = format!("`{}` has a catalog already", loaded.file);
        return Err(Error::wrong(message).hint("`--config` names the file to make one of"));
    }
    let shown = args.folder.display();
    let is_taken = match fs::read_dir(&args.folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => args.folder.exists(),
    };
    if is_taken && !args.force {
        let error = Error::failed(format!("`{shown}` is there already, and not empty"));
        return Err(error.hint("name another folder, or write over it with `--force`"));
    }
    let launches = launches(global, &loaded)?;
    let mut config = without_rules(loaded.config);
    // What is written is what servers say themselves.
    for server in config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        server.overrides.retain(|_, over| over.enabled == Some(false));
        for over in server.overrides.values_mut() {
            over.name = None;
        }
    }
    let folder = base(global)?;
    let (draft, failures) = with_gateway(global, config, async |gateway| {
        Draft::new(gateway, &launches, &folder).await
    })?;
    draft.write(&args.folder)?;
    let mut sections = vec![format!(
        "wrote `{shown}`: {} with {} and {}",
        categories(draft.categories),
        count(draft.services, "service"),
        count(draft.tools, "tool"),
    )];
    if !draft.variables.is_empty() {
        let names: Vec<_> = draft.variables.iter().map(|name| format!("`{name}`")).collect();
        sections.push(format!(
            "set {} before the start: secrets that stood in the configuration are variables now",
            names.join(", ")
        ));
    }
    sections.extend(draft.remarks.iter().map(|remark| format!("warning: {remark}")));
    let has_failed = !failures.is_empty();
    sections.extend(failures);
    sections.push(format!("hint: `mcp-workbench check --config {shown}` reads all of it"));
    print::data(&sections.join("\n\n"))?;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn categories(count: usize) -> String {
    if count == 1 { "1 category".to_owned() } else { format!("{count} categories") }
}

/// The servers as the file has them.
fn launches(global: &Global, loaded: &Loaded) -> Result<Launches, Error> {
    let (file, text) = if global.embedded_config {
        ("embedded.json".to_owned(), EMBEDDED_CONFIG.to_owned())
    } else {
        let path = global.config_file()?;
        (loaded.file.clone(), fs::read_to_string(path).map_err(Error::internal)?)
    };
    Ok(Launches::of(&Source { file, text }))
}

/// Where relative paths of the configuration start.
fn base(global: &Global) -> Result<PathBuf, Error> {
    if global.embedded_config {
        return std::env::current_dir().map_err(Error::internal);
    }
    let file = global.config_file()?;
    Ok(file.parent().unwrap_or(Path::new("/")).to_owned())
}

/// A catalog that is not written yet.
#[derive(Default)]
struct Draft {
    /// Texts by their paths.
    files: BTreeMap<String, String>,
    /// The servers of `_config.yaml`.
    servers: Map<String, Value>,
    variables: Vec<String>,
    remarks: Vec<String>,
    categories: usize,
    services: usize,
    tools: usize,
}

impl Draft {
    async fn new(gateway: &Gateway, launches: &Launches, folder: &Path) -> (Self, Vec<String>) {
        let config: &Config = gateway.config();
        let toolboxes: Vec<_> = config.toolboxes.iter().collect();
        let starts = servers::start(gateway, &toolboxes, |_| true).await;
        let snapshot = gateway.snapshot();
        let mut draft = Self::default();
        for toolbox in toolboxes {
            let category = catalog_file_name(toolbox.name.as_str());
            let before = draft.services;
            for server in toolbox.launched() {
                let at = Place { toolbox: toolbox.name.clone(), server: server.name.clone() };
                let shown = format!("{}/{}", at.toolbox, at.server);
                let has_failed = |start: &&Start| {
                    start.toolbox == at.toolbox
                        && start.server == at.server
                        && start.failure.is_some()
                };
                if starts.iter().any(|start| has_failed(&start)) {
                    continue;
                }
                let Some(block) = launches.at(at.toolbox.as_str(), at.server.as_str()) else {
                    draft.remarks.push(format!("`{shown}` is left out: its block cannot be found"));
                    continue;
                };
                let said = snapshot.view(&at.toolbox);
                let mut said = said.instructions.iter().filter(|(name, _)| *name == at.server);
                let said = said.next().map(|(_, text)| first_sentence(text));
                let described = block.get("description").and_then(Value::as_str);
                let described =
                    described.map(str::to_owned).or(said.filter(|said| !said.is_empty()));
                let described = described.unwrap_or_else(|| format!("Tools of `{}`", at.server));
                let mut written = Vec::new();
                for tool in tools(&snapshot, &at) {
                    let description = tool.description.clone().unwrap_or_default();
                    let name = tool.name.clone();
                    let description = description.trim().to_owned();
                    let file = CatalogTool { name, description, schema: schema(&tool) };
                    match catalog_tool_file(&file) {
                        Some(text) => written.push((catalog_file_name(&tool.name), text)),
                        None => draft.remarks.push(format!(
                            "`{}` of `{shown}` is left out: its schema cannot be written",
                            tool.name
                        )),
                    }
                }
                if written.is_empty() {
                    draft.remarks.push(format!("`{shown}` is left out: it has no tools"));
                    continue;
                }
                let name = draft.server(&at, block, folder);
                let service = format!("{category}/{}", catalog_file_name(server.name.as_str()));
                let about = json!({ "description": described, "mcp_server": name });
                draft.files.insert(format!("{service}/_service.yaml"), to_yaml(&about));
                draft.services += 1;
                draft.tools += written.len();
                let files = written.into_iter();
                draft
                    .files
                    .extend(files.map(|(tool, text)| (format!("{service}/{tool}.yaml"), text)));
            }
            if draft.services > before {
                let about = to_yaml(&json!({ "description": toolbox.description }));
                draft.files.insert(format!("{category}/_category.yaml"), about);
                draft.categories += 1;
            }
        }
        let servers = Value::Object(draft.servers.clone());
        let config = to_yaml(&json!({ "mcp_servers": servers }));
        draft.files.insert("_config.yaml".to_owned(), config);
        (draft, starts.iter().filter_map(Start::explanation).collect())
    }

    /// Adds a server; the name it has then.
    fn server(&mut self, at: &Place, block: &Map<String, Value>, folder: &Path) -> String {
        let mut block = block.clone();
        for key in ["description", "namespace", "showServer"] {
            block.shift_remove(key);
        }
        located(&mut block, folder);
        let variables = secrets::replace(at.server.as_str(), &mut block);
        self.variables.extend(variables);
        self.variables.sort_unstable();
        self.variables.dedup();
        let block = Value::Object(block);
        let names = [at.server.to_string(), format!("{}-{}", at.toolbox, at.server)];
        let is_free = |name: &&String| self.servers.get(*name).is_none_or(|other| *other == block);
        let name = names.iter().find(is_free).unwrap_or(&names[1]).clone();
        self.servers.insert(name.clone(), block);
        name
    }

    fn write(&self, folder: &Path) -> Result<(), Error> {
        for (path, text) in &self.files {
            let path = folder.join(path);
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            written.and_then(|()| fs::write(&path, text)).map_err(|error| {
                let message = format!("cannot write `{}`", path.display());
                Error::failed(message).because(&error.to_string())
            })?;
        }
        Ok(())
    }
}

/// Says in full where a server starts, which was at the folder of the configuration.
fn located(block: &mut Map<String, Value>, folder: &Path) {
    let full = |text: &str| {
        // Where a variable or the user's home begins it, it is one already.
        let is_full = text.starts_with(['~', '$']);
        if is_full { text.to_owned() } else { folder.join(text).display().to_string() }
    };
    if let Some(Value::String(command)) = block.get_mut("command") {
        if command.contains(std::path::is_separator) {
            *command = full(command);
        }
        let cwd = block.get("cwd").and_then(Value::as_str).unwrap_or_default();
        let cwd = if cwd.is_empty() { folder.display().to_string() } else { full(cwd) };
        block.insert("cwd".to_owned(), cwd.into());
    }
}
