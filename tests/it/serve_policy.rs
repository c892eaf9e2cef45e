//! Access rules through the real executable: the documented file, and tool names in every mode.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Agent, TestEnvironment, fake};

fn server(tools: &[&str]) -> Value {
    let mut entry = fake(json!({ "tools": tools }));
    entry["enabled"] = true.into();
    entry
}

/// The "8 Real MCP Servers" of the document, reduced to the tools that its use cases name. The
/// agents are its "Code Development Task" and its "Research Task".
fn document() -> TestEnvironment {
    let filesystem = [
        "read_file",
        "write_file",
        "list_directory",
        "create_directory",
        "search_files",
        "delete_file",
    ];
    TestEnvironment::new().config(json!({
        "servers": {
            "filesystem": server(&filesystem),
            "github": server(&["get_file", "create_pull_request", "create_issue", "delete_repository"]),
            "git": server(&["git_log", "git_diff", "read_file"]),
            "brave-search": server(&["brave_web_search"]),
            "memory": server(&["create_memories", "search_memories"]),
        },
        "exposed_tools": { "github": ["get_file", "create_pull_request", "create_issue"] },
        "agent_policies": {
            "claude-developer": {
                "allowed_servers": ["filesystem", "github", "git"],
                "tool_overrides": {
                    "filesystem": ["read_file", "write_file", "list_directory", "create_directory"],
                    "git": ["git_log", "git_diff", "read_file"]
                }
            },
            "claude-researcher": {
                "allowed_servers": ["filesystem", "brave-search", "memory"],
                "tool_overrides": {
                    "filesystem": ["read_file", "search_files"],
                    "brave-search": ["brave_web_search"],
                    "memory": ["create_memories", "search_memories"]
                }
            }
        },
        "default_policy": { "allow_unknown_tools": false, "allow_unknown_servers": false }
    }))
}

fn agent(bench: &TestEnvironment, args: &[&str]) -> Agent {
    let agent = bench.agent_with(args.iter().copied());
    agent.initialize();
    agent
}

#[test]
fn documented_agents_see_and_call_their_own_tools() {
    let bench = document();
    let developer = agent(&bench, &["--agent", "claude-developer"]);
    let names = [
        "filesystem__filesystem__read_file",
        "write_file",
        "list_directory",
        "create_directory",
        "get_file",
        "create_pull_request",
        "create_issue",
        "git_log",
        "git_diff",
        "git__git__read_file",
    ];
    assert_eq!(developer.tool_names(), names);
    assert_eq!(developer.call("write_file", json!({"a": 1})).structured(), json!({"a": 1}));
    assert_eq!(developer.call("github:get_file", json!({"a": 2})).structured(), json!({"a": 2}));
    assert_eq!(developer.call("git:read_file", json!({"a": 3})).structured(), json!({"a": 3}));

    let researcher = agent(&bench, &["--agent", "claude-researcher"]);
    let names =
        ["read_file", "search_files", "brave_web_search", "create_memories", "search_memories"];
    assert_eq!(researcher.tool_names(), names, "no prefix: it can use only one `read_file`");
    assert_eq!(researcher.call("read_file", json!({"a": 1})).structured(), json!({"a": 1}));

    let nobody = agent(&bench, &[]);
    assert_eq!(nobody.tool_names(), ["get_file", "create_pull_request", "create_issue"]);
}

/// A misspelled name would otherwise get the default policy.
#[test]
fn unknown_agent_is_refused_at_startup() {
    let bench = TestEnvironment::new()
        .server("box", "srv", fake(json!({ "tools": ["read", "drop"] })))
        .set("toolMode", json!("direct"))
        .set("agentPolicies", json!({ "reader": { "toolOverrides": { "srv": ["read"] } } }))
        .set("exposedTools", json!({ "srv": ["*"] }));
    for command in ["serve", "list", "check"] {
        let refused = bench.run([command, "--agent", "raeder"]);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert_eq!(
            refused.stderr,
            "error: agent `raeder` is not in `agentPolicies`, so it has no access\n\n\
             hint: did you mean `reader`? To allow other agents, set a `defaultPolicy`\n"
        );
    }
    assert_eq!(agent(&bench, &["--agent", "reader"]).tool_names(), ["read"]);
    assert_eq!(agent(&bench, &[]).tool_names(), ["read", "drop"], "an agent without a name");
    let open = bench.set("defaultPolicy", json!({}));
    assert_eq!(agent(&open, &["--agent", "raeder"]).tool_names(), ["read", "drop"]);
}

#[test]
fn documented_file_works_with_additional_workbench_keys() {
    let token = |agent: &str, digit: &str| json!({ "agent": agent, "sha256": digit.repeat(64) });
    let bench = document()
        .set(
            "auth",
            json!({ "tokens": [token("claude-developer", "a"), token("claude-dev", "b")] }),
        )
        .set("http", json!({ "maxSessions": 5 }))
        .set("limits", json!({ "maxResultBytes": 10_000 }))
        .set("audit", json!({ "file": "audit.jsonl" }));
    let checked = bench.run(["check"]);
    assert_eq!(checked.code, Some(0), "{checked}");
    assert!(checked.stdout.contains("a file of the Toolman server"), "{checked}");
    assert!(checked.stdout.contains("mode `direct`"), "{checked}");
    let developer = agent(&bench, &["--agent", "claude-developer"]);
    assert!(developer.tool_names().contains(&"write_file".to_owned()));
    let researcher = agent(&bench, &["--agent", "claude-researcher"]);
    assert!(!researcher.tool_names().contains(&"write_file".to_owned()));
    let proxy = agent(&bench.set("toolMode", json!("proxy")), &["--agent", "claude-researcher"]);
    assert_eq!(proxy.tool_names(), ["open_toolbox", "use_tool"]);
}

