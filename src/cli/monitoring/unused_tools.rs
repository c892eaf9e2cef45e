//! Unused tools, and the configuration patch that filters them out, as a JSON merge patch (RFC 7396).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::args::GlobalArgs;
use crate::cli::output::CommandError;
use mcp_workbench_config::{Dialect, LoadedConfig};
use mcp_workbench_os::read_input_text;
use mcp_workbench_settings::{Config, ServerConfig};

/// A tool that agents can use but none has called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct UnusedTool {
    pub(crate) toolbox: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    #[serde(skip)]
    pub(crate) own_name: String,
    pub(crate) bytes: usize,
}

pub(crate) fn is_patched(loaded: &LoadedConfig) -> bool {
    matches!(loaded.dialect, Dialect::Native | Dialect::Client | Dialect::Modular)
}

/// Builds the patch for these tools. `shown` has the number of visible tools by toolbox and server.
pub(crate) fn build_patch(
    global: &GlobalArgs,
    loaded: &LoadedConfig,
    unused: &[UnusedTool],
    shown: &[(String, String, usize)],
) -> Result<Option<Value>, CommandError> {
    let text = read_input_text(&global.config_file()?).map_err(CommandError::internal)?;
    let tree = jsonc_parser::parse_to_ast(
        text.trim_start_matches('\u{feff}'),
        &jsonc_parser::CollectOptions::default(),
        &jsonc_parser::ParseOptions::default(),
    );
    let read = tree.map_err(CommandError::internal)?.value.map(Value::from);
    let servers = servers(&loaded.config, shown);
    Ok(fragment(&read.unwrap_or_default(), &servers, unused))
}

fn servers<'a>(config: &'a Config, shown: &[(String, String, usize)]) -> Vec<PatchServer<'a>> {
    let shown = shown.iter().filter_map(|(toolbox, server, tools)| {
        let toolbox = config.toolbox(toolbox)?;
        let config = toolbox.server(server)?;
        Some(PatchServer { toolbox: toolbox.name.as_str(), config, tools: *tools })
    });
    shown.collect()
}

fn place(file: &Value, toolbox: &str, server: &str) -> Option<Vec<String>> {
    let path = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let has = |keys: &[String]| keys.iter().try_fold(file, |value, key| value.get(key)).is_some();
    [path(&["toolboxes", toolbox, "mcpServers", server]), path(&["mcpServers", server])]
        .into_iter()
        .find(|keys| has(keys))
}

struct PatchServer<'a> {
    toolbox: &'a str,
    config: &'a ServerConfig,
    /// The number of tools that agents can use, called or not.
    tools: usize,
}

/// Returns `None` if there is nothing to filter out.
fn fragment(file: &Value, servers: &[PatchServer<'_>], unused: &[UnusedTool]) -> Option<Value> {
    let mut fragment = Value::Object(Map::new());
    for PatchServer { toolbox, config, tools } in servers {
        let server = config.name.as_str();
        let is_its = |tool: &&UnusedTool| tool.toolbox == *toolbox && tool.server == server;
        let left_out: Vec<&str> =
            unused.iter().filter(is_its).map(|tool| tool.own_name.as_str()).collect();
        if left_out.is_empty() {
            continue;
        }
        if let Some(include) = &config.include {
            if file.get("categories").and_then(|all| all.get(*toolbox)).is_some() {
                let names: Vec<_> =
                    include.iter().filter(|name| !left_out.contains(&name.as_str())).collect();
                set(&mut fragment, &["categories", toolbox, "tools", "includeNames"], json!(names));
            }
            continue;
        }
        let Some(place) = place(file, toolbox, server) else { continue };
        let filters: Vec<String> = if left_out.len() == *tools {
            vec!["!*".to_owned()]
        } else {
            let kept = config.tool_filters.iter().cloned();
            kept.chain(left_out.iter().map(|tool| format!("!{}", globset::escape(tool)))).collect()
        };
        let place: Vec<&str> = place.iter().map(String::as_str).chain(["toolFilters"]).collect();
        set(&mut fragment, &place, json!(filters));
    }
    fragment.as_object().is_some_and(|members| !members.is_empty()).then_some(fragment)
}

fn set(into: &mut Value, path: &[&str], value: Value) {
    let place = path.iter().fold(into, |place, key| &mut place[*key]);
    *place = value;
}

pub(crate) fn by_server(unused: &[UnusedTool]) -> BTreeMap<(&str, &str), Vec<&UnusedTool>> {
    let mut servers: BTreeMap<(&str, &str), Vec<&UnusedTool>> = BTreeMap::new();
    for tool in unused {
        servers.entry((&tool.toolbox, &tool.server)).or_default().push(tool);
    }
    servers
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pretty_assertions::assert_eq;

    use super::*;

    fn unused(toolbox: &str, server: &str, tools: &[&str]) -> Vec<UnusedTool> {
        let tool = |name: &&str| UnusedTool {
            toolbox: toolbox.to_owned(),
            server: server.to_owned(),
            tool: (*name).to_owned(),
            own_name: (*name).to_owned(),
            bytes: 1,
        };
        tools.iter().map(tool).collect()
    }

    #[test]
    fn patch_filters_unused_tools_at_the_server_entry() {
        let file = json!({
            "toolboxes": {"dev": {"description": "x", "mcpServers": {
                "git": {"command": "git", "toolFilters": ["git_*"]},
                "idle": {"command": "idle"},
            }}},
            "mcpServers": {"serena": {"command": "serena", "showServer": true}, "used": {"command": "u"}},
            "categories": {"fs": {"description": "y", "server": "serena", "tools": {
                "includeNames": ["read_file", "list_dir"],
            }}},
        });
        let env = BTreeMap::<String, String>::new();
        let loaded = mcp_workbench_config::parse(
            &file.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        )
        .unwrap();
        let mut all = unused("dev", "git", &["git_push", "odd[name]"]);
        all.extend(unused("dev", "idle", &["a", "b"]));
        all.extend(unused("serena", "serena", &["find"]));
        all.extend(unused("fs", "serena", &["list_dir"]));
        let servers: Vec<_> = loaded
            .config
            .toolboxes
            .iter()
            .flat_map(|toolbox| {
                let server = |config| PatchServer {
                    toolbox: toolbox.name.as_str(),
                    config,
                    tools: if toolbox.name.as_str() == "dev" {
                        2 + usize::from(config.name.as_str() == "git")
                    } else {
                        9
                    },
                };
                toolbox.servers.iter().map(server)
            })
            .collect();
        assert_eq!(
            fragment(&file, &servers, &all).unwrap(),
            json!({
                "toolboxes": {"dev": {"mcpServers": {
                    "git": {"toolFilters": ["git_*", "!git_push", "!odd[[]name[]]"]},
                    "idle": {"toolFilters": ["!*"]},
                }}},
                "mcpServers": {"serena": {"toolFilters": ["!find"]}},
                "categories": {"fs": {"tools": {"includeNames": ["read_file"]}}},
            })
        );
        assert_eq!(fragment(&file, &servers, &[]), None);
    }
}
