use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{Era, Event, PoolOptions, Presence, Reach, Record, Store, Whose, events};
use crate::catalog::rank::Finds;
use crate::catalog::{Definition, Listing, ToolDefinition};
use crate::config;
use crate::gateway::{Caller, Found, Gateways, RequestContext, Sought};
use crate::llm::scripted::{Reply, Scripted, answer};
use crate::raw::Raw;
use crate::settings::{Config, Protocol};

/// A word that neither the tools nor the table have, and the model does.
const WORD: &str = "зонтик";

/// A server that has been listed before, an endpoint, and a folder for what is kept.
struct World {
    endpoint: Scripted,
    is_broken: Arc<AtomicBool>,
    cache: TempDir,
    config: Arc<Config>,
}

/// The model: what has to do with rain points one way, and all else nowhere.
fn model(body: &Value) -> Reply {
    let texts = body["input"].as_array().unwrap();
    let is_wet = |text: &Value| {
        let text = text.as_str().unwrap();
        text.contains(WORD) || text.contains("rain_today")
    };
    let vector = |text: &Value| if is_wet(text) { [1.0, 0.0] } else { [0.0, 0.0] };
    let data = texts.iter().map(|text| json!({ "embedding": vector(text) }));
    answer(200, "", &json!({ "data": data.collect::<Vec<_>>() }).to_string())
}

impl World {
    async fn new() -> Self {
        let is_broken = Arc::new(AtomicBool::new(false));
        let broken = Arc::clone(&is_broken);
        let endpoint = Scripted::start(move |_, body| {
            if broken.load(Ordering::Relaxed) { answer(500, "", "") } else { model(body) }
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
        let loaded = config::parse(&text.to_string(), Path::new("x.json"), folder, &env).unwrap();
        let world = Self {
            endpoint,
            is_broken,
            cache: TempDir::new().unwrap(),
            config: Arc::new(loaded.config),
        };
        let tool = |name: &str, description: &str| {
            let tool = json!({"name": name, "description": description, "inputSchema": {}});
            Raw::encode(&tool)
        };
        let (tools, _) = ToolDefinition::read_all([
            tool("rain_today", "Whether water falls"),
            tool("stars", "What can be seen at night"),
            tool("secret_rain_today", "Nobody may know"),
        ]);
        let record = Record {
            server: "weather".to_owned(),
            era: Era::Legacy,
            is_old: false,
            listing: Arc::new(Listing { tools, ..Listing::default() }),
        };
        let Ok(reach) = Reach::of(&world.config.toolboxes[0].servers[0], &Whose::only(None)) else {
            panic!("it can be started");
        };
        world.store().keep(&reach, Protocol::Auto, &record).unwrap();
        world
    }

    fn store(&self) -> Store {
        Store::new(self.cache.path())
    }

    /// The program, as it begins.
    fn start(&self) -> Gateways {
        let store = Some(Arc::new(self.store()));
        let options = PoolOptions { store, ..PoolOptions::default() };
        Gateways::new(Arc::clone(&self.config), options, &TaskTracker::new())
    }

    /// How many texts each request had.
    fn asked(&self) -> Vec<usize> {
        let asked = self.endpoint.asked();
        asked.iter().map(|(_, body)| body["input"].as_array().unwrap().len()).collect()
    }
}

async fn found(gateways: &Gateways, query: &str) -> Vec<String> {
    let gateway = gateways.of(&Caller::NOBODY, None);
    let sought = Sought { query, toolbox: None, server: None, finds: Finds::WhatFits, limit: 5 };
    let found = gateway.search(sought, &RequestContext::nobody(&Presence::new(None))).await;
    found.iter().map(|found| found.tool().own.name.clone()).collect()
}

#[tokio::test]
async fn tools_are_found_by_what_a_model_says_they_mean() {
    let world = World::new().await;
    let gateways = world.start();
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);
    let tools = BACKGROUND.len() + 2;
    assert_eq!(world.asked(), [tools, 1]);
    // The same again is known, and words count beside it.
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);
    assert_eq!(found(&gateways, "seen at night").await, ["stars"]);
    assert_eq!(world.asked(), [tools, 1, 1]);
    // What the agent may not see is nobody else's either.
    let sent = format!("{:?}", world.endpoint.asked());
    assert!(sent.contains("Whether water falls") && !sent.contains("Nobody"), "{sent}");
    gateways.shut_down().await;

    // Another run knows what this one has asked for.
    let gateways = world.start();
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);
    assert_eq!(world.asked(), [tools, 1, 1, 1]);
    gateways.shut_down().await;
}

