//! Builds the narrowed configuration from the full one.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::authoring::references::relocate_references;
use crate::authoring::tailor::ToolSelection;
use crate::authoring::tailor::full_config::{FullConfig, entries, strings};
use crate::authoring::tailor::renderer::CommentedValue;
use mcp_workbench_settings::ToolMode;

/// Keys that are always generated, never copied.
const GENERATED: [&str; 3] = ["exposedTools", "defaultPolicy", "agentPolicies"];

/// Returns the needed servers, and the configuration with only those. `folder` is the base
/// directory of relative paths if the new file goes to another directory.
pub(super) fn narrow(
    full: &FullConfig,
    choices: &[ToolSelection],
    folder: Option<&Path>,
    warnings: &mut Vec<String>,
) -> (Vec<String>, CommentedValue) {
    let is_chosen = |server: &str| choices.iter().any(|choice| choice.server == server);
    let servers = full.servers().into_iter().filter(|server| is_chosen(server));
    let servers: Vec<String> = servers.map(str::to_owned).collect();
    let mut members = Vec::new();
    let mut moved = PathRelocator { folder, warnings };
    for (key, value) in &full.root {
        let kept = match key.as_str() {
            // The rules have served their purpose.
            "taskBasedToolSelection" => continue,
            key if GENERATED.contains(&key) => continue,
            // Macros aren't selected by tasks, and their steps may use removed tools.
            "macros" => {
                moved.warnings.push("not copied: `macros`".to_owned());
                continue;
            }
            // The path would be wrong in another directory, and only editors use it.
            "$schema" if folder.is_some() => continue,
            "toolboxes" => toolboxes(value, &servers, &mut moved),
            "mcpServers" => blocks(value, &servers, &mut moved),
            "categories" => categories(value, &servers),
            "exposedResources" | "exposedPrompts" => retain_servers(value, &servers),
            "dangerousTools" | "requireConfirmation" => retain_server_tools(value, full, &servers),
            _ => {
                let mut value = value.clone();
                if let (Some(folder), "navigator" | "search" | "auth") = (folder, key.as_str()) {
                    relocate_references(&mut value, &|path| joined(folder, path));
                }
                value
            }
        };
        let is_empty = kept.as_object().is_some_and(Map::is_empty)
            && !value.as_object().is_some_and(Map::is_empty);
        if !is_empty {
            members.push((key.clone(), CommentedValue::Value(kept)));
        }
    }
    if !full.root.contains_key("toolMode") {
        let mode = full.mode.unwrap_or(ToolMode::Direct.as_str());
        let first = usize::from(members.first().is_some_and(|(key, _)| key == "$schema"));
        members.insert(first, ("toolMode".to_owned(), CommentedValue::Value(mode.into())));
    }
    members.push(("exposedTools".to_owned(), exposed(full, choices, &servers)));
    let agents = agents(full, choices, &servers);
    if !agents.is_empty() {
        members.push(("agentPolicies".to_owned(), CommentedValue::Object(agents)));
    }
    let mut policy = full.root.get("defaultPolicy").and_then(Value::as_object).cloned();
    let policy = policy.get_or_insert_default();
    policy.insert("allowUnknownTools".to_owned(), false.into());
    members
        .push(("defaultPolicy".to_owned(), CommentedValue::Value(Value::Object(policy.clone()))));
    (servers, CommentedValue::Object(members))
}

/// Rebases the paths of servers for a file in another directory.
struct PathRelocator<'a> {
    folder: Option<&'a Path>,
    warnings: &'a mut Vec<String>,
}

impl PathRelocator<'_> {
    /// Returns the entry of a server with its relative paths made absolute.
    fn block(&mut self, server: &str, block: &Value) -> Value {
        let mut block = block.clone();
        let Some(folder) = self.folder else { return block };
        relocate_references(&mut block, &|path| joined(folder, path));
        let Some(members) = block.as_object_mut().filter(|members| members.contains_key("command"))
        else {
            return block;
        };
        let program = match members.get_mut("command") {
            Some(Value::Array(words)) => words.first_mut(),
            program => program,
        };
        if let Some(program) = program
            && let Some(path) = program.as_str().filter(|path| path.contains('/'))
            && let Some(path) = joined(folder, path)
        {
            *program = path.into();
        }
        let cwd = members.get("cwd").and_then(Value::as_str).unwrap_or_default().to_owned();
        match joined(folder, &cwd) {
            Some(path) => _ = members.insert("cwd".to_owned(), path.into()),
            None if cwd.starts_with('$') => {
                let warning = format!("`cwd` of `{server}` is unchanged: `{cwd}`");
                self.warnings.push(warning);
            }
            None => {}
        }
        block
    }
}

/// Joins a relative path to `folder`. Returns `None` for a path that isn't relative.
fn joined(folder: &Path, path: &str) -> Option<String> {
    if path.starts_with(['/', '~', '$']) || Path::new(path).is_absolute() {
        return None;
    }
    let mut path = path;
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    let path = if matches!(path, "" | ".") { folder.to_owned() } else { folder.join(path) };
    Some(path.to_string_lossy().into_owned())
}

fn blocks(value: &Value, servers: &[String], moved: &mut PathRelocator<'_>) -> Value {
    let kept = entries(Some(value)).filter(|(name, _)| servers.contains(name));
    kept.filter(|(_, block)| !is_off(block))
        .map(|(name, block)| (name.clone(), moved.block(name, block)))
        .collect::<Map<_, _>>()
        .into()
}

