//! Compares Modular MCP from npm with the workbench on the same file: tools, groups, definitions
//! and results are equal. Each intended difference has its own test, with the reason.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real::{entry, npm};
use crate::support::{Agent, RequestId, TestEnvironment, fake};

const GET: &str = "get-modular-tools";
const CALL: &str = "call-modular-tool";

struct Both {
    original: Agent,
    ours: Agent,
}

impl Both {
    fn start(servers: Value) -> Self {
        let text = json!({"mcpServers": servers}).to_string();
        let bench = TestEnvironment::new().file("modular-mcp.json", &text);
        let file = bench.path_text("modular-mcp.json");
        let original = bench.direct(&entry(&npm("modular-mcp"), &[&file]));
        let ours = entry(env!("CARGO_BIN_EXE_mcp-workbench"), &["--config", &file]);
        let ours = bench.direct(&ours);
        original.initialize();
        ours.initialize();
        Self { original, ours }
    }

    fn call(&self, tool: &str, arguments: Value) -> [Value; 2] {
        let answer = |agent: &Agent| {
            let id = agent.send_call(tool, arguments.clone());
            message(agent, &id)
        };
        [answer(&self.original), answer(&self.ours)]
    }

    fn definitions(&self, group: &str) -> [Value; 2] {
        self.call(GET, json!({"group": group})).map(|answer| {
            let text = answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
            serde_json::from_str(&text).expect("a list")
        })
    }

    fn tools(&self) -> [Vec<Value>; 2] {
        [self.original.tools(), self.ours.tools()]
    }
}

/// The original doesn't exit at end of input.
impl Drop for Both {
    fn drop(&mut self) {
        self.original.kill();
    }
}

fn message(agent: &Agent, id: &RequestId) -> Value {
    serde_json::from_str(&agent.wait(id).line).expect("a line of JSON")
}

fn described(mut server: Value, description: &str) -> Value {
    server["description"] = description.into();
    server
}

const REAL: [&str; 3] = ["files", "memory", "everything"];

fn real(groups: &[&str]) -> Both {
    let server = |group: &str| match group {
        "files" => {
            described(entry(&npm("mcp-server-filesystem"), &[&examples()]), "Use for files.")
        }
        "memory" => described(entry(&npm("mcp-server-memory"), &[]), "Use to remember things."),
        _ => described(
            entry(&npm("mcp-server-everything"), &["stdio"]),
            "Use when you need to test a client.",
        ),
    };
    Both::start(groups.iter().map(|group| ((*group).to_owned(), server(group))).collect())
}

fn examples() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/examples").to_owned()
}

fn faked() -> Both {
    Both::start(json!({
        "fake": described(fake(json!({"tools": ["echo", "tool_error"]})), "Echoes."),
        "broken": described(json!({"command": "/does/not/exist"}), "Is not there."),
    }))
}

fn groups(tools: &[Value]) -> Vec<String> {
    let groups = &tools[0]["inputSchema"]["properties"]["group"]["enum"];
    groups.as_array().unwrap().iter().map(|group| group.as_str().unwrap().to_owned()).collect()
}

fn lines(tools: &[Value]) -> Vec<String> {
    tools[0]["description"].as_str().unwrap().lines().map(str::to_owned).collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("a text")
}

#[test]
fn tools_groups_definitions_and_results_are_equal() {
    let both = real(&REAL);
    let [original, ours] = both.tools();
    for (original, ours) in original.iter().zip(&ours) {
        assert_eq!(original["name"], ours["name"]);
        let (original, ours) = (&original["inputSchema"], &ours["inputSchema"]);
        assert_eq!(original["required"], ours["required"]);
        for property in original["properties"].as_object().unwrap().keys() {
            for key in ["type", "additionalProperties"] {
                let property = &format!("/properties/{property}/{key}");
                assert_eq!(original.pointer(property), ours.pointer(property), "{property}");
            }
        }
    }
    assert_eq!(original.len(), ours.len());
    // The original lists groups as their servers become ready. The workbench uses file order, so
    // that a client's prompt cache stays valid.
    assert_eq!(sorted(groups(&original)), sorted(groups(&ours)));
    assert_eq!(groups(&ours), REAL);
    assert_eq!(sorted(lines(&original)), sorted(lines(&ours)));

    for group in REAL {
        let [original, mut ours] = both.definitions(group);
        for tool in ours.as_array_mut().unwrap() {
            // See `tool_annotations_are_passed_on`.
            tool.as_object_mut().unwrap().remove("annotations");
        }
        assert_eq!(original, ours, "{group}");
    }

    for (group, name, args) in [
        ("files", "list_directory", json!({"path": examples()})),
        ("files", "read_text_file", json!({"path": "/etc/passwd"})),
        ("memory", "read_graph", json!({})),
        ("everything", "echo", json!({"message": "hello"})),
        ("everything", "get-sum", json!({"a": 1, "b": 2})),
        ("everything", "get-tiny-image", json!({})),
        ("everything", "get-structured-content", json!({"location": "New York"})),
    ] {
        let [original, ours] = both.call(CALL, json!({"group": group, "name": name, "args": args}));
        assert_eq!(original["result"]["content"], ours["result"]["content"], "{group} {name}");
        assert_eq!(original["result"]["isError"], ours["result"]["isError"], "{group} {name}");
    }
}

