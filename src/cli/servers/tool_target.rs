//! Reads the tool and the arguments from the words of the command line.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::cli::output::{CommandError, did_you_mean, quoted};
use mcp_workbench_names::{ServerName, ToolId, ToolboxName};
use mcp_workbench_settings::Config;

const FORMS: &str =
    "name the tool as `toolbox/server/tool`, `server:tool` or `toolbox__server__tool`";
const MAX_SUGGESTIONS: usize = 3;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallTarget {
    pub(crate) tool: ToolId,
    /// Words after the tool.
    pub(crate) arguments: Vec<String>,
}

impl CallTarget {
    /// Finds the server of the tool. Toolbox, server and tool can be separate words.
    pub(crate) fn resolve(words: &[String], config: &Config) -> Result<Self, CommandError> {
        let is_argument =
            |word: &String| word == "-" || word.trim_start().starts_with(['{', '[', '"']);
        let is_pair = |word: &String| word.contains('=');
        let mut names = words.iter().take_while(|word| !is_argument(word)).count().min(3);
        if names < 3 || !has_server(config, &words[0], &words[1]) {
            names = names.min(words.iter().take_while(|word| !is_pair(word)).count()).max(1);
        }
        let (names, arguments) = words.split_at(names.min(words.len()));
        let toolbox = match names {
            [toolbox, server] if has_server(config, toolbox, server) => Some(toolbox.as_str()),
            [name] => toolbox_of(config, name),
            _ => None,
        };
        if let Some(toolbox) = toolbox {
            return Err(CommandError::usage(format!("name a tool of `{}`", names.join("/")))
                .with_hint(format!("run `mcp-workbench list {toolbox}` to see its tools")));
        }
        let found = tool_ids(names, &servers(config).collect::<Vec<_>>());
        match <[ToolId; 1]>::try_from(found) {
            Ok([tool]) => Ok(Self { tool, arguments: arguments.to_vec() }),
            Err(found) if found.is_empty() => Err(unknown(config, names)),
            Err(found) => Err(ambiguous(names, &found)),
        }
    }
}

/// Returns the tools that the words can mean, as far as these servers exist. Three words are a
/// toolbox, a server and a tool, whether they exist or not.
pub(crate) fn tool_ids(names: &[String], servers: &[(&str, &str)]) -> Vec<ToolId> {
    match names {
        [toolbox, server, tool] => vec![tool_id(toolbox, server, tool)],
        [server, tool] => of_server(servers, server, tool),
        [name] => of_one_word(servers, name),
        _ => Vec::new(),
    }
}

fn tool_id(toolbox: &str, server: &str, tool: &str) -> ToolId {
    ToolId {
        toolbox: ToolboxName::new(toolbox),
        server: ServerName::new(server),
        tool: tool.to_owned(),
    }
}

fn servers(config: &Config) -> impl Iterator<Item = (&str, &str)> {
    config.toolboxes.iter().flat_map(|toolbox| {
        toolbox.servers.iter().map(|server| (toolbox.name.as_str(), server.name.as_str()))
    })
}

fn has_server(config: &Config, toolbox: &str, server: &str) -> bool {
    servers(config).any(|at| at == (toolbox, server))
}

/// Returns the toolbox with this name, or the toolbox of a server with this name.
fn toolbox_of<'a>(config: &'a Config, name: &str) -> Option<&'a str> {
    let is_meant = |(toolbox, server): &(&str, &str)| *toolbox == name || *server == name;
    servers(config).find(is_meant).map(|(toolbox, _)| toolbox)
}

/// Returns the tool at every server that `server` can mean: a server, `toolbox/server`, or a
/// toolbox with one server.
fn of_server(servers: &[(&str, &str)], server: &str, tool: &str) -> Vec<ToolId> {
    let named = |is_meant: &dyn Fn(&str, &str) -> bool| -> Vec<ToolId> {
        let found = servers.iter().filter(|(toolbox, own)| is_meant(toolbox, own));
        found.map(|(toolbox, own)| tool_id(toolbox, own, tool)).collect()
    };
    let by_server = named(&|_, own| own == server);
    if !by_server.is_empty() {
        return by_server;
    }
    let by_both = named(&|toolbox, own| {
        [format!("{toolbox}/{own}"), format!("{toolbox}:{own}")].iter().any(|both| both == server)
    });
    if by_both.is_empty() { named(&|toolbox, _| toolbox == server) } else { by_both }
}