fn is_off(block: &Value) -> bool {
    let flag = |key: &str| block.get(key).and_then(Value::as_bool);
    flag("disabled") == Some(true) || flag("enabled") == Some(false)
}

fn toolboxes(value: &Value, servers: &[String], moved: &mut PathRelocator<'_>) -> Value {
    let mut kept = Map::new();
    for (name, toolbox) in entries(Some(value)) {
        let left = toolbox.get("mcpServers").map(|all| blocks(all, servers, moved));
        let Some(left) = left.filter(|left| left != &json!({})) else { continue };
        let mut toolbox = toolbox.clone();
        toolbox["mcpServers"] = left;
        kept.insert(name.clone(), toolbox);
    }
    Value::Object(kept)
}

fn categories(value: &Value, servers: &[String]) -> Value {
    let is_kept = |category: &Value| {
        let server = category.get("server").and_then(Value::as_str);
        server.is_some_and(|server| servers.iter().any(|kept| kept == server))
    };
    let kept = entries(Some(value)).filter(|(_, category)| is_kept(category));
    kept.map(|(name, category)| (name.clone(), category.clone())).collect::<Map<_, _>>().into()
}

/// Filters a list of tools: drops `server:tool` names of removed servers.
fn retain_server_tools(value: &Value, full: &FullConfig, servers: &[String]) -> Value {
    if !value.is_array() {
        return value.clone();
    }
    let has_gone = |name: &String| {
        let server = name.split_once(':').map(|(server, _)| server);
        server.is_some_and(|s| {
            full.server_enabled(s).is_some() && !servers.iter().any(|kept| kept == s)
        })
    };
    strings(Some(value)).into_iter().filter(|name| !has_gone(name)).collect()
}

/// Keeps the lists of the remaining servers.
fn retain_servers(value: &Value, servers: &[String]) -> Value {
    if !value.is_object() {
        return value.clone();
    }
    let kept = entries(Some(value)).filter(|(server, _)| servers.contains(server));
    kept.map(|(server, list)| (server.clone(), list.clone())).collect::<Map<_, _>>().into()
}

fn exposed(full: &FullConfig, choices: &[ToolSelection], servers: &[String]) -> CommentedValue {
    let list = |server: &String| {
        let of_server = choices.iter().filter(|choice| choice.server == *server);
        let open = of_server.filter(|choice| full.exposes(server, &choice.tool));
        CommentedValue::Names(open.map(|choice| (choice.tool.clone(), why(choice))).collect())
    };
    CommentedValue::Object(servers.iter().map(|server| (server.clone(), list(server))).collect())
}

fn why(choice: &ToolSelection) -> String {
    let reasons: Vec<String> = choice.reasons.iter().map(ToString::to_string).collect();
    reasons.join("; ")
}

fn agents(
    full: &FullConfig,
    choices: &[ToolSelection],
    servers: &[String],
) -> Vec<(String, CommentedValue)> {
    let entry = |agent: &String, entry: &Value| {
        let mut members = Vec::new();
        for (key, value) in entries(Some(entry)) {
            let kept = match key.as_str() {
                "toolOverrides" => {
                    let lists = entries(Some(value)).filter(|(server, _)| servers.contains(server));
                    let lists = lists.map(|(server, _)| {
                        let of_server = choices.iter().filter(|choice| choice.server == *server);
                        let own = of_server.filter(|choice| {
                            full.overrides(agent, server, &choice.tool) == Some(true)
                        });
                        let own = own.map(|choice| (choice.tool.clone(), why(choice)));
                        (server.clone(), CommentedValue::Names(own.collect()))
                    });
                    CommentedValue::Object(lists.collect())
                }
                "allowedServers" => CommentedValue::Value(allowed(value, full, servers)),
                "resourceOverrides" | "promptOverrides" => {
                    CommentedValue::Value(retain_servers(value, servers))
                }
                _ => CommentedValue::Value(value.clone()),
            };
            members.push((key.clone(), kept));
        }
        // The full configuration allowed these tools by default, which the new one no longer does,
        // so list them explicitly.
        let by_default = servers.iter().filter_map(|server| {
            let of_server = || choices.iter().filter(|choice| choice.server == *server);
            let is_needed = full.own_list(agent, server).is_none()
                && of_server().any(|choice| full.allows_by_default(agent, server, &choice.tool));
            let had = of_server().filter(|choice| full.allows(agent, server, &choice.tool));
            let had = || had.map(|choice| (choice.tool.clone(), why(choice))).collect();
            is_needed.then(|| (server.clone(), CommentedValue::Names(had())))
        });
        let by_default: Vec<_> = by_default.collect();
        match members.iter_mut().find(|(key, _)| key == "toolOverrides") {
            Some((_, CommentedValue::Object(lists))) => lists.extend(by_default),
            _ if by_default.is_empty() => {}
            _ => members.push(("toolOverrides".to_owned(), CommentedValue::Object(by_default))),
        }
        CommentedValue::Object(members)
    };
    let agents = entries(full.root.get("agentPolicies"));
    agents.map(|(agent, value)| (agent.clone(), entry(agent, value))).collect()
}

/// Filters a list of servers: drops the names of removed ones.
fn allowed(value: &Value, full: &FullConfig, servers: &[String]) -> Value {
    if !value.is_array() {
        return value.clone();
    }
    let has_gone = |name: &String| full.server_enabled(name).is_some() && !servers.contains(name);
    strings(Some(value)).into_iter().filter(|name| !has_gone(name)).collect()
}
