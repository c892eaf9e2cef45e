use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::config;
use crate::settings::ToolMode;

mod catalog;
mod document;
mod inheritance;

/// A configuration with these servers, each a toolbox of its own, and these keys.
fn config(servers: &[&str], keys: &Value) -> Arc<Config> {
    let mut file = keys.clone();
    let servers = servers.iter().map(|name| ((*name).to_owned(), json!({"command": "x"})));
    file["mcpServers"] = Value::Object(servers.collect());
    read(&file)
}

fn read(file: &Value) -> Arc<Config> {
    let env = BTreeMap::<String, String>::new();
    let loaded = config::parse(&file.to_string(), Path::new("x.json"), Path::new("/project"), &env);
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

fn noon() -> Moment {
    Moment::new(12 * 60 * 60)
}

/// Decides on a tool that has no special traits. An empty name stands for an agent without one.
fn decide(config: &Arc<Config>, name: &str, server: &str, called: &str) -> Result<Grant, Denial> {
    let policies = Policies::new(Arc::clone(config));
    let policy = policies.of(agent(name).as_ref());
    let (of, id) = (agent(name), tool(server, called));
    let decided = policy.decide(&id, Traits::default(), noon);
    // What is explained is what is decided.
    let explained = policies.explain(of.as_ref(), &id, Traits::default(), noon());
    assert_eq!(explained.is_some_and(|explained| explained.is_visible), decided.is_ok());
    decided
}

fn allows(config: &Arc<Config>, name: &str, server: &str, called: &str) -> bool {
    decide(config, name, server, called).is_ok()
}

/// The rule by which a tool may be called.
fn rule(config: &Arc<Config>, name: &str, server: &str, called: &str) -> String {
    let permit = decide(config, name, server, called).unwrap().permit(None).unwrap();
    assert_eq!(*permit.tool(), tool(server, called));
    permit.rule().to_string()
}

/// The servers that an agent knows of.
fn seen(config: &Arc<Config>, name: &str) -> Vec<String> {
    let policies = Policies::new(Arc::clone(config));
    let seen = policies.seen_by(agent(name).as_ref(), None);
    assert_eq!(seen.policy, PolicyConfig::default(), "what is said of agents is nobody's business");
    let servers = seen.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
    let policy = policies.of(agent(name).as_ref());
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
    assert!(!allows(&config, "", "gitlab", "anything"), "there is no such server");
}

#[test]
fn the_rule_that_decided_is_told() {
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

#[test]
fn an_agent_whom_no_rule_knows_has_nothing_unless_the_file_says_what_others_get() {
    let keys = json!({
        "agentPolicies": { "reader": { "toolOverrides": { "github": ["get_*"] } } },
        "exposedTools": { "github": ["list_*"] },
    });
    let closed = config(&["github", "files"], &keys);
    assert_eq!(seen(&closed, "raeder"), [""; 0]);
    assert!(!allows(&closed, "raeder", "github", "list_x"));
    assert_eq!(seen(&closed, ""), ["github"], "one without a name has no misspelt one");
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
    assert!(allows(&free, "somebody", "github", "list_x"), "nothing is said of single agents");
}

#[test]
fn a_server_of_which_an_agent_can_have_nothing_is_not_there() {
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
    let policy = Policies::new(Arc::clone(&some)).of(agent("one").as_ref());
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
    assert_eq!(seen(&some, "all"), servers, "with their resources and prompts");
    assert!(!allows(&some, "all", "memory", "anything"));
}

#[test]
fn one_toolbox_is_seen_alone_if_it_may_be() {
    let keys = json!({"exposedTools": {"github": ["get_*"]}});
    let policies = Policies::new(config(&["github", "files"], &keys));
    let names = |toolbox: &str| {
        let seen = policies.seen_by(None, Some(&ToolboxName::new(toolbox)));
        assert_eq!(seen.mode, ToolMode::Direct);
        seen.toolboxes.iter().map(|toolbox| toolbox.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("github"), ["github"]);
    assert_eq!(names("files"), [""; 0]);
}

#[test]
fn what_a_server_s_own_entry_says_holds_beside() {
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

/// Why a call is dangerous, and why it is confirmed.
fn concerns(keys: &Value, called: &str, is_destructive: bool) -> [Option<Concern>; 2] {
    let policy = Policies::new(config(&["github"], keys)).of(None);
    let traits = Traits { is_destructive, ..Traits::default() };
    let grant = policy.decide(&tool("github", called), traits, noon).unwrap();
    let permit = grant.permit(None).unwrap();
    [permit.danger(), permit.confirmation()]
}

#[test]
fn dangerous_tools_are_confirmed_unless_nobody_is_to_be_asked() {
    use Concern::{Dangerous, Destructive, Listed, Unknown};
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
fn a_tool_outside_its_hours_does_not_exist() {
    let keys = json!({"agentPolicies": {"night": {
        "toolOverrides": {"github": ["get", "deploy"]},
        "when": [{"tools": ["deploy"], "time": {"between": ["22:00", "06:00"]}}],
    }}});
    let policy = Policies::new(config(&["github"], &keys)).of(agent("night").as_ref());
    let at = |called: &str, hour: i64| {
        let now = || Moment::new(hour * 60 * 60);
        policy.decide(&tool("github", called), Traits::default(), now).is_ok()
    };
    assert!(at("deploy", 23) && at("deploy", 5) && at("get", 12));
    assert!(!at("deploy", 12) && !at("deploy", 6));
    let next = policy.next_change(noon());
    assert_eq!(next, Some(Moment::new(22 * 60 * 60)));
    let asked = |called: &str| {
        let looked = std::cell::Cell::new(false);
        let now = || {
            looked.set(true);
            noon()
        };
        _ = policy.decide(&tool("github", called), Traits::default(), now);
        looked.get()
    };
    assert!(asked("deploy"));
    assert!(!asked("get"), "the clock is nobody's business");
}

#[test]
fn a_condition_on_the_folder_takes_servers_away() {
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
    assert_eq!(seen(&unknown, "all"), [""; 0], "nobody knows where we are");
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
fn arguments_are_asked_of_the_tools_that_are_named() {
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
    assert_eq!(call("get", "not even JSON"), Ok(()), "nobody looks at it");
    assert_eq!(call("delete_file", r#"{"path": "/workspace/a"}"#), Ok(()));
    let first = Err("agent_policies.a.when[0]".to_owned());
    assert_eq!(call("delete_file", r#"{"path": "/etc"}"#), first);
    assert_eq!(call("delete_many", r#"{"path": "/workspace/a", "count": 3}"#), Ok(()));
    let second = Err("agent_policies.a.when[1]".to_owned());
    assert_eq!(call("delete_many", r#"{"path": "/workspace/a", "count": 4}"#), second);
    assert!(decide(&config, "a", "github", "delete_x").unwrap().permit(None).is_err());
}

#[test]
fn what_cannot_be_compiled_lets_nothing_through() {
    let patterns = vec!["get".to_owned(), "broken[".to_owned()];
    let mut broken = (*config(&["github"], &json!({}))).clone();
    broken.policy.dangerous_tools.clone_from(&patterns);
    let dangerous = decide(&Arc::new(broken.clone()), "", "github", "list").unwrap();
    assert_eq!(dangerous.permit(None).unwrap().danger(), Some(Concern::Dangerous));
    broken.policy.exposed_tools.insert("github".to_owned(), patterns);
    assert!(!allows(&Arc::new(broken), "", "github", "get"));
}