/// Returns the names of the tools that are found for several queries at once.
async fn all_found(
    gateways: &Gateways,
    queries: &[&str],
    context: &RequestContext<'_>,
) -> Vec<Vec<String>> {
    let gateway = gateways.of(&Caller::NOBODY, None);
    let sought = queries.iter().map(|query| Sought {
        query,
        toolbox: None,
        server: None,
        finds: Finds::WhatFits,
        limit: 5,
    });
    let found = gateway.find_tools(&sought.collect::<Vec<_>>(), context).await;
    let names = |found: &Found| found.tool().own.name.clone();
    found.iter().map(|found| found.iter().map(names).collect()).collect()
}

#[tokio::test]
async fn all_queries_of_a_search_are_asked_for_at_once_and_count_by_one_scale() {
    let world = World::new().await;
    let gateways = world.start();
    let nobody = Presence::new(None);
    let context = RequestContext::nobody(&nobody);
    let queries = [WORD, "", "seen at night", WORD];
    let expected = [vec!["rain_today"], vec![], vec!["stars"], vec!["rain_today"]];
    assert_eq!(all_found(&gateways, &queries, &context).await, expected);
    let tools = BACKGROUND.len() + 2;
    assert_eq!(world.asked(), [tools, 2]);

    // One of these is known, and still it is the table for both.
    world.is_broken.store(true, Ordering::Relaxed);
    let found = all_found(&gateways, &[WORD, "the water"], &context).await;
    assert_eq!(found, [vec![], vec!["rain_today"]]);
    assert_eq!(world.asked(), [tools, 2, 1]);
    gateways.shut_down().await;
}

#[tokio::test]
async fn who_waits_for_the_model_is_told_so_and_not_for_longer_than_for_one_query() {
    let world = World::new().await;
    let gateways = world.start();
    let gateway = gateways.of(&Caller::NOBODY, None);
    gateway.recalled().await;
    let turn = gateway.embedding.as_ref().unwrap().turn.lock().await;
    let (sender, mut told) = events::channel(8);
    let nobody = Presence::new(None);
    let context = RequestContext {
        events: Some(&sender),
        wants_progress: true,
        ..RequestContext::nobody(&nobody)
    };
    tokio::time::pause();
    let since = Instant::now();
    let found = all_found(&gateways, &[WORD, "water", "stars"], &context).await;
    assert_eq!(found, [vec![], vec!["rain_today"], vec!["stars"]]);
    assert!(since.elapsed() < PATIENCE + QUERY_PATIENCE, "{:?}", since.elapsed());
    let Some(Event::Progress(params)) = told.try_recv() else { panic!("nothing was said") };
    assert!(params.as_str().contains("waiting for the model `m-1`"), "{}", params.as_str());
    drop(turn);
    tokio::time::resume();
    assert_eq!(world.asked(), [0; 0]);
    gateways.shut_down().await;
}

#[tokio::test]
async fn too_many_tools_are_not_even_described() {
    let world = World::new().await;
    let gateways = world.start();
    let gateway = gateways.of(&Caller::NOBODY, None);
    let nobody = Presence::new(None);
    let described = || -> Vec<String> { panic!("it is described") };
    let many = Pointing::of(MAX_TEXTS);
    let near = gateway.nearness(&[WORD], &many, described, &RequestContext::nobody(&nobody)).await;
    assert_eq!((near, world.asked()), (None, vec![]));
    gateways.shut_down().await;
}

#[tokio::test]
async fn without_its_model_search_goes_on_and_the_model_is_left_alone_for_a_while() {
    let world = World::new().await;
    world.is_broken.store(true, Ordering::Relaxed);
    let gateways = world.start();
    assert_eq!(found(&gateways, WORD).await, [""; 0]);
    assert_eq!(found(&gateways, "water").await[0], "rain_today");
    assert_eq!(world.asked().len(), 1);

    world.is_broken.store(false, Ordering::Relaxed);
    assert_eq!(found(&gateways, WORD).await, [""; 0]);
    tokio::time::pause();
    tokio::time::advance(REST).await;
    tokio::time::resume();
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);

    // A query that fails costs itself alone.
    world.is_broken.store(true, Ordering::Relaxed);
    assert_eq!(found(&gateways, "the rain").await[0], "rain_today");
    assert_eq!(world.asked().len(), 4);
    gateways.shut_down().await;
}

#[tokio::test]
async fn what_is_kept_of_another_model_of_the_same_name_is_asked_for_again() {
    let world = World::new().await;
    let name = format!("{} m-1", world.endpoint.config.base_url);
    let texts = [BACKGROUND[0], "weather stars: What can be seen at night"];
    let other = texts.map(|text| (text_key(text), Arc::new(Vector::of(&[1.0, 2.0, 3.0]))));
    world.store().keep_vectors(&name, &other.into()).unwrap();
    let gateways = world.start();
    assert_eq!(found(&gateways, WORD).await, [""; 0]);
    tokio::time::pause();
    tokio::time::advance(REST).await;
    tokio::time::resume();
    assert_eq!(found(&gateways, WORD).await, ["rain_today"]);
    gateways.shut_down().await;
}
