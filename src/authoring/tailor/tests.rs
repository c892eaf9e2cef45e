//! Tests of the built-in rules, of narrowing, and of the invariants.

use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use mcp_workbench_config::syntax::document;

fn source(file: &str, text: &str) -> SourceFile {
    SourceFile { file: file.to_owned(), text: text.to_owned() }
}

fn request(full: &str, task: &str, service: Option<&str>) -> TailorRequest {
    TailorRequest {
        full: source("workbench-config.json", full),
        folder: None,
        rules: None,
        task: task.to_owned(),
        service: service.map(str::to_owned),
    }
}

fn parsed(text: &str) -> Value {
    Value::from(document::parse_jsonc(text).expect("the output can be parsed"))
}

/// Tailors `full` for a task and parses the result.
fn tailored(full: &str, task: &str, service: Option<&str>) -> Value {
    parsed(&tailor(&request(full, task, service)).unwrap().text.expect("something is left"))
}

/// A configuration without policy that has the servers of the built-in rules.
const OPEN: &str = r#"{"mcpServers": {
    "github": {"command": "github"}, "taskmaster": {"command": "taskmaster"},
    "filesystem": {"command": "filesystem"}, "git": {"command": "git"}}}"#;

fn list(value: &Value, server: &str) -> Vec<String> {
    full_config::strings(value["exposedTools"].get(server))
}

/// The quotes are from the design of selective tool filtering, "Example Configuration Generation".
#[test]
fn builtin_rules_match_the_generation_example() {
    // let mut github_tools = vec!["get_file_contents".to_string()];
    // let mut taskmaster_tools = vec!["get_tasks".to_string(), "add_task".to_string()];
    // let mut filesystem_tools = vec!["read_file".to_string(), "write_file".to_string()];
    let base = tailored(OPEN, "Paint the shed", None);
    assert_eq!(list(&base, "github"), ["get_file_contents"]);
    assert_eq!(list(&base, "taskmaster"), ["get_tasks", "add_task"]);
    assert_eq!(list(&base, "filesystem"), ["read_file", "write_file"]);
    assert_eq!(base["mcpServers"].get("git"), None, "nothing of it is needed");

    // name if name.contains("api") => {
    //     github_tools.extend(["create_pull_request", "create_branch"]);
    //     filesystem_tools.extend(["list_directory", "create_directory"]);
    // }
    for name in ["api", "payments-api", "userapi"] {
        let api = tailored(OPEN, "Paint the shed", Some(name));
        let (github, files) = (list(&api, "github"), list(&api, "filesystem"));
        assert_eq!(github[..3], ["get_file_contents", "create_pull_request", "create_branch"]);
        assert_eq!(files[..4], ["read_file", "write_file", "list_directory", "create_directory"]);
        assert_eq!(list(&api, "taskmaster"), list(&base, "taskmaster"));
    }

    // if task_description.contains("test") {
    //     taskmaster_tools.push("update_task_status".to_string());
    // }
    for task in ["test it", "Write tests", "Testing the shed"] {
        let test = tailored(OPEN, task, None);
        let expected = ["get_tasks", "add_task", "update_task_status"];
        assert_eq!(list(&test, "taskmaster"), expected, "{task}");
    }
    let latest = tailored(OPEN, "the latest contest", None);
    assert_eq!(latest["exposedTools"], base["exposedTools"], "no keyword matches");
}

