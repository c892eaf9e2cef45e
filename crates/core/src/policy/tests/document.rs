//! Tests against the function and the examples in the document on selective tool filtering.

use std::collections::HashMap;

use pretty_assertions::assert_eq;

use super::*;

/// The rules that the document's function reads.
struct Document {
    agent_policy: AgentPolicy,
    config: DocumentConfig,
}

struct AgentPolicy {
    allowed_servers: Vec<String>,
    tool_overrides: HashMap<String, Vec<String>>,
}

struct DocumentConfig {
    exposed_tools: HashMap<String, Vec<String>>,
    default_policy: DefaultPolicy,
}

struct DefaultPolicy {
    allow_unknown_tools: bool,
}

impl Document {
    /// The function in "### 3. Permission Checking Logic", but synchronous and with names compared
    /// as strings:
    ///
    /// ```text
    /// async fn is_tool_allowed(&self, tool_name: &str, server_name: &str, agent_id: Option<&str>) -> bool {
    /// ```
    fn is_tool_allowed(&self, tool_name: &str, server_name: &str) -> bool {
        let Self { agent_policy, config } = self;
        let contains = |list: &Vec<String>, name: &str| list.contains(&name.to_owned());
        // 1. Check if agent can access this server
        if !contains(&agent_policy.allowed_servers, server_name) {
            return false;
        }

        // 2. Check agent-specific tool overrides
        if let Some(allowed_tools) = agent_policy.tool_overrides.get(server_name) {
            return contains(allowed_tools, tool_name);
        }

        // 3. Fall back to global exposed tools
        if let Some(exposed_tools) = config.exposed_tools.get(server_name) {
            return contains(exposed_tools, tool_name);
        }

        // 4. Check default policy
        config.default_policy.allow_unknown_tools
    }
}

const SERVERS: [&str; 2] = ["github", "filesystem"];
const TOOLS: [&str; 3] = ["create_pull_request", "get_file_contents", "read_file"];

/// Every subset of `items`.
fn subsets(items: &[&str]) -> Vec<Vec<String>> {
    items.iter().fold(vec![Vec::new()], |subsets, item| {
        let with = subsets.iter().map(|subset| [&subset[..], &[(*item).to_owned()]].concat());
        with.chain(subsets.clone()).collect()
    })
}

/// Every list for `github`, and no list.
fn lists() -> Vec<HashMap<String, Vec<String>>> {
    let some = subsets(&TOOLS[..2]).into_iter();
    let some = some.map(|tools| HashMap::from([("github".to_owned(), tools)]));
    some.chain([HashMap::new()]).collect()
}

#[test]
fn decides_like_the_documented_permission_function() {
    let mut decisions = HashMap::from([(true, 0), (false, 0)]);
    for allowed_servers in subsets(&SERVERS) {
        for tool_overrides in lists() {
            for exposed_tools in lists() {
                for allow_unknown_tools in [false, true] {
                    let document = Document {
                        agent_policy: AgentPolicy {
                            allowed_servers: allowed_servers.clone(),
                            tool_overrides: tool_overrides.clone(),
                        },
                        config: DocumentConfig {
                            exposed_tools: exposed_tools.clone(),
                            default_policy: DefaultPolicy { allow_unknown_tools },
                        },
                    };
                    let keys = json!({
                        "agent_policies": {"claude-code": {
                            "allowed_servers": allowed_servers,
                            "tool_overrides": tool_overrides,
                        }},
                        "exposed_tools": exposed_tools,
                        "default_policy": {"allow_unknown_tools": allow_unknown_tools},
                    });
                    let config = config(&SERVERS, &keys);
                    let policy = Policies::new(config).for_agent(agent("claude-code").as_ref());
                    for (server, called) in
                        SERVERS.iter().flat_map(|server| TOOLS.map(|called| (*server, called)))
                    {
                        let wanted = document.is_tool_allowed(called, server);
                        let decided = policy
                            .decide(&tool(server, called), ToolTraits::default(), noon)
                            .is_ok();
                        assert_eq!(decided, wanted, "{server}:{called} with {keys}");
                        *decisions.entry(wanted).or_default() += 1;
                    }
                }
            }
        }
    }
    assert_eq!(decisions.values().sum::<u32>(), 4 * 5 * 5 * 2 * 6);
    assert!(decisions.values().all(|count| *count > 100), "{decisions:?}");
}

