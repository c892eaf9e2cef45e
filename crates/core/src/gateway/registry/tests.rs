use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use mcp_workbench_names::AgentName;

fn gateways() -> GatewayRegistry {
    let env = BTreeMap::<String, String>::new();
    let file = json!({ "mcpServers": { "one": { "command": "x" } } }).to_string();
    let file =
        mcp_workbench_config::parse(&file, Path::new("x.json"), Path::new("/"), &env).unwrap();
    GatewayRegistry::new(Arc::new(file.config), PoolOptions::default(), &TaskTracker::new())
}

fn caller(name: &str) -> Caller {
    Caller { agent: Some(AgentName::new(name)), ..Caller::ANONYMOUS }
}

/// Distinct client capability sets.
fn kinds() -> Vec<RawJson> {
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
                kinds.push(RawJson::encode(&said));
            }
        }
    }
    kinds
}

#[tokio::test]
async fn unused_gateways_are_evicted_at_the_limit_per_caller() {
    let gateways = gateways();
    let kinds = kinds();
    assert!(kinds.len() > MAX_GATEWAYS_PER_CALLER);
    for kind in &kinds {
        gateways.admit(&caller("ann"), Some(kind)).unwrap();
        let gateway = gateways.gateway_for(&caller("ann"), Some(kind));
        assert_eq!(gateway.scope().capabilities, ClientCapabilities::from_raw(kind));
    }
    let count = gateways.state(|state| state.made.len());
    assert_eq!(count, MAX_GATEWAYS_PER_CALLER, "the other gateways were evicted");
}

// invariant: limits-hit-own-caller
#[tokio::test]
async fn new_capability_sets_are_refused_at_the_limit_per_caller() {
    let gateways = gateways();
    let kinds = kinds();
    let (some, others) = kinds.split_at(MAX_GATEWAYS_PER_CALLER);
    let follow = |kind: &RawJson| gateways.subscribe(&caller("ann"), Some(kind));
    let mut followers: Vec<_> = some.iter().map(|kind| follow(kind).unwrap()).collect();
    assert_eq!(follow(&others[0]).map(drop), Err(GatewayLimitError));
    assert_eq!(gateways.admit(&caller("ann"), Some(&others[0])), Err(GatewayLimitError));
    assert!(follow(&some[3]).is_ok(), "the gateway exists already");
    assert!(gateways.subscribe(&caller("bob"), Some(&others[0])).is_ok());
    followers.pop();
    assert!(follow(&others[0]).is_ok());
}
