//! Requests that an agent may send to find hidden items.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use crate::one_policy::world::World;

/// One request: its kind, and indexes that select the target in a world.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    kind: usize,
    place: Index,
    primitive: Index,
    twist: Index,
}

pub(crate) fn probe() -> impl Strategy<Value = Probe> {
    of_kind(0..KINDS)
}

pub(crate) fn call() -> impl Strategy<Value = Probe> {
    of_kind(select(CALLS.to_vec()))
}

fn of_kind(kinds: impl Strategy<Value = usize>) -> impl Strategy<Value = Probe> {
    let parts = (kinds, any::<Index>(), any::<Index>(), any::<Index>());
    parts.prop_map(|(kind, place, primitive, twist)| Probe { kind, place, primitive, twist })
}

const KINDS: usize = 32;
const CALLS: [usize; 12] = [5, 6, 7, 8, 9, 10, 11, 12, 15, 21, 22, 27];

/// All list methods; the agent calls them first and last.
pub(crate) const LISTS: [&str; 4] =
    ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];

/// Adds a mark to all arguments for servers.
pub(crate) fn marked((method, mut params): (String, Value), mark: &str) -> (String, Value) {
    fn put(value: &mut Value, mark: &str) {
        let Value::Object(members) = value else { return };
        if members.contains_key("n") {
            members.insert("mark".to_owned(), mark.into());
        }
        for member in members.values_mut() {
            put(member, mark);
        }
    }
    put(&mut params, mark);
    if method == "x/unknown" {
        params["mark"] = mark.into();
    }
    (method, params)
}

impl Probe {
    fn words(&self, tool: &str, place: &str) -> String {
        match self.twist.index(5) {
            0 => tool.to_owned(),
            1 => format!("{place}: {tool} a note"),
            2 => format!("What is {place} for?"),
            3 => "read or write all of it".to_owned(),
            _ => format!("{} {place}", tool.replace('_', " ")),
        }
    }

