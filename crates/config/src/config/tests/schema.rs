//! The schema is generated, committed, and knows the same keys as the reader.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::config::dialect::Dialect;
use crate::config::keys::auth::raw::{RawAuth, RawJwt, RawToken};
use crate::config::keys::bounds::{RawCache, RawLimits, RawRates};
use crate::config::keys::clients::RawClient;
use crate::config::keys::llm::RawLlm;
use crate::config::keys::macros::raw::{RawMacro, RawStep, RawToolObject};
use crate::config::keys::navigator::{RawBudget, RawNavigator};
use crate::config::keys::policy::raw::{
    RawAgentPolicy, RawArgument, RawDefaultPolicy, RawTime, RawWhen,
};
use crate::config::keys::raw::category::{RawCategory, RawCategoryTools, RawOverride};
use crate::config::keys::raw::{RawConfig, RawServer, RawToolMode, RawToolbox};
use crate::config::keys::task_rules::{RawPattern, RawServiceType, RawTaskRules};
use crate::config::syntax::document::{self, Node};
use crate::config::syntax::reader::{Fields, Reader};
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

/// Every key that `read` asks for.
fn known<T>(read: impl Fn(&mut Fields<'_>, &mut Reader<'_>) -> T) -> Vec<String> {
    let tree = document::parse("{}").unwrap();
    let mut reader = Reader::new(None);
    let mut fields = reader.fields(&Node::root(&tree)).unwrap();
    read(&mut fields, &mut reader);
    let mut known: Vec<String> = fields.known().iter().map(|key| (*key).to_owned()).collect();
    known.sort();
    known
}

fn properties(pointer: &str) -> Vec<String> {
    let schema = schema();
    let object = schema.pointer(pointer).unwrap();
    let properties = object["properties"].as_object().unwrap();
    let mut properties: Vec<String> = properties.keys().cloned().collect();
    properties.sort();
    properties
}

#[test]
fn the_schema_has_the_keys_that_are_read() {
    assert_eq!(properties(""), known(RawConfig::read));
    assert_eq!(properties("/properties/limits"), known(RawLimits::read));
    assert_eq!(properties("/definitions/Rates"), known(RawRates::read));
    assert_eq!(properties("/definitions/Cache"), known(RawCache::read));
    assert_eq!(properties("/definitions/Navigator"), known(RawNavigator::read));
    assert_eq!(properties("/definitions/Budget"), known(RawBudget::read));
    assert_eq!(properties("/definitions/Endpoint"), known(RawLlm::read));
    assert_eq!(properties("/definitions/Toolbox"), known(RawToolbox::read));
    assert_eq!(properties("/definitions/Client"), known(RawClient::read));
    assert_eq!(properties("/properties/auth"), known(RawAuth::read));
    assert_eq!(properties("/definitions/Jwt"), known(RawJwt::read));
    assert_eq!(properties("/definitions/Token"), known(RawToken::read));
    assert_eq!(properties("/definitions/Server"), known(RawServer::read));
    assert_eq!(properties("/definitions/Category"), known(RawCategory::read));
    assert_eq!(properties("/definitions/Category/properties/tools"), known(RawCategoryTools::read));
    assert_eq!(properties("/definitions/Macro"), known(RawMacro::read));
    assert_eq!(properties("/definitions/Step"), known(RawStep::read));
    assert_eq!(properties("/definitions/StepTool"), known(RawToolObject::read));
    assert_eq!(properties("/definitions/Override"), known(RawOverride::read));
    assert_eq!(properties("/definitions/AgentPolicy"), known(RawAgentPolicy::read));
    assert_eq!(properties("/definitions/TaskRules"), known(RawTaskRules::read));
    assert_eq!(properties("/definitions/ServiceType"), known(RawServiceType::read));
    assert_eq!(properties("/definitions/TaskPattern"), known(RawPattern::read));
    assert_eq!(properties("/definitions/When"), known(RawWhen::read));
    assert_eq!(properties("/definitions/Argument"), known(RawArgument::read));
    assert_eq!(properties("/definitions/Time"), known(RawTime::read));
    assert_eq!(properties("/properties/defaultPolicy"), known(RawDefaultPolicy::read));
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

/// What the schema says against a file.
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
