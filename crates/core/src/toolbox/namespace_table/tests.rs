use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::catalog::{Definition, Listing, Prompt, Resource, ResourceTemplate, ToolDefinition};
use crate::policy::{Policy, UnixTime};

/// One toolbox per namespace, each with a server that has the same listing.
fn namespaced(namespaces: &[&str], active: &[&str], limit: usize) -> NamespaceTable {
    let toolboxes: serde_json::Map<_, _> = namespaces
        .iter()
        .enumerate()
        .map(|(index, namespace)| {
            let toolbox = json!({
                "description": "x",
                "namespace": namespace,
                "mcpServers": {"srv": {"command": "x"}},
            });
            (format!("box{index}"), toolbox)
        })
        .collect();
    let text = json!({"toolboxes": toolboxes, "activeToolsets": active}).to_string();
    let root = std::path::Path::new("/");
    let mut config =
        mcp_workbench_config::parse(&text, root, root, &std::collections::BTreeMap::new())
            .unwrap()
            .config;
    config.max_tool_name_length = limit;
    let tools = ["list_projects", "get_task", "with spaces"].map(|name| {
        RawJson::encode(
            &json!({"name": name, "inputSchema": {"type": "object"}, "description": name}),
        )
    });
    let resource = json!({"uri": "projects://all", "name": "All"});
    let web = json!({"uri": "https://example.com/page", "name": "Page"});
    let template = json!({"uriTemplate": "projects://{id}/tasks", "name": "Tasks"});
    let prompt = json!({"name": "summarize"});
    let listing = Listing {
        tools: ToolDefinition::read_all(tools).0,
        resources: Resource::read_all([resource, web].iter().map(RawJson::encode)).0,
        templates: ResourceTemplate::read_all([RawJson::encode(&template)]).0,
        prompts: Prompt::read_all([RawJson::encode(&prompt)]).0,
        ..Listing::default()
    };
    let (listing, policy) = (Arc::new(listing), Policy::new(&config));
    let views: HashMap<_, _> = config
        .toolboxes
        .iter()
        .map(|toolbox| {
            let part = |server| {
                Arc::new(ServerView::new(
                    toolbox,
                    server,
                    &listing,
                    &policy,
                    limit,
                    UnixTime::new(0),
                ))
            };
            let view = ToolboxView::new(toolbox.servers.iter().map(part).collect());
            (toolbox.name.clone(), Arc::new(view))
        })
        .collect();
    NamespaceTable::new(&config, |toolbox| Arc::clone(&views[toolbox]))
}

fn active(all: &NamespaceTable) -> Vec<&str> {
    all.items.iter().filter(|item| item.starts_active).map(|item| item.name.as_str()).collect()
}

#[test]
fn names_consist_of_namespace_and_own_name() {
    let all = namespaced(&["pjpd"], &[], 48);
    let names: Vec<_> = all.items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names[..2], ["pjpd_list_projects", "pjpd_get_task"]);
    assert!(names[2].starts_with("pjpd_with_spaces_"), "no client takes it as it is: {}", names[2]);
    let rest = ["pjpd+projects://all", "pjpd+https://example.com/page"];
    assert_eq!(names[3..5], rest);
    assert_eq!(names[5..], ["pjpd+projects://{id}/tasks", "pjpd_summarize"]);
    let definition = all.get(PrimitiveKind::Resource, "pjpd+projects://all").unwrap().definition();
    assert_eq!(definition.unwrap().as_str(), r#"{"uri":"pjpd+projects://all","name":"All"}"#);
}

#[test]
fn documented_names_of_any_length_are_accepted() {
    let all = namespaced(&["a_long_namespace"], &["a_long_namespace_get_*"], 20);
    let tool = all.get(PrimitiveKind::Tool, "a_long_namespace_get_task").unwrap();
    assert_eq!((tool.name.len(), tool.own.as_str(), tool.starts_active), (20, "get_task", true));
    assert!(all.get(PrimitiveKind::Tool, &tool.name).is_some());
    assert!(all.get(PrimitiveKind::Resource, "a_long_namespace_projects://all").is_some());
    assert!(all.get(PrimitiveKind::Tool, "a_long_namespace_with spaces").is_some());
}

#[test]
fn ambiguous_documented_name_is_not_accepted() {
    let all = namespaced(&["a", "a"], &[], 48);
    assert!(all.get(PrimitiveKind::Tool, "a_with spaces").is_none());
    assert_eq!(all.items.iter().filter(|item| item.documented_name == "a_with spaces").count(), 2);
}

