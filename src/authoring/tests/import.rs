//! Tests of importing from each client, and of extending a configuration.

use pretty_assertions::assert_eq;

use crate::authoring::import::{
    Grade, Grouping, ImportOptions, ImportPlan, NoExtraction, SourceFile, collect_candidates,
    collect_user_candidates, plan_import,
};
use crate::authoring::tests::{env, read};

fn source(file: &str, text: &str) -> SourceFile {
    SourceFile { file: file.to_owned(), text: text.to_owned() }
}

fn import(existing: Option<&str>, file: &str, text: &str) -> ImportPlan {
    let existing = existing.map(|text| source("workbench.json", text));
    plan_import(existing.as_ref(), &[source(file, text)], &ImportOptions::default()).unwrap()
}

/// Returns the added servers and the findings, as text.
fn said(plan: &ImportPlan) -> Vec<String> {
    let added = plan
        .added
        .iter()
        .map(|added| format!("+ {}/{} ({})", added.toolbox, added.server, added.grade));
    let findings = plan.findings.iter().map(ToString::to_string);
    let machine = "has a generated description";
    added.chain(findings.filter(|text| !text.contains(machine))).collect()
}

fn written(plan: &ImportPlan) -> serde_json::Value {
    let tree = mcp_workbench_config::syntax::document::parse_jsonc(&plan.text).unwrap();
    let value = serde_json::Value::from(tree);
    let toolbox = value["toolboxes"].as_object().unwrap().values().next().unwrap();
    toolbox["mcpServers"].clone()
}

#[test]
fn a_new_configuration_reads_well() {
    let plan = import(
        None,
        "~/.config/Claude/claude_desktop_config.json",
        r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server-filesystem", "/tmp"]},
            "github": {"command": "docker", "args": ["run", "\"quoted\"\n"], "env": {"GITHUB_TOKEN": "ghp_x", "MODE": "ro"}}}}"#,
    );
    assert_eq!(
        plan.text,
        r#"{
  "toolboxes": {
    "claude-desktop": {
      "description": "Servers imported from Claude Desktop",
      "mcpServers": {
        "files": {
          "command": "npx",
          "args": ["-y", "server-filesystem", "/tmp"]
        },
        "github": {
          "command": "docker",
          "args": ["run", "\"quoted\"\n"],
          "env": {
            "GITHUB_TOKEN": "ghp_x",
            "MODE": "ro"
          }
        }
      }
    }
  }
}
"#
    );
    let shown: Vec<String> = plan.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "manual: ~/.config/Claude/claude_desktop_config.json:3:23: mcpServers.github: secret in plain text: `GITHUB_TOKEN`\n  hint: write `\"GITHUB_TOKEN\": \"${GITHUB_TOKEN}\"` and set the variable",
            "manual: ~/.config/Claude/claude_desktop_config.json: toolbox `claude-desktop` has a generated description\n  hint: describe what its servers are for: agents choose toolboxes by description",
        ]
    );
    assert_eq!(read(&plan.text, &env(&[])).unwrap().findings, []);
}

#[test]
fn an_existing_configuration_keeps_its_comments() {
    let plan = import(
        Some(
            "\u{feff}// Mine.\n{\n\t\"toolMode\": \"proxy\", // not dynamic\n\t\"toolboxes\": {\n\t\t\"cursor\": {\n\t\t\t\"description\": \"Own\",\n\t\t\t\"mcpServers\": {\n\t\t\t\t\"same\": {\"args\": [\"1\"], \"command\": \"a\"}, // one line\n\t\t\t\t\"other\": {\"command\": \"b\"}\n\t\t\t\t// the end\n\t\t\t}\n\t\t}\n\t}\n}\n",
        ),
        "/home/me/.cursor/mcp.json",
        r#"{"mcpServers": {"same": {"command": "a", "args": ["1"]}, "other": {"command": "c"}, "new": {"command": "d"}}}"#,
    );
    assert_eq!(
        plan.text,
        "\u{feff}// Mine.\n{\n\t\"toolMode\": \"proxy\", // not dynamic\n\t\"toolboxes\": {\n\t\t\"cursor\": {\n\t\t\t\"description\": \"Own\",\n\t\t\t\"mcpServers\": {\n\t\t\t\t\"same\": {\"args\": [\"1\"], \"command\": \"a\"}, // one line\n\t\t\t\t\"other\": {\"command\": \"b\"},\n\t\t\t\t\"other-2\": {\n\t\t\t\t\t\"command\": \"c\"\n\t\t\t\t},\n\t\t\t\t\"new\": {\n\t\t\t\t\t\"command\": \"d\"\n\t\t\t\t}\n\t\t\t\t// the end\n\t\t\t}\n\t\t}\n\t}\n}\n"
    );
    assert_eq!(
        said(&plan),
        [
            "+ cursor/other-2 (exact)",
            "+ cursor/new (exact)",
            "exact: /home/me/.cursor/mcp.json:1:25: mcpServers.same: already in toolbox `cursor`",
            "approximate: /home/me/.cursor/mcp.json:1:67: mcpServers.other: `other` already exists: added as `other-2`",
        ]
    );
}

