//! The schema is generated, committed, and knows the same keys as the reader.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::config::dialect::Dialect;
use crate::config::keys::raw::{RawConfig, RawToolMode};
use crate::config::syntax::document;
use crate::config::syntax::section::Described;
use crate::config::tests::{case, json_files, repository};
use crate::config::{schema, schema_text};

const FILE: &str = "schemas/workbench-config.schema.json";

#[test]
fn the_committed_schema_is_current() {
    let path = repository().join(FILE);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed != schema_text() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, schema_text()).unwrap();
        panic!("{FILE} was not current; it has been written anew, run the test again");
    }
}

/// Every object of the schema that has keys, each as the set of these.
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

#[test]
fn the_schema_has_the_keys_that_are_read() {
    let sections = RawConfig::DESCRIPTION.all();
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
fn the_schema_has_the_modes_that_are_read() {
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
fn only_server_blocks_are_open() {
    let schema = schema();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["limits"]["additionalProperties"], false);
    assert_eq!(schema["definitions"]["Toolbox"]["additionalProperties"], false);
    assert_eq!(schema["definitions"]["Server"].get("additionalProperties"), None);
}

/// Returns what the schema says against a file.
fn mismatches(path: &Path) -> Vec<String> {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let text = fs::read_to_string(path).unwrap();
    let value = Value::from(document::parse(&text).unwrap());
    let errors = validator.iter_errors(&value);
    errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn examples_load_without_findings_and_match_the_schema() {
    for path in json_files("examples") {
        let loaded = case(&path).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(loaded.warnings, [], "{}", path.display());
        assert_eq!(mismatches(&path), [""; 0], "{}", path.display());
    }
}

#[test]
fn what_is_valid_matches_the_schema() {
    // Keys as other programs spell them, and one entry where a list is meant, are taken and not
    // offered.
    const LENIENT: [&str; 2] = ["endpoints", "policy"];
    for path in json_files("tests/configs/valid") {
        let loaded = case(&path).unwrap_or_else(|report| panic!("{report}"));
        let is_lenient = LENIENT.iter().any(|name| path.ends_with(format!("{name}.json")));
        if loaded.dialect == Dialect::Native && !is_lenient {
            assert_eq!(mismatches(&path), [""; 0], "{}", path.display());
        }
    }
}