    /// The toolbox, server and tool of the request, sometimes a macro instead.
    fn aimed<'w>(
        &self,
        world: &'w World,
        tool: (&'w str, &'w str, String),
    ) -> (&'w str, &'w str, String) {
        if world.macros.is_empty() || self.primitive.index(4) > 0 {
            return tool;
        }
        let made = self.place.get(&world.macros);
        (&made.toolbox, "macros", made.name.clone())
    }

    /// Arguments that satisfy some conditions and violate others.
    fn arguments(&self) -> Value {
        match self.twist.index(4) {
            0 => json!({"n": "no number"}),
            1 => json!({"n": 1}),
            2 => json!({"n": 5, "path": "/workspace/a", "all": [{"n": 2}, {"n": 3}]}),
            _ => json!({"n": 2, "path": "/workspace/../~", "all": [{"n": 1}, {"n": 9}]}),
        }
    }

    pub(crate) fn request(&self, world: &World) -> (String, Value) {
        let places = world.toolboxes.iter();
        let places: Vec<_> =
            places.flat_map(|toolbox| toolbox.servers.iter().map(move |s| (toolbox, s))).collect();
        let (toolbox, server) = *self.place.get(&places);
        let pick = |list: &[String], other: &str| {
            let mut list = list.to_vec();
            list.push(other.to_owned());
            self.primitive.get(&list).clone()
        };
        let catalog = &server.catalog;
        let tool = pick(&catalog.tools, "rename");
        let tool = match server.overrides.get(&tool).and_then(|over| over.name.clone()) {
            Some(renamed) if self.twist.index(3) > 0 => renamed,
            _ => tool,
        };
        let uris = [&catalog.resources[..], &catalog.unlisted[..], &catalog.templates[..]];
        let uri = pick(&uris.concat(), "note://7");
        let prompt = pick(&catalog.prompts, "nothing");
        let (of, at, tool) = self.aimed(world, (&toolbox.name, &server.name, tool));
        let namespace = toolbox.namespace.as_deref().unwrap_or(of);
        let named = |name: &str| {
            if namespace.is_empty() { name.to_owned() } else { format!("{namespace}_{name}") }
        };
        let arguments = self.arguments();
        let call = |name: &str, arguments: Value| {
            ("tools/call".to_owned(), json!({"name": name, "arguments": arguments}))
        };
        let ask = |method: &str, params: Value| (method.to_owned(), params);
        let full_uri = || match self.twist.index(3) {
            0 => format!("mcp-workbench://{of}/{at}/{uri}"),
            1 => named(&uri),
            _ => uri.clone(),
        };
        let full_prompt = || match self.twist.index(3) {
            0 => format!("{of}__{at}__{prompt}"),
            1 => named(&prompt),
            _ => prompt.clone(),
        };
        match self.kind {
            0 => ask(LISTS[self.twist.index(LISTS.len())], json!({})),
            1 => call("open_toolbox", json!({"toolbox": of})),
            2 => call("open_toolbox", json!({"toolbox": of, "tools": [tool, "drop"]})),
            3 => call("open_toolbox", json!({"toolbox": of, "detail": "signatures"})),
            4 => call("open_toolbox", json!({"toolbox": format!("{of}s")})),
            5 | 6 => {
                let tool = json!({"toolbox": of, "server": at, "tool": tool});
                call("use_tool", json!({"tool": tool, "arguments": arguments}))
            }
            7 => {
                let tool = json!({"toolbox": of, "tool": tool});
                call("use_tool", json!({"tool": tool, "arguments": arguments}))
            }
            8 => call("use_tool", json!({"tool": tool, "arguments": arguments})),
            9 | 10 => call(&format!("{of}__{at}__{tool}"), arguments),
            11 => call(&tool, arguments),
            12 => call(&named(&tool), arguments),
            13 => call("get-modular-tools", json!({"group": of})),
            14 => call("get-modular-tools", json!({"group": of, "names": [tool]})),
            15 => call("call-modular-tool", json!({"group": of, "name": tool, "args": arguments})),
            16 => {
                let uris = json!([named(&uri)]);
                call("toolman_activate", json!({"tools_on": [named(&tool)], "resources_on": uris}))
            }
            17 => {
                let globs = ["*", "*read*", "desk_*", "*x"];
                call("toolman_activate", json!({"list": globs[self.twist.index(globs.len())]}))
            }
            18 => ask("resources/read", json!({"uri": full_uri()})),
            19 => ask("prompts/get", json!({"name": full_prompt()})),
            20 => {
                let reference = match self.twist.index(2) {
                    0 => json!({"type": "ref/prompt", "name": full_prompt()}),
                    _ => json!({"type": "ref/resource", "uri": full_uri()}),
                };
                let argument = json!({"name": "x", "value": "y"});
                ask("completion/complete", json!({"ref": reference, "argument": argument}))
            }
            21 => call(&format!("{at}:{tool}"), arguments),
            22 => call("use_tool", json!({"tool": format!("{at}:{tool}"), "arguments": arguments})),
            23 => call("search_tools", json!({"queries": [tool, of, at], "limit": 20})),
            24 => call("search_tools", json!({"query": tool, "toolbox": of, "detail": "full"})),
            25 => call("search_tools", json!({"query": "read everything", "server": at})),
            26 => call("execute_task", json!({"task": self.words(&tool, of)})),
            27 => {
                let task = self.words(&tool, at);
                call("execute_task", json!({"task": task, "arguments": arguments}))
            }
            28 | 29 => ask("resources/subscribe", json!({"uri": full_uri()})),
            30 => ask("resources/unsubscribe", json!({"uri": full_uri()})),
            _ => match self.twist.index(5) {
                0 => ask("ping", json!({})),
                1 => ask("tasks/get", json!({"taskId": "1"})),
                2 => ask("x/unknown", json!({"toolbox": of, "name": tool, "uri": uri})),
                3 => ask("logging/setLevel", json!({"level": "debug"})),
                _ => ask("server/discover", json!({})),
            },
        }
    }
}
