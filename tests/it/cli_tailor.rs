//! `tailor`: a configuration for one task, printed, written and served.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real::entry;
use crate::support::{Agent, TestEnvironment, fake};

const TASK: &str = "Write tests for the parser and open a pull request";

const FULL: &str = r#"{
  "mcpServers": {
    "filesystem": {"command": "npx", "args": ["-y", "files", "${WORKSPACE}"]},
    "github": {"command": "npx", "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}, "toolFilters": ["!merge_*"]},
    "taskmaster": {"command": "./taskmaster.sh"},
    "git": {"command": "uvx", "args": ["mcp-server-git"]}
  },
  "exposedTools": {
    "filesystem": ["read_file", "search_files", "write_file"],
    "github": ["get_*", "create_branch"],
    "taskmaster": ["*"]
  },
  "agentPolicies": {
    "reader": {"allowedServers": ["filesystem", "git"], "toolOverrides": {"filesystem": ["read_*"]}}
  }
}
"#;

fn bench() -> TestEnvironment {
    TestEnvironment::new().file("full.json", FULL)
}

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["tailor", "--config", "full.json", "--task"], more].concat()
}

#[test]
fn writes_a_configuration_for_a_task() {
    let bench = bench();
    fs::set_permissions(bench.path("full.json"), Permissions::from_mode(0o600)).unwrap();
    let output = bench.run_bare(args(&[TASK, "--project-type", "api", "--output", "task.json"]));
    let mode = fs::metadata(bench.path("task.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the file may contain the same secrets");
    let written = fs::read_to_string(bench.path("task.json")).unwrap();
    insta::assert_snapshot!(format!("{output}\n--- task.json\n{written}"));
    let again = bench.run_bare(args(&[TASK, "--project-type", "api"]));
    assert_eq!((again.code, again.stdout), (Some(0), written), "stdout differs from the file");
}

#[test]
fn prints_choices_and_reasons_as_json() {
    let output = bench().run_bare(args(&["Deploy it", "--project-type", "web-ui", "--json"]));
    let mut told: Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(told["text"].take().as_str().unwrap().starts_with("// Configuration for one task"));
    insta::assert_json_snapshot!(told);
}

#[test]
fn rejects_unusable_input_and_output() {
    let bench = bench().file("empty.json", r#"{"mcpServers": {"x": {"command": "x"}}}"#);
    let nothing = bench.run_bare(["tailor", "--config", "empty.json", "--task", "a"]);
    let same = bench.run_bare(args(&["a", "--output", "./full.json"]));
    let missing = bench.run_bare(args(&["a", "--rules", "nowhere.json"]));
    assert_eq!(fs::read_to_string(bench.path("full.json")).unwrap(), FULL);
    insta::assert_snapshot!(format!("{nothing}\n---\n{same}\n---\n{missing}"));
}

fn serving(bench: &TestEnvironment, args: &[&str]) -> Agent {
    let args = [&["--config", "task/task.json"], args].concat();
    let agent = bench.direct(&entry(env!("CARGO_BIN_EXE_mcp-workbench"), &args));
    agent.initialize();
    agent
}

fn names(bench: &TestEnvironment, agent: &str) -> Vec<String> {
    let agent = serving(bench, &["--agent", agent]);
    agent.tool_names()
}

#[test]
fn tailored_configuration_is_served() {
    let server = |tools: &[&str]| fake(json!({"tools": tools, "behavior": {"read_file": "cwd"}}));
    let mut full: Value = serde_json::from_str(FULL).unwrap();
    let all = ["read_file", "write_file", "search_files", "delete_file"];
    full["mcpServers"]["filesystem"] = server(&all);
    full["mcpServers"]["github"] = server(&["get_file_contents", "create_branch", "merge_all"]);
    full["mcpServers"]["taskmaster"] =
        server(&["get_tasks", "add_task", "update_task_status", "x"]);
    full["mcpServers"]["git"]["command"] = "/no/such/program".into();
    let bench = TestEnvironment::new().file("full.json", &full.to_string());
    fs::create_dir(bench.path("task")).unwrap();
    let args = args(&["Add tests", "--output", "task/task.json"]);
    let output = bench.run_bare(args);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(
        names(&bench, "anybody"),
        [
            "read_file",
            "write_file",
            "search_files",
            "get_file_contents",
            "get_tasks",
            "add_task",
            "update_task_status",
        ]
    );
    assert_eq!(names(&bench, "reader"), ["read_file"]);
    let agent = serving(&bench, &[]);
    let folder = agent.call("read_file", json!({})).text();
    assert_eq!(
        folder,
        bench.dir().canonicalize().unwrap().to_string_lossy(),
        "the working folder changed"
    );
    assert!(agent.call("delete_file", json!({})).is_tool_error());
}
