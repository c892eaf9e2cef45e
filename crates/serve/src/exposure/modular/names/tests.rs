use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use mcp_workbench_core::catalog::{Definition, Listing, ToolDefinition};
use mcp_workbench_core::policy::{Policy, UnixTime};
use mcp_workbench_core::toolbox::ServerView;
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::{Config, Launch, ServerConfig, ToolOverride};
use mcp_workbench_wire::json::RawJson;

fn server(name: &str, include: Option<&[&str]>) -> ServerConfig {
    let launch = Launch::Unsupported { reason: String::new(), hint: String::new() };
    ServerConfig {
        include: include.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        ..ServerConfig::new(ServerName::new(name), launch)
    }
}

fn group(servers: Vec<ServerConfig>) -> ToolboxConfig {
    ToolboxConfig {
        name: ToolboxName::new("fs"),
        description: String::new(),
        namespace: "fs".to_owned(),
        servers,
    }
}

fn view(toolbox: &ToolboxConfig, tools: &[&str]) -> ToolboxView {
    let config = Config { toolboxes: vec![toolbox.clone()], ..Config::default() };
    let tools = tools.iter().map(|name| json!({"name": name, "inputSchema": {}}));
    let tools = tools.map(|tool| ToolDefinition::parse(RawJson::encode(&tool)).unwrap().into());
    let listing = Listing { tools: tools.collect(), ..Listing::default() };
    let (listing, policy) = (Arc::new(listing), Policy::new(&config));
    let part = |server| ServerView::new(toolbox, server, &listing, &policy, 48, UnixTime::new(0));
    ToolboxView::new(toolbox.servers.iter().map(part).map(Arc::new).collect())
}

fn names(toolbox: &ToolboxConfig, view: &ToolboxView) -> Vec<String> {
    named(toolbox, view).into_iter().map(|tool| tool.name).collect()
}

fn meant(toolbox: &ToolboxConfig, view: &ToolboxView, wanted: &str) -> Result<String, Vec<String>> {
    resolve(toolbox, view, wanted).map(|tool| format!("{}/{}", tool.id.server, tool.id.tool))
}

#[test]
fn a_category_keeps_the_written_names_and_their_order() {
    let include = ["mcp__serena__list_dir", "read_file", "mcp__serena__read_file", "gone"];
    let mut serena = server("serena", Some(&include));
    serena.overrides.insert(
        "list_memories".to_owned(),
        ToolOverride { enabled: Some(false), ..ToolOverride::default() },
    );
    serena.include.as_mut().unwrap().push("mcp__serena__list_memories".to_owned());
    let fs = group(vec![serena]);
    let view = view(&fs, &["read_file", "list_dir", "delete"]);
    assert_eq!(names(&fs, &view), ["mcp__serena__list_dir", "read_file"]);
    assert_eq!(
        missing(&fs.servers[0], &view),
        ["gone"],
        "disabled tools are not reported as \
                                                          missing"
    );
    let file = Ok("serena/read_file".to_owned());
    for name in ["read_file", "mcp__serena__read_file", "serena__read_file", "serena:read_file"] {
        assert_eq!(meant(&fs, &view, name), file, "{name}");
    }
    assert_eq!(meant(&fs, &view, "list_dir"), Ok("serena/list_dir".to_owned()));
    let all = vec!["mcp__serena__list_dir".to_owned(), "read_file".to_owned()];
    assert_eq!(meant(&fs, &view, "delete"), Err(all), "not in the category");
    let near = vec!["mcp__serena__list_dir".to_owned()];
    assert_eq!(meant(&fs, &view, "mcp__serena__lst_dir"), Err(near));
}

#[test]
fn an_exact_name_wins_over_a_stripped_prefix() {
    let fs = group(vec![server("s", Some(&["mcp__s__a"]))]);
    let view = view(&fs, &["a", "mcp__s__a"]);
    assert_eq!(meant(&fs, &view, "mcp__s__a"), Ok("s/mcp__s__a".to_owned()));
    assert!(meant(&fs, &view, "a").is_err(), "not in the category");
}

#[test]
fn clashing_names_are_prefixed_with_the_server() {
    let both = group(vec![server("one", None), server("two", None)]);
    let view = view(&both, &["search"]);
    assert_eq!(names(&both, &view), ["one__search", "two__search"]);
    assert_eq!(meant(&both, &view, "two__search"), Ok("two/search".to_owned()));
    assert_eq!(meant(&both, &view, "mcp__two__search"), Ok("two/search".to_owned()));
    assert_eq!(
        meant(&both, &view, "search"),
        Err(vec!["one__search".to_owned(), "two__search".to_owned()])
    );
}

#[test]
fn a_renamed_tool_goes_by_its_new_name() {
    let mut serena = server("serena", Some(&["mcp__serena__read_file"]));
    let name = Some("read".to_owned());
    serena
        .overrides
        .insert("read_file".to_owned(), ToolOverride { name, ..ToolOverride::default() });
    let fs = group(vec![serena]);
    let view = view(&fs, &["read_file"]);
    assert_eq!(names(&fs, &view), ["read"]);
    assert_eq!(meant(&fs, &view, "mcp__serena__read"), Ok("serena/read".to_owned()));
    assert!(meant(&fs, &view, "read_file").is_err(), "the old name is gone");
    assert_eq!(missing(&fs.servers[0], &view), [""; 0]);
}

#[test]
fn a_server_cannot_claim_the_prefix_of_another() {
    let fs = group(vec![server("evil", None), server("bank", None)]);
    let claims = ["bank__pay", "bank:pay", "mcp__bank__pay", "evil__pay", "a__b"];
    let view = view(&fs, &claims);
    let evils = ToolboxView::new(view.parts()[..1].to_vec());
    let shown = ["evil__bank__pay", "evil__bank:pay", "evil__mcp__bank__pay", "evil__pay", "a__b"];
    assert_eq!(names(&fs, &evils), shown);
    for (shown, own) in shown.iter().zip(claims) {
        assert_eq!(meant(&fs, &evils, shown), Ok(format!("evil/{own}")));
    }
    for claimed in &claims[..3] {
        assert!(
            meant(&fs, &evils, claimed).is_err(),
            "{claimed}, while the other server is \
                                                       missing"
        );
    }
}
