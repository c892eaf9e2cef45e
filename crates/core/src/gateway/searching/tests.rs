use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{Era, PoolOptions, Reach, Record, Store, Whose};
use crate::catalog::{Definition, Listing, ToolDefinition};
use crate::config;
use crate::gateway::{Caller, Gateways, Presence};
use crate::name::{ExposedName, ToolId};
use crate::settings::Protocol;

/// A toolbox with one server, which has these tools.
fn toolbox(name: &str, source: usize, about: &str, tools: &[(&str, &str)]) -> Shelved {
    toolbox_of("srv", name, source, about, tools)
}

/// Makes a toolbox whose server is called so.
fn toolbox_of(
    server: &str,
    name: &str,
    source: usize,
    about: &str,
    tools: &[(&str, &str)],
) -> Shelved {
    let server = ServerName::new(server);
    let tools = tools.iter().map(|(tool, description)| {
        let id = ToolId {
            toolbox: ToolboxName::new(name),
            server: server.clone(),
            tool: (*tool).to_owned(),
        };
        let raw = json!({"name": tool, "description": description, "inputSchema": {}});
        let definition = ToolDefinition::parse(Raw::encode(&raw)).unwrap();
        let name = ExposedName::registered(&id, 48);
        ViewTool::new(name, id, Arc::new(definition))
    });
    let server_ref = ServerRef { toolbox: ToolboxName::new(name), server: server.clone() };
    let view = View::new(vec![Arc::new(Part::of_tools(server_ref, tools.collect()))]);
    Shelved {
        about: HashMap::from_iter([(server.clone(), about.to_owned())]),
        sources: HashMap::from_iter([(server, BackendId::numbered(source))]),
        view: Arc::new(view),
    }
}

fn found(index: &Indexed, query: &str, toolbox: Option<&str>) -> Vec<String> {
    let toolbox = toolbox.map(ToolboxName::new);
    let sought =
        Sought { query, toolbox: toolbox.as_ref(), server: None, finds: Finds::WhatFits, limit: 9 };
    index.ask(&sought, None).iter().map(|found| found.tool().id.to_string()).collect()
}

#[test]
fn one_tool_in_several_toolboxes_is_found_once_where_it_is_wanted() {
    let mail = [("send", "Sends mail")];
    let index = Indexed::new(vec![
        toolbox("work", 1, "At work", &mail),
        toolbox("home", 1, "At home", &mail),
        toolbox("other", 2, "Elsewhere", &mail),
    ]);
    let mut everywhere = found(&index, "send mail", None);
    everywhere.sort();
    assert_eq!(everywhere, ["other/srv/send", "work/srv/send"]);
    assert_eq!(found(&index, "send mail", Some("home")), ["home/srv/send"]);
    assert_eq!(found(&index, "home", None)[0], "work/srv/send", "what is said of either counts");
    assert_eq!(found(&index, "send mail", Some("nowhere")), [""; 0]);
}

#[test]
fn one_tool_is_found_by_all_that_its_server_is_called() {
    let mail = [("send", "Sends it")];
    let index = Indexed::new(vec![
        toolbox_of("post", "work", 1, "Letters", &mail),
        toolbox_of("pigeons", "home", 1, "Letters", &mail),
    ]);
    for query in ["post", "pigeons", "letters"] {
        assert_eq!(found(&index, query, None), ["work/post/send"], "{query}");
    }
}

#[test]
fn one_tool_described_in_two_ways_is_two() {
    let index = Indexed::new(vec![
        toolbox("work", 1, "", &[("send", "Sends mail")]),
        toolbox("home", 1, "", &[("send", "Sends letters")]),
    ]);
    assert_eq!(found(&index, "send", None).len(), 2);
}

#[test]
fn an_index_is_good_as_long_as_the_views_are_the_same() {
    let views = |toolboxes: &[Shelved]| {
        toolboxes.iter().map(|toolbox| Arc::clone(&toolbox.view)).collect::<Vec<_>>()
    };
    let toolboxes = vec![toolbox("work", 1, "", &[("send", "")]), toolbox("none", 2, "", &[])];
    let index = Indexed::new(toolboxes.clone());
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
async fn those_who_come_at_the_same_time_share_one_index_of_what_is_kept() {
    let env = BTreeMap::new();
    let config = config::parse(CONFIG, Path::new("x.json"), Path::new("/"), &env).unwrap().config;
    let folder = tempfile::TempDir::new().unwrap();
    let store = Arc::new(Store::new(folder.path()));
    let Ok(reach) = Reach::of(&config.toolboxes[0].servers[0], &Whose::only(None)) else {
        panic!("it can be started");
    };
    let tools = (0..2 * LARGE)
        .map(|n| Raw::encode(&json!({"name": format!("tool_{n}"), "inputSchema": {}})));
    let listing = Listing { tools: ToolDefinition::read_all(tools).0, ..Listing::default() };
    let listing = Arc::new(listing);
    let record = Record { server: "srv".to_owned(), era: Era::Legacy, is_old: false, listing };
    store.keep(&reach, Protocol::Auto, &record).unwrap();
    let options = PoolOptions { store: Some(store), ..PoolOptions::default() };
    let gateways = Gateways::new(Arc::new(config), options, &TaskTracker::new());
    let gateway = gateways.of(&Caller::NOBODY, None);
    gateway.recalled().await;
    let (one, other) = tokio::join!(gateway.indexed(), gateway.indexed());
    assert!(Arc::ptr_eq(&one, &other));
    let nobody = Presence::new(None);
    let sought =
        Sought { query: "tool 17", toolbox: None, server: None, finds: Finds::WhatFits, limit: 1 };
    let found = gateway.search(sought, &RequestContext::nobody(&nobody)).await;
    assert_eq!(found[0].tool().id.tool, "tool_17");
    let sought = Sought { query: "parcels in a box", limit: 3, ..sought };
    assert_eq!(gateway.search(sought, &RequestContext::nobody(&nobody)).await.len(), 3);
    assert!(gateway.failures().is_empty(), "it was not started");
    gateways.shut_down().await;
}
