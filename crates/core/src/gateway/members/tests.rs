use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::{assert_eq, assert_ne};
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::PoolOptions;
use crate::config;
use crate::gateway::{Caller, Gateways};

#[tokio::test]
async fn whose_connection_it_is_depends_on_what_ties_requests_together() {
    const CONFIG: &str =
        r#"{"mcpServers": {"box": {"command": "/no/such/program", "isolation": "session"}}}"#;
    let env = BTreeMap::new();
    let loaded = config::parse(CONFIG, Path::new("x.json"), Path::new("/"), &env).unwrap();
    let tasks = TaskTracker::new();
    let gateways = Gateways::new(Arc::new(loaded.config), PoolOptions::default(), &tasks);
    let gateway = gateways.of(&Caller::NOBODY, None);
    let server = gateway.servers().next().unwrap();
    let used = |agent: &Presence| server.backend(agent, &gateway.pool).map(|backend| backend.id());
    let agent = |tie| Presence::new(None).tied_by(tie);

    let (one, other) = (agent(Tie::Session), agent(Tie::Session));
    assert_eq!(used(&one).unwrap(), server.shared.id(), "the first has the one there is");
    assert_eq!(used(&one).unwrap(), server.used_by(&one).id());
    assert_ne!(used(&other).unwrap(), used(&one).unwrap());

    let named = [agent(Tie::Name), agent(Tie::Name)].map(|agent| used(&agent).unwrap());
    assert_eq!(named[0], named[1], "each request is an agent, but they have the same name");
    assert!(![used(&one).unwrap(), used(&other).unwrap()].contains(&named[0]));

    assert!(used(&agent(Tie::Nothing)).is_err());

    server.leave(one.id);
    let next = agent(Tie::Session);
    assert_ne!(used(&next).unwrap(), server.shared.id(), "what one leaves is nobody's");
    gateways.shut_down().await;
}