/// Returns the tools that a single word can mean.
fn of_one_word(servers: &[(&str, &str)], word: &str) -> Vec<ToolId> {
    // Clients put `mcp__<their name of the workbench>__` before exposed names.
    let exposed = word.strip_prefix("mcp__").and_then(|rest| Some(rest.split_once("__")?.1));
    let mut found = Vec::new();
    for (toolbox, server) in servers {
        let both = ['/', ':', '.'].map(|between| format!("{toolbox}{between}{server}"));
        let rest = both.iter().find_map(|both| word.strip_prefix(both.as_str()));
        let tool = rest.and_then(|rest| rest.strip_prefix(['/', ':', '.']));
        found.extend(tool.map(|tool| tool_id(toolbox, server, tool)));
        let before = format!("{toolbox}__{server}__");
        let tool = word.strip_prefix(&before).or_else(|| exposed?.strip_prefix(&before));
        found.extend(tool.map(|tool| tool_id(toolbox, server, tool)));
    }
    if found.is_empty() {
        let splits = word.match_indices([':', '/']).map(|(at, _)| (&word[..at], &word[at + 1..]));
        found = splits.flat_map(|(server, tool)| of_server(servers, server, tool)).collect();
    }
    found.retain(|id| !id.tool.is_empty());
    found
}

fn unknown(config: &Config, names: &[String]) -> CommandError {
    let written = names.join(" ");
    let error = CommandError::usage(format!("`{written}` doesn't name a server that you can use"));
    let wanted = names.first().map(String::as_str).unwrap_or_default();
    let wanted = wanted.split(['/', ':', '.']).next().unwrap_or_default();
    let wanted = wanted.split("__").next().unwrap_or_default();
    let known: BTreeSet<&str> =
        servers(config).flat_map(|(toolbox, server)| [toolbox, server]).collect();
    let near = mcp_workbench_names::nearest(wanted, known.iter().copied(), MAX_SUGGESTIONS);
    let is_bare = names.len() == 1 && wanted == written;
    if is_bare && near.is_empty() {
        error.with_hint(format!(
            "if it is a tool, name its server, too: `SERVER:{written}`; run `mcp-workbench list` \
             to see all tools"
        ))
    } else {
        let near = did_you_mean(&near, " or ").filter(|_| !known.contains(wanted));
        error.with_hint(near.map_or_else(
            || format!("{FORMS}; run `mcp-workbench list` to see all tools"),
            |near| format!("{near} Otherwise {FORMS}"),
        ))
    }
}

fn ambiguous(names: &[String], found: &[ToolId]) -> CommandError {
    let written = names.join(" ");
    let each = found.iter().map(|id| format!("{}/{}/{}", id.toolbox, id.server, id.tool));
    CommandError::usage(format!("`{written}` can mean several tools"))
        .with_hint(format!("use {}", quoted(each, " or ")))
}

/// Reads `key=value` words. Returns `None` if one isn't a pair.
pub(crate) fn pairs(words: &[String]) -> Option<Vec<(String, String)>> {
    let pair = |word: &String| {
        let (key, value) = word.split_once('=')?;
        (!key.is_empty() && !key.trim_start().starts_with(['{', '[', '"']))
            .then(|| (key.to_owned(), value.to_owned()))
    };
    words.iter().map(pair).collect()
}

