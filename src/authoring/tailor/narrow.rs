//! The tree of the new configuration: what is left of the full one.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::authoring::references::relocate;
use crate::authoring::tailor::Choice;
use crate::authoring::tailor::full::{Full, entries, strings};
use crate::authoring::tailor::text::Tree;
use crate::settings::ToolMode;

/// Keys that are written anew, whether or not the full configuration has them.
const WRITTEN_ANEW: [&str; 3] = ["exposedTools", "defaultPolicy", "agentPolicies"];

/// The servers that are needed, and the configuration that has those alone. `folder` is where
/// relative paths started.
pub(super) fn narrow(
    full: &Full,
    choices: &[Choice],
    folder: Option<&Path>,
    warnings: &mut Vec<String>,
) -> (Vec<String>, Tree) {
    let is_chosen = |server: &str| choices.iter().any(|choice| choice.server == server);
    let servers = full.servers().into_iter().filter(|server| is_chosen(server));
    let servers: Vec<String> = servers.map(str::to_owned).collect();
    let mut members = Vec::new();
    let mut moved = Moved { folder, warnings };
    for (key, value) in &full.root {
        let kept = match key.as_str() {
            // It was for choosing.
            "taskBasedToolSelection" => continue,
            key if WRITTEN_ANEW.contains(&key) => continue,
            // Nobody asked for what they do, and their steps may be of what has gone.
            "macros" => {
                moved.warnings.push("not carried over: `macros`".to_owned());
                continue;
            }
            // It leads from another folder, and only editors want it.
            "$schema" if folder.is_some() => continue,
            "toolboxes" => toolboxes(value, &servers, &mut moved),
            "mcpServers" => blocks(value, &servers, &mut moved),
            "categories" => categories(value, &servers),
            "exposedResources" | "exposedPrompts" => of_servers(value, &servers),
            "dangerousTools" | "requireConfirmation" => marked(value, full, &servers),
            _ => {
                let mut value = value.clone();
                if let (Some(folder), "navigator" | "search" | "auth") = (folder, key.as_str()) {
                    relocate(&mut value, &|path| joined(folder, path));
                }
                value
            }
        };
        let is_empty = kept.as_object().is_some_and(Map::is_empty)
            && !value.as_object().is_some_and(Map::is_empty);
        if !is_empty {
            members.push((key.clone(), Tree::Value(kept)));
        }
    }
    if !full.root.contains_key("toolMode") {
        let mode = full.mode.unwrap_or(ToolMode::Direct.as_str());
        let first = usize::from(members.first().is_some_and(|(key, _)| key == "$schema"));
        members.insert(first, ("toolMode".to_owned(), Tree::Value(mode.into())));
    }
    members.push(("exposedTools".to_owned(), exposed(full, choices, &servers)));
    let agents = agents(full, choices, &servers);
    if !agents.is_empty() {
        members.push(("agentPolicies".to_owned(), Tree::Object(agents)));
    }
    let mut policy = full.root.get("defaultPolicy").and_then(Value::as_object).cloned();
    let policy = policy.get_or_insert_default();
    policy.insert("allowUnknownTools".to_owned(), false.into());
    members.push(("defaultPolicy".to_owned(), Tree::Value(Value::Object(policy.clone()))));
    (servers, Tree::Object(members))
}

/// Servers in a folder that is not their configuration's.
struct Moved<'a> {
    folder: Option<&'a Path>,
    warnings: &'a mut Vec<String>,
}

impl Moved<'_> {
    /// The block of a server, with the paths that started at its configuration.
    fn block(&mut self, server: &str, block: &Value) -> Value {
        let mut block = block.clone();
        let Some(folder) = self.folder else { return block };
        relocate(&mut block, &|path| joined(folder, path));
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
                let warning = format!("`cwd` of `{server}` is left as it is: `{cwd}`");
                self.warnings.push(warning);
            }
            None => {}
        }
        block
    }
}