/// The quotes are from the design of selective tool filtering, "Service Type Detection".
#[test]
fn builtin_rules_cover_the_designed_service_types() {
    // - **API/Service tasks**: Get comprehensive GitHub and filesystem tools
    // - **Frontend/UI tasks**: Get GitHub PR tools and basic filesystem access
    // - **Testing tasks**: Get additional taskmaster tools for status updates
    let base = tailored(OPEN, "x", None);
    let more = |service: &str, server: &str| {
        let with = tailored(OPEN, "x", Some(service));
        list(&with, server).len() - list(&base, server).len()
    };
    assert!(more("api", "github") > 4 && more("api", "filesystem") > 4);
    assert!(more("billing-service", "github") > 4);
    let frontend = tailored(OPEN, "x", Some("shop-frontend"));
    assert!(list(&frontend, "github").contains(&"create_pull_request".to_owned()));
    assert_eq!(tailored(OPEN, "x", Some("ui"))["exposedTools"], frontend["exposedTools"]);
    assert!(more("frontend", "filesystem") < more("api", "filesystem"));
    let testing = tailored(OPEN, "x", Some("testing"));
    assert!(list(&testing, "taskmaster").contains(&"update_task_status".to_owned()));
    assert_eq!(
        tailored(OPEN, "x", Some("frontend-service"))["exposedTools"],
        frontend["exposedTools"]
    );

    let unknown = tailor(&request(OPEN, "x", Some("kitchen"))).unwrap();
    assert_eq!(
        unknown.warnings,
        [
            "no rule for project type `kitchen`; known types: `api`, `frontend`, `testing` and `service`"
        ]
    );
}

/// The quotes are from the design of selective tool filtering, "Task Description Analysis".
#[test]
fn builtin_rules_cover_the_designed_keywords() {
    // - **Testing keywords**: Add test-related tools
    // - **Deployment keywords**: Add CI/CD workflow tools
    // - **Documentation keywords**: Add documentation-specific tools
    let base = tailored(OPEN, "x", None);
    for (task, server, tool) in [
        ("raise the coverage", "taskmaster", "update_task_status"),
        ("Deploying to production", "github", "merge_pull_request"),
        ("mend CI/CD", "github", "list_commits"),
        ("Document the endpoints", "github", "create_or_update_file"),
    ] {
        let with = tailored(OPEN, task, None);
        assert!(list(&with, server).contains(&tool.to_owned()), "{task}");
        assert!(!list(&base, server).contains(&tool.to_owned()), "{task}");
    }
}

const RULES: &str = r#"{
  "base_tools": {"files": ["read", "list"]},
  "serviceTypes": {},
  "patterns": {"tests": {"keywords": ["test"], "additional_tools": {
    "files": ["read", "write"], "runner": ["run_*"], "secret": ["look"], "off": ["x"], "none": ["y", "z"]}}}
}"#;

const FULL: &str = r#"{
  "$schema": "./schemas/workbench-config.schema.json",
  // Comments are not copied.
  "limits": {"maxListingBytes": 5000},
  "toolboxes": {
    "dev": {"description": "Development", "mcpServers": {
      "files": {"command": "./files.sh", "args": ["${ROOT}"], "env": {"TOKEN": "${TOKEN:-x}"}},
      "runner": {"command": ["run", "-v"], "cwd": "sub", "toolFilters": ["!run_away"]},
      "off": {"command": "x", "disabled": true}
    }},
    "other": {"description": "Other", "mcpServers": {"unused": {"command": "x"}}}
  },
  "mcpServers": {"secret": {"url": "${URL}", "headers": {"Authorization": "Bearer ${KEY}"}}},
  "exposed_tools": {"files": ["*"], "runner": ["run_all", "runner:run_one", "run_away", "stop"]},
  "agentPolicies": {
    "ann": {"allowed_servers": ["files", "secret", "unused"], "toolOverrides": {"secret": ["l*"], "files": ["rea*"], "unused": ["*"]}},
    "bob": {"toolOverrides": {"runner": []}}
  },
  "dangerousTools": ["files:write", "unused:*", "drop_*"]
}"#;

#[test]
fn keeps_only_selected_and_allowed_tools() {
    let mut request = request(FULL, "run the tests", None);
    request.rules = Some(source("r.json", RULES));
    let outcome = tailor(&request).unwrap();
    insta::assert_snapshot!(outcome.text.as_deref().unwrap());
    assert_eq!(
        outcome.warnings,
        ["skipped `x`: server `off` is disabled", "skipped `y` and `z`: no server `none`",]
    );
    assert_eq!(outcome.servers, ["files", "runner", "secret"]);
    let look = outcome.choices.iter().find(|choice| choice.tool == "look").unwrap();
    assert_eq!(look.agents, ["ann"]);
}

