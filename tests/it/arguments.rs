//! Property tests: a server receives arguments exactly as sent, for random realistic schemas,
//! random arguments and every way to call a tool.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::support::{Agent, RequestId, TestEnvironment, fake};

#[derive(Clone, Copy, Debug)]
enum Maker {
    /// zod: properties with a default are `required`, and `additionalProperties` is `false`.
    Zod,
    /// pydantic: titles, references, and `null` for optional values.
    Pydantic,
    /// `FastMCP`: like pydantic, with `additionalProperties: false`.
    FastMcp,
    /// schemars, as in rmcp: type unions and number formats.
    Rmcp,
    /// Handwritten: incomplete and faulty.
    Hand,
}

/// The schema of a property, and a valid value as JSON text.
type Property = (Value, &'static str);

fn properties(maker: Maker) -> Vec<Property> {
    match maker {
        Maker::Zod => vec![
            (json!({"type": "string", "minLength": 1, "maxLength": 5}), r#""text""#),
            (json!({"type": "string", "format": "uri"}), r#""http://a.example/""#),
            (json!({"type": "string", "enum": ["png", "jpeg"], "default": "png"}), r#""jpeg""#),
            (json!({"type": "boolean", "default": false}), "true"),
            (json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 10}), "5"),
            (json!({"type": "array", "items": {"type": "string"}, "minItems": 1}), r#"["a" ]"#),
            (
                json!({
                    "type": "object",
                    "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0}},
                    "required": ["x", "y"],
                    "additionalProperties": false,
                }),
                r#"{"x":1.0}"#,
            ),
            (json!({"anyOf": [{"not": {}}, {"type": "string", "pattern": "^a+$"}]}), r#""aa""#),
            (json!({"type": "object", "additionalProperties": {"type": "number"}}), r#"{"n":1e3}"#),
            (json!({"const": "fixed"}), r#""fixed""#),
        ],
        Maker::Pydantic | Maker::FastMcp => vec![
            (json!({"title": "Path", "type": "string"}), r#""a/b""#),
            (json!({"title": "Count", "type": "integer", "default": 10}), "7"),
            (
                json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}),
                r#""given""#,
            ),
            (json!({"$ref": "#/$defs/Point"}), r#"{"x": -0, "y": 2}"#),
            (json!({"items": {"$ref": "#/$defs/Point"}, "type": "array"}), r#"[{"x":1,"y":1}]"#),
            (json!({"allOf": [{"$ref": "#/$defs/Colour"}], "default": "red"}), r#""blue""#),
            (json!({"type": "number", "minimum": 0.5, "multipleOf": 0.5}), "1.50"),
            (json!({"additionalProperties": true, "type": "object"}), r#"{"é":[ ]}"#),
        ],
        Maker::Rmcp => vec![
            (json!({"type": ["string", "null"], "description": "Maybe"}), "null"),
            (json!({"type": "integer", "format": "uint32", "minimum": 0}), "4294967295"),
            (json!({"type": "number", "format": "double"}), "1E-7"),
            (json!({"$ref": "#/$defs/Point"}), r#"{"x":1,"y":2}"#),
            (json!({"anyOf": [{"$ref": "#/$defs/Colour"}, {"type": "null"}]}), r#""red""#),
            (json!({"oneOf": [{"const": "a", "type": "string"}, {"const": "b"}]}), r#""a""#),
            (json!({"type": "array", "uniqueItems": true, "items": {"type": "integer"}}), "[1,2]"),
        ],
        Maker::Hand => vec![
            (json!({}), r#"{"any":"thing"}"#),
            (json!(true), "1"),
            (json!({"type": "any"}), "2"),
            (json!({"type": "string", "required": true}), r#""x""#),
            (json!({"description": "A list"}), "[ ]"),
            (json!({"type": "number", "x-mcp-header": "Region"}), "3"),
            (json!({"type": "string", "pattern": "(("}), r#""y""#),
            (json!({"$ref": "https://example.com/elsewhere.json"}), "null"),
        ],
    }
}

const NAMES: [&str; 8] =
    ["path", "count", "fullPage", "max_count", "$type", "a/b", "arguments", "_meta"];

/// Values that agents send although they don't fit.
const BENT: [&str; 16] = [
    r#""5""#,
    r#""true""#,
    r#""[1,2]""#,
    r#""{\"x\":\"1\"}""#,
    r#""null""#,
    r#""""#,
    "null",
    "5",
    "1.0",
    "-1e-400",
    "123456789012345678901234567890",
    "false",
    "[]",
    "{}",
    r#"[{"deep":[[["\u0041"]]]}]"#,
    r#"{"x" : {"x" : {"x":null}}, "x":2}"#,
];

/// The schema of a tool, and the JSON text of the arguments of each call (`None`: no `arguments`).
#[derive(Clone, Debug)]
struct Tool {
    schema: Value,
    calls: Vec<Option<String>>,
}

#[derive(Clone, Copy, Debug)]
enum Given {
    Absent,
    Empty,
    Least,
    Full,
    Bent,
}

fn tool() -> impl Strategy<Value = Tool> {
    let makers = [Maker::Zod, Maker::Pydantic, Maker::FastMcp, Maker::Rmcp, Maker::Hand];
    let property = (any::<Index>(), any::<bool>());
    let how = select(vec![
        Given::Absent,
        Given::Empty,
        Given::Least,
        Given::Full,
        Given::Bent,
        Given::Bent,
        Given::Bent,
    ]);
    let call = (how, vec((any::<Index>(), 0..4_u8), NAMES.len() + 1), any::<bool>());
    (select(makers.to_vec()), vec(property, 0..5), vec(call, 5)).prop_map(
        |(maker, chosen, calls)| {
            let kinds = properties(maker);
            let chosen: Vec<_> = chosen
                .iter()
                .zip(NAMES)
                .map(|((kind, is_required), name)| (name, kind.get(&kinds), *is_required))
                .collect();
            let calls = calls.iter().map(|(how, bends, is_wide)| {
                arguments(*how, &chosen, bends).map(|members| written(&members, *is_wide))
            });
            Tool { calls: calls.collect(), schema: schema(maker, &chosen) }
        },
    )
}

fn schema(maker: Maker, chosen: &[(&str, &Property, bool)]) -> Value {
    let properties: Map<_, _> =
        chosen.iter().map(|(name, (schema, _), _)| ((*name).to_owned(), schema.clone())).collect();
    let is_listed = |schema: &Value, is_required: bool| {
        let has_default = schema.get("default").is_some();
        is_required && !has_default || has_default && matches!(maker, Maker::Zod)
    };
    let required = chosen.iter().filter(|(_, (schema, _), is)| is_listed(schema, *is));
    let required: Vec<_> = required.map(|(name, ..)| *name).collect();
    let defs = json!({
        "Point": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "required": ["x", "y"],
        },
        "Colour": {"enum": ["red", "blue"], "type": "string"},
    });
    let mut schema = json!({"type": "object", "properties": properties});
    match maker {
        Maker::Zod => {
            schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
            schema["required"] = json!(required);
            schema["additionalProperties"] = json!(false);
        }
        Maker::Pydantic | Maker::FastMcp | Maker::Rmcp => {
            schema["$defs"] = defs;
            schema["title"] = json!("callArguments");
            schema["required"] = json!(required);
            if matches!(maker, Maker::FastMcp) {
                schema["additionalProperties"] = json!(false);
            }
        }
        // Some handwritten schemas require a property that they don't describe.
        Maker::Hand => schema["required"] = json!(["query"]),
    }
    schema
}

fn arguments(
    how: Given,
    chosen: &[(&str, &Property, bool)],
    bends: &[(Index, u8)],
) -> Option<Vec<(String, String)>> {
    let fitting =
        |(name, (_, value), _): &(&str, &Property, bool)| ((*name).to_owned(), (*value).to_owned());
    let bent = |at: &Index| (*at.get(&BENT)).to_owned();
    Some(match how {
        Given::Absent => return None,
        Given::Empty => Vec::new(),
        Given::Least => {
            chosen.iter().filter(|(_, _, is_required)| *is_required).map(fitting).collect()
        }
        Given::Full => chosen.iter().map(fitting).collect(),
        Given::Bent => {
            let each = chosen.iter().zip(bends).filter_map(|(property, (at, bend))| match bend {
                0 => None,
                1 => Some(fitting(property)),
                _ => Some((property.0.to_owned(), bent(at))),
            });
            let mut members: Vec<_> = each.collect();
            if let Some((at, 0..=1)) = bends.last() {
                members.push(("random_string".to_owned(), bent(at)));
            }
            members
        }
    })
}

fn written(members: &[(String, String)], is_wide: bool) -> String {
    let (colon, comma) = if is_wide { (" :\t", " ,  ") } else { (":", ",") };
    let members = members.iter().map(|(name, value)| format!("{}{colon}{value}", json!(name)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(comma))
}

/// A mode, and a function that returns the params of a call in that mode.
type Way = (&'static str, fn(&str, Option<&str>) -> String);

const WAYS: [Way; 6] = [
    ("direct", |tool, arguments| named(tool, arguments)),
    ("dynamic", |tool, arguments| named(&format!("box__srv__{tool}"), arguments)),
    ("proxy", |tool, arguments| {
        let tool = format!(r#""tool":{{"toolbox":"box","server":"srv","tool":"{tool}"}}"#);
        named("use_tool", Some(&format!("{{{}}}", members(&tool, "arguments", arguments))))
    }),
    ("search", |tool, arguments| {
        let tool = format!(r#""toolbox_name":"box","tool_name":"{tool}""#);
        named("use_tool", Some(&format!("{{{}}}", members(&tool, "arguments", arguments))))
    }),
    ("modular", |tool, arguments| {
        let tool = format!(r#""group":"box","name":"{tool}""#);
        named("call-modular-tool", Some(&format!("{{{}}}", members(&tool, "args", arguments))))
    }),
    ("activate", |tool, arguments| named(&format!("box_{tool}"), arguments)),
];

fn named(name: &str, arguments: Option<&str>) -> String {
    members(&format!(r#""name":"{name}""#), "arguments", arguments)
}

fn members(first: &str, key: &str, arguments: Option<&str>) -> String {
    let rest = arguments.map(|arguments| format!(r#","{key}":{arguments}"#)).unwrap_or_default();
    format!("{first}{rest}")
}

fn received(agent: &Agent, params: &str, id: &str) -> Result<Option<String>, TestCaseError> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }

    let params = format!("{{{params}}}");
    agent.send_raw(&format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{params}}}"#
    ));
    let answer = agent.wait(&RequestId::from(id));
    prop_assert_eq!(answer.kind(), "result", "{} of {}", answer.line, params);
    let text = answer.text();
    let params: Params<'_> = serde_json::from_str(&text).expect("the parameters of a call");
    Ok(params.arguments.map(|arguments| arguments.get().to_owned()))
}

fn check((mode, params): Way, tools: &[Tool], is_over_http: bool) -> Result<(), TestCaseError> {
    let names: Vec<_> = (0..tools.len()).map(|at| format!("t{at}")).collect();
    let listed = names
        .iter()
        .zip(tools)
        .map(|(name, tool)| json!({"name": name, "description": name, "inputSchema": tool.schema}));
    let behavior: Map<_, _> = names.iter().map(|name| (name.clone(), json!("request"))).collect();
    let script = json!({"tools": listed.collect::<Vec<_>>(), "behavior": behavior});
    let bench = TestEnvironment::new()
        .set("toolMode", json!(mode))
        .toolbox("box", "Test tools")
        .server("box", "srv", fake(script));
    let agent = if is_over_http { Agent::over_http(bench.http()) } else { bench.agent() };
    let agent = agent.relisting_on_change().begin(false, json!({}));
    if mode == "activate" {
        agent.call("toolman_activate", json!({"tools_on": names.iter().map(|name| format!("box_{name}")).collect::<Vec<_>>()})).ok();
    }
    for (name, tool) in names.iter().zip(tools) {
        for (at, call) in tool.calls.iter().enumerate() {
            let params = params(name, call.as_deref());
            let got = received(&agent, &params, &format!("{name}-{at}"))?;
            prop_assert_eq!(&got, call, "{} in {} with the schema {}", params, mode, tool.schema);
        }
    }
    Ok(())
}

fn in_every_way(cases: u32, ways: &[Way], is_over_http: bool) {
    let config =
        Config { cases, max_shrink_iters: 40, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&vec(tool(), 12), |tools| {
        ways.iter().try_for_each(|way| check(*way, &tools, is_over_http))
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

// invariant: server-judges-arguments
#[test]
fn server_receives_arguments_unchanged_over_stdio() {
    in_every_way(6, &WAYS, false);
}

#[test]
fn server_receives_arguments_unchanged_over_http() {
    in_every_way(2, &WAYS, true);
}

#[test]
fn non_object_arguments_are_rejected_with_a_hint() {
    let bench = TestEnvironment::new().set("toolMode", json!("proxy")).server(
        "box",
        "srv",
        fake(json!({"tools": ["request"]})),
    );
    let agent = bench.agent().begin(false, json!({}));
    let tool = json!({"toolbox": "box", "server": "srv", "tool": "request"});
    for (given, kind) in [
        (json!([1]), "an array"),
        (json!("say it"), "a string"),
        (json!("[1]"), "a string"),
        (json!(7), "a number"),
        (json!(false), "a boolean"),
    ] {
        let expected = format!(
            "the arguments of `box/srv/request` are {kind}, expected an object, so it was not \
             called.\nWhat to do: pass a JSON object, {{\"<name>\": <value>}}."
        );
        let used = agent.call("use_tool", json!({"tool": tool, "arguments": given}));
        assert!(used.is_tool_error(), "{}", used.line);
        assert_eq!(used.text(), expected);
        let named = agent.call("box__srv__request", given);
        assert_eq!(named.text(), expected);
    }
    // An object in a string is accepted, and `null` counts as no arguments.
    let used = agent.call("use_tool", json!({"tool": tool, "arguments": "{ \"a\": 1.0}"}));
    assert!(used.text().contains(r#""arguments":{ "a": 1.0}"#), "{}", used.text());
    let used = agent.call("use_tool", json!({"tool": tool, "arguments": null}));
    assert!(!used.text().contains("arguments"), "{}", used.text());
    let named = agent.call("box__srv__request", json!(null));
    assert!(named.text().contains(r#""arguments":null"#), "{}", named.text());
}