#[test]
fn restrictions_of_an_existing_server_are_not_lost_silently() {
    let existing = r#"{"mcpServers": {"a": {"command": "x", "toolFilters": ["!b"]}}}"#;
    let found = |entry: &str| {
        let text = format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#);
        said(&import(Some(existing), "settings.json", &text)).join("\n")
    };
    let same = r#"{"command": "x", "excludeTools": ["b"]}"#;
    assert_eq!(found(same), "exact: settings.json:1:22: mcpServers.a: already in toolbox `a`");
    assert!(!found(r#"{"command": "x"}"#).contains("without"));
    let other = found(r#"{"command": "x", "excludeTools": ["b", "c"], "disabled": true}"#);
    let lost = "already in toolbox `a`, without the `toolFilters`, `disabled` of this entry";
    assert!(other.contains("manual: ") && other.contains(lost), "{other}");
}

#[test]
fn importing_twice_changes_nothing() {
    let text =
        r#"{"mcpServers": {"a": {"command": "x", "env": {"B": "1", "A": "2"}, "cwd": "/c"}}}"#;
    let first = import(None, "x.json", text);
    let second = import(Some(&first.text), "x.json", text);
    assert_eq!(second.text, first.text);
    assert_eq!(second.added, []);
}

#[test]
fn claude_code_has_servers_for_each_project() {
    let plan = import(
        None,
        "/home/me/.claude.json",
        r#"{"numStartups": 3, "mcpServers": {"a": {"type": "stdio", "command": "a", "args": [], "env": {}}},
            "projects": {"/projects/site": {"mcpServers": {"b": {"command": "b", "args": ["."]}}}, "/projects/none": {"mcpServers": {}}}}"#,
    );
    assert_eq!(said(&plan), ["+ claude-code/a (exact)", "+ claude-code-site/b (exact)"]);
    assert!(plan.text.contains(r#""cwd": "/projects/site""#), "{}", plan.text);
}

#[test]
fn vs_code_servers_and_inputs_are_imported() {
    let text = r#"{"inputs": [], "servers": {"a": {"type": "stdio", "command": "a",
        "args": ["${workspaceFolder}/x", "${env:HOME}"], "env": {"KEY": "${input:api-key}"}, "envFile": ".env"}}}"#;
    let plan = import(None, ".vscode/mcp.json", text);
    assert_eq!(
        said(&plan),
        [
            "+ vscode/a (manual)",
            "approximate: .vscode/mcp.json:2:94: servers.a.envFile: ignored: `envFile` is not supported",
            "manual: .vscode/mcp.json:1:33: servers.a: `${workspaceFolder}` is not supported and left unchanged\n  hint: write the value itself",
            "manual: .vscode/mcp.json:1:33: servers.a: `${input:api-key}` prompts for a value; replaced by `${API_KEY}`\n  hint: set `API_KEY` before starting the workbench",
        ]
    );
    assert_eq!(
        written(&plan)["a"],
        serde_json::json!({"command": "a", "args": ["${workspaceFolder}/x", "${HOME}"], "env": {"KEY": "${API_KEY}"}})
    );
    let settings = format!(r#"{{"editor.fontSize": 12, "mcp": {text}}}"#);
    let plan = import(None, "Code/User/settings.json", &settings);
    assert_eq!(plan.added.len(), 1);
}

#[test]
fn opencode_entries_are_converted() {
    let plan = import(
        None,
        "opencode.jsonc",
        r#"{"$schema": "x", "mcp": {
            "a": {"type": "local", "command": ["npx", "-y"], "environment": {"T": "{env:TOKEN}"}, "enabled": false},
            "b": {"type": "remote", "url": "https://example.com", "headers": {"A": "{env:TOKEN}"}}}}"#,
    );
    assert_eq!(said(&plan), ["+ opencode/a (exact)", "+ opencode/b (exact)",]);
    assert_eq!(
        written(&plan)["a"],
        serde_json::json!({"command": "npx", "args": ["-y"], "env": {"T": "${TOKEN}"}, "disabled": true})
    );
    assert_eq!(
        written(&plan)["b"],
        serde_json::json!({"url": "https://example.com", "headers": {"A": "${TOKEN}"}})
    );
}

