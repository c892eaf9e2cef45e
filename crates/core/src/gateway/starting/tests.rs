use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{PoolOptions, Record, Store, Whose};
use crate::config;
use crate::gateway::{Caller, Gateways};

const CONFIG: &str = r#"{"toolboxes": {"box": {"description": "x", "mcpServers": {
    "broken": {"command": "/no/such/program"},
    "old": {"type": "ws", "url": "http://127.0.0.1:9/sse"}
}}}}"#;

fn names(servers: impl IntoIterator<Item = ServerRef>) -> Vec<String> {
    servers.into_iter().map(|at| at.server.to_string()).collect()
}

#[tokio::test]
async fn what_cannot_be_started_holds_up_nobody_and_is_told() {
    let env = BTreeMap::new();
    let loaded = config::parse(CONFIG, Path::new("x.json"), Path::new("/"), &env).unwrap();
    let config = Arc::new(loaded.config);
    let tasks = TaskTracker::new();
    let folder = tempfile::TempDir::new().unwrap();
    let store = Arc::new(Store::new(folder.path()));
    let options = || PoolOptions { store: Some(Arc::clone(&store)), ..PoolOptions::default() };
    let gateways = Gateways::new(Arc::clone(&config), options(), &tasks);
    let gateway = gateways.of(&Caller::NOBODY, None);
    let nobody = Presence::new(None);
    gateway.recalled().await;
    assert_eq!(names(gateway.unlisted()), ["broken"]);
    assert_eq!(names(gateway.failures().into_iter().map(|(at, _)| at)), ["old"]);
    let mut snapshots = gateway.snapshots();
    snapshots.mark_unchanged();
    gateway.ensure_listed(&RequestContext::nobody(&nobody)).await;
    assert_eq!(names(gateway.unlisted()), ["broken"]);
    let failures = gateway.failures();
    assert!(failures[0].1.reason.contains("/no/such/program"), "{failures:?}");
    assert_eq!(names(failures.into_iter().map(|(at, _)| at)), ["broken", "old"]);
    snapshots.changed().await.expect("those who show what failed hear of it");
    gateways.shut_down().await;

    // What is remembered is known, and is not started for it.
    let Ok(reach) = crate::backend::Reach::of(&config.toolboxes[0].servers[0], &Whose::only(None))
    else {
        panic!("it can be started");
    };
    let record = Record {
        server: "broken".to_owned(),
        era: crate::backend::Era::Legacy,
        is_old: false,
        listing: Arc::default(),
    };
    store.keep(&reach, crate::settings::Protocol::Auto, &record).unwrap();
    let gateways = Gateways::new(config, options(), &tasks);
    let gateway = gateways.of(&Caller::NOBODY, None);
    gateway.ensure_listed(&RequestContext::nobody(&nobody)).await;
    assert_eq!(names(gateway.unlisted()), [""; 0]);
    assert_eq!(names(gateway.remembered().into_iter().map(|(at, _)| at)), ["broken"]);
    assert_eq!(names(gateway.failures().into_iter().map(|(at, _)| at)), ["old"]);
    gateways.shut_down().await;
}
