use std::path::PathBuf;

use pretty_assertions::assert_eq;
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::catalog::{Definition, Listing};
use crate::policy::{Policy, UnixTime};
use mcp_workbench_names::ToolboxName;
use mcp_workbench_settings::{
    Config, Launch, ServerConfig, StdioLaunch, ToolOverride, ToolboxConfig,
};

fn config(filters: &[&str]) -> Config {
    let launch = || {
        Launch::Stdio(StdioLaunch {
            command: "x".to_owned(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
            cwd: PathBuf::from("/"),
            inherit_env: false,
            secret_refs: [].into(),
            withheld: [].into(),
            has_own_folder: false,
            sandbox: None,
            starts_directly: true,
        })
    };
    let server = |name: &str| ServerConfig {
        tool_filters: filters.iter().map(|&filter| filter.to_owned()).collect(),
        ..ServerConfig::new(ServerName::new(name), launch())
    };
    Config {
        toolboxes: vec![ToolboxConfig {
            name: ToolboxName::new("dev"),
            description: "Development".to_owned(),
            namespace: "dev".to_owned(),
            servers: vec![server("files"), server("other")],
        }],
        ..Config::default()
    }
}

fn listing() -> Listing {
    let tools = ["read", "write"].map(|name| {
        RawJson::encode(
            &json!({"title": "T", "name": name, "inputSchema": {"type": "object"}, "later": 1.0}),
        )
    });
    Listing { tools: ToolDefinition::read_all(tools).0, ..Listing::default() }
}

fn view(filters: &[&str]) -> ToolboxView {
    view_of(&config(filters))
}

fn view_of(config: &Config) -> ToolboxView {
    let (toolbox, policy) = (&config.toolboxes[0], Policy::new(config));
    let [files, _] = toolbox.servers.as_slice() else { panic!("two servers") };
    let part = ServerView::new(toolbox, files, &Arc::new(listing()), &policy, 48, UnixTime::new(0));
    ToolboxView::new(vec![Arc::new(part)])
}

// invariant: permit-for-each-call
#[test]
fn view_has_the_listed_and_permitted_tools() {
    let names = |view: &ToolboxView| view.tools().map(|t| t.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&view(&[])), ["dev__files__read", "dev__files__write"]);
    assert_eq!(names(&view(&["!w*"])), ["dev__files__read"]);
    assert!(view(&["!w*"]).tool("files", "write").is_none());
    assert!(view(&[]).tool("files", "write").is_some());
}

#[test]
fn registered_definition_differs_only_in_its_name() {
    let view = view(&[]);
    let tool = view.tools().next().unwrap();
    assert_eq!(
        tool.registered_definition().unwrap().as_str(),
        r#"{"title":"T","name":"dev__files__read","inputSchema":{"type":"object"},"later":1.0}"#
    );
    assert_eq!(
        tool.definition_with_location().unwrap().as_str(),
        r#"{"toolbox":"dev","server":"files","title":"T","name":"read","inputSchema":{"type":"object"},"later":1.0}"#
    );
}

#[test]
fn location_members_of_the_server_are_replaced() {
    let raw =
        r#"{"name":"pay","toolbox":"bank","inputSchema":{"type":"object"},"server":"bank","x":1}"#;
    let definition =
        ToolDefinition::parse(RawJson::encode(&RawValue::from_string(raw.into()).unwrap()));
    let id = ToolId {
        toolbox: ToolboxName::new("dev"),
        server: ServerName::new("files"),
        tool: "pay".to_owned(),
    };
    let tool =
        ExposedTool::new(ExposedName::registered(&id, 48), id, Arc::new(definition.unwrap()));
    assert_eq!(
        tool.definition_with_location().unwrap().as_str(),
        r#"{"toolbox":"dev","server":"files","name":"pay","inputSchema":{"type":"object"},"x":1}"#
    );
}

#[test]
fn views_are_the_same_when_their_definitions_are() {
    assert!(view(&[]).has_the_tools_of(&view(&[])));
    assert!(!view(&[]).has_the_tools_of(&view(&["read"])));
}

#[test]
fn first_tool_keeps_a_name_that_an_override_duplicates() {
    let mut config = config(&[]);
    let renamed = |name: &str| ToolOverride { name: Some(name.to_owned()), ..Default::default() };
    let overrides = &mut config.toolboxes[0].servers[0].overrides;
    overrides.insert("mcp__files__read".to_owned(), renamed("write"));
    let view = view_of(&config);
    assert_eq!(view.tool_count(), 1);
    let tool = view.tool("files", "write").unwrap();
    assert_eq!(
        (tool.server_definition.name.as_str(), tool.name.as_str()),
        ("read", "dev__files__write")
    );
    assert_eq!(view.parts()[0].eclipsed.len(), 1);
    assert!(view.tool("files", "read").is_none());
}

