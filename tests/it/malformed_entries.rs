//! Servers whose lists violate the specification: only the malformed entries suffer.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real::{ListSdk, list_client};
use crate::support::{DEADLINE, TestEnvironment, fake};

const MODES: [&str; 8] =
    ["dynamic", "proxy", "direct", "modular", "search", "navigate", "activate", "auto"];

/// Each entry but the first of a list costs a strict client the whole list.
const TOOLS: &str = r##"{"tools": [
    {"name":"valid", "inputSchema" : {"type":"object"}, "later":1.0},
    {"name":"nulls","description":null,"title":null,"outputSchema":null,"annotations":{"readOnlyHint":null},"_meta":null,"icons":null,"execution":null,"inputSchema":{"type":"object","properties":null}},
    {"name":"missing"}, {"name":"untyped","inputSchema":{}}, {"name":"union","inputSchema":{"anyOf":[{"type":"object"}]}},
    {"name":"booleans","inputSchema":{"type":"object","properties":{"any":true},"required":null}},
    {"name":"list","inputSchema":{"type":"object","properties":[]}},
    {"name":"reference","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/Gone"}}}},
    {"name":"pattern","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"(?i)a"}}}},
    {"name":"array","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}},
    {"name":"half","description":"\ud83d","inputSchema":{"type":"object"}},
    {"name":"with space","inputSchema":{"type":"object"}}, {"name":"with/slash","inputSchema":{"type":"object"}},
    {"name":"text","inputSchema":"none"}, {"name":"string","inputSchema":{"type":"string"}},
    {"inputSchema":{"type":"object"}}, {"name":7,"inputSchema":{"type":"object"}}, null, [], "x",
    {"name":"numbers","description":5,"title":["t"],"annotations":{"destructiveHint":"yes"},"inputSchema":{"type":"object"}}
], "nextCursor": null, "_meta": null}"##;

const PROMPTS: &str = r#"{"prompts": [
    {"name":"plan"}, {"name":"sum","description":null,"arguments":[{"name":"a","description":null,"required":"yes"}, null]},
    {"name":"map","arguments":{}}, {"description":"nameless"}, {"name":null}, null
], "nextCursor": ""}"#;

const RESOURCES: &str = r#"{"resources": [
    {"uri":"note://a","name":"a"}, {"uri":"note://b"}, {"uri":"note://c","name":"c","size":"12","mimeType":null},
    {"uri":"note://d","name":"d","annotations":{"priority":7,"audience":["robot"],"lastModified":"2026-01-02"}},
    {"uri":"notes.txt","name":"relative"}, {"uri":"//host/x","name":"schemeless"}, {"name":"nowhere"}, null
]}"#;

const TEMPLATES: &str = r#"{"resourceTemplates": [
    {"uriTemplate":"note://{id}","name":null}, {"uriTemplate":"{scheme}://x","name":"t","description":7}, {"name":"t"}
]}"#;

/// A message over stdio is one line.
fn on_one_line(answer: &str) -> String {
    answer.replace('\n', " ")
}

fn malformed() -> Value {
    fake(json!({
        "tools": ["with space"],
        "capabilities": {"prompts": null, "resources": {"subscribe": null}, "completions": null, "tools": {}},
        "rawAnswers": {
            "initialize": r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":null},"prompts":{},"resources":{},"logging":null},"serverInfo":{"name":"odd","version":"1","title":null},"instructions":null,"_meta":null}"#,
            "tools/list": on_one_line(TOOLS),
            "prompts/list": on_one_line(PROMPTS),
            "resources/list": on_one_line(RESOURCES),
            "resources/templates/list": on_one_line(TEMPLATES),
        },
    }))
}

fn bench(mode: &str) -> TestEnvironment {
    TestEnvironment::new()
        .set("toolMode", mode.into())
        .set("activeToolsets", json!(["*"]))
        .server("box", "good", fake(json!({ "tools": ["echo"] })))
        .server("box", "odd", malformed())
}

