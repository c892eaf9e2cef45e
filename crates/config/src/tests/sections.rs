//! Tests that the `section!` macro derives everything from one description.

use pretty_assertions::assert_eq;
use schemars::SchemaGenerator;
use serde_json::json;

use crate::loader::client_file;
use crate::sections::key_hints::owning_section_hint;
use crate::sections::root::RawConfig;
use crate::syntax::document::{self, Node};
use crate::syntax::finding::Finding;
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{ConfigSection, FromNode, KeyOwnership, SectionSpec, section};

section! {
    /// A file with one key of each kind.
    pub(crate) struct Top in "the top level" {
        /// Counts sheep.
        "sheepLimit" as pub(crate) sheep_limit: Located<u64> [(1, 20)],
        /// Says who may shear.
        rule "shearPolicies" | "shear_policies" as pub(crate) shear_policies: Vec<Located<String>>,
        /// A key that others have too.
        shared "meadow" as pub(crate) meadow: Meadow,
        /// A key that everybody has.
        everybodys "mcpServers" as pub(crate) mcp_servers: Located<String>,
    }
}

section! {
    /// Where sheep are.
    pub(crate) struct Meadow in "`meadow`" {
        /// How much grass there is.
        "grass" as pub(crate) grass: Located<u64>,
    }
}

const TOP: &SectionSpec = Top::SPEC;

fn read(text: &str) -> (Option<Top>, Vec<Finding>) {
    let tree = document::parse_jsonc(text).unwrap();
    let mut reader = ConfigReader::new(None).with_key_hint(|key| owning_section_hint(key, TOP));
    let top = Top::from_node(&Node::root(&tree), &mut reader);
    (top, reader.into_findings(text))
}

// invariant: key-described-once
#[test]
fn section_macro_derives_reading_schema_hints_and_dialect() {
    // The reader: types, ranges and other spellings.
    let (top, findings) =
        read(r#"{"sheepLimit": 7, "shear_policies": ["a"], "meadow": {"grass": 3}}"#);
    let top = top.unwrap();
    assert_eq!(findings, []);
    assert!(top.mcp_servers.is_none());
    assert_eq!(top.sheep_limit.unwrap().value, 7);
    assert_eq!(top.shear_policies.unwrap().len(), 1);
    assert_eq!(top.meadow.unwrap().grass.unwrap().value, 3);
    let message = |text| read(text).1.into_iter().map(|finding| finding.message).next();
    assert_eq!(
        message(r#"{"sheepLimit": 21}"#).as_deref(),
        Some("expected a number from 1 to 20, found 21")
    );
    assert_eq!(
        message(r#"{"sheepLimit": true}"#).as_deref(),
        Some("expected a whole number, found a boolean")
    );

    // Hints.
    let hint = |text| read(text).1.into_iter().find_map(|finding| finding.hint);
    let belongs = "`grass` belongs in `meadow`";
    assert_eq!(hint(r#"{"grass": 1}"#).as_deref(), Some(belongs));
    let belongs = "`sheepLimit` belongs in the top level";
    assert_eq!(hint(r#"{"meadow": {"sheepLimit": 1}}"#).as_deref(), Some(belongs));
    assert_eq!(hint(r#"{"shepLimit": 1}"#).as_deref(), Some("did you mean `sheepLimit`?"));

    // The schema.
    let schema = SchemaGenerator::default().into_root_schema_for::<Top>().to_value();
    let limit = &schema["properties"]["sheepLimit"];
    assert_eq!(limit["description"], "Counts sheep.");
    assert_eq!([&limit["minimum"], &limit["maximum"]], [1, 20]);
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(
        schema["patternProperties"],
        json!({"^(shear_policies)$": {"description": "Alternative spelling in snake_case."}})
    );

    // Dialect detection.
    let is_a_clients = |text: &str| {
        let tree = document::parse_jsonc(text).unwrap();
        let root = Node::root(&tree);
        let is_ours = TOP.keys.iter().any(|key| key.identifies_native(&root));
        !is_ours && client_file::is_client_file(&root, TOP)
    };
    for (rest, expected) in [
        (r#""theme": "dark""#, true),
        (r#""meadow": {"flowers": 1}"#, true),
        (r#""meadow": {"grass": 1}"#, false),
        (r#""sheepLimit": 7"#, false),
        (r#""sheep_limits": 7"#, false),
        (r#""shearPolicies": []"#, false),
    ] {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "a"}}}}, {rest}}}"#);
        assert_eq!(is_a_clients(&text), expected, "{text}");
    }
}

// invariant: key-described-once
#[test]
fn a_section_has_each_key_once() {
    for section in RawConfig::SPEC.flatten() {
        let mut names: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
        names.extend(section.keys.iter().filter_map(|key| key.alias));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{section:#?}");
    }
}

#[test]
fn access_control_keys_are_policy_keys() {
    let keys = RawConfig::SPEC.keys.iter();
    let rules: Vec<_> =
        keys.filter(|key| key.ownership == KeyOwnership::Policy).map(|key| key.name).collect();
    assert_eq!(
        rules,
        [
            "onDefinitionChange",
            "agentPolicies",
            "exposedTools",
            "exposedResources",
            "exposedPrompts",
            "defaultPolicy",
            "dangerousTools",
            "requireConfirmation",
            "approvals"
        ]
    );
}