#[test]
fn gemini_variables_and_tool_lists_are_converted() {
    let plan = import(
        None,
        "~/.gemini/settings.json",
        r#"{"theme": "x", "mcp": {"allowed": ["a"]}, "mcpServers": {"a": {"command": "a", "env": {"API_KEY": "$API_KEY"},
            "timeout": 30000, "trust": true, "includeTools": ["b"], "excludeTools": ["c"]}}}"#,
    );
    assert_eq!(
        said(&plan),
        [
            "+ gemini/a (approximate)",
            "approximate: ~/.gemini/settings.json:2:31: mcpServers.a: ignored: `trust` (not supported)",
        ]
    );
    assert_eq!(
        written(&plan)["a"],
        serde_json::json!({"command": "a", "env": {"API_KEY": "${API_KEY}"}, "toolFilters": ["b", "!c"], "callTimeoutMs": 30000})
    );
}

#[test]
fn zed_command_objects_are_converted() {
    let plan = import(
        None,
        "~/.config/zed/settings.json",
        r#"{"context_servers": {
            "a": {"source": "custom", "command": {"path": "a", "args": ["1"], "env": null}},
            "b": {"source": "custom", "command": "b", "args": ["2"]},
            "c": {"settings": {}}}}"#,
    );
    assert_eq!(plan.added.len(), 2);
    assert_eq!(
        written(&plan),
        serde_json::json!({"a": {"command": "a", "args": ["1"]}, "b": {"command": "b", "args": ["2"]}})
    );
    let said = said(&plan).join("\n");
    assert!(said.contains("context_servers.c: not imported: expected a `command`"), "{said}");
}

#[test]
fn a_workbench_configuration_keeps_its_toolboxes() {
    let plan = import(
        None,
        "old.json",
        r#"{"toolboxes": {"dev": {"description": "Own words", "mcpServers": {
            "a": {"command": "a", "toolFilters": ["x"], "idleTimeoutMs": 5, "shareProcess": false, "inheritEnv": true}}}},
            "mcpServers": {"b": {"command": "b", "description": "Says so"}}}"#,
    );
    assert_eq!(said(&plan), ["+ dev/a (exact)", "+ old/b (exact)"]);
    assert!(plan.text.contains(r#""description": "Own words""#));
    assert_eq!(
        written(&plan)["a"],
        serde_json::json!({"command": "a", "toolFilters": ["x"], "idleTimeoutMs": 5, "inheritEnv": true, "shareProcess": false})
    );
}

#[test]
fn settings_are_imported_together_with_the_policy() {
    let plan = import(
        None,
        "old.json",
        r#"{"mcpServers": {"a": {"command": "a"}}, "exposedTools": {"a": ["x"]}, "search": true,
            "telemetry": {"otlp": "http://127.0.0.1:4318"}, "http": {"maxSessions": 3}}"#,
    );
    assert_eq!(said(&plan), ["+ old/a (exact)"]);
    let written: serde_json::Value = serde_json::from_str(&plan.text).unwrap();
    assert_eq!(written["search"], true);
    assert_eq!(written["telemetry"]["otlp"], "http://127.0.0.1:4318");
    assert_eq!(written["http"]["maxSessions"], 3);
}

