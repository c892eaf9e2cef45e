//! Project files: their rules narrow access, and nothing in them widens it.

use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::catalog::{Definition, Listing};
use mcp_workbench_config::{LoadedConfig, ProjectFile};
use mcp_workbench_names::ServerRef;
use mcp_workbench_settings::RateLimits;
use mcp_workbench_wire::json::RawJson;

fn load(file: &Value) -> LoadedConfig {
    let env = BTreeMap::<String, String>::new();
    let name = Path::new("x.json");
    mcp_workbench_config::parse(&file.to_string(), name, Path::new("/user"), &env)
        .unwrap_or_else(|report| panic!("{report}"))
}

/// A project whose file is `text` now, and was `trusted` when the user trusted it.
fn project(text: Option<&Value>, trusted: Option<&Value>) -> ProjectFile {
    ProjectFile {
        path: PathBuf::from("/project/.mcp-workbench.json"),
        text: text.map(Value::to_string),
        trusted: trusted.map(Value::to_string),
        is_gone: text.is_none(),
    }
}

fn lay_over(user: &Value, files: &[ProjectFile]) -> Arc<Config> {
    let mut loaded = load(user);
    let env = BTreeMap::<String, String>::new();
    loaded.lay_over(files, &env).unwrap_or_else(|report| panic!("{report}"));
    Arc::new(loaded.config)
}

fn users() -> Value {
    json!({ "mcpServers": {"github": {"command": "x"}, "files": {"command": "x"}} })
}

#[test]
fn project_rules_narrow_the_users() {
    let mut user = users();
    user["exposedTools"] = json!({"github": ["get_*", "merge"]});
    user["defaultPolicy"] = json!({"allowUnknownTools": true});
    user["requireConfirmation"] = json!(false);
    let rules = json!({
        "exposedTools": {"github": ["get_a", "delete", "merge"]},
        "deniedTools": ["files:write_*"],
        "dangerousTools": ["merge"],
    });
    let config = lay_over(&user, &[project(Some(&rules), None)]);
    assert!(allows(&config, "", "github", "get_a"));
    let denied = |server: &str, called: &str| {
        decide(&config, "", server, called).unwrap_err().rule().unwrap().to_string()
    };
    assert_eq!(denied("github", "get_b"), "project.exposed_tools.github");
    assert_eq!(denied("github", "delete"), "exposed_tools.github");
    assert_eq!(denied("files", "write_x"), "project.denied_tools");
    assert!(allows(&config, "", "files", "read"));
    // The user's `requireConfirmation` doesn't turn it off.
    let grant = decide(&config, "", "github", "merge").unwrap().permit(None).unwrap();
    assert_eq!(grant.confirmation(), Some(RiskReason::Project));
    let rule = decide(&config, "", "github", "get_b").unwrap_err();
    let file = rule.rule().unwrap().project_file().map(str::to_owned);
    assert_eq!(file.as_deref(), Some("/project/.mcp-workbench.json"));

    let rules = json!({"allowedServers": ["git*"], "toolboxes": {"own": {
        "description": "x", "mcpServers": {"own": {"command": "y"}},
    }}});
    let config = lay_over(&user, &[project(Some(&rules), Some(&rules))]);
    assert_eq!(seen(&config, ""), ["github", "own"]);
}

#[test]
fn servers_need_trust_and_rules_do_not() {
    let file = json!({"deniedTools": ["get"], "mcpServers": {"own": {"command": "y"}}});
    let other = json!({"deniedTools": ["put"], "mcpServers": {"own": {"command": "z"}}});
    for (text, trusted, servers, denied) in [
        (Some(&file), None, &["github", "files"][..], &["get"][..]),
        (Some(&file), Some(&file), &["github", "files", "own"], &["get"]),
        // Changing or deleting a file widens nothing.
        (Some(&file), Some(&other), &["github", "files"], &["get", "put"]),
        (None, Some(&other), &["github", "files"], &["put"]),
    ] {
        let config = lay_over(&users(), &[project(text, trusted)]);
        assert_eq!(seen(&config, ""), servers, "{text:?} {trusted:?}");
        for called in ["get", "put"] {
            let is_denied = !allows(&config, "", "files", called);
            assert_eq!(is_denied, denied.contains(&called), "{called} {text:?} {trusted:?}");
        }
    }
}

