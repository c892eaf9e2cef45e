use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{
    BackendId, Era, ListingRecord, ListingStore, LoginScope, PoolOptions, ServerTransport,
};
use crate::catalog::rank::ScoreCutoff;
use crate::catalog::{Definition, Listing, ToolDefinition};
use crate::gateway::{AgentHandle, Caller, GatewayRegistry};
use crate::toolbox::{ExposedTool, ServerView};
use mcp_workbench_names::{ExposedName, ToolId};
use mcp_workbench_settings::Protocol;
use mcp_workbench_wire::json::RawJson;

fn toolbox(name: &str, source: usize, about: &str, tools: &[(&str, &str)]) -> SearchableToolbox {
    toolbox_of("srv", name, source, about, tools)
}

fn toolbox_of(
    server: &str,
    name: &str,
    source: usize,
    about: &str,
    tools: &[(&str, &str)],
) -> SearchableToolbox {
    let server = ServerName::new(server);
    let tools = tools.iter().map(|(tool, description)| {
        let id = ToolId {
            toolbox: ToolboxName::new(name),
            server: server.clone(),
            tool: (*tool).to_owned(),
        };
        let raw = json!({"name": tool, "description": description, "inputSchema": {}});
        let definition = ToolDefinition::parse(RawJson::encode(&raw)).unwrap();
        let name = ExposedName::registered(&id, 48);
        ExposedTool::new(name, id, Arc::new(definition))
    });
    let server_ref = ServerRef { toolbox: ToolboxName::new(name), server: server.clone() };
    let view = ToolboxView::new(vec![Arc::new(ServerView::of_tools(server_ref, tools.collect()))]);
    SearchableToolbox {
        about: HashMap::from_iter([(server.clone(), about.to_owned())]),
        sources: HashMap::from_iter([(server, BackendId::numbered(source))]),
        view: Arc::new(view),
    }
}

fn found(index: &ToolIndex, query: &str, toolbox: Option<&str>) -> Vec<String> {
    let toolbox = toolbox.map(ToolboxName::new);
    let sought = ToolQuery {
        query,
        toolbox: toolbox.as_ref(),
        server: None,
        finds: ScoreCutoff::Relevant,
        limit: 9,
    };
    index.ask(&sought, None).iter().map(|found| found.tool().id.to_string()).collect()
}

#[test]
fn tool_in_several_toolboxes_is_found_once() {
    let mail = [("send", "Sends mail")];
    let index = ToolIndex::new(vec![
        toolbox("work", 1, "At work", &mail),
        toolbox("home", 1, "At home", &mail),
        toolbox("other", 2, "Elsewhere", &mail),
    ]);
    let mut everywhere = found(&index, "send mail", None);
    everywhere.sort();
    assert_eq!(everywhere, ["other/srv/send", "work/srv/send"]);
    assert_eq!(found(&index, "send mail", Some("home")), ["home/srv/send"]);
    assert_eq!(found(&index, "home", None)[0], "work/srv/send", "both descriptions count");
    assert_eq!(found(&index, "send mail", Some("nowhere")), [""; 0]);
}

#[test]
fn tool_is_found_by_every_name_of_its_server() {
    let mail = [("send", "Sends it")];
    let index = ToolIndex::new(vec![
        toolbox_of("post", "work", 1, "Letters", &mail),
        toolbox_of("pigeons", "home", 1, "Letters", &mail),
    ]);
    for query in ["post", "pigeons", "letters"] {
        assert_eq!(found(&index, query, None), ["work/post/send"], "{query}");
    }
}

#[test]
fn differing_definitions_are_separate_tools() {
    let index = ToolIndex::new(vec![
        toolbox("work", 1, "", &[("send", "Sends mail")]),
        toolbox("home", 1, "", &[("send", "Sends letters")]),
    ]);
    assert_eq!(found(&index, "send", None).len(), 2);
}

// invariant: views-built-once
#[test]
fn index_is_valid_while_its_views_are_unchanged() {
    let views = |toolboxes: &[SearchableToolbox]| {
        toolboxes.iter().map(|toolbox| Arc::clone(&toolbox.view)).collect::<Vec<_>>()
    };
    let toolboxes = vec![toolbox("work", 1, "", &[("send", "")]), toolbox("none", 2, "", &[])];
    let index = ToolIndex::new(toolboxes.clone());
    assert!(index.is_of(&views(&toolboxes)));
    let nothing_again = [toolboxes[0].clone(), toolbox("none", 2, "", &[])];
    assert!(index.is_of(&views(&nothing_again)));
    let listed_again = [toolbox("work", 1, "", &[("send", "")]), toolboxes[1].clone()];
    assert!(!index.is_of(&views(&listed_again)));
    assert!(!index.is_of(&views(&toolboxes[..1])));
}

const CONFIG: &str = r#"{"toolboxes": {"box": {"description": "Boxes", "mcpServers": {
    "srv": {"command": "/no/such/program", "description": "Parcels"}
}}}}"#;

#[tokio::test]
async fn concurrent_searches_share_one_index() {
    let env = BTreeMap::new();
    let config = mcp_workbench_config::parse(CONFIG, Path::new("x.json"), Path::new("/"), &env)
        .unwrap()
        .config;
    let folder = tempfile::TempDir::new().unwrap();
    let store = Arc::new(ListingStore::new(folder.path()));
    let Ok(reach) =
        ServerTransport::from_config(&config.toolboxes[0].servers[0], &LoginScope::only(None))
    else {
        panic!("invalid launch");
    };
    let tools = (0..2 * LARGE)
        .map(|n| RawJson::encode(&json!({"name": format!("tool_{n}"), "inputSchema": {}})));
    let listing = Listing { tools: ToolDefinition::read_all(tools).0, ..Listing::default() };
    let listing = Arc::new(listing);
    let record =
        ListingRecord { server: "srv".to_owned(), era: Era::Legacy, is_old: false, listing };
    store.save(&reach, Protocol::Auto, &record).unwrap();
    let options = PoolOptions { store: Some(store), ..PoolOptions::default() };
    let gateways = GatewayRegistry::new(Arc::new(config), options, &TaskTracker::new());
    let gateway = gateways.gateway_for(&Caller::ANONYMOUS, None);
    gateway.views().wait_for_stored_listings().await;
    let (one, other) = tokio::join!(gateway.search().tool_index(), gateway.search().tool_index());
    assert!(Arc::ptr_eq(&one, &other));
    let no_agent = AgentHandle::new(None);
    let sought = ToolQuery {
        query: "tool 17",
        toolbox: None,
        server: None,
        finds: ScoreCutoff::Relevant,
        limit: 1,
    };
    let found = gateway.search().find(sought, &RequestContext::detached(&no_agent)).await;
    assert_eq!(found[0].tool().id.tool, "tool_17");
    let sought = ToolQuery { query: "parcels in a box", limit: 3, ..sought };
    assert_eq!(gateway.search().find(sought, &RequestContext::detached(&no_agent)).await.len(), 3);
    assert!(gateway.servers().failed_servers().is_empty(), "the server was not started");
    gateways.shut_down().await;
}