#[test]
fn pinned_arguments_win_and_others_are_unchanged() {
    let mut config = config(&[]);
    let arguments = [("a".to_owned(), json!("pinned"))].into();
    let pinned = ToolOverride { arguments, ..Default::default() };
    config.toolboxes[0].servers[0].overrides.insert("read".to_owned(), pinned);
    let view = view_of(&config);
    let sent = |text: &str| {
        let given: Option<RawJson> = serde_json::from_str(text).unwrap();
        let given = given.filter(|given| given.as_bytes() != b"null");
        view.tool("files", "read").unwrap().apply_pinned(given.as_ref())
    };
    let text = |text: &str| sent(text).unwrap().unwrap().as_str().into_owned();
    assert_eq!(text("null"), r#"{"a":"pinned"}"#);
    assert_eq!(text(r#"{ "b": 1.0 }"#), r#"{ "b": 1.0 ,"a":"pinned"}"#);
    assert_eq!(text(r#"{"\u0061" : 1, "b": 2, "a":3}"#), r#"{ "b": 2,"a":"pinned"}"#);
    assert_eq!(text(r#"{"a":1,"A":2, "b":3}"#), r#"{ "b":3,"a":"pinned"}"#);
    assert_eq!(sent("[1]"), Err(NotAnObjectError("an array")));
    let tool = view.tool("files", "read").unwrap();
    assert_eq!(tool.mismatches(Some(&RawJson::encode(&json!({"b": 1})))), []);
    // Messages with such names are rejected when they are read.
    let text = bytes::Bytes::from_static(br#"{"a":"given","\ud800":1}"#);
    let odd = RawJson::from_range(&text, 0..text.len());
    assert_eq!(tool.apply_pinned(Some(&odd)), Err(NotAnObjectError(UNREADABLE)));
    assert_eq!(tool.mismatches(Some(&odd)), []);
}

proptest! {
    // invariant: bytes-unchanged
    #[test]
    fn pinned_arguments_hold_for_every_parser(
        names in proptest::collection::vec("a|b|A|\\\\u0061|\\\\ud800|\\\\ud83d\\\\ude00", 0..6),
    ) {
        let mut config = config(&[]);
        let arguments = [("a".to_owned(), json!("pinned"))].into();
        let pinned = ToolOverride { arguments, ..Default::default() };
        config.toolboxes[0].servers[0].overrides.insert("read".to_owned(), pinned);
        let view = view_of(&config);
        let tool = view.tool("files", "read").unwrap();
        let members: Vec<_> = names.iter().map(|name| format!("\"{name}\": 1")).collect();
        let given = bytes::Bytes::from(format!("{{{}}}", members.join(",")));
        let given = RawJson::from_range(&given, 0..given.len());
        let Ok(sent) = tool.apply_pinned(Some(&given)) else {
            prop_assert!(names.iter().any(|name| name == "\\ud800"));
            return Ok(());
        };
        let members = sent.unwrap().members().unwrap();
        let own = |(name, _): &&(json::MemberKey, RawJson)| name.eq_ignore_ascii_case("a");
        prop_assert_eq!(members.iter().filter(own).count(), 1);
        let (name, value) = members.last().unwrap();
        prop_assert!(&**name == "a" && value.as_bytes() == b"\"pinned\"");
    }
}

// invariant: server-judges-arguments
#[test]
fn arguments_are_forwarded_regardless_of_the_schema() {
    let definition = json!({
        "name": "pay",
        "inputSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": false,
        },
    });
    let definition = Arc::new(ToolDefinition::parse(RawJson::encode(&definition)).unwrap());
    let id = ToolId {
        toolbox: ToolboxName::new("dev"),
        server: ServerName::new("files"),
        tool: "pay".to_owned(),
    };
    let tool = ExposedTool::new(ExposedName::registered(&id, 48), id, definition);
    assert_eq!(tool.apply_pinned(None), Ok(None), "absent stays absent");
    for text in ["{}", "null", r#"{ "n" : "5" }"#, r#"{"n":1,"n":2.0}"#, r#"{"x":{"n":null}}"#] {
        let given: Box<RawValue> = serde_json::from_str(text).unwrap();
        let given = RawJson::encode(&given);
        assert_eq!(tool.apply_pinned(Some(&given)), Ok(Some(given.clone())), "{text}");
    }
    for (text, kind) in [("[]", "an array"), ("\"{}\"", "a string"), ("7", "a number")] {
        let given = RawJson::encode(&RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(tool.apply_pinned(Some(&given)), Err(NotAnObjectError(kind)), "{text}");
    }
    let misfits = |given: serde_json::Value| {
        let mismatches = tool.mismatches(Some(&RawJson::encode(&given)));
        mismatches.iter().map(|mismatch| mismatch.property.clone()).collect::<Vec<_>>()
    };
    assert_eq!(misfits(json!({"n": 5})), Vec::<String>::new());
    assert_eq!(misfits(json!({"n": "5"})), ["n"]);
    assert_eq!(misfits(json!(null)), ["n"]);
}