/// "### Global Tool Exposure"
#[test]
fn documented_exposed_tools_apply_to_every_agent() {
    let keys: Value = serde_json::from_str(
        r#"
{
  "exposed_tools": {
    "github": [
      "create_pull_request",
      "get_file_contents"
    ],
    "taskmaster": [
      "get_tasks",
      "add_task",
      "update_task_status"
    ],
    "filesystem": [
      "read_file",
      "write_file"
    ]
  }
}
"#,
    )
    .unwrap();
    let config = config(&["github", "taskmaster", "filesystem", "memory"], &keys);
    assert_eq!(seen(&config, ""), ["github", "taskmaster", "filesystem"]);
    for (server, called, is_allowed) in [
        ("github", "create_pull_request", true),
        ("github", "delete_repository", false),
        ("taskmaster", "update_task_status", true),
        ("filesystem", "read_file", true),
        ("filesystem", "create_directory", false),
        ("memory", "create_memories", false),
    ] {
        assert_eq!(allows(&config, "", server, called), is_allowed, "{server}:{called}");
        assert_eq!(allows(&config, "claude-code", server, called), is_allowed, "{server}:{called}");
    }
}

/// "### Agent-Specific Overrides"
#[test]
fn documented_overrides_apply_to_their_agent() {
    let keys: Value = serde_json::from_str(
        r#"
{
  "agent_policies": {
    "claude-code": {
      "allowed_servers": ["github", "taskmaster", "filesystem"],
      "tool_overrides": {
        "github": ["create_pull_request", "get_file_contents"],
        "taskmaster": ["get_tasks", "add_task"],
        "filesystem": ["read_file", "write_file"]
      }
    }
  }
}
"#,
    )
    .unwrap();
    let config = config(&["github", "taskmaster", "filesystem", "memory"], &keys);
    assert_eq!(seen(&config, "claude-code"), ["github", "taskmaster", "filesystem"]);
    assert!(allows(&config, "claude-code", "taskmaster", "add_task"));
    assert!(!allows(&config, "claude-code", "taskmaster", "update_task_status"));
    assert_eq!(seen(&config, "another"), [""; 0]);
    // "Agent sees only: 2 GitHub tools, 3 Taskmaster tools, 2 Filesystem tools" of 30, 20 and 10.
    assert!(!allows(&config, "another", "github", "create_pull_request"));
}

/// "## Example Use Cases": each lists tools per server, as `tool_overrides` does.
#[test]
fn documented_use_cases_grant_exactly_their_tools() {
    let use_cases: Value = serde_json::from_str(
        r#"
{
  "Code Development Task": {
    "filesystem": ["read_file", "write_file", "list_directory", "create_directory"],
    "github": ["get_file", "create_pull_request", "create_issue"],
    "git": ["git_log", "git_diff", "read_file"]
  },
  "Research Task": {
    "filesystem": ["read_file", "search_files"],
    "brave-search": ["brave_web_search"],
    "memory": ["create_memories", "search_memories"]
  },
  "Data Analysis Task": {
    "filesystem": ["read_file", "list_directory"],
    "postgresql": ["query", "list_tables", "describe_table"],
    "sqlite": ["query", "list_tables", "describe_table"]
  },
  "Automation Task": {
    "filesystem": ["read_file", "write_file"],
    "puppeteer": ["puppeteer_screenshot", "puppeteer_navigate"],
    "github": ["get_file", "create_issue"]
  }
}
"#,
    )
    .unwrap();
    let servers = [
        "filesystem",
        "github",
        "git",
        "brave-search",
        "memory",
        "postgresql",
        "sqlite",
        "puppeteer",
    ];
    let cases = use_cases.as_object().unwrap();
    let policies: serde_json::Map<String, Value> = cases
        .iter()
        .map(|(case, tools)| {
            let allowed: Vec<&String> = tools.as_object().unwrap().keys().collect();
            (case.clone(), json!({"allowed_servers": allowed, "tool_overrides": tools}))
        })
        .collect();
    let config = config(&servers, &json!({ "agent_policies": policies }));
    let lists = cases.values().flat_map(|tools| tools.as_object().unwrap().values());
    let names = lists.flat_map(|list| list.as_array().unwrap()).map(|name| name.as_str().unwrap());
    let names: Vec<&str> = names.collect();
    for (case, tools) in cases {
        let policy = Policies::new(Arc::clone(&config)).for_agent(agent(case).as_ref());
        for server in servers {
            for name in &names {
                let is_listed =
                    tools[server].as_array().is_some_and(|tools| tools.contains(&json!(name)));
                let decided = policy.decide(&tool(server, name), ToolTraits::default(), noon);
                assert_eq!(decided.is_ok(), is_listed, "{case}: {server}:{name}");
            }
        }
        let mut wanted: Vec<&str> = tools.as_object().unwrap().keys().map(String::as_str).collect();
        wanted.sort_by_key(|name| servers.iter().position(|server| server == name));
        assert_eq!(seen(&config, case), wanted, "{case}");
    }
}
