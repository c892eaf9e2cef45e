//! Tests that the committed schema is current and lists the keys that the reader knows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::dialect::Dialect;
use crate::sections::root::{RawConfig, RawToolMode};
use crate::syntax::document;
use crate::syntax::section::ConfigSection;
use crate::tests::{case, json_files, repository};
use crate::{project_schema_text, schema, schema_text};

// invariant: key-described-once
#[test]
fn the_committed_schema_is_current() {
    for (file, text) in [
        ("schemas/workbench-config.schema.json", schema_text()),
        ("schemas/workbench-project.schema.json", project_schema_text()),
    ] {
        let path = repository().join(file);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        if committed != text {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            panic!("{file} was outdated and is now updated; run the test again");
        }
    }
}

/// Collects the key set of every object in the schema.
fn objects(schema: &Value, found: &mut BTreeSet<BTreeSet<String>>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        found.insert(properties.keys().cloned().collect());
    }
    match schema {
        Value::Object(members) => {
            members.iter().filter(|(key, _)| *key != "examples").for_each(|(_, value)| {
                objects(value, found);
            });
        }
        Value::Array(items) => items.iter().for_each(|item| objects(item, found)),
        _ => {}
    }
}

// invariant: key-described-once
#[test]
fn schema_lists_exactly_the_keys_that_are_read() {
    let sections = RawConfig::SPEC.flatten();
    let read: BTreeSet<BTreeSet<String>> = sections
        .iter()
        .map(|section| section.keys.iter().map(|key| key.name.to_owned()).collect())
        .collect();
    let mut offered = BTreeSet::new();
    objects(&schema(), &mut offered);
    assert!(read.len() > 25, "{read:#?}");
    assert_eq!(offered, read);
}

#[test]
fn schema_lists_exactly_the_tool_modes() {
    let text = schema_text();
    for mode in RawToolMode::ALL {
        let name = mode.checked().as_str();
        assert!(text.contains(&format!("\"const\": \"{name}\"")), "{text}");
    }
    assert_eq!(text.matches("\"const\"").count(), RawToolMode::ALL.len());
}

#[test]
fn every_property_is_described() {
    fn check(schema: &Value) {
        let properties = schema["properties"].as_object();
        for (key, property) in properties.into_iter().flatten() {
            assert!(property["description"].is_string(), "{key}: {property}");
            check(property);
        }
    }
    let schema = schema();
    check(&schema);
    for definition in schema["definitions"].as_object().unwrap().values() {
        check(definition);
    }
}

#[test]
fn only_server_entries_allow_additional_properties() {
    let schema = schema();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["limits"]["additionalProperties"], false);
    assert_eq!(schema["definitions"]["Toolbox"]["additionalProperties"], false);
    assert_eq!(schema["definitions"]["Server"].get("additionalProperties"), None);
}

fn mismatches(path: &Path) -> Vec<String> {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let text = fs::read_to_string(path).unwrap();
    let value = Value::from(document::parse_jsonc(&text).unwrap());
    let errors = validator.iter_errors(&value);
    errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn examples_load_without_findings_and_match_the_schema() {
    for path in json_files("examples") {
        let loaded = case(&path).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(loaded.findings, [], "{}", path.display());
        assert_eq!(mismatches(&path), [""; 0], "{}", path.display());
    }
}

#[test]
fn valid_cases_match_the_schema() {
    // These files use spellings of other programs, or a bare string instead of a list. The reader
    // accepts both, but the schema doesn't offer them.
    const LENIENT: [&str; 2] = ["endpoints", "policy"];
    for path in json_files("tests/configs/valid") {
        let loaded = case(&path).unwrap_or_else(|report| panic!("{report}"));
        let is_lenient = LENIENT.iter().any(|name| path.ends_with(format!("{name}.json")));
        if loaded.dialect == Dialect::Native && !is_lenient {
            assert_eq!(mismatches(&path), [""; 0], "{}", path.display());
        }
    }
}