#[test]
fn tools_denied_to_all_are_not_added() {
    let full = r#"{"toolMode": "proxy", "mcpServers": {"files": {"command": "x", "toolFilters": ["!list"]},
        "runner": {"command": "y"}}, "defaultPolicy": {"allowUnknownTools": true},
        "exposedTools": {"runner": ["stop"]}}"#;
    let mut request = request(full, "tests", None);
    request.rules = Some(source("r.json", RULES));
    let outcome = tailor(&request).unwrap();
    let value = parsed(outcome.text.as_deref().unwrap());
    assert_eq!(value["exposedTools"], json!({"files": ["read", "write"]}));
    assert_eq!(value["toolMode"], "proxy");
    assert_eq!(value["defaultPolicy"], json!({"allowUnknownTools": false}));
    assert_eq!(outcome.warnings[0], "skipped `list` of `files`: no agent may use it");

    request.full.text = r#"{"mcpServers": {"other": {"command": "x"}}}"#.to_owned();
    let nothing = tailor(&request).unwrap();
    assert_eq!((nothing.text, nothing.choices.len()), (None, 0));
}

#[test]
fn relative_paths_are_rebased_for_another_directory() {
    let mut request = request(FULL, "run the tests", None);
    request.rules = Some(source("r.json", RULES));
    request.folder = Some("/full".into());
    let value = parsed(&tailor(&request).unwrap().text.unwrap());
    assert_eq!(value.get("$schema"), None);
    let servers = &value["toolboxes"]["dev"]["mcpServers"];
    assert_eq!(servers["files"]["command"], "/full/files.sh");
    assert_eq!(servers["files"]["cwd"], "/full");
    assert_eq!(servers["runner"]["cwd"], "/full/sub");
    assert_eq!(servers["runner"]["command"], json!(["run", "-v"]));
    assert_eq!(value["mcpServers"]["secret"].get("cwd"), None);
}

