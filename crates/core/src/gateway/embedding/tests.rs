use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{
    AgentEvent, AgentHandle, Era, ListingRecord, ListingStore, LoginScope, PoolOptions,
    ServerTransport, events,
};
use crate::catalog::rank::ScoreCutoff;
use crate::catalog::{Definition, Listing, ToolDefinition};
use crate::gateway::{Caller, GatewayRegistry, RequestContext, ToolMatch, ToolQuery};
use crate::llm::fake_endpoint::{FakeEndpoint, Reply, http_response};
use mcp_workbench_settings::{Config, Protocol};
use mcp_workbench_wire::json::RawJson;

const WORD: &str = "зонтик";

/// An endpoint, and a server whose listing is stored but which can't start.
struct World {
    endpoint: FakeEndpoint,
    is_broken: Arc<AtomicBool>,
    cache: TempDir,
    config: Arc<Config>,
}

/// Texts about rain point in one direction, all others in none.
fn model(body: &Value) -> Reply {
    let texts = body["input"].as_array().unwrap();
    let is_wet = |text: &Value| {
        let text = text.as_str().unwrap();
        text.contains(WORD) || text.contains("rain_today")
    };
    let vector = |text: &Value| if is_wet(text) { [1.0, 0.0] } else { [0.0, 0.0] };
    let data = texts.iter().map(|text| json!({ "embedding": vector(text) }));
    http_response(200, "", &json!({ "data": data.collect::<Vec<_>>() }).to_string())
}

impl World {
    async fn new() -> Self {
        let is_broken = Arc::new(AtomicBool::new(false));
        let broken = Arc::clone(&is_broken);
        let endpoint = FakeEndpoint::start(move |_, body| {
            if broken.load(Ordering::Relaxed) { http_response(500, "", "") } else { model(body) }
        })
        .await;
        let text = json!({
            "search": {"embeddings": {"baseUrl": endpoint.config.base_url.as_str(), "model": "m-1"}},
            "toolboxes": {"sky": {"description": "x", "mcpServers": {"weather": {
                "command": "/no/such/program", "toolFilters": ["*", "!secret_*"],
            }}}},
        });
        let env = BTreeMap::new();
        let folder = Path::new("/");
        let loaded =
            mcp_workbench_config::parse(&text.to_string(), Path::new("x.json"), folder, &env)
                .unwrap();
        let world = Self {
            endpoint,
            is_broken,
            cache: TempDir::new().unwrap(),
            config: Arc::new(loaded.config),
        };
        let tool = |name: &str, description: &str| {
            let tool = json!({"name": name, "description": description, "inputSchema": {}});
            RawJson::encode(&tool)
        };
        let (tools, _) = ToolDefinition::read_all([
            tool("rain_today", "Whether water falls"),
            tool("stars", "What can be seen at night"),
            tool("secret_rain_today", "Nobody may know"),
        ]);
        let record = ListingRecord {
            server: "weather".to_owned(),
            era: Era::Legacy,
            is_old: false,
            listing: Arc::new(Listing { tools, ..Listing::default() }),
        };
        let Ok(reach) = ServerTransport::from_config(
            &world.config.toolboxes[0].servers[0],
            &LoginScope::only(None),
        ) else {
            panic!("invalid launch");
        };
        world.store().save(&reach, Protocol::Auto, &record).unwrap();
        world
    }

    fn store(&self) -> ListingStore {
        ListingStore::new(self.cache.path())
    }

    fn start(&self) -> GatewayRegistry {
        let store = Some(Arc::new(self.store()));
        let options = PoolOptions { store, ..PoolOptions::default() };
        GatewayRegistry::new(Arc::clone(&self.config), options, &TaskTracker::new())
    }

    fn asked(&self) -> Vec<usize> {
        let asked = self.endpoint.asked();
        asked.iter().map(|(_, body)| body["input"].as_array().unwrap().len()).collect()
    }
}

async fn found(gateways: &GatewayRegistry, query: &str) -> Vec<String> {
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    let sought =
        ToolQuery { query, toolbox: None, server: None, finds: ScoreCutoff::Relevant, limit: 5 };
    let found =
        gateway.search().find(sought, &RequestContext::detached(&AgentHandle::new(None))).await;
    found.iter().map(|found| found.tool().server_definition.name.clone()).collect()
}

#[tokio::test]
async fn search_ranks_tools_by_the_embedding_model() {
    let world = World::new().await;
    let gateways = world.start();
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);
    let tools = BACKGROUND.len() + 2;
    assert_eq!(world.asked(), [tools, 1]);
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);
    assert_eq!(found(&gateways, "seen at night").await, ["stars"]);
    assert_eq!(world.asked(), [tools, 1, 1]);
    // Hidden tools are not sent to the endpoint.
    let sent = format!("{:?}", world.endpoint.asked());
    assert!(sent.contains("Whether water falls") && !sent.contains("Nobody"), "{sent}");
    gateways.shut_down().await;

    // A restart reads the vectors from the store.
    let gateways = world.start();
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);
    assert_eq!(world.asked(), [tools, 1, 1, 1]);
    gateways.shut_down().await;
}

