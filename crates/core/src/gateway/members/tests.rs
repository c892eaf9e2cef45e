use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::{assert_eq, assert_ne};
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{PoolOptions, Purse};
use crate::config;
use crate::gateway::{Caller, Gateways};
use crate::raw::Raw;

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

/// Gateways over HTTP, of which each caller may have two connections for itself.
fn many(server: &serde_json::Value) -> Gateways {
    let config = serde_json::json!({
        "limits": { "perCaller": { "maxProcesses": 2 } },
        "mcpServers": { "box": server },
    });
    let env = BTreeMap::new();
    let loaded = config::parse(&config.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let options = PoolOptions { serves_many: true, ..PoolOptions::default() };
    Gateways::new(Arc::new(loaded.unwrap().config), options, &TaskTracker::new())
}

/// The purses of two callers.
fn purses(gateways: &Gateways) -> [Arc<Purse>; 2] {
    let purse = |ip: &str| gateways.payers().purse(&Payer::new(None, ip.parse().ok()));
    ["10.0.0.1", "10.0.0.2"].map(purse)
}

#[tokio::test]
async fn a_caller_has_so_many_connections_for_itself_until_its_sessions_end() {
    let server = serde_json::json!({"command": "/no/such/program", "isolation": "session"});
    let gateways = many(&server);
    let gateway = gateways.of(&Caller::NOBODY, None);
    let server = gateway.servers().next().unwrap();
    let used = |agent: &Presence| server.backend(agent, &gateway.pool).map(|backend| backend.id());
    let [eve, ann] = purses(&gateways);
    let session = |purse: &Arc<Purse>| Presence::new(None).paying_with(Arc::clone(purse));
    let hers = [(); 3].map(|()| session(&eve));
    let [one, two] = [0, 1].map(|n| used(&hers[n]).unwrap());
    assert_eq!([0, 1].map(|n| used(&hers[n]).unwrap()), [one, two], "and costs nothing more");
    let refused = used(&hers[2]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "2 processes of servers are for agents without a name at 10.0.0.1 alone, and there may be \
         no more (`limits.perCaller.maxProcesses`)",
    );
    assert!(used(&session(&ann)).is_ok());
    assert_eq!([&eve, &ann].map(|purse| purse.count(Holding::Processes)), [2, 1]);
    for (left, next) in [(0, 2), (1, 0), (2, 1)] {
        gateways.leave(hers[left].id);
        assert_eq!(eve.count(Holding::Processes), 1);
        assert!(used(&hers[next]).is_ok());
    }
    gateways.shut_down().await;
}

#[tokio::test]
async fn of_a_server_that_asks_the_first_connection_costs_nobody() {
    let server = serde_json::json!({"command": "/no/such/program", "roots": true});
    let gateways = many(&server);
    let capabilities = Raw::encode(&serde_json::json!({"roots": {}}));
    let gateway = gateways.of(&Caller::NOBODY, Some(&capabilities));
    let server = gateway.servers().next().unwrap();
    let [eve, _] = purses(&gateways);
    let hers = [(); 4].map(|()| Presence::new(None).paying_with(Arc::clone(&eve)));
    let used = |n: usize| server.backend(&hers[n], &gateway.pool).map(|backend| backend.id());
    assert_eq!(used(0).unwrap(), server.shared.id());
    let own = used(1).unwrap();
    assert!(used(2).is_ok() && used(3).is_err());
    // Whoever has one of its own keeps it, though the first has left.
    gateways.leave(hers[0].id);
    assert_eq!(used(1).unwrap(), own);
    gateways.leave(hers[2].id);
    assert!(used(3).is_ok());
    gateways.leave(hers[1].id);
    gateways.leave(hers[3].id);
    assert_eq!(eve.count(Holding::Processes), 0);
    gateways.shut_down().await;
}