fn lists(sdk: ListSdk) {
    for mode in MODES {
        let seen = bench(mode).client(DEADLINE, list_client(sdk, "box")).json_lines();
        let names = |list: &str| -> BTreeSet<String> {
            serde_json::from_value(seen[0][list].clone()).expect("names")
        };
        let tools = names("tools");
        assert!(!tools.is_empty(), "{sdk:?} in {mode}");
        if mode != "direct" {
            continue;
        }
        let own = [
            "echo",
            "valid",
            "nulls",
            "missing",
            "untyped",
            "union",
            "booleans",
            "list",
            "reference",
            "pattern",
            "array",
            "half",
            "numbers",
        ];
        for name in own {
            assert!(tools.contains(name), "{name}: {tools:?}");
        }
        assert_eq!(tools.len(), own.len() + 2, "two have other names: {tools:?}");
        assert!(tools.iter().all(|name| !name.contains([' ', '/'])), "{tools:?}");
        assert_eq!(names("prompts"), ["map", "plan", "sum"].map(str::to_owned).into());
        let resources = names("resources");
        assert_eq!(resources.len(), 6, "{resources:?}");
        for own in ["note://a", "note://b", "note://c", "note://d"] {
            assert!(resources.contains(own), "{resources:?}");
        }
        assert_eq!(names("templates"), ["note://{id}", "{scheme}://x"].map(str::to_owned).into());
    }
}

// invariant: bad-input-fails-alone
#[test]
fn typescript_sdk_1_lists_beside_malformed_entries_in_every_mode() {
    lists(ListSdk::TypeScript1);
}

#[test]
fn typescript_sdk_2_lists_beside_malformed_entries_in_every_mode() {
    lists(ListSdk::TypeScript2);
}

#[test]
fn typescript_sdk_2_lists_beside_malformed_entries_in_the_modern_era() {
    lists(ListSdk::TypeScript2Auto);
}

#[test]
fn python_sdk_1_lists_beside_malformed_entries_in_every_mode() {
    lists(ListSdk::Python1);
}

#[test]
fn python_sdk_2_lists_beside_malformed_entries_in_every_mode() {
    lists(ListSdk::Python2);
}

#[test]
fn valid_definitions_beside_malformed_ones_keep_their_bytes() {
    let agent = bench("direct").agent().begin(false, json!({}));
    let line = agent.request("tools/list", json!({})).line;
    for own in [
        r#"{"name":"valid", "inputSchema" : {"type":"object"}, "later":1.0}"#,
        r#"{"name":"nulls","annotations":{},"inputSchema":{"type":"object"}}"#,
        r#"{"name":"untyped","inputSchema":{"type":"object"}}"#,
    ] {
        assert!(line.contains(own), "{own}: {line}");
    }
    let renamed = agent.tool_names().into_iter().find(|name| name.contains("with_space"));
    let called = agent.call(&renamed.expect("a name without a space"), json!({"a": 1})).ok();
    assert!(called["isError"] != true, "{called}");
    let read = agent.request("resources/list", json!({})).ok();
    assert!(read.to_string().contains("mcp-workbench://box/odd/notes.txt"), "{read}");
}

#[test]
fn malformed_entries_are_reported_by_check_and_once_in_the_log() {
    let checked = bench("direct").run(["check", "--connect"]);
    assert_eq!(checked.code, Some(0), "{checked}");
    let report = format!("{checked}").replace('\n', " ");
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "repaired tool `nulls`: removed `title`, which is null",
        "skipped tool `text`: `inputSchema` is not an object",
        "skipped tool entry 16: has no `name`",
        "repaired resource `note://b`: set `name` to `uri`",
        "skipped prompt entry 4: has no `name`",
    ] {
        assert!(report.contains(line), "{line}: {checked}");
    }
    let agent = bench("direct").agent().begin(false, json!({}));
    agent.tools();
    let log = agent.wait_stderr("repaired tool `nulls`");
    assert_eq!(log.matches("repaired tool `nulls`").count(), 1, "{log}");
}

#[test]
fn violations_that_are_listed_again_are_not_logged_again() {
    let odd = |name: &str| json!({ "name": name, "title": null, "inputSchema": {} });
    let script = json!({ "tools": [odd("odd"), "turn"], "behavior": { "turn": "shrink" } });
    let bench = TestEnvironment::new().set("toolMode", "direct".into());
    let agent = bench.server("box", "srv", fake(script)).agent().begin(false, json!({}));
    agent.tools();
    agent.call("turn", json!({ "tools": ["turn"] })).ok();
    agent.next_notification("notifications/tools/list_changed");
    assert_eq!(agent.tool_names(), ["odd"]);
    agent.close_stdin();
    agent.wait_end();
    let log = agent.stderr();
    assert_eq!(log.matches("repaired tool `odd`").count(), 1, "{log}");
}

