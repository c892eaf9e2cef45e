use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use mcp_workbench_names::{AgentName, ServerName, ToolId, ToolboxName};
use mcp_workbench_settings::{Config, PolicyConfig, ToolAnnotation, ToolAnnotations, ToolMode};

mod annotations;
mod catalog;
mod document;
mod inheritance;
mod projects;

/// A configuration with these keys and servers, each server in its own toolbox.
fn config(servers: &[&str], keys: &Value) -> Arc<Config> {
    let mut file = keys.clone();
    let servers = servers.iter().map(|name| ((*name).to_owned(), json!({"command": "x"})));
    file["mcpServers"] = Value::Object(servers.collect());
    read(&file)
}

fn read(file: &Value) -> Arc<Config> {
    let env = BTreeMap::<String, String>::new();
    let loaded = mcp_workbench_config::parse(
        &file.to_string(),
        Path::new("x.json"),
        Path::new("/project"),
        &env,
    );
    Arc::new(loaded.unwrap_or_else(|report| panic!("{report}")).config)
}

fn agent(name: &str) -> Option<AgentName> {
    (!name.is_empty()).then(|| AgentName::new(name))
}

fn tool(server: &str, tool: &str) -> ToolId {
    ToolId {
        toolbox: ToolboxName::new(server),
        server: ServerName::new(server),
        tool: tool.to_owned(),
    }
}

fn noon() -> UnixTime {
    UnixTime::new(12 * 60 * 60)
}

/// Decides on a tool without traits. An empty name is the anonymous agent.
fn decide(config: &Arc<Config>, name: &str, server: &str, called: &str) -> Result<Grant, Denial> {
    let policies = Policies::new(Arc::clone(config));
    let policy = policies.for_agent(agent(name).as_ref());
    let (of, id) = (agent(name), tool(server, called));
    let decided = policy.decide(&id, ToolTraits::default(), noon);
    // The explanation must agree with the decision.
    let explained = policies.explain(of.as_ref(), &id, ToolTraits::default(), noon());
    assert_eq!(explained.is_some_and(|explained| explained.is_visible), decided.is_ok());
    decided
}

fn allows(config: &Arc<Config>, name: &str, server: &str, called: &str) -> bool {
    decide(config, name, server, called).is_ok()
}

fn rule(config: &Arc<Config>, name: &str, server: &str, called: &str) -> String {
    let permit = decide(config, name, server, called).unwrap().permit(None).unwrap();
    assert_eq!(*permit.tool(), tool(server, called));
    permit.rule().to_string()
}

fn seen(config: &Arc<Config>, name: &str) -> Vec<String> {
    let policies = Policies::new(Arc::clone(config));
    let seen = policies.visible_config(agent(name).as_ref(), None);
    assert_eq!(seen.policy, PolicyConfig::default(), "agents must not see policies");
    let servers = seen.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let policy = policies.for_agent(agent(name).as_ref());
    let servers = servers.inspect(|server| {
        let toolbox = ToolboxName::new(server.name.as_str());
        assert!(policy.admit(&toolbox, &server.name).is_ok());
    });
    servers.map(|server| server.name.to_string()).collect()
}

#[test]
fn without_rules_everything_is_allowed() {
    let config = config(&["github"], &json!({}));
    assert_eq!(rule(&config, "", "github", "anything"), "default_policy.allow_unknown_tools");
    assert_eq!(seen(&config, ""), ["github"]);
    assert_eq!(seen(&config, "anybody"), ["github"]);
    assert!(!allows(&config, "", "gitlab", "anything"), "unknown servers are denied");
}

#[test]
fn permit_names_the_deciding_rule() {
    let keys = json!({
        "agentPolicies": {
            "claude-code": { "toolOverrides": { "github": ["get_*"] } },
            "odd name": { "toolOverrides": { "github": ["get_*"] } },
        },
        "exposedTools": { "github": ["list_*"] },
    });
    let config = config(&["github"], &keys);
    let of = |name: &str, called: &str| rule(&config, name, "github", called);
    assert_eq!(of("claude-code", "get_x"), "agent_policies.claude-code.tool_overrides.github");
    assert_eq!(of("odd name", "get_x"), "agent_policies[\"odd name\"].tool_overrides.github");
    assert_eq!(of("", "list_x"), "exposed_tools.github");
}