#[test]
fn invalid_configurations_and_rules_are_rejected() {
    let refused = |full: &str, rules: Option<&str>| {
        let mut request = request(full, "x", None);
        request.rules = rules.map(|rules| source("r.json", rules));
        tailor(&request).unwrap_err().to_string()
    };
    assert!(refused("{", None).contains("workbench-config.json:1:1"));
    assert!(refused(r#"{"mcpServers": {"a": {"args": 1}}}"#, None).contains("args"));
    for rules in [
        "[]",
        r#"{"patterns": {"a": {"additionalTools": {}}}}"#,
        r#"{"patterns": {"a": {"keywords": ["x"]}}}"#,
        r#"{"baseTools": {}, "base_tools": {}}"#,
        r#"{"base": {}}"#,
    ] {
        assert!(refused(OPEN, Some(rules)).contains("r.json:1:"), "{rules}");
    }
    let toml =
        TailorRequest { full: source("tools.toml", "servers = []"), ..request(OPEN, "x", None) };
    assert!(tailor(&toml).unwrap_err().to_string().contains("import"));
}

#[test]
fn task_text_cannot_escape_the_comment() {
    let text = tailor(&request(OPEN, "a\n\"b\": 1 // \u{2028}c */", Some("d\r\ne"))).unwrap().text;
    let text = text.unwrap();
    assert!(text.contains("// task: a \"b\": 1 // c */\n"), "{text}");
    assert_eq!(parsed(&text)["toolMode"], "direct");
}

/// A one-letter name from a small set, so that generated names collide.
fn name(of: &'static str) -> impl Strategy<Value = String> {
    proptest::sample::select(of.chars().map(String::from).collect::<Vec<_>>())
}

fn names(of: &'static str) -> impl Strategy<Value = Vec<String>> {
    let globbed = prop_oneof![4 => name(of), 1 => Just("*".to_owned())];
    proptest::collection::vec(globbed, 0..4)
}

fn lists(of: &'static str) -> impl Strategy<Value = BTreeMap<String, Vec<String>>> {
    proptest::collection::btree_map(name("rst"), names(of), 0..3)
}

fn policy() -> impl Strategy<Value = Value> {
    let agent = (proptest::option::of(names("rst")), lists("xyz")).prop_map(|(servers, lists)| {
        let mut agent = json!({"toolOverrides": lists});
        if let Some(servers) = servers {
            agent["allowedServers"] = json!(servers);
        }
        agent
    });
    let agents = proptest::collection::btree_map(name("ab"), agent, 0..3);
    let parts =
        (proptest::option::of(lists("xyz")), proptest::option::of(agents), any::<Option<bool>>());
    parts.prop_map(|(exposed, agents, rest)| {
        let mut full = json!({"mcpServers": {"r": {"command": "r"}, "s": {"command": "s"}}});
        if let Some(exposed) = exposed {
            full["exposedTools"] = json!(exposed);
        }
        if let Some(agents) = agents {
            full["agentPolicies"] = json!(agents);
        }
        if let Some(rest) = rest {
            full["defaultPolicy"]["allowUnknownTools"] = rest.into();
        }
        full
    })
}

fn has(list: &Value, name: &str) -> bool {
    list.as_array().unwrap().iter().any(|item| item == name || item == "*")
}

/// The reference implementation: "Permission Checking Logic" in the design of selective tool
/// filtering.
fn is_tool_allowed(config: &Value, agent: &str, server: &str, tool: &str) -> bool {
    if config["mcpServers"].get(server).is_none() {
        return false;
    }
    if let Some(policy) = config["agentPolicies"].get(agent) {
        if policy.get("allowedServers").is_some_and(|servers| !has(servers, server)) {
            return false;
        }
        if let Some(tools) = policy["toolOverrides"].get(server) {
            return has(tools, tool);
        }
    }
    if let Some(tools) = config["exposedTools"].get(server) {
        return has(tools, tool);
    }
    let has_rules = ["exposedTools", "agentPolicies"].iter().any(|key| config.get(key).is_some());
    config["defaultPolicy"]["allowUnknownTools"].as_bool().unwrap_or(!has_rules)
}

proptest! {
    /// Every agent keeps its access to the tools that the task needs, and gains none.
    #[test]
    fn tailoring_never_widens_access(
        full in policy(), wanted in lists("xy"), again in any::<u8>(),
    ) {
        let wanted: BTreeMap<_, Vec<_>> = wanted
            .into_iter()
            .map(|(server, tools)| (server, tools.into_iter().filter(|t| t != "*").collect()))
            .collect();
        let rules = json!({"baseTools": wanted, "serviceTypes": {}, "patterns": {}});
        let mut request = request(&full.to_string(), &format!("task {again}"), None);
        request.rules = Some(source("r.json", &rules.to_string()));
        let first = tailor(&request).unwrap();
        prop_assert_eq!(&tailor(&request).unwrap(), &first, "the same input gives the same");
        let narrow = first.text.as_deref().map_or(json!({}), parsed);
        for server in ["r", "s", "t"] {
            let is_wanted = |tool: &str| wanted.get(server).is_some_and(|all| all.iter().any(|t| t == tool));
            for tool in ["x", "y", "z"] {
                for agent in ["a", "b", "nobody"] {
                    let expected = is_wanted(tool) && is_tool_allowed(&full, agent, server, tool);
                    let got = is_tool_allowed(&narrow, agent, server, tool);
                    prop_assert_eq!(got, expected, "{} {} {}: {}", agent, server, tool, narrow);
                }
            }
        }
        if let Some(text) = &first.text {
            let again = TailorRequest { full: source("task.json", text), ..request };
            prop_assert!(tailor(&again).is_ok(), "the output is a valid configuration");
        }
    }
}

#[test]
fn inherited_overrides_are_honoured() {
    let full = r#"{"mcpServers": {"github": {"command": "g"}}, "agentPolicies": {
        "base": {"toolOverrides": {"github": ["get_file_contents"]}},
        "dev": {"extends": "base"},
        "other": {"allowedServers": []}}}"#;
    let tailored = tailor(&request(full, "Paint the shed", None)).unwrap();
    let choice = tailored.choices.iter().find(|choice| choice.tool == "get_file_contents");
    assert_eq!(choice.unwrap().agents, ["base", "dev"]);
}