// Some tools respond only in `structuredContent`, and clients read `_meta`.
#[test]
fn results_keep_structured_content() {
    let both = faked();
    let call = json!({"group": "fake", "name": "echo", "args": {"x": 1}});
    let [original, ours] = both.call(CALL, call);
    assert_eq!(original["result"].get("structuredContent"), None);
    assert_eq!(ours["result"]["structuredContent"], json!({"x": 1}));
}

// Models often omit empty arguments or send the object as a string. The original's own schema
// allows omitting them.
#[test]
fn arguments_may_be_missing_or_a_string() {
    let both = faked();
    let tool = json!({"group": "fake", "name": "echo"});
    let mut string = tool.clone();
    string["args"] = r#"{"x":1}"#.into();
    for call in [tool, string] {
        let [original, ours] = both.call(CALL, call);
        assert_eq!(original["result"]["isError"], true);
        assert_ne!(ours["result"]["isError"], true);
    }
}

// A stack trace is useless to a model and costs context in each turn.
#[test]
fn failed_group_has_a_short_reason() {
    let both = faked();
    let [original, ours] =
        both.tools().map(|tools| tools[0]["description"].as_str().unwrap().to_owned());
    let (head, reason) = original.split_once(" (Error: ").unwrap();
    assert!(reason.contains("\n    at "), "expected a stack trace: {reason}");
    let (our_head, our_reason) = ours.split_once(" (Error: ").unwrap();
    assert_eq!(head, our_head);
    assert!(our_reason.starts_with("program `/does/not/exist` not found)\n"), "{our_reason}");
}

// A server may recover a moment later. The original would need a restart.
#[test]
fn failed_group_can_be_requested_again() {
    let both = faked();
    let [original, ours] = both.tools();
    assert_eq!(groups(&original), ["fake"]);
    assert_eq!(groups(&ours), ["fake", "broken"]);
}

// Clients show protocol errors to the user or end the turn; a result reaches the model.
#[test]
fn correctable_errors_are_results_with_a_hint() {
    let both = faked();
    let [original, ours] = both.call(GET, json!({"group": "fak"}));
    assert_eq!(original["error"]["message"], "Not connected to group: fak");
    assert_eq!(ours["result"]["isError"], true);
    assert!(text(&ours).contains("Did you mean `fake`?"), "{ours}");

    let [original, ours] = both.call(GET, json!({"group": "broken"}));
    assert_eq!(original["error"]["code"], -32603);
    assert!(text(&ours).contains("What to do: "), "{ours}");

    let [original, ours] = both.call(CALL, json!({"group": "fake", "name": "eco", "args": {}}));
    assert!(!text(&original).contains("echo"), "{original}");
    assert!(text(&ours).contains("Did you mean `echo`?"), "{ours}");

    let [original, ours] = both.call(GET, json!({}));
    assert!(text(&original).contains("invalid_type"), "{original}");
    assert!(text(&ours).contains(r#"Expected {"group": "<name>"}"#), "{ours}");
}

// A model takes more care if it knows that a tool is destructive or read-only.
#[test]
fn tool_annotations_are_passed_on() {
    let [original, ours] = real(&["files"]).definitions("files");
    let annotated = |tools: &Value| {
        tools.as_array().unwrap().iter().filter(|tool| tool["annotations"].is_object()).count()
    };
    assert_eq!(annotated(&original), 0);
    assert!(annotated(&ours) > 0);
}

// The response is bounded; a truncated definition can be requested individually.
#[test]
fn single_tools_can_be_requested() {
    let both = faked();
    let [original, ours] =
        both.tools().map(|tools| tools[0]["inputSchema"]["properties"].as_object().unwrap().len());
    assert_eq!([original, ours], [1, 2]);
    let [original, ours] = both.call(GET, json!({"group": "fake", "names": ["echo"]}));
    let count = |answer: &Value| serde_json::from_str::<Vec<Value>>(text(answer)).unwrap().len();
    assert_eq!([count(&original), count(&ours)], [2, 1]);
}

// Some tools can't be used without the server's instructions.
#[test]
fn server_instructions_are_passed_on() {
    let server = fake(json!({"tools": ["echo"], "instructions": "Call echo twice."}));
    let both = Both::start(json!({"fake": described(server, "Echoes.")}));
    let [original, ours] = both.call(GET, json!({"group": "fake"}));
    assert_eq!(original["result"]["content"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        ours["result"]["content"][1]["text"],
        "Instructions of server `fake`:\n> Call echo twice."
    );
}

#[test]
fn resources_of_groups_are_listed() {
    let both = real(&["everything"]);
    let list = |agent: &Agent| {
        let id = agent.send_request("resources/list", json!({}));
        message(agent, &id)
    };
    assert_eq!(list(&both.original)["error"]["code"], -32601);
    both.definitions("everything");
    let listed = list(&both.ours);
    assert!(!listed["result"]["resources"].as_array().unwrap().is_empty(), "{listed}");
}

#[test]
fn server_error_is_followed_by_the_expected_arguments() {
    let both = real(&["everything"]);
    let [original, ours] =
        both.call(CALL, json!({"group": "everything", "name": "get-sum", "args": {"a": "x"}}));
    assert_eq!(original["result"]["isError"], true);
    assert_eq!(ours["result"]["isError"], true);
    assert_eq!(ours["result"]["content"][0], original["result"]["content"][0]);
    let added = ours["result"]["content"][1]["text"].as_str().expect("a block");
    assert!(added.contains("`b` is required but missing"), "{added}");
}