/// A relative path from a folder on; none for one that starts elsewhere.
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

fn blocks(value: &Value, servers: &[String], moved: &mut Moved<'_>) -> Value {
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

fn toolboxes(value: &Value, servers: &[String], moved: &mut Moved<'_>) -> Value {
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

/// A list of tools, without those that say themselves that they are of a server which has gone.
fn marked(value: &Value, full: &Full, servers: &[String]) -> Value {
    if !value.is_array() {
        return value.clone();
    }
    let has_gone = |name: &String| {
        let server = name.split_once(':').map(|(server, _)| server);
        server.is_some_and(|s| full.is_on(s).is_some() && !servers.iter().any(|kept| kept == s))
    };
    strings(Some(value)).into_iter().filter(|name| !has_gone(name)).collect()
}

/// Lists by server, of those servers alone that are left.
fn of_servers(value: &Value, servers: &[String]) -> Value {
    if !value.is_object() {
        return value.clone();
    }
    let kept = entries(Some(value)).filter(|(server, _)| servers.contains(server));
    kept.map(|(server, list)| (server.clone(), list.clone())).collect::<Map<_, _>>().into()
}

/// The lists for everybody, each tool with its reasons.
fn exposed(full: &Full, choices: &[Choice], servers: &[String]) -> Tree {
    let list = |server: &String| {
        let of_server = choices.iter().filter(|choice| choice.server == *server);
        let open = of_server.filter(|choice| full.exposes(server, &choice.tool));
        Tree::Names(open.map(|choice| (choice.tool.clone(), why(choice))).collect())
    };
    Tree::Object(servers.iter().map(|server| (server.clone(), list(server))).collect())
}

fn why(choice: &Choice) -> String {
    let reasons: Vec<String> = choice.reasons.iter().map(ToString::to_string).collect();
    reasons.join("; ")
}

/// Returns the rules of agents, about what is left.
fn agents(full: &Full, choices: &[Choice], servers: &[String]) -> Vec<(String, Tree)> {
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
                        (server.clone(), Tree::Names(own.collect()))
                    });
                    Tree::Object(lists.collect())
                }
                "allowedServers" => Tree::Value(allowed(value, full, servers)),
                "resourceOverrides" | "promptOverrides" => Tree::Value(of_servers(value, servers)),
                _ => Tree::Value(value.clone()),
            };
            members.push((key.clone(), kept));
        }
        // What nobody said of these tools is not said any more, so it is written down.
        let by_default = servers.iter().filter_map(|server| {
            let of_server = || choices.iter().filter(|choice| choice.server == *server);
            let is_needed = full.own_list(agent, server).is_none()
                && of_server().any(|choice| full.allows_by_default(agent, server, &choice.tool));
            let had = of_server().filter(|choice| full.allows(agent, server, &choice.tool));
            let had = || had.map(|choice| (choice.tool.clone(), why(choice))).collect();
            is_needed.then(|| (server.clone(), Tree::Names(had())))
        });
        let by_default: Vec<_> = by_default.collect();
        match members.iter_mut().find(|(key, _)| key == "toolOverrides") {
            Some((_, Tree::Object(lists))) => lists.extend(by_default),
            _ if by_default.is_empty() => {}
            _ => members.push(("toolOverrides".to_owned(), Tree::Object(by_default))),
        }
        Tree::Object(members)
    };
    let agents = entries(full.root.get("agentPolicies"));
    agents.map(|(agent, value)| (agent.clone(), entry(agent, value))).collect()
}

/// A list of servers, without the names of those that have gone.
fn allowed(value: &Value, full: &Full, servers: &[String]) -> Value {
    if !value.is_array() {
        return value.clone();
    }
    let has_gone = |name: &String| full.is_on(name).is_some() && !servers.contains(name);
    strings(Some(value)).into_iter().filter(|name| !has_gone(name)).collect()
}
