//! For any names that servers list: each shown name resolves to the server it is shown for, and
//! each qualified name to its own server or to nothing.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalog::{Definition, Listing, Prompt, Resource, ResourceTemplate, ToolDefinition};
use crate::policy::{Policy, UnixTime};
use crate::toolbox::PrimitiveKind;
use mcp_workbench_names::{untrusted_text, uri_prefix};

type Toolbox<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Configurations with confusable names.
const WORLDS: [&[Toolbox<'_>]; 4] = [
    &[("box", "box", &["evil", "bank"]), ("bank", "bank", &["bank"])],
    &[("git", "git", &["evil", "a:b", "a"]), ("git_hub", "git_hub", &["bank"])],
    &[
        ("box", "", &["evil", "evil__x", "my bank"]),
        ("box__evil", "a_b", &["x"]),
        ("c", "a-b", &["y"]),
    ],
    &[("a_very_long_toolbox", "", &["evil_server", "bank_server"]), ("b", "A_B", &["bank"])],
];
const LIMITS: [usize; 3] = [16, 24, 48];
const HONEST: [&str; 4] =
    ["pay", "with spaces", "hub_create_issue", "a_name_that_is_far_too_long_to_be_registered"];
const ODD: [&str; 7] = [
    "use_tool",
    "Open-Toolbox",
    "toolman_activate",
    "pay\n  * bank_pay: x",
    "p\u{202e}ay",
    "a____b",
    "p\u{430}y",
];

fn config_of(world: &[Toolbox<'_>], limit: usize) -> Arc<Config> {
    let toolboxes = world.iter().map(|(name, namespace, servers)| {
        let servers = servers.iter().map(|name| ((*name).to_owned(), json!({"command": "x"})));
        let servers: serde_json::Map<_, _> = servers.collect();
        let toolbox = json!({"description": "x", "namespace": namespace, "mcpServers": servers});
        ((*name).to_owned(), toolbox)
    });
    let text = json!({"toolboxes": toolboxes.collect::<serde_json::Map<_, _>>()}).to_string();
    let nothing = BTreeMap::<String, String>::new();
    let parsed = mcp_workbench_config::parse(&text, Path::new("x.json"), Path::new("/"), &nothing);
    let mut config = parsed.unwrap().config;
    config.max_tool_name_length = limit;
    Arc::new(config)
}

fn servers(config: &Config) -> Vec<(ServerRef, &str)> {
    let all = config.servers().map(|(toolbox, server)| {
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        (at, toolbox.namespace.as_str())
    });
    all.collect()
}

fn id(at: &ServerRef, tool: &str) -> ToolId {
    ToolId { toolbox: at.toolbox.clone(), server: at.server.clone(), tool: tool.to_owned() }
}

fn qualified_names(at: &ServerRef, own: &str, limit: usize) -> Vec<String> {
    let id = id(at, own);
    let registered = ExposedName::registered(&id, limit);
    let full = ExposedName::qualified(&id, &registered).map(|full| full.to_string());
    let names = [registered.to_string(), format!("{}:{own}", at.server)];
    names.into_iter().chain(full).collect()
}

/// Every name that a hostile server might list.
fn claims(config: &Config) -> Vec<String> {
    let limit = config.max_tool_name_length;
    let mut all: Vec<String> = HONEST.iter().chain(&ODD).map(|name| (*name).to_owned()).collect();
    for (at, namespace) in servers(config) {
        for own in HONEST {
            all.extend(qualified_names(&at, own, limit));
            let scheme = mcp_workbench_names::scheme_of_namespace(namespace);
            all.push(mcp_workbench_names::namespaced_name(namespace, own));
            all.push(ExposedName::namespaced(namespace, &id(&at, own), limit).to_string());
            all.extend([format!("{scheme}{own}"), format!("{scheme}x://{own}")]);
            all.push(format!("{}{own}", uri_prefix(&at)));
            all.push(format!("{}{own}", uri_prefix(&at).to_uppercase()));
        }
    }
    // Suffixes that complete another server's name or namespace.
    let beginnings = ["box__evil__", "git_", "git+", "a:", "evil__", "a_b_", "box_"];
    let rests = all.iter().flat_map(|name| beginnings.iter().filter_map(|b| name.strip_prefix(b)));
    let rests: Vec<_> = rests.map(str::to_owned).collect();
    all.extend(rests);
    all.retain(|name| !name.is_empty());
    all.sort();
    all.dedup();
    all
}

fn listing(names: &[String]) -> Arc<Listing> {
    let all =
        |of: fn(&str) -> serde_json::Value| names.iter().map(move |n| RawJson::encode(&of(n)));
    Arc::new(Listing {
        tools: ToolDefinition::read_all(all(|n| json!({"name": n, "inputSchema": {}}))).0,
        prompts: Prompt::read_all(all(|n| json!({"name": n}))).0,
        resources: Resource::read_all(all(|n| json!({"uri": n, "name": n}))).0,
        templates: ResourceTemplate::read_all(all(|n| json!({"uriTemplate": format!("{n}{{x}}")})))
            .0,
        ..Listing::default()
    })
}

/// Builds a lens from names by server position; absent servers are unlisted.
fn lens(config: &Arc<Config>, listed: &BTreeMap<usize, Vec<String>>) -> Lens {
    let policy = Policy::new(config);
    let mut places = 0..;
    let views = config.toolboxes.iter().map(|toolbox| {
        let parts = toolbox.servers.iter().zip(places.by_ref()).filter_map(|(server, index)| {
            let listing = listing(listed.get(&index)?);
            let limit = config.max_tool_name_length;
            Some(Arc::new(ServerView::new(
                toolbox,
                server,
                &listing,
                &policy,
                limit,
                UnixTime::new(0),
            )))
        });
        (toolbox.name.clone(), Arc::new(ToolboxView::new(parts.collect())))
    });
    Lens::new(Arc::clone(config), views.collect(), Some(ReportedConflicts::default()))
}

fn assert_seen(name: &str) {
    assert!(!name.chars().any(untrusted_text::is_invisible) && name.len() < 2500, "{name:?}");
}

fn check_shown(lens: &Lens) {
    for part in lens.parts() {
        for tool in &part.tools {
            assert_seen(&tool.id.tool);
            let registered = tool.name.as_str();
            let meant = lens.resolve(registered);
            let is_its = meant.as_ref().is_none_or(|meant| meant.server_ref() == part.server_ref);
            assert!(is_its, "{registered} of {} means {meant:?}", tool.id);
            let Some(shown) = lens.direct_name(tool) else { continue };
            assert_seen(shown);
            assert!(!mcp_workbench_names::BUILTIN_TOOL_NAMES.contains(&shown));
            assert_eq!(lens.resolve(shown).as_ref(), Some(&tool.id), "{shown}");
        }
        let check = |names: &PrimitiveNameTable, own: &str, full: String| {
            let shown = if names.is_qualified(own) { full } else { own.to_owned() };
            assert_seen(&shown);
            let meant = names.resolve(&shown).map(|meant| &meant.server_ref);
            assert_eq!(meant, Some(&part.server_ref), "{shown}");
        };
        for prompt in part.prompts() {
            let full = lens.full_name(&primitive(part, &prompt.name));
            check(lens.prompts(), &prompt.name, full);
        }
        for resource in part.resources() {
            check(lens.uri_names(), &resource.uri, full_uri(&primitive(part, &resource.uri)));
        }
        for template in part.templates() {
            check(lens.templates(), &template.uri, full_uri(&primitive(part, &template.uri)));
        }
    }
    let all = lens.namespaced();
    for item in &all.items {
        assert_seen(&item.name);
        assert!(
            item.kind != PrimitiveKind::Tool
                || !mcp_workbench_names::BUILTIN_TOOL_NAMES.contains(&item.name.as_str())
        );
        let meant = all.get(item.kind, &item.name).map(|meant| (&meant.at, meant.own.as_str()));
        assert_eq!(meant, Some((&item.at, item.own.as_str())), "{}", item.name);
    }
}

fn check_qualified(config: &Config, lens: &Lens) {
    let all = lens.namespaced();
    for (at, namespace) in servers(config) {
        for own in HONEST {
            for name in qualified_names(&at, own, config.max_tool_name_length) {
                let is_its = |meant: &ServerRef| {
                    // Servers in two toolboxes may share a name.
                    *meant == at || name.contains(':') && meant.server == at.server
                };
                let meant = lens.resolve(&name).map(|meant| meant.server_ref());
                assert!(meant.as_ref().is_none_or(is_its), "{name} means {meant:?}");
                let meant = all.get(PrimitiveKind::Tool, &name).map(|meant| &meant.at);
                assert!(meant.is_none_or(is_its), "{name} means {meant:?}");
                let meant = lens.prompts().resolve(&name).map(|meant| &meant.server_ref);
                assert!(name.contains(':') || meant.is_none_or(is_its), "{name} means {meant:?}");
            }
            let address = format!("{}{own}", uri_prefix(&at));
            let meant = lens.uri_names().resolve(&address);
            assert!(meant.is_none_or(|meant| meant.server_ref == at), "{address} means {meant:?}");
            assert!(all.resolve_uri(&address).iter().all(|(meant, ..)| *meant == at), "{address}");
            if namespace.is_empty() {
                continue;
            }
            let is_its = |meant: &ServerRef| {
                config.toolbox(meant.toolbox.as_str()).unwrap().namespace == namespace
            };
            let name = mcp_workbench_names::namespaced_name(namespace, own);
            // The longest namespace wins.
            let longer = |(_, other): &(_, &str)| {
                other.len() > namespace.len() && name.starts_with(&format!("{other}_"))
            };
            let is_longer = servers(config).iter().any(longer);
            let meant = all.get(PrimitiveKind::Tool, &name).map(|meant| &meant.at);
            assert!(is_longer || meant.is_none_or(is_its), "{name} means {meant:?}");
            let address =
                format!("{}x://{own}", mcp_workbench_names::scheme_of_namespace(namespace));
            let led: Vec<_> = all.resolve_uri(&address).into_iter().map(|(at, ..)| at).collect();
            assert!(led.iter().all(is_its), "{address} leads to {led:?}");
        }
    }
}

fn check(config: &Arc<Config>, listed: &BTreeMap<usize, Vec<String>>) {
    let lens = lens(config, listed);
    check_shown(&lens);
    check_qualified(config, &lens);
}

#[test]
fn hostile_server_cannot_capture_names() {
    for world in WORLDS {
        for limit in LIMITS {
            let config = config_of(world, limit);
            let claims = claims(&config);
            let first = BTreeMap::from([(0, claims)]);
            check(&config, &first);
            let honest = || HONEST.map(str::to_owned).to_vec();
            let others = (1..config.servers().count()).map(|index| (index, honest()));
            check(&config, &first.into_iter().chain(others).collect());
        }
    }
}

#[test]
fn plain_names_are_shown_unchanged() {
    let config = config_of(WORLDS[0], 48);
    let names = ["pay", "with-hyphens", "browser__click", "git.status"].map(str::to_owned);
    let lens = lens(&config, &BTreeMap::from([(0, names.to_vec())]));
    let shown = lens.parts().flat_map(|part| &part.tools).filter_map(|tool| lens.direct_name(tool));
    assert_eq!(shown.collect::<Vec<_>>(), names);
}

#[test]
fn names_outside_the_specification_are_shown_as_registered_names() {
    let config = config_of(WORLDS[0], 48);
    let names = ["with spaces", "get/repo", "a,b", "caf\u{e9}"].map(str::to_owned);
    let lens = lens(&config, &BTreeMap::from([(0, names.to_vec())]));
    let tools: Vec<_> = lens.parts().flat_map(|part| &part.tools).collect();
    assert_eq!(tools.len(), names.len());
    for tool in tools {
        let shown = lens.direct_name(tool).unwrap();
        assert!(mcp_workbench_names::is_portable_tool_name(shown), "{shown}");
        assert_eq!(lens.resolve(shown).as_ref(), Some(&tool.id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // invariant: names-lead-to-owner
    #[test]
    fn every_name_resolves_to_its_own_server(
        world in 0..WORLDS.len(),
        limit in 0..LIMITS.len(),
        listed in prop::collection::btree_map(
            0..5_usize,
            prop::collection::vec(any::<prop::sample::Index>(), 0..24),
            0..5,
        ),
    ) {
        let config = config_of(WORLDS[world], LIMITS[limit]);
        let claims = claims(&config);
        let listed = listed.into_iter().map(|(place, chosen)| {
            (place, chosen.iter().map(|index| index.get(&claims).clone()).collect())
        });
        check(&config, &listed.collect());
    }
}
