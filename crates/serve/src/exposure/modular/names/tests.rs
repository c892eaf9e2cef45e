use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::catalog::{Definition, Listing, ToolDefinition};
use crate::name::{ServerName, ToolboxName};
use crate::policy::{Moment, Policy};
use crate::raw::Raw;
use crate::settings::{Config, Launch, ServerConfig, ToolOverride};
use crate::toolbox::Part;

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

/// The view of such a group when each of its servers has these tools.
fn view(toolbox: &ToolboxConfig, tools: &[&str]) -> View {
    let config = Config { toolboxes: vec![toolbox.clone()], ..Config::default() };
    let tools = tools.iter().map(|name| json!({"name": name, "inputSchema": {}}));
    let tools = tools.map(|tool| ToolDefinition::parse(Raw::encode(&tool)).unwrap().into());
    let listing = Listing { tools: tools.collect(), ..Listing::default() };
    let (listing, policy) = (Arc::new(listing), Policy::new(&config));
    let part = |server| Part::new(toolbox, server, &listing, &policy, 48, Moment::new(0));
    View::new(toolbox.servers.iter().map(part).map(Arc::new).collect())
}

fn names(toolbox: &ToolboxConfig, view: &View) -> Vec<String> {
    named(toolbox, view).into_iter().map(|tool| tool.name).collect()
}

/// The server and the tool that a call means.
fn meant(toolbox: &ToolboxConfig, view: &View, wanted: &str) -> Result<String, Vec<String>> {
    resolve(toolbox, view, wanted).map(|tool| format!("{}/{}", tool.id.server, tool.id.tool))
}

#[test]
fn a_category_has_its_tools_as_they_were_written_and_in_that_order() {
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
    assert_eq!(missing(&fs.servers[0], &view), ["gone"], "what is switched off is not spoken of");
    let file = Ok("serena/read_file".to_owned());
    for name in ["read_file", "mcp__serena__read_file", "serena__read_file", "serena:read_file"] {
        assert_eq!(meant(&fs, &view, name), file, "{name}");
    }
    assert_eq!(meant(&fs, &view, "list_dir"), Ok("serena/list_dir".to_owned()));
    let all = vec!["mcp__serena__list_dir".to_owned(), "read_file".to_owned()];
    assert_eq!(meant(&fs, &view, "delete"), Err(all), "it is not in the category");
    let near = vec!["mcp__serena__list_dir".to_owned()];
    assert_eq!(meant(&fs, &view, "mcp__serena__lst_dir"), Err(near));
}

#[test]
fn a_tool_that_is_called_just_so_goes_before_one_without_the_server() {
    let fs = group(vec![server("s", Some(&["mcp__s__a"]))]);
    let view = view(&fs, &["a", "mcp__s__a"]);
    assert_eq!(meant(&fs, &view, "mcp__s__a"), Ok("s/mcp__s__a".to_owned()));
    assert!(meant(&fs, &view, "a").is_err(), "it is not in the category");
}

#[test]
fn what_two_servers_of_a_group_have_alike_is_told_apart() {
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
fn a_tool_with_another_name_is_known_by_that() {
    let mut serena = server("serena", Some(&["mcp__serena__read_file"]));
    let name = Some("read".to_owned());
    serena
        .overrides
        .insert("read_file".to_owned(), ToolOverride { name, ..ToolOverride::default() });
    let fs = group(vec![serena]);
    let view = view(&fs, &["read_file"]);
    assert_eq!(names(&fs, &view), ["read"]);
    assert_eq!(meant(&fs, &view, "mcp__serena__read"), Ok("serena/read".to_owned()));
    assert!(meant(&fs, &view, "read_file").is_err(), "that is its name no more");
    assert_eq!(missing(&fs.servers[0], &view), [""; 0]);
}

#[test]
fn a_server_has_no_name_that_begins_with_another_one_of_its_group() {
    let fs = group(vec![server("evil", None), server("bank", None)]);
    let claims = ["bank__pay", "bank:pay", "mcp__bank__pay", "evil__pay", "a__b"];
    let view = view(&fs, &claims);
    let evils = View::new(view.parts()[..1].to_vec());
    let shown = ["evil__bank__pay", "evil__bank:pay", "evil__mcp__bank__pay", "evil__pay", "a__b"];
    assert_eq!(names(&fs, &evils), shown);
    for (shown, own) in shown.iter().zip(claims) {
        assert_eq!(meant(&fs, &evils, shown), Ok(format!("evil/{own}")));
    }
    for claimed in &claims[..3] {
        assert!(meant(&fs, &evils, claimed).is_err(), "{claimed}, while the bank is not there");
    }
}
