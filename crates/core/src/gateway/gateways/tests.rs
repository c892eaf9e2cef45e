use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::config;
use crate::name::AgentName;

fn gateways() -> Gateways {
    let env = BTreeMap::<String, String>::new();
    let file = json!({ "mcpServers": { "one": { "command": "x" } } }).to_string();
    let file = config::parse(&file, Path::new("x.json"), Path::new("/"), &env).unwrap();
    Gateways::new(Arc::new(file.config), PoolOptions::default(), &TaskTracker::new())
}

fn caller(name: &str) -> Caller {
    Caller { agent: Some(AgentName::new(name)), ..Caller::NOBODY }
}

/// The capabilities of clients of many kinds.
fn kinds() -> Vec<Raw> {
    let sampling = [
        Value::Null,
        json!({}),
        json!({ "tools": {} }),
        json!({ "context": {} }),
        json!({ "tools": {}, "context": {} }),
    ];
    let elicitation = [Value::Null, json!({}), json!({ "url": {} })];
    let roots = [Value::Null, json!({}), json!({ "listChanged": true })];
    let mut kinds = Vec::new();
    for sampling in &sampling {
        for elicitation in &elicitation {
            for roots in &roots {
                let said = json!({
                    "sampling": sampling, "elicitation": elicitation, "roots": roots,
                });
                kinds.push(Raw::encode(&said));
            }
        }
    }
    kinds
}

#[tokio::test]
async fn a_client_keeps_its_abilities_however_many_kinds_have_come() {
    let gateways = gateways();
    let kinds = kinds();
    assert!(kinds.len() > MAX_CLASSES);
    for kind in &kinds {
        gateways.admit(&caller("ann"), Some(kind)).unwrap();
        let gateway = gateways.of(&caller("ann"), Some(kind));
        assert_eq!(gateway.abilities(), ClientAbilities::of(kind));
    }
    let count = gateways.state(|state| state.made.len());
    assert_eq!(count, MAX_CLASSES, "nobody looks through the others any more");
}

#[tokio::test]
async fn where_all_are_looked_through_newcomers_are_refused_and_of_one_agent_alone() {
    let gateways = gateways();
    let kinds = kinds();
    let (some, others) = kinds.split_at(MAX_CLASSES);
    let follow = |kind: &Raw| gateways.follow(&caller("ann"), Some(kind));
    let mut followers: Vec<_> = some.iter().map(|kind| follow(kind).unwrap()).collect();
    assert_eq!(follow(&others[0]).map(drop), Err(Crowded));
    assert_eq!(gateways.admit(&caller("ann"), Some(&others[0])), Err(Crowded));
    assert!(follow(&some[3]).is_ok(), "it is there already");
    assert!(gateways.follow(&caller("bob"), Some(&others[0])).is_ok());
    followers.pop();
    assert!(follow(&others[0]).is_ok());
}