#[test]
fn unmatched_patterns_are_reported_once_servers_are_listed() {
    let all = namespaced(&["notes", "clock"], &[], 48);
    let patterns = ["notes_get*", "!notes_gone", "note_*", "clokc_*", "notes_projects://*", "*"];
    let patterns = patterns.map(str::to_owned);
    assert_eq!(all.unmatched(&patterns, |_| true), ["!notes_gone", "note_*", "clokc_*"]);
    let is_listed = |at: &ServerRef| at.toolbox.as_str() != "box0";
    assert_eq!(all.unmatched(&patterns, is_listed), ["note_*", "clokc_*"]);
}

#[test]
fn negated_patterns_exclude_from_initial_activation() {
    let limit = 20;
    let all = namespaced(&["a_long_namespace"], &["*", "!a_long_namespace_get_task"], limit);
    let tool = all.get(PrimitiveKind::Tool, "a_long_namespace_get_task").unwrap();
    assert!(!tool.starts_active, "even if `*` matches the name");
    let all = namespaced(&["a"], &["!a_get_task"], limit);
    assert_eq!(active(&all), ["a_summarize"]);
}

#[test]
fn empty_namespace_leaves_names_unchanged() {
    let all = namespaced(&[""], &[], 48);
    let tool = all.get(PrimitiveKind::Tool, "get_task").unwrap();
    assert_eq!(
        tool.definition().unwrap().as_str(),
        r#"{"name":"get_task","inputSchema":{"type":"object"},"description":"get_task"}"#
    );
    assert_eq!(all.exposed_uri(&tool.at, "projects://all"), "projects://all");
}

#[test]
fn overlong_names_end_in_a_hash() {
    let all = namespaced(&["pjpd"], &[], 16);
    let names: Vec<_> =
        all.items.iter().filter(|i| i.kind == PrimitiveKind::Tool).map(|i| &i.name).collect();
    assert!(names.iter().all(|name| name.len() <= 16), "{names:?}");
    assert_eq!(names[1], "pjpd_get_task");
}

#[test]
fn first_of_two_equal_names_wins() {
    let all = namespaced(&["a", "a"], &[], 48);
    assert_eq!(all.get(PrimitiveKind::Tool, "a_get_task").unwrap().at.toolbox.as_str(), "box0");
    // The tool without a legal name is exempt: its registered name is unique.
    assert_eq!(all.discarded.len(), 6);
    assert_eq!(
        all.discarded[0].to_string(),
        "tool `a_list_projects` of server `srv` in `box1` is hidden: server `srv` in `box0` comes \
         first and uses the same name"
    );
}

#[test]
fn globs_select_active_primitives_and_prompts_are_always_active() {
    assert_eq!(active(&namespaced(&["a", "b"], &[], 48)), ["a_summarize", "b_summarize"]);
    let some = namespaced(&["a", "b"], &["a_get*", "b_projects://*"], 48);
    assert_eq!(
        active(&some),
        ["a_get_task", "a_summarize", "b+projects://all", "b+projects://{id}/tasks", "b_summarize"]
    );
    assert_eq!(active(&namespaced(&["a"], &["a*"], 48)).len(), 7);
    assert_eq!(active(&namespaced(&["a"], &["get_task"], 48)), ["a_summarize"]);
}

#[test]
fn uris_resolve_to_their_servers() {
    let all = namespaced(&["a", "b"], &[], 48);
    let lead = |uri: &str| {
        let targets = all.resolve_uri(uri).into_iter();
        targets
            .map(|(at, own, item)| (at.toolbox.to_string(), own, item.is_some()))
            .collect::<Vec<_>>()
    };
    for all in ["b+projects://all", "b_projects://all"] {
        assert_eq!(lead(all), [("box1".to_owned(), "projects://all".to_owned(), true)]);
    }
    for made in ["a+projects://7/tasks", "a_projects://7/tasks"] {
        assert_eq!(lead(made), [("box0".to_owned(), "projects://7/tasks".to_owned(), true)]);
    }
    for other in ["a+other://1", "a_other://1"] {
        assert_eq!(lead(other), [("box0".to_owned(), "other://1".to_owned(), false)]);
    }
    let both = |uri: &str, is_listed: bool| {
        ["box0", "box1"].map(|toolbox| (toolbox.to_owned(), uri.to_owned(), is_listed))
    };
    assert_eq!(
        lead("projects://all"),
        both("projects://all", true),
        "the URI form used in results"
    );
    assert_eq!(lead("projects://7/tasks"), both("projects://7/tasks", true));
    assert_eq!(lead("told://in/a/result"), both("told://in/a/result", false));
    let at = &all.items[0].at;
    assert_eq!(all.exposed_uri(at, "projects://7/tasks"), "a+projects://7/tasks");
}