async fn all_found(
    gateways: &GatewayRegistry,
    queries: &[&str],
    context: &RequestContext<'_>,
) -> Vec<Vec<String>> {
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    let sought = queries.iter().map(|query| ToolQuery {
        query,
        toolbox: None,
        server: None,
        finds: ScoreCutoff::Relevant,
        limit: 5,
    });
    let found = gateway.search().search_listed(&sought.collect::<Vec<_>>(), context).await;
    let names = |found: &ToolMatch| found.tool().server_definition.name.clone();
    found.iter().map(|found| found.iter().map(names).collect()).collect()
}

#[tokio::test]
async fn queries_of_a_search_share_one_request_and_one_method() {
    let world = World::new().await;
    let gateways = world.start();
    let no_agent = AgentHandle::new(None);
    let context = RequestContext::detached(&no_agent);
    let queries = [WORD, "", "seen at night", WORD];
    let expected = [vec!["rain_today"], vec![], vec!["stars"], vec!["rain_today"]];
    assert_eq!(all_found(&gateways, &queries, &context).await, expected);
    let tools = BACKGROUND.len() + 2;
    assert_eq!(world.asked(), [tools, 2]);

    // One of the queries is cached, but the table scores both.
    world.is_broken.store(true, Ordering::Relaxed);
    let found = all_found(&gateways, &[WORD, "the water"], &context).await;
    assert_eq!(found, [vec![], vec!["rain_today"]]);
    assert_eq!(world.asked(), [tools, 2, 1]);
    gateways.shut_down().await;
}

#[tokio::test]
async fn search_reports_progress_while_waiting_for_the_model() {
    let world = World::new().await;
    let gateways = world.start();
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    gateway.views().wait_for_stored_listings().await;
    let turn = gateway.search().embedding.as_ref().unwrap().turn.lock().await;
    let (sender, mut told) = events::channel(8);
    let no_agent = AgentHandle::new(None);
    let context = RequestContext {
        events: Some(&sender),
        wants_progress: true,
        ..RequestContext::detached(&no_agent)
    };
    tokio::time::pause();
    let since = Instant::now();
    let found = all_found(&gateways, &[WORD, "water", "stars"], &context).await;
    assert_eq!(found, [vec![], vec!["rain_today"], vec!["stars"]]);
    assert!(since.elapsed() < TIMEOUT + QUERY_PATIENCE, "{:?}", since.elapsed());
    let Some(AgentEvent::Progress(params)) = told.try_recv() else { panic!("no progress event") };
    assert!(params.as_str().contains("waiting for the model `m-1`"), "{}", params.as_str());
    drop(turn);
    tokio::time::resume();
    assert_eq!(world.asked(), [0; 0]);
    gateways.shut_down().await;
}

#[tokio::test]
async fn too_many_tools_skip_the_embedding_model() {
    let world = World::new().await;
    let gateways = world.start();
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    let no_agent = AgentHandle::new(None);
    let described = || -> Vec<String> { panic!("texts were built for too many tools") };
    let many = IndexVectors::of(MAX_TEXTS);
    let near = gateway
        .search()
        .similarities(&[WORD], &many, described, &RequestContext::detached(&no_agent))
        .await;
    assert_eq!((near, world.asked()), (None, vec![]));
    gateways.shut_down().await;
}

// invariant: search-without-model
#[tokio::test]
async fn search_falls_back_and_backs_off_when_the_embedding_model_fails() {
    let world = World::new().await;
    world.is_broken.store(true, Ordering::Relaxed);
    let gateways = world.start();
    assert_eq!(found(&gateways, WORD).await, [""; 0]);
    assert_eq!(found(&gateways, "water").await[0], "rain_today");
    assert_eq!(world.asked().len(), 1);

    world.is_broken.store(false, Ordering::Relaxed);
    assert_eq!(found(&gateways, WORD).await, [""; 0]);
    tokio::time::pause();
    tokio::time::advance(MIN_BACKOFF).await;
    tokio::time::resume();
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);

    world.is_broken.store(true, Ordering::Relaxed);
    assert_eq!(found(&gateways, "the rain").await[0], "rain_today");
    assert_eq!(world.asked().len(), 4);
    gateways.shut_down().await;
}

#[tokio::test]
async fn stored_vectors_of_another_length_are_discarded() {
    let world = World::new().await;
    let name = format!("{} m-1", world.endpoint.config.base_url);
    let texts = [BACKGROUND[0], "weather stars: What can be seen at night"];
    let other = texts.map(|text| (text_key(text), Arc::new(QuantizedVector::of(&[1.0, 2.0, 3.0]))));
    world.store().keep_vectors(&name, &other.into()).unwrap();
    let gateways = world.start();
    assert_eq!(found(&gateways, WORD).await, [""; 0]);
    tokio::time::pause();
    tokio::time::advance(MIN_BACKOFF).await;
    tokio::time::resume();
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);
    gateways.shut_down().await;
}