/// Builds the arguments. `schema` decides on the type of a value; without one, a value that is a
/// JSON number, boolean, null, array or object counts as that. A repeated key is a list.
pub(crate) fn pairs_to_json(pairs: &[(String, String)], schema: Option<&Value>) -> Value {
    let mut members = Map::new();
    for (key, text) in pairs {
        let value = typed(text, schema.and_then(|schema| schema.get("properties")?.get(key)));
        match members.get_mut(key) {
            None => _ = members.insert(key.clone(), value),
            Some(Value::Array(all)) => match value {
                Value::Array(more) => all.extend(more),
                one => all.push(one),
            },
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    Value::Object(members)
}

fn typed(text: &str, schema: Option<&Value>) -> Value {
    let parsed = serde_json::from_str::<Value>(text).ok().filter(|value| !value.is_string());
    let as_text = || Value::String(text.to_owned());
    let types: Vec<&str> = match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => return parsed.unwrap_or_else(as_text),
    };
    let is_allowed = |value: &Value| {
        let names: &[&str] = match value {
            Value::Null => &["null"],
            Value::Bool(_) => &["boolean"],
            Value::Number(_) => &["number", "integer"],
            Value::String(_) => &["string"],
            Value::Array(_) => &["array"],
            Value::Object(_) => &["object"],
        };
        names.iter().any(|name| types.contains(name))
    };
    let is_list = types.contains(&"array") && !types.contains(&"string");
    match parsed {
        Some(value) if is_allowed(&value) => value,
        Some(value) if is_list => Value::Array(vec![value]),
        _ if is_list => Value::Array(vec![as_text()]),
        _ => as_text(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn resolved(words: &[&str]) -> Result<(String, Vec<String>), String> {
        let file = json!({"toolboxes": {
            "desk": {"description": "d", "mcpServers": {
                "clock": {"command": "x"}, "notes": {"command": "x"}, "@a/b": {"command": "x"}}},
            "work": {"description": "w", "mcpServers": {"notes": {"command": "x"}}},
        }, "mcpServers": {"git": {"command": "x"}}});
        let env = BTreeMap::<String, String>::new();
        let loaded = mcp_workbench_config::parse(
            &file.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
        let config = loaded.unwrap_or_else(|report| panic!("{report}")).config;
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let target = CallTarget::resolve(&words, &config).map_err(|error| error.to_string())?;
        let ToolId { toolbox, server, tool } = target.tool;
        Ok((format!("{toolbox} {server} {tool}"), target.arguments))
    }

    #[test]
    fn tool_is_found_in_every_spelling() {
        for words in [
            &["desk", "clock", "now"][..],
            &["desk/clock/now"],
            &["desk/clock:now"],
            &["desk:clock:now"],
            &["desk.clock.now"],
            &["clock:now"],
            &["clock/now"],
            &["clock", "now"],
            &["desk/clock", "now"],
            &["desk__clock__now"],
            &["mcp__workbench__desk__clock__now"],
        ] {
            for arguments in [&[][..], &["{}"], &["-"], &["offset=+02:00"], &["a=1", "b={}"]] {
                let words = [words, arguments].concat();
                let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
                assert_eq!(resolved(&words), Ok(("desk clock now".to_owned(), arguments)));
            }
        }
        let tool = |words: &[&str]| resolved(words).map(|(tool, _)| tool);
        assert_eq!(tool(&["git", "git_status"]), Ok("git git git_status".to_owned()));
        assert_eq!(tool(&["git", "git", "git_status"]), Ok("git git git_status".to_owned()));
        assert_eq!(tool(&["@a/b:c"]), Ok("desk @a/b c".to_owned()));
        assert_eq!(tool(&["git:a:b/c"]), Ok("git git a:b/c".to_owned()));
        assert_eq!(tool(&["desk", "clock", "a=b"]), Ok("desk clock a=b".to_owned()));
        assert_eq!(tool(&["desk", "nowhere", "x"]), Ok("desk nowhere x".to_owned()));
    }

    #[test]
    fn ambiguous_and_unknown_tools_are_usage_errors() {
        let error = resolved(&["notes:add"]).unwrap_err();
        assert!(error.contains("`notes:add` can mean several tools"), "{error}");
        assert!(error.contains("`desk/notes/add` or `work/notes/add`"), "{error}");
        for words in [&["clok:now"][..], &["now"], &["clock:"], &["", "x"], &["a__b__c"], &["é:ü"]]
        {
            let error = resolved(words).unwrap_err();
            assert!(error.contains("doesn't name a server"), "{error}");
        }
    }

    #[test]
    fn server_without_a_tool_asks_for_one() {
        for words in [&["clock"][..], &["desk"], &["desk", "clock"]] {
            let error = resolved(words).unwrap_err();
            assert!(error.contains("name a tool of `"), "{error}");
            assert!(error.contains("`mcp-workbench list desk`"), "{error}");
        }
        let error = resolved(&["screenshot"]).unwrap_err();
        assert!(error.contains("`SERVER:screenshot`"), "{error}");
        let error = resolved(&["clok.now"]).unwrap_err();
        assert!(error.contains("did you mean `clock`?"), "{error}");
    }

    #[test]
    fn pairs_take_the_types_of_the_schema() {
        let schema = json!({"properties": {
            "id": {"type": "string"}, "count": {"type": "integer"}, "all": {"type": "boolean"},
            "tags": {"type": "array"}, "maybe": {"type": ["string", "null"]}, "any": {},
        }});
        let words = [
            "id=7",
            "count=7",
            "all=true",
            "tags=a",
            "tags=b",
            "maybe=null",
            "any=1.5",
            "other=a=b",
            "empty=",
        ]
        .map(str::to_owned);
        let given = pairs(&words).unwrap();
        assert_eq!(
            pairs_to_json(&given, Some(&schema)),
            json!({"id": "7", "count": 7, "all": true, "tags": ["a", "b"], "maybe": null,
                "any": 1.5, "other": "a=b", "empty": ""})
        );
        assert_eq!(pairs_to_json(&given[..1], None), json!({"id": 7}));
        let twice = pairs(&["x=a".to_owned(), "x=2".to_owned()]).unwrap();
        assert_eq!(pairs_to_json(&twice, None), json!({"x": ["a", 2]}));
        assert_eq!(pairs(&[" {\"a\"=1}".to_owned()]), None);
        assert_eq!(pairs(&["=1".to_owned()]), None);
    }
}