// invariant: unknown-agent-denied
#[test]
fn denies_unknown_agents_everything_without_a_default_policy() {
    let keys = json!({
        "agentPolicies": { "reader": { "toolOverrides": { "github": ["get_*"] } } },
        "exposedTools": { "github": ["list_*"] },
    });
    let closed = config(&["github", "files"], &keys);
    assert_eq!(seen(&closed, "raeder"), [""; 0]);
    assert!(!allows(&closed, "raeder", "github", "list_x"));
    assert_eq!(seen(&closed, ""), ["github"], "an unnamed agent is not a misspelt one");
    assert!(allows(&closed, "", "github", "list_x"));
    assert!(allows(&closed, "reader", "github", "get_x"));
    for policy in [json!({}), json!({"allowUnknownTools": false})] {
        let mut keys = keys.clone();
        keys["defaultPolicy"] = policy;
        let open = config(&["github", "files"], &keys);
        assert!(allows(&open, "somebody", "github", "list_x"));
        assert_eq!(seen(&open, "somebody"), ["github"]);
    }
    let free = config(&["github"], &json!({"exposedTools": {"github": ["list_*"]}}));
    assert!(allows(&free, "somebody", "github", "list_x"), "no agent policies are configured");
}

// invariant: forbidden-equals-missing
#[test]
fn hides_servers_whose_tools_are_all_denied() {
    let servers = ["github", "files", "memory"];
    let keys = json!({
        "agentPolicies": {
            "one": { "allowedServers": ["git*"] },
            "none": { "toolOverrides": { "github": [], "files": ["read_file"] } },
            "all": {},
        },
        "exposedTools": { "github": ["get_*"] },
    });
    let some = config(&servers, &keys);
    assert_eq!(seen(&some, "one"), ["github"]);
    assert_eq!(seen(&some, "none"), ["files"]);
    assert_eq!(seen(&some, "all"), ["github"]);
    assert_eq!(seen(&some, ""), ["github"]);
    let policy = Policies::new(Arc::clone(&some)).for_agent(agent("one").as_ref());
    let files = (ToolboxName::new("files"), ServerName::new("files"));
    assert!(policy.admit(&files.0, &files.1).is_err());

    let mut open = keys.clone();
    open["defaultPolicy"] = json!({"allowUnknownTools": true});
    let some = config(&servers, &open);
    assert_eq!(seen(&some, "one"), ["github"]);
    assert_eq!(seen(&some, "all"), servers);
    assert!(allows(&some, "all", "memory", "anything"));

    open["defaultPolicy"]["allowUnknownServers"] = json!(false);
    let some = config(&servers, &open);
    assert_eq!(seen(&some, "all"), ["github"]);
    assert!(!allows(&some, "all", "memory", "anything"));

    let mut servers_only = keys;
    servers_only["defaultPolicy"] = json!({"allowUnknownServers": true});
    let some = config(&servers, &servers_only);
    assert_eq!(seen(&some, "all"), servers, "servers stay visible for their resources and prompts");
    assert!(!allows(&some, "all", "memory", "anything"));
}