#[test]
fn forbidden_tools_look_like_unknown_ones() {
    let agent = agent(&document(), &["--agent", "claude-researcher"]);
    for (forbidden, missing) in [
        ("delete_file", "debate_pile"),
        ("filesystem:delete_file", "filesystem:debate_pile"),
        ("filesystem__filesystem__delete_file", "filesystem__filesystem__debate_pile"),
        ("github:get_file", "gitlab:get_file"),
        ("github__github__get_file", "gitlab__gitlab__get_file"),
        ("git_log", "got_lig"),
    ] {
        let [forbidden_answer, missing_answer] = [forbidden, missing].map(|name| {
            let answer = agent.call(name, json!({}));
            assert!(answer.is_tool_error(), "{name}");
            answer.text().replace(name, "NAME").replace(&name.replace(':', "/"), "NAME")
        });
        let [forbidden_answer, missing_answer] = [forbidden_answer, missing_answer]
            .map(|text| text.replace("delete_file", "TOOL").replace("debate_pile", "TOOL"));
        assert_eq!(forbidden_answer, missing_answer, "{forbidden}");
    }
}

#[test]
fn tools_are_callable_by_any_name_in_every_mode() {
    for mode in ["dynamic", "proxy", "direct", "modular", "activate"] {
        let bench = TestEnvironment::new()
            .set("toolMode", json!(mode))
            .set("exposedTools", json!({ "one": ["*"], "two": ["own"] }))
            .server("box", "one", fake(json!({ "tools": ["get", "own"] })))
            .server("other", "two", fake(json!({ "tools": ["get", "own"] })));
        let agent = agent(&bench, &[]);
        let starts = ["two:own", "one:get", "box__one__get"];
        for name in starts.into_iter().chain(["get"]) {
            if mode == "activate" {
                let tool = if name == "two:own" { "other_own" } else { "box_get" };
                let on = json!({ "tools_on": [tool] });
                _ = agent.call("toolman_activate", on);
            }
            let answer = agent.call(name, json!({ "a": name }));
            let text = answer.result().map(ToString::to_string).unwrap_or_default();
            assert!(!answer.is_tool_error(), "{mode}: {name}: {text}");
            assert_eq!(answer.structured(), json!({ "a": name }), "{mode}: {name}");
        }
        assert!(agent.call("two:get", json!({})).is_tool_error(), "{mode}");
    }
}

#[test]
fn argument_conditions_are_checked_at_the_call() {
    let bench = TestEnvironment::new()
        .set("toolMode", json!("direct"))
        .set(
            "agentPolicies",
            json!({ "careful": { "toolOverrides": { "files": ["write"] }, "when": {
            "tools": ["files:write"],
            "arguments": { "/path": { "matches": "^/workspace/" } },
        } } }),
        )
        .server("box", "files", fake(json!({ "tools": ["write"] })));
    let agent = agent(&bench, &["--agent", "careful"]);
    let inside = agent.call("write", json!({ "path": "/workspace/a" }));
    assert_eq!(inside.structured(), json!({ "path": "/workspace/a" }));
    let outside = agent.call("write", json!({ "path": "/etc/passwd" }));
    assert!(outside.is_tool_error());
    assert_eq!(
        outside.text(),
        "`box/files/write` was not called: allowed only if argument `/path` matches \
         `^/workspace/`.\nWhat to do: change the argument; the configuration sets this condition."
    );
}

#[test]
fn folder_and_time_conditions_hide_tools() {
    let when = |condition: Value| json!({ "toolOverrides": { "files": ["read", "write"] }, "when": [condition] });
    let bench = TestEnvironment::new().set("toolMode", json!("direct")).server(
        "box",
        "files",
        fake(json!({ "tools": ["read", "write"] })),
    );
    let here = bench.dir().canonicalize().unwrap();
    let here = here.to_str().unwrap();
    let bench = bench.set("agentPolicies", json!({
        "here": when(json!({ "tools": ["write"], "workingDirectory": format!("{here}/**") })),
        "there": when(json!({ "tools": ["write"], "workingDirectory": "/does/not/exist" })),
        "nowhere": when(json!({ "workingDirectory": "/does/not/exist" })),
        "always": when(json!({ "tools": ["write"], "time": { "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] } })),
        "never": when(json!({ "tools": ["write"], "time": { "days": [] } })),
    }));
    let tools = |name: &str| agent(&bench, &["--agent", name]).tool_names().join(" ");
    assert_eq!(tools("here"), "read write");
    assert_eq!(tools("there"), "read");
    assert_eq!(tools("nowhere"), "");
    assert_eq!(tools("always"), "read write");
    assert_eq!(tools("never"), "read");
}