#[test]
fn toolbox_is_named_after_the_client() {
    for (file, expected) in [
        ("claude_desktop_config.json", "claude-desktop"),
        ("/p/.mcp.json", "claude-code"),
        ("/h/.claude.json", "claude-code"),
        ("/h/.cursor/mcp.json", "cursor"),
        ("/h/.codeium/windsurf/mcp_config.json", "windsurf"),
        ("/h/x/settings/cline_mcp_settings.json", "cline"),
        ("/p/.roo/mcp.json", "roo"),
        ("/h/x/mcp_settings.json", "roo"),
        ("C:\\Users\\me\\.gemini\\settings.json", "gemini"),
        ("/p/.vscode/mcp.json", "vscode"),
        ("/h/Code/User/mcp.json", "vscode"),
        ("/p/opencode.json", "opencode"),
        ("/h/.config/zed/settings.json", "zed"),
        ("/p/tools.json", "tools"),
        ("", "imported"),
    ] {
        let plan = import(None, file, r#"{"mcpServers": {"a": {"command": "a"}}}"#);
        assert_eq!(plan.added[0].toolbox, expected, "{file}");
    }
}

#[test]
fn sources_may_share_a_toolbox_or_be_split() {
    let sources = [
        source("a.json", r#"{"mcpServers": {"x": {"command": "1"}, "y": {"command": "2"}}}"#),
        source("b.json", r#"{"mcpServers": {"x": {"command": "3"}, "y": {"command": "2"}}}"#),
    ];
    let one = ImportOptions { toolbox: Some("all".to_owned()), ..ImportOptions::default() };
    let plan_one = plan_import(None, &sources, &one).unwrap();
    assert_eq!(said(&plan_one)[..3], ["+ all/x (exact)", "+ all/y (exact)", "+ all/x-2 (exact)"]);
    let split = ImportOptions { grouping: Grouping::Server, ..ImportOptions::default() };
    let existing = source(
        "w.json",
        r#"{"toolboxes": {"x": {"description": "d", "mcpServers": {"z": {"command": "z"}}}}}"#,
    );
    let plan_split = plan_import(Some(&existing), &sources, &split).unwrap();
    assert_eq!(said(&plan_split)[..3], ["+ x-2/x-2 (exact)", "+ y/y (exact)", "+ x-3/x-3 (exact)"]);
    read(&plan_split.text, &env(&[])).unwrap();
}

#[test]
fn a_toolbox_does_not_take_the_name_of_a_server() {
    let plan = import(
        Some(r#"{"mcpServers": {"cursor": {"command": "z"}}}"#),
        ".cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#,
    );
    assert_eq!(said(&plan), ["+ cursor-2/a (exact)", "+ cursor-2/b (exact)"]);
    read(&plan.text, &env(&[])).unwrap();
}

#[test]
fn the_workbench_is_not_imported_into_itself() {
    let plan = import(
        None,
        "x.json",
        r#"{"mcpServers": {"w": {"command": "/usr/bin/mcp-workbench"}, "v": {"command": "npx", "args": ["-y", "mcp-workbench"]}}}"#,
    );
    assert_eq!(plan.added, []);
    assert_eq!(plan.findings.len(), 2);
}

#[test]
fn unreadable_entries_are_reported_and_skipped() {
    for (file, text, expected) in [
        ("c.toml", "[mcp_servers.a]", "expected a `command`"),
        ("x.json", "{", "expected `}`"),
        ("x.json", "", "found an empty file"),
        ("x.json", "[]", "no servers found"),
        ("x.json", r#"{"mcpServers": []}"#, "no servers found"),
        ("x.json", r#"{"mcpServers": {"a": 1}}"#, "expected an object, found a number"),
        ("x.json", r#"{"mcpServers": {"a": {}}}"#, "expected a `command`"),
        ("x.json", r#"{"mcpServers": {"a": {"command": ""}}}"#, "no command"),
        ("x.json", r#"{"mcpServers": {"a": {"command": 1}}}"#, "expected a string"),
        ("x.json", r#"{"mcpServers": {"a": {"command": {"path": 1}}}}"#, "expected a string"),
        (
            "x.json",
            r#"{"mcpServers": {"a": {"transport": "sse", "command": "x"}}}"#,
            "expected a `url`",
        ),
    ] {
        let plan = import(None, file, text);
        assert_eq!(plan.added, [], "{text}");
        let [finding] = plan.findings.as_slice() else {
            panic!("{:?}", plan.findings);
        };
        assert_eq!(finding.grade, Grade::Unsupported, "{finding}");
        assert!(finding.message.contains(expected), "{finding}");
    }
}

#[test]
fn unextendable_configuration_is_an_error() {
    for existing in [
        "",
        "{",
        "[]",
        r#"{"toolboxes": 1}"#,
        r#"{"toolboxes": {"x": 1}}"#,
        r#"{"toolboxes": {"x": {"mcpServers": []}}}"#,
        r#"{"toolboxes": {}, "toolboxes": {}}"#,
    ] {
        let existing = source("w.json", existing);
        let from = source("x.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
        let report = plan_import(Some(&existing), &[from], &ImportOptions::default()).unwrap_err();
        assert!(report.to_string().starts_with("error: 1 error in `w.json`"), "{report}");
    }
}

#[test]
fn secrets_are_not_repeated() {
    let plan = import(
        None,
        "x.json",
        r#"{"mcpServers": {"a": {"command": "a", "env": {"API_KEY": "hunter2", "N": 4711}},
            "b": {"url": "http://b", "headers": {"X-Api-Key": "hunter2"}}}}"#,
    );
    let shown = said(&plan).join("\n");
    assert!(shown.contains("API_KEY"), "{shown}");
    assert!(shown.contains("write `\"X-Api-Key\": \"${B_X_API_KEY}\"`"), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("4711"), "{shown}");
}

#[test]
fn truncated_files_do_not_panic() {
    let whole = r#"{"toolboxes": {"a": {"description": "d", "mcpServers": {"b": {"command": "c",
        "args": ["${input:é}"], "env": {"A": 1}, "timeout": 5}}}}, "mcpServers": {"c": {"url": "x"}}}"#;
    for (end, _) in whole.char_indices() {
        for text in [whole[..end].to_owned(), [&whole[..end], "}"].concat()] {
            let file = source("x.json", &text);
            let other = source("y.json", whole);
            _ = plan_import(Some(&file), std::slice::from_ref(&other), &ImportOptions::default());
            _ = plan_import(Some(&other), std::slice::from_ref(&file), &ImportOptions::default());
        }
    }
    let deep = source("x.json", &"{\"mcpServers\":".repeat(100_000));
    assert!(plan_import(Some(&deep), &[], &ImportOptions::default()).is_err());
    assert_eq!(plan_import(None, &[deep], &ImportOptions::default()).unwrap().added, []);
}

#[test]
fn secret_references_are_not_imported() {
    for value in [r#"{"command": ["./evil.sh"]}"#, r#"{"file": "~/.ssh/id"}"#] {
        let text = format!(
            r#"{{"navigator": {{"llm": {{"baseUrl": "https://h", "model": "m", "apiKey": {value}}}}},
                "mcpServers": {{"a": {{"command": "a", "env": {{"T": {value}}}}},
                    "b": {{"url": "https://h/mcp", "headers": {{"X": {value}}}}}}}}}"#
        );
        let plan = import(None, "workbench-config.json", &text);
        assert!(!plan.text.contains("evil") && !plan.text.contains(".ssh"), "{}", plan.text);
        let said = said(&plan).join("\n");
        assert!(said.contains("references to secrets are not supported in this setting"), "{said}");
    }
}

#[test]
fn same_launch_under_several_names_is_one_server() {
    let block = |name: &str| {
        format!(r#"{{"mcpServers": {{"{name}": {{"command": "mem", "args": ["x"]}}}}}}"#)
    };
    let of = |home: &str, name: &str| source(&format!("/home/ann/{home}"), &block(name));
    let sources = [of(".cursor/mcp.json", "mem"), of(".gemini/settings.json", "memory")];
    let gather = |existing: Option<&SourceFile>| {
        collect_user_candidates(existing, &sources, &mut NoExtraction).unwrap()
    };
    let carried = |existing: Option<&SourceFile>| -> Vec<_> {
        let carried = gather(existing).covered_servers().into_iter();
        carried.map(|carried| (carried.name, carried.server)).collect()
    };
    let both = |server: Option<usize>| ["mem", "memory"].map(|name| (name.to_owned(), server));
    assert_eq!(carried(None), both(Some(0)));
    let plan = gather(None).plan(&ImportOptions::default()).unwrap();
    assert_eq!(written(&plan), serde_json::json!({"mem": {"command": "mem", "args": ["x"]}}));
    let other = source("config.json", &block("notes"));
    assert_eq!(carried(Some(&other)), both(None));
    assert!(gather(Some(&other)).servers().is_empty());
}

#[test]
fn server_keeps_its_distinct_name_when_the_other_is_excluded() {
    let block = |folder: &str| {
        format!(r#"{{"mcpServers": {{"files": {{"command": "files", "args": ["{folder}"]}}}}}}"#)
    };
    let sources = [
        source("/home/ann/.cursor/mcp.json", &block(".")),
        source("/home/ann/.gemini/settings.json", &block("/srv")),
    ];
    let gathered = collect_user_candidates(None, &sources, &mut NoExtraction).unwrap();
    let names = |gathered: &crate::authoring::import::ImportCandidates| -> Vec<_> {
        gathered.servers().iter().map(|server| server.name.clone()).collect()
    };
    assert_eq!(names(&gathered), ["files", "files-srv"]);
    let gathered = gathered.exclude(&[0], &[]);
    assert_eq!(names(&gathered), ["files-srv"]);
    let plan = gathered.plan(&ImportOptions::default()).unwrap();
    assert_eq!(
        written(&plan),
        serde_json::json!({"files-srv": {"command": "files", "args": ["/srv"]}})
    );
}

#[test]
fn resource_prompt_and_definition_policies_are_imported() {
    let plan = import(
        None,
        "old.json",
        r#"{"mcpServers": {
            "files": {"command": "files", "resourceFilters": ["file:///a/*", "!*.env"],
                "promptFilters": ["sum"], "onDefinitionChange": "deny"}},
            "toolMode": "direct", "onDefinitionChange": "quarantine",
            "exposedResources": {"files": ["file:///a/*"]}, "exposedPrompts": {"files": []},
            "agentPolicies": {"ann": {"resourceOverrides": {"files": ["!file:///a/b"]},
                "promptOverrides": {"files": ["*"]}}}}"#,
    );
    let files = &written(&plan)["files"];
    let tree = mcp_workbench_config::syntax::document::parse_jsonc(&plan.text).unwrap();
    let whole = serde_json::Value::from(tree);
    let words = |value: &serde_json::Value| value.to_string();
    for (found, expected) in [
        (&files["resourceFilters"], r#"["file:///a/*","!*.env"]"#),
        (&files["promptFilters"], r#"["sum"]"#),
        (&files["onDefinitionChange"], r#""deny""#),
        (&whole["onDefinitionChange"], r#""quarantine""#),
        (&whole["exposedResources"], r#"{"files":["file:///a/*"]}"#),
        (&whole["exposedPrompts"], r#"{"files":[]}"#),
        (
            &whole["agentPolicies"]["ann"],
            r#"{"resourceOverrides":{"files":["!file:///a/b"]},"promptOverrides":{"files":["*"]}}"#,
        ),
    ] {
        assert_eq!(words(found), expected, "{}", plan.text);
    }
}

#[test]
fn values_that_only_the_client_has_are_known() {
    let servers = |args: &str, inputs: &str| {
        let text = format!(
            r#"{{"servers": {{"a": {{"command": "x", "args": [{args}]}}}}, "inputs": [{inputs}]}}"#
        );
        let file = SourceFile { file: ".vscode/mcp.json".to_owned(), text };
        let found = collect_candidates(None, &[file], &mut NoExtraction).unwrap();
        let needs = found.servers()[0].needs.clone();
        (needs.value.unwrap_or_default(), needs.prompt.unwrap_or_default())
    };
    let folder = "depends on the folder that is open in the client".to_owned();
    for place in
        ["${workspaceFolder}", "${workspaceFolder:api}/x", "--dir=${workspaceRoot}", "${cwd}"]
    {
        assert_eq!(
            servers(&format!("\"{place}\""), ""),
            (folder.clone(), String::new()),
            "{place}"
        );
    }
    let (value, _) = servers("\"${command:pick}\"", "");
    assert!(value.contains("`${command:pick}`"), "{value}");
    assert_eq!(servers("\"${input:key}\"", ""), (String::new(), "key".to_owned()));
    let with_default = r#"{"id": "key", "type": "promptString", "default": "d"}"#;
    assert_eq!(servers("\"${input:key}\"", with_default), Default::default());
    assert_eq!(servers("\"${env:HOME}\", \"${userHome}\"", ""), Default::default());
}

#[test]
fn servers_that_setup_leaves_out_have_a_reason() {
    let text = r#"{
        "mcpServers": {"a": {"command": "a"}, "off": {"command": "b", "disabled": true}},
        "projects": {"/work/app": {"mcpServers": {"local": {"command": "c"}}}}
    }"#;
    let file = SourceFile { file: "~/.claude.json".to_owned(), text: text.to_owned() };
    let found = collect_user_candidates(None, &[file], &mut NoExtraction).unwrap();
    let left: Vec<_> = found.left_out().iter().map(|left| (&*left.name, left.reason)).collect();
    assert_eq!(left, [("local", "belongs to a single project"), ("off", "is disabled")]);
}
