use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{ListingRecord, ListingStore, LoginScope, PoolOptions};
use crate::gateway::{Caller, GatewayRegistry};

const CONFIG: &str = r#"{"toolboxes": {"box": {"description": "x", "mcpServers": {
    "broken": {"command": "/no/such/program"},
    "old": {"type": "ws", "url": "http://127.0.0.1:9/sse"}
}}}}"#;

fn names(servers: impl IntoIterator<Item = ServerRef>) -> Vec<String> {
    servers.into_iter().map(|at| at.server.to_string()).collect()
}

#[tokio::test]
async fn failed_server_blocks_nobody_and_is_reported() {
    let env = BTreeMap::new();
    let loaded =
        mcp_workbench_config::parse(CONFIG, Path::new("x.json"), Path::new("/"), &env).unwrap();
    let config = Arc::new(loaded.config);
    let tasks = TaskTracker::new();
    let folder = tempfile::TempDir::new().unwrap();
    let store = Arc::new(ListingStore::new(folder.path()));
    let options = || PoolOptions { store: Some(Arc::clone(&store)), ..PoolOptions::default() };
    let gateways = GatewayRegistry::new(Arc::clone(&config), options(), &tasks);
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    let no_agent = AgentHandle::new(None);
    gateway.views().wait_for_stored_listings().await;
    assert_eq!(names(gateway.views().unlisted()), ["broken"]);
    assert_eq!(names(gateway.servers().failed_servers().into_iter().map(|(at, _)| at)), ["old"]);
    let mut snapshots = gateway.views().snapshots();
    snapshots.mark_unchanged();
    gateway.startup().ensure_listed(&RequestContext::detached(&no_agent)).await;
    assert_eq!(names(gateway.views().unlisted()), ["broken"]);
    let failures = gateway.servers().failed_servers();
    assert!(failures[0].1.reason.contains("/no/such/program"), "{failures:?}");
    assert_eq!(names(failures.into_iter().map(|(at, _)| at)), ["broken", "old"]);
    snapshots.changed().await.expect("a changed snapshot");
    gateways.shut_down().await;

    // A server with a stored listing isn't started.
    let Ok(reach) = crate::backend::ServerTransport::from_config(
        &config.toolboxes[0].servers[0],
        &LoginScope::only(None),
    ) else {
        panic!("invalid launch");
    };
    let record = ListingRecord {
        server: "broken".to_owned(),
        era: crate::backend::Era::Legacy,
        is_old: false,
        listing: Arc::default(),
    };
    store.save(&reach, mcp_workbench_settings::Protocol::Auto, &record).unwrap();
    let gateways = GatewayRegistry::new(config, options(), &tasks);
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    gateway.startup().ensure_listed(&RequestContext::detached(&no_agent)).await;
    assert_eq!(names(gateway.views().unlisted()), [""; 0]);
    assert_eq!(names(gateway.views().stored_listings().into_iter().map(|(at, _)| at)), ["broken"]);
    assert_eq!(names(gateway.servers().failed_servers().into_iter().map(|(at, _)| at)), ["old"]);
    gateways.shut_down().await;
}
