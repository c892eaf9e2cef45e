//! The JSON script that configures the server.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::behavior::Act;
use crate::wire::RpcError;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "independent keys of the script")]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) instructions: Option<String>,
    tools: Vec<Value>,
    behavior: BTreeMap<String, Value>,
    capabilities: Map<String, Value>,
    pub(crate) answers: BTreeMap<String, Value>,
    pub(crate) raw_answers: BTreeMap<String, String>,
    pub(crate) repeat: Vec<String>,
    pub(crate) page_size: Option<usize>,
    pub(crate) repeat_cursor: bool,
    pub(crate) change_on_list: bool,
    pub(crate) list_delay_ms: u64,
    pub(crate) start_delay_ms: u64,
    pub(crate) hang_on_initialize: bool,
    pub(crate) initialize_error: Option<RpcError>,
    pub(crate) fail_start: Option<FailStart>,
    pub(crate) fail_times: Option<FailTimes>,
    pub(crate) noise: Noise,
    pub(crate) pid_file: Option<PathBuf>,
    pub(crate) grandchild: Grandchild,
    pub(crate) stubborn: bool,
    pub(crate) exit_after_calls: Option<usize>,
    pub(crate) protocol: Protocol,
    pub(crate) lean: bool,
    pub(crate) die_on_list: bool,
    pub(crate) die_on_discover: bool,
    pub(crate) die_on_initialize: bool,
    pub(crate) initialize_delay_ms: u64,
    pub(crate) request_file: Option<PathBuf>,
    pub(crate) silent_on_discover: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            name: "fake".to_owned(),
            version: "1.0.0".to_owned(),
            instructions: None,
            tools: Vec::new(),
            behavior: BTreeMap::new(),
            capabilities: Map::new(),
            answers: BTreeMap::new(),
            raw_answers: BTreeMap::new(),
            repeat: Vec::new(),
            page_size: None,
            repeat_cursor: false,
            change_on_list: false,
            list_delay_ms: 0,
            start_delay_ms: 0,
            hang_on_initialize: false,
            initialize_error: None,
            fail_start: None,
            fail_times: None,
            noise: Noise::default(),
            pid_file: None,
            grandchild: Grandchild::Flag(false),
            stubborn: false,
            exit_after_calls: None,
            protocol: Protocol::Legacy,
            lean: false,
            die_on_list: false,
            die_on_discover: false,
            die_on_initialize: false,
            initialize_delay_ms: 0,
            request_file: None,
            silent_on_discover: false,
        }
    }
}

impl Script {
    pub(crate) fn read(argument: &str) -> Result<Self, String> {
        match argument.strip_prefix('@') {
            None => Self::parse(argument),
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
                Self::parse(&text)
            }
        }
    }

    /// Parses a script and checks every behavior, so that mistakes show up at startup.
    fn parse(text: &str) -> Result<Self, String> {
        let script: Self =
            serde_json::from_str(text).map_err(|error| format!("bad script: {error}"))?;
        for tool in script.behavior.keys() {
            script.act(tool, &Map::new())?;
        }
        Ok(script)
    }

    pub(crate) fn tools(&self) -> Vec<Value> {
        self.tools.iter().map(tool).collect()
    }

    pub(crate) fn act(&self, tool: &str, arguments: &Map<String, Value>) -> Result<Act, String> {
        let (kind, mut parameters) = match self.behavior.get(tool) {
            None => (default_kind(tool), Map::new()),
            Some(Value::String(kind)) => (kind.as_str(), Map::new()),
            Some(Value::Object(entry)) if entry.len() == 1 => match entry.iter().next() {
                Some((kind, Value::Object(parameters))) => (kind.as_str(), parameters.clone()),
                _ => {
                    return Err(format!("behavior of `{tool}`: parameters must be an object"));
                }
            },
            Some(_) => {
                return Err(format!(
                    "behavior of `{tool}`: expected a name or one name with parameters"
                ));
            }
        };
        parameters.extend(arguments.clone());
        parameters.insert("act".to_owned(), kind.into());
        serde_json::from_value(parameters.into())
            .map_err(|error| format!("behavior of `{tool}`: {error}"))
    }

    pub(crate) fn capabilities(&self) -> Value {
        let mut capabilities = Map::new();
        capabilities.insert("tools".to_owned(), json!({ "listChanged": true }));
        capabilities.extend(self.capabilities.clone());
        capabilities.into()
    }
}

/// Turns a bare name into a minimal definition; returns an object unchanged.
pub(crate) fn tool(entry: &Value) -> Value {
    match entry {
        Value::String(name) => json!({
            "name": name,
            "description": format!("The fake tool {name}"),
            "inputSchema": { "type": "object" },
        }),
        other => other.clone(),
    }
}

/// A tool named after a behavior has that behavior; every other tool echoes.
fn default_kind(tool: &str) -> &str {
    let named = json!({ "act": tool });
    if serde_json::from_value::<Act>(named).is_ok() { tool } else { "echo" }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailStart {
    #[serde(default = "one")]
    pub(crate) code: i32,
    #[serde(default)]
    pub(crate) stderr: Vec<String>,
}

fn one() -> i32 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FailTimes {
    pub(crate) n: usize,
    pub(crate) counter_file: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Noise {
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Grandchild {
    Flag(bool),
    Kind(GrandchildKind),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GrandchildKind {
    Stubborn,
    Holding,
    Detached,
    Astray,
    Unmarked,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    Legacy,
    Modern,
    Dual,
}