#[test]
fn view_of_one_toolbox_hides_denied_toolboxes() {
    let keys = json!({"exposedTools": {"github": ["get_*"]}});
    let policies = Policies::new(config(&["github", "files"], &keys));
    let names = |toolbox: &str| {
        let seen = policies.visible_config(None, Some(&ToolboxName::new(toolbox)));
        assert_eq!(seen.mode, ToolMode::Direct);
        seen.toolboxes.iter().map(|toolbox| toolbox.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("github"), ["github"]);
    assert_eq!(names("files"), [""; 0]);
}

#[test]
fn server_entry_filters_apply_in_addition_to_lists() {
    let config = read(&json!({
        "mcpServers": { "github": {
            "command": "x",
            "toolFilters": ["!get_secret"],
            "overrides": { "get_off": { "enabled": false }, "get_old": { "name": "new" } },
        } },
        "exposedTools": { "github": ["get_*"] },
        "agentPolicies": {
            "exposed": { "toolOverrides": { "github": ["github__github__new"] } },
        },
    }));
    assert!(allows(&config, "", "github", "get_file"));
    assert!(!allows(&config, "", "github", "get_secret"));
    assert!(!allows(&config, "", "github", "get_off"));
    assert!(!allows(&config, "", "github", "list"));
    assert!(allows(&config, "exposed", "github", "get_old"));
    assert!(!allows(&config, "exposed", "github", "get_file"));
}

/// Returns why the call is dangerous and why it needs confirmation.
fn concerns(keys: &Value, called: &str, is_destructive: bool) -> [Option<RiskReason>; 2] {
    let policy = Policies::new(config(&["github"], keys)).for_agent(None);
    let claims = is_destructive.then_some(ToolAnnotation::Destructive).into_iter();
    let annotations = claims.fold(ToolAnnotations::default(), ToolAnnotations::with);
    let traits = ToolTraits { annotations, ..ToolTraits::default() };
    let grant = policy.decide(&tool("github", called), traits, noon).unwrap();
    let permit = grant.permit(None).unwrap();
    [permit.danger(), permit.confirmation()]
}

#[test]
fn dangerous_tools_need_confirmation_unless_disabled() {
    use RiskReason::{Dangerous, Destructive, Listed, Unknown};
    let mut keys = json!({"dangerousTools": ["github:delete_*", "push", "destructiveHint"]});
    assert_eq!(concerns(&keys, "delete_file", false), [Some(Dangerous); 2]);
    assert_eq!(concerns(&keys, "push", true), [Some(Dangerous); 2]);
    assert_eq!(concerns(&keys, "merge", true), [Some(Destructive); 2]);
    assert_eq!(concerns(&keys, "merge", false), [None; 2]);
    keys["requireConfirmation"] = json!(["mer*"]);
    assert_eq!(concerns(&keys, "merge", false), [None, Some(Listed)]);
    assert_eq!(concerns(&keys, "merge", true), [Some(Destructive); 2]);
    assert_eq!(concerns(&keys, "push", false), [Some(Dangerous); 2]);
    keys["requireConfirmation"] = json!(true);
    assert_eq!(concerns(&keys, "push", false), [Some(Dangerous); 2]);
    keys["requireConfirmation"] = json!(false);
    assert_eq!(concerns(&keys, "push", false), [Some(Dangerous), None]);
    assert_eq!(concerns(&keys, "merge", true), [Some(Destructive), None]);
    let without_the_word = json!({"dangerousTools": ["push"]});
    assert_eq!(concerns(&without_the_word, "merge", true), [None; 2]);
    let approval = json!({
        "exposedTools": {"github": ["get"]},
        "defaultPolicy": {"allowUnknownTools": true, "requireExplicitApproval": true},
    });
    assert_eq!(concerns(&approval, "get", false), [None; 2]);
    let elsewhere = json!({
        "exposedTools": {},
        "defaultPolicy": {"allowUnknownTools": true, "requireExplicitApproval": true},
    });
    assert_eq!(concerns(&elsewhere, "get", false), [None, Some(Unknown)]);
}

#[test]
fn tool_outside_its_time_window_is_denied() {
    let keys = json!({"agentPolicies": {"night": {
        "toolOverrides": {"github": ["get", "deploy"]},
        "when": [{"tools": ["deploy"], "time": {"between": ["22:00", "06:00"]}}],
    }}});
    let policy = Policies::new(config(&["github"], &keys)).for_agent(agent("night").as_ref());
    let hour = |hour: i64| UnixTime::new(hour * 60 * 60);
    let at = |called: &str, now: i64| {
        policy.decide(&tool("github", called), ToolTraits::default(), || hour(now)).is_ok()
    };
    assert!(at("deploy", 23) && at("deploy", 5) && at("get", 12));
    assert!(!at("deploy", 12) && !at("deploy", 6));
    // A permit ends with its window.
    let permit = |called: &str| {
        let grant = policy.decide(&tool("github", called), ToolTraits::default(), || hour(23));
        grant.unwrap().permit(None).unwrap()
    };
    assert!(permit("deploy").is_in_time(|| hour(5)) && permit("get").is_in_time(|| hour(6)));
    assert!(!permit("deploy").is_in_time(|| hour(6)));
    let next = policy.next_transition(noon());
    assert_eq!(next, Some(UnixTime::new(22 * 60 * 60)));
    let asked = |called: &str| {
        let looked = std::cell::Cell::new(false);
        let now = || {
            looked.set(true);
            noon()
        };
        _ = policy.decide(&tool("github", called), ToolTraits::default(), now);
        looked.get()
    };
    assert!(asked("deploy"));
    assert!(!asked("get"), "no time window applies to this tool");
}

#[test]
fn working_directory_condition_hides_servers() {
    let keys = json!({"agentPolicies": {
        "all": { "when": { "workingDirectory": "/home/*/work/**" } },
        "some": { "when": [
            { "tools": ["github:*"], "workingDirectory": "work" },
            { "tools": ["write_*"], "workingDirectory": "~/work" },
        ] },
    }, "defaultPolicy": {"allowUnknownTools": true}});
    let unknown = config(&["github", "files"], &keys);
    let within = |folder: &str| {
        let mut config = (*unknown).clone();
        config.policy.working_directory = Some(folder.into());
        Arc::new(config)
    };
    assert_eq!(seen(&unknown, "all"), [""; 0], "the working directory is unknown");
    assert_eq!(seen(&within("/tmp"), "all"), [""; 0]);
    assert_eq!(seen(&within("/home/me/work/a"), "all"), ["github", "files"]);
    assert_eq!(seen(&within("/home/me/work"), "all"), ["github", "files"]);
    assert_eq!(seen(&within("/tmp"), "some"), ["files"]);
    assert!(allows(&within("/tmp"), "some", "files", "read_file"));
    assert!(!allows(&within("/tmp"), "some", "files", "write_file"));
    assert_eq!(seen(&within("/project/work"), "some"), ["github", "files"]);
    assert!(allows(&unknown, "somebody else", "github", "get"));
}

#[test]
fn argument_conditions_apply_only_to_named_tools() {
    let keys = json!({"agentPolicies": {"a": {
        "toolOverrides": {"github": ["*"]},
        "when": [
            {"tools": ["github:delete_*"], "arguments": {"/path": {"matches": "^/workspace/"}}},
            {"arguments": {"/count": {"max": 3}}, "tools": ["delete_many"]},
        ],
    }}});
    let config = config(&["github"], &keys);
    let call = |called: &str, arguments: &str| {
        let grant = decide(&config, "a", "github", called).unwrap();
        grant
            .permit(Some(arguments.as_bytes()))
            .map(drop)
            .map_err(|refusal| refusal.rule.to_string())
    };
    assert_eq!(call("get", "not even JSON"), Ok(()), "arguments are not parsed without conditions");
    assert_eq!(call("delete_file", r#"{"path": "/workspace/a"}"#), Ok(()));
    let first = Err("agent_policies.a.when[0]".to_owned());
    assert_eq!(call("delete_file", r#"{"path": "/etc"}"#), first);
    assert_eq!(call("delete_many", r#"{"path": "/workspace/a", "count": 3}"#), Ok(()));
    let second = Err("agent_policies.a.when[1]".to_owned());
    assert_eq!(call("delete_many", r#"{"path": "/workspace/a", "count": 4}"#), second);
    assert!(decide(&config, "a", "github", "delete_x").unwrap().permit(None).is_err());
}

#[test]
fn patterns_that_do_not_compile_fail_closed() {
    let patterns = vec!["get".to_owned(), "broken[".to_owned()];
    let mut broken = (*config(&["github"], &json!({}))).clone();
    broken.policy.dangerous_tools.clone_from(&patterns);
    let dangerous = decide(&Arc::new(broken.clone()), "", "github", "list").unwrap();
    assert_eq!(dangerous.permit(None).unwrap().danger(), Some(RiskReason::Dangerous));
    broken.policy.exposed_tools.insert("github".to_owned(), patterns);
    assert!(!allows(&Arc::new(broken), "", "github", "get"));
}

// invariant: permit-for-each-call
#[test]
fn extension_methods_need_an_entry_and_follow_the_rules_of_tools() {
    let config = |methods: Value, keys: Value| {
        let mut file = keys;
        file["mcpServers"] = json!({"one": {"command": "x", "extensionMethods": methods},
            "other": {"command": "x"}});
        read(&file)
    };
    let decides = |config: &Arc<Config>, name: &str, server: &str, method: &str| {
        let policies = Policies::new(Arc::clone(config));
        let policy = policies.for_agent(agent(name).as_ref());
        policy.decide_extension_method(&tool(server, method), noon)
    };
    let open = config(json!(["skills/list", "acme/*", "!acme/delete"]), json!({}));
    for method in ["skills/list", "acme/read"] {
        assert!(decides(&open, "", "one", method).is_ok(), "{method}");
        let denial = decides(&open, "", "other", method).unwrap_err();
        let rule = denial.rule().unwrap().to_string();
        assert_eq!(rule, "mcp_servers.other.extension_methods");
    }
    for method in ["acme/re\u{7}ad", "acme/read\n", "acme/\u{202e}daer", "acme/a\u{a0}b", "acme/\0"]
    {
        assert!(decides(&open, "", "one", method).is_err(), "{method:?}");
    }
    for method in ["skills/get", "acme/delete", "Skills/list", "skills/list ", "acme"] {
        assert!(decides(&open, "", "one", method).is_err(), "{method}");
    }
    // Globs don't reach methods of MCP.
    for methods in [json!(["*"]), json!(["{tools,tasks}/*"]), json!(["?ools/call"])] {
        let config = config(methods, json!({}));
        for method in ["tools/call", "resources/read", "tasks/get", "initialize", "TOOLS/call"] {
            assert!(decides(&config, "", "one", method).is_err(), "{method}");
        }
    }
    // Exclusions alone list nothing.
    assert!(decides(&config(json!(["!x"]), json!({})), "", "one", "y").is_err());

    let ruled = config(
        json!(["acme/*"]),
        json!({
            "agentPolicies": {
                "ann": {"toolOverrides": {"one": ["one:acme/read*"]}},
                "bob": {"when": [{"tools": ["acme/*"], "arguments": {"/path": {"matches": "^/tmp/"}}}]},
            },
            "defaultPolicy": {"allowUnknownTools": true},
            "dangerousTools": ["one:acme/wipe"],
        }),
    );
    assert!(decides(&ruled, "ann", "one", "acme/read").is_ok());
    assert!(decides(&ruled, "ann", "one", "acme/wipe").is_err());
    let grant = decides(&ruled, "bob", "one", "acme/wipe").unwrap();
    assert!(grant.is_dangerous());
    let permit = |arguments: &str| {
        let grant = decides(&ruled, "bob", "one", "acme/wipe").unwrap();
        grant.permit(Some(arguments.as_bytes()))
    };
    assert!(permit(r#"{"path":"/tmp/x"}"#).unwrap().confirmation().is_some());
    assert!(permit(r#"{"path":"/etc"}"#).is_err());
    assert!(permit(r#"{"path":"/tmp/x","path":"/etc"}"#).is_err());
}