#[test]
fn tools_of_undeclared_capabilities_are_listed_and_reported() {
    let mut bench = TestEnvironment::new().set("toolMode", "direct".into());
    let declared = [
        ("absent", ""),
        ("empty", r#","capabilities":{}"#),
        ("nulls", r#","capabilities":{"tools":null,"prompts":null}"#),
        ("null", r#","capabilities":null"#),
        ("list", r#","capabilities":[]"#),
        ("truth", r#","capabilities":{"tools":true}"#),
        ("other", r#","capabilities":{"prompts":{}},"instructions":5,"serverInfo":null"#),
    ];
    for (name, capabilities) in declared {
        let answer = format!(r#"{{"protocolVersion":"2025-06-18"{capabilities}}}"#);
        let script = json!({
            "tools": [format!("of_{name}")],
            "rawAnswers": { "initialize": answer },
        });
        bench = bench.server("box", name, fake(script));
    }
    let agent = bench.agent().begin(false, json!({}));
    let tools = agent.tool_names();
    assert_eq!(tools, declared.map(|(name, _)| format!("of_{name}")));
    agent.wait_stderr("has tools without declaring the capability `tools`");
}

#[test]
fn prompts_and_resources_of_undeclared_capabilities_are_listed() {
    let silent = json!({
        "tools": [],
        "rawAnswers": {
            "initialize": r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#,
            "prompts/list": r#"{"prompts":[{"name":"greet"}]}"#,
            "resources/list": r#"{"resources":[{"uri":"note://1","name":"one"}]}"#,
        },
    });
    // Declares everything, but knows no list except that of its tools.
    let boastful = json!({
        "tools": ["echo"],
        "rawAnswers": { "initialize": concat!(
            r#"{"protocolVersion":"2025-06-18","#,
            r#""capabilities":{"tools":{},"prompts":{},"resources":{}}}"#
        ) },
    });
    let bench = TestEnvironment::new()
        .set("toolMode", "direct".into())
        .server("box", "silent", fake(silent))
        .server("box", "boastful", fake(boastful));
    let agent = bench.agent().begin(false, json!({}));
    assert_eq!(agent.tool_names(), ["echo"]);
    let names = |method: &str, kind: &str, key: &str| -> Vec<String> {
        let list = agent.request(method, json!({})).ok()[kind].clone();
        let list = list.as_array().expect("a list").iter();
        list.map(|item| item[key].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!(names("prompts/list", "prompts", "name"), ["greet"]);
    assert_eq!(names("resources/list", "resources", "uri"), ["note://1"]);
    let report = bench.run(["check", "--connect"]);
    assert_eq!(report.code, Some(0), "{report}");
}

#[test]
fn null_and_missing_lists_are_empty() {
    let mut bench = TestEnvironment::new().set("toolMode", "direct".into());
    let answers = [r#"{"tools":null}"#, "{}", "null", r#"{"tools":{},"nextCursor":null}"#];
    for (index, answer) in answers.into_iter().enumerate() {
        let script = json!({ "rawAnswers": { "tools/list": answer } });
        bench = bench.server("box", &format!("s{index}"), fake(script));
    }
    let requests = bench.path_text("requests");
    let page = r#"{"tools":[{"name":"one","inputSchema":{"type":"object"}}],"nextCursor":""}"#;
    let script = json!({ "rawAnswers": { "tools/list": page }, "requestFile": requests });
    let bench = bench.server("box", "last", fake(script));
    let report = bench.run(["check", "--connect", "--json"]);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let servers = report["servers"].as_array().expect("servers");
    let tools: Vec<_> = servers.iter().map(|row| (&row["status"], &row["tools"])).collect();
    let started = json!("started");
    let (none, one) = (json!(0), json!(1));
    let empty = [(&started, &none); 4];
    assert_eq!(tools[..4], empty);
    assert_eq!(tools[4], (&started, &one));
    let lists = std::fs::read_to_string(&requests).expect("requests");
    let lists = lists.lines().filter(|method| *method == "tools/list").count();
    assert_eq!(lists, 1, "an empty cursor ends the list");
}
