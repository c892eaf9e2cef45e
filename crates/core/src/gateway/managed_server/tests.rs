use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::{assert_eq, assert_ne};
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{CallerQuota, PoolOptions, ServedAgents};
use crate::gateway::{Caller, GatewayRegistry};
use mcp_workbench_wire::json::RawJson;

// invariant: sharing-needs-equality
#[tokio::test]
async fn backend_is_chosen_by_affinity() {
    const CONFIG: &str =
        r#"{"mcpServers": {"box": {"command": "/no/such/program", "isolation": "session"}}}"#;
    let env = BTreeMap::new();
    let loaded =
        mcp_workbench_config::parse(CONFIG, Path::new("x.json"), Path::new("/"), &env).unwrap();
    let tasks = TaskTracker::new();
    let gateways = GatewayRegistry::new(Arc::new(loaded.config), PoolOptions::default(), &tasks);
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    let server = gateway.servers().managed_servers().next().unwrap();
    let used = |agent: &AgentHandle| {
        server.backend(agent, &gateway.servers().pool).map(|backend| backend.id())
    };
    let agent = |affinity| AgentHandle::new(None).with_affinity(affinity);

    let (one, other) = (agent(Affinity::Session), agent(Affinity::Session));
    assert_eq!(used(&one).unwrap(), server.shared.id(), "the first agent owns the shared backend");
    assert_eq!(used(&one).unwrap(), server.current_backend(&one).id());
    assert_ne!(used(&other).unwrap(), used(&one).unwrap());

    let named =
        [agent(Affinity::AgentName), agent(Affinity::AgentName)].map(|agent| used(&agent).unwrap());
    assert_eq!(named[0], named[1], "requests with the same agent name share a backend");
    assert!(![used(&one).unwrap(), used(&other).unwrap()].contains(&named[0]));

    assert!(used(&agent(Affinity::None)).is_err());

    server.remove_agent(one.id);
    let next = agent(Affinity::Session);
    assert_ne!(
        used(&next).unwrap(),
        server.shared.id(),
        "the backend of an agent that left is not reused"
    );
    gateways.shut_down().await;
}

/// Gateways that serve many callers, each with a quota of two processes.
fn many(server: &serde_json::Value) -> GatewayRegistry {
    let config = serde_json::json!({
        "limits": { "perCaller": { "maxProcesses": 2 } },
        "mcpServers": { "box": server },
    });
    let env = BTreeMap::new();
    let loaded =
        mcp_workbench_config::parse(&config.to_string(), Path::new("x.json"), Path::new("/"), &env);
    let options = PoolOptions {
        agents: ServedAgents { are_many: true, ..ServedAgents::default() },
        ..PoolOptions::default()
    };
    GatewayRegistry::new(Arc::new(loaded.unwrap().config), options, &TaskTracker::new())
}

fn purses(gateways: &GatewayRegistry) -> [Arc<CallerQuota>; 2] {
    let quota = |ip: &str| gateways.quotas().quota_for(&QuotaOwner::new(None, ip.parse().ok()));
    ["10.0.0.1", "10.0.0.2"].map(quota)
}

#[tokio::test]
async fn process_quota_is_released_when_sessions_end() {
    let server = serde_json::json!({"command": "/no/such/program", "isolation": "session"});
    let gateways = many(&server);
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    let server = gateway.servers().managed_servers().next().unwrap();
    let used = |agent: &AgentHandle| {
        server.backend(agent, &gateway.servers().pool).map(|backend| backend.id())
    };
    let [eve, ann] = purses(&gateways);
    let session = |quota: &Arc<CallerQuota>| AgentHandle::new(None).with_quota(Arc::clone(quota));
    let hers = [(); 3].map(|()| session(&eve));
    let [one, two] = [0, 1].map(|n| used(&hers[n]).unwrap());
    assert_eq!([0, 1].map(|n| used(&hers[n]).unwrap()), [one, two], "and uses no more quota");
    let refused = used(&hers[2]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the caller at 10.0.0.1 already has 2 server processes of its own, the maximum \
         (`limits.perCaller.maxProcesses`)",
    );
    assert!(used(&session(&ann)).is_ok());
    assert_eq!([&eve, &ann].map(|quota| quota.count(QuotaKind::Processes)), [2, 1]);
    for (left, next) in [(0, 2), (1, 0), (2, 1)] {
        gateways.remove_agent(hers[left].id);
        assert_eq!(eve.count(QuotaKind::Processes), 1);
        assert!(used(&hers[next]).is_ok());
    }
    gateways.shut_down().await;
}

#[tokio::test]
async fn first_backend_of_an_interactive_server_is_free_of_quota() {
    let server = serde_json::json!({"command": "/no/such/program", "roots": true});
    let gateways = many(&server);
    let capabilities = RawJson::encode(&serde_json::json!({"roots": {}}));
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, Some(&capabilities));
    let server = gateway.servers().managed_servers().next().unwrap();
    let [eve, _] = purses(&gateways);
    let hers = [(); 4].map(|()| AgentHandle::new(None).with_quota(Arc::clone(&eve)));
    let used =
        |n: usize| server.backend(&hers[n], &gateway.servers().pool).map(|backend| backend.id());
    assert_eq!(used(0).unwrap(), server.shared.id());
    let own = used(1).unwrap();
    assert!(used(2).is_ok() && used(3).is_err());
    // A dedicated backend outlives the owner of the shared one.
    gateways.remove_agent(hers[0].id);
    assert_eq!(used(1).unwrap(), own);
    gateways.remove_agent(hers[2].id);
    assert!(used(3).is_ok());
    gateways.remove_agent(hers[1].id);
    gateways.remove_agent(hers[3].id);
    assert_eq!(eve.count(QuotaKind::Processes), 0);
    gateways.shut_down().await;
}