const SERVERS: [&str; 3] = ["github", "files", "notes"];
const TOOLS: [&str; 6] = ["get_a", "get_b", "put_a", "files:get_a", "notes__notes__x", "@readOnly"];
const PATTERNS: [&str; 12] = [
    "*",
    "get_*",
    "get_a",
    "github:*",
    "files:get_a",
    "*:put_a",
    "own:*",
    "@readOnly",
    "!@destructive",
    "notes__notes__*",
    "own__own__*",
    "nothing",
];
const URIS: [&str; 3] = ["file:///docs/a.md", "file:///keys/id", "note://1"];
const URI_PATTERNS: [&str; 5] = ["file:///docs/*", "!*.md", "note://*", "*", "!note://*"];

fn chosen(all: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::collection::vec(prop::sample::select(all), 0..3).prop_map(|list| json!(list))
}

fn by_server(all: &'static [&'static str]) -> impl Strategy<Value = Value> {
    const KEYS: [&str; 4] = ["github", "files", "notes", "*"];
    prop::collection::btree_map(prop::sample::select(&KEYS[..]), chosen(all), 0..3)
        .prop_map(|lists| json!(lists))
}

fn object(
    keys: impl Strategy<Value = Vec<(&'static str, Option<Value>)>>,
) -> impl Strategy<Value = Value> {
    keys.prop_map(|keys| {
        let keys = keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(keys.collect())
    })
}

fn maybe(
    key: &'static str,
    value: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<(&'static str, Option<Value>)> {
    prop::option::of(value).prop_map(move |value| (key, value)).boxed()
}

fn user_rules() -> impl Strategy<Value = Value> {
    let agent = object(vec![
        maybe("allowedServers", chosen(&["github", "f*", "own", "*"])),
        maybe("toolOverrides", by_server(&PATTERNS)),
        maybe("resourceOverrides", by_server(&URI_PATTERNS)),
    ]);
    object(vec![
        maybe("agentPolicies", agent.prop_map(|agent| json!({"ann": agent}))),
        maybe("exposedTools", by_server(&PATTERNS)),
        maybe("exposedResources", by_server(&URI_PATTERNS)),
        maybe("exposedPrompts", by_server(&["sum", "!plan"])),
        maybe("dangerousTools", chosen(&PATTERNS)),
        maybe(
            "requireConfirmation",
            prop_oneof![Just(json!(false)), Just(json!(true)), chosen(&PATTERNS)],
        ),
        maybe(
            "defaultPolicy",
            any::<[Option<bool>; 3]>().prop_map(|[tools, servers, asks]| {
                json!({"allowUnknownTools": tools, "allowUnknownServers": servers,
                    "requireExplicitApproval": asks})
            }),
        ),
        maybe("limits", (0..9_u64).prop_map(|rate| json!({"perAgent": {"callsPerMinute": rate}}))),
    ])
}

fn project_files() -> impl Strategy<Value = Value> {
    let servers = ["own", "github", "files", "notes", "Github", "mcp"];
    let servers = prop::collection::btree_set(prop::sample::select(servers.to_vec()), 1..4);
    let servers = servers.prop_map(|names| {
        let servers = names.into_iter().map(|name| (name.to_owned(), json!({"command": "y"})));
        Value::Object(servers.collect())
    });
    object(vec![
        maybe("mcpServers", servers),
        maybe("allowedServers", chosen(&["github", "f*", "own", "*"])),
        maybe("exposedTools", by_server(&PATTERNS)),
        maybe("exposedResources", by_server(&URI_PATTERNS)),
        maybe("exposedPrompts", by_server(&["sum", "!plan"])),
        // `!` is for filters; these lists reject it before anything but an annotation.
        maybe("deniedTools", chosen(&PATTERNS)),
        maybe("dangerousTools", chosen(&PATTERNS)),
        maybe("limits", (0..9_u64).prop_map(|rate| json!({"callsPerMinute": rate}))),
    ])
}

/// Everything that an agent can do with the user's servers, one line each.
fn access(config: &Arc<Config>, name: &str) -> Vec<String> {
    let policies = Policies::new(Arc::clone(config));
    let policy = policies.for_agent(agent(name).as_ref());
    let visible = policies.visible_config(agent(name).as_ref(), None);
    let raw = |entries: &[Value]| -> Vec<RawJson> { entries.iter().map(RawJson::encode).collect() };
    let resources: Vec<_> = URIS[..2].iter().map(|uri| json!({"uri": uri, "name": uri})).collect();
    let (resources, _) = Definition::read_all(raw(&resources));
    let (prompts, _) =
        Definition::read_all(raw(&[json!({"name": "sum"}), json!({"name": "plan"})]));
    let listing = Arc::new(Listing { resources, prompts, ..Listing::default() });
    let mut lines = Vec::new();
    for server in SERVERS {
        let at = ServerRef { toolbox: ToolboxName::new(server), server: ServerName::new(server) };
        let toolbox = visible.toolbox(server).and_then(|toolbox| toolbox.server(server));
        lines.extend(toolbox.map(|_| format!("sees {server}")));
        for called in TOOLS {
            for annotations in ToolAnnotations::all_sets() {
                let traits = ToolTraits { annotations, ..ToolTraits::default() };
                let Ok(grant) = policy.decide(&tool(server, called), traits, noon) else {
                    continue;
                };
                lines.push(format!("{server}:{called} {annotations:?}"));
                if grant.permit(None).unwrap().confirmation().is_none() {
                    lines.push(format!("{server}:{called} {annotations:?} unconfirmed"));
                }
            }
        }
        for uri in URIS {
            if policy.admit_resource(&at, uri, &listing).is_ok() {
                lines.push(format!("{server} {uri}"));
            }
        }
        for prompt in ["sum", "plan"] {
            lines.extend(
                policy.admit_prompt(&at, prompt).ok().map(|_| format!("{server} {prompt}")),
            );
        }
    }
    lines
}

fn rate(config: &Arc<Config>, name: &str) -> u32 {
    let policies = Policies::new(Arc::clone(config));
    let visible = policies.visible_config(agent(name).as_ref(), None);
    let limits: RateLimits = visible.limits.per_agent;
    limits.calls_per_minute().map_or(u32::MAX, u32::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // invariant: projects-only-narrow
    #[test]
    fn project_file_never_widens_access(
        rules in user_rules(),
        current in project_files(),
        trusted in prop::option::of(project_files()),
        is_same in any::<bool>(),
        is_gone in any::<bool>(),
    ) {
        let mut user = rules;
        let servers = SERVERS.map(|name| (name.to_owned(), json!({"command": "x"})));
        user["mcpServers"] = Value::Object(servers.into_iter().collect());
        let alone = Arc::new(load(&user).config);
        let trusted = if is_same { Some(current.clone()) } else { trusted };
        let now = lay_over(&user, &[project((!is_gone).then_some(&current), trusted.as_ref())]);
        let at_trust = trusted.as_ref().map(|trusted| {
            lay_over(&user, &[project(Some(trusted), Some(trusted))])
        });
        for name in ["", "ann", "bob"] {
            let before = access(&alone, name);
            let after = access(&now, name);
            for line in &after {
                prop_assert!(before.contains(line), "{name:?} gained {line}: {current}");
            }
            prop_assert!(rate(&now, name) <= rate(&alone, name));
            // No change of the file ends a rule that the user has trusted.
            if let Some(at_trust) = &at_trust {
                let at_trust = access(at_trust, name);
                for line in &after {
                    prop_assert!(at_trust.contains(line), "{name:?} regained {line}: {current}");
                }
            }
        }
        // The user's servers stay as they are.
        for toolbox in &alone.toolboxes {
            prop_assert_eq!(Some(toolbox), now.toolbox(toolbox.name.as_str()));
        }
    }
}