#[test]
fn tailored_configuration_loads() {
    let text = tailor(&request(OPEN, "test the api", Some("api"))).unwrap().text.unwrap();
    let env = BTreeMap::new();
    let loaded = mcp_workbench_config::parse(&text, Path::new("task.json"), Path::new("/"), &env);
    let loaded = loaded.unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.config.mode.as_str(), "direct");
}

#[test]
fn agents_without_access_to_a_default_tool_are_listed() {
    let full = r#"{"mcpServers": {"filesystem": {"command": "f"}, "github": {"command": "g"}},
        "defaultPolicy": {"allowUnknownTools": true},
        "agentPolicies": {
            "plain": {},
            "coder": {"allowedServers": ["github"]},
            "intern": {"extends": "coder"},
            "reader": {"toolOverrides": {"filesystem": ["read_file"]}},
            "trainee": {"extends": ["reader", "coder"]}}}"#;
    let tailored = tailor(&request(full, "Paint the shed", None)).unwrap();
    let of = |tool: &str| {
        let choice = tailored.choices.iter().find(|choice| choice.tool == tool).unwrap();
        assert_eq!(choice.agents, [""; 0], "{tool}");
        choice.except_agents.join(",")
    };
    assert_eq!(of("get_file_contents"), "");
    assert_eq!(of("read_file"), "coder,intern");
    assert_eq!(of("write_file"), "coder,intern,reader,trainee");
}

#[test]
fn secret_references_are_preserved() {
    let full = r#"{"navigator": {"llm": {"baseUrl": "https://h", "model": "m", "apiKey": {"file": "key"}}},
        "mcpServers": {"github": {"command": "github", "env": {
            "TOKEN": {"command": ["./get.sh", "github"]}, "OTHER": {"keyring": "a/b"}}}}}"#;
    let value = tailored(full, "open a github issue", None);
    let env = &value["mcpServers"]["github"]["env"];
    assert_eq!(
        env,
        &json!({"TOKEN": {"command": ["./get.sh", "github"]}, "OTHER": {"keyring": "a/b"}})
    );
    let mut request = request(full, "open a github issue", None);
    request.folder = Some("/full".into());
    let value = parsed(&tailor(&request).unwrap().text.unwrap());
    assert_eq!(value["mcpServers"]["github"]["env"]["TOKEN"]["command"][0], "/full/get.sh");
    assert_eq!(value["navigator"]["llm"]["apiKey"], json!({"file": "/full/key"}));
}

#[test]
fn resource_prompt_and_definition_policies_are_narrowed() {
    let full = r#"{"mcpServers": {
        "github": {"command": "github", "resourceFilters": ["issue://*"], "promptFilters": ["!p"],
            "onDefinitionChange": "deny"},
        "git": {"command": "git"}},
        "onDefinitionChange": "quarantine",
        "exposedResources": {"github": ["issue://*"], "git": ["x"]},
        "exposedPrompts": {"github": [], "git": ["y"]},
        "agentPolicies": {"ann": {
            "resourceOverrides": {"github": ["!issue://1"], "git": []},
            "promptOverrides": {"github": ["*"], "git": ["z"]}}},
        "defaultPolicy": {"allowUnknownTools": true}}"#;
    let kept = tailored(full, "Paint the shed", None);
    let github = &kept["mcpServers"]["github"];
    assert_eq!(github["resourceFilters"], json!(["issue://*"]));
    assert_eq!(github["promptFilters"], json!(["!p"]));
    assert_eq!(
        (&github["onDefinitionChange"], &kept["onDefinitionChange"]),
        (&json!("deny"), &json!("quarantine"))
    );
    assert_eq!(kept["exposedResources"], json!({"github": ["issue://*"]}));
    assert_eq!(kept["exposedPrompts"], json!({"github": []}));
    let ann = &kept["agentPolicies"]["ann"];
    assert_eq!(ann["resourceOverrides"], json!({"github": ["!issue://1"]}));
    assert_eq!(ann["promptOverrides"], json!({"github": ["*"]}));
}
