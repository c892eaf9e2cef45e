//! Tests that an imported file means the same as the original file when it is served directly.

use std::path::Path;

use pretty_assertions::assert_eq;

use crate::authoring::import::{ImportOptions, SourceFile, plan_import};
use crate::authoring::tests::env;
use mcp_workbench_config::{Dialect, LoadedConfig, parse};
use mcp_workbench_settings::{Config, Launch, StdioLaunch};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn loaded(name: &str, text: &str) -> LoadedConfig {
    let env = env(&[("HOME", "/home/me"), ("SET", "value")]);
    parse(text, Path::new(name), Path::new("/project"), &env)
        .unwrap_or_else(|report| panic!("{report}"))
}

fn launch(config: &Config, toolbox: &str) -> StdioLaunch {
    match &config.toolbox(toolbox).unwrap().servers[0].launch {
        Launch::Stdio(launch) => launch.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn toolman_server_import_keeps_servers_and_policy() {
    let text =
        std::fs::read_to_string(repository().join("tests/configs/valid/toolman-server.json"));
    let text = text.unwrap();
    let source = SourceFile { file: "toolman.json".to_owned(), text: text.clone() };
    let plan = plan_import(None, &[source], &ImportOptions::default()).unwrap();
    let added: Vec<_> = plan.added.iter().map(|added| added.server.as_str()).collect();
    assert_eq!(added, ["filesystem", "github", "git"]);
    let written = plan.text.replace("${GITHUB_TOKEN}", "x");
    let imported = loaded("workbench-config.json", &written).config;
    assert_eq!(imported.policy, loaded("toolman-server.json", &text).config.policy);
}

/// Returns the text of an imported configuration, and the findings.
fn imported(existing: Option<&str>, name: &str, text: &str) -> (String, Vec<String>) {
    let source =
        |file: &str, text: &str| SourceFile { file: file.to_owned(), text: text.to_owned() };
    let existing = existing.map(|text| source("w.json", text));
    let plan =
        plan_import(existing.as_ref(), &[source(name, text)], &ImportOptions::default()).unwrap();
    (plan.text, plan.findings.iter().map(ToString::to_string).collect())
}

#[test]
fn imported_file_is_equivalent_to_the_original() {
    let toolman = "active_toolsets = ['a*']\n[[servers]]\nnamespace = 'a'\ncommand = '~/x ~/y \"b c\"'\n\
                   [[servers]]\nnamespace = ''\ncommand = 'cd $HOME && \"$SET\" '\n\
                   [[servers]]\nnamespace = 'a'\ncommand = 'npx -y @x/y@1'\n";
    let mut cases = vec![("tools.toml".to_owned(), toolman.to_owned())];
    for file in [
        "examples/toolman/tools.toml",
        "examples/modular/modular-mcp.json",
        "examples/modular/categories.json",
        "tests/configs/valid/toolman.toml",
        "tests/configs/valid/modular.json",
        "tests/configs/valid/modular-categories.json",
    ] {
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        cases.push((file.to_owned(), text));
    }
    let categories = r#"{"activeToolsets": ["x*"], "mcpServers": {
        "s": {"command": "s", "namespace": "n", "showServer": true, "overrides": {"a": {"name": "b", "arguments": {"x": [1, null]}}}},
        "t": {"command": "t", "description": "T"}},
        "categories": {"t": {"description": "d", "server": "t", "tools": {"includeNames": ["a"], "overrides": {"a": {"enabled": false, "select": ["/b"]}}}}},
        "toolboxes": {"box": {"description": "d", "namespace": "", "mcpServers": {"s": {"command": "s"}}}}}"#;
    cases.push(("ours.json".to_owned(), categories.to_owned()));
    for (name, text) in cases {
        let own = loaded(&name, &text);
        let (native, mut said) = imported(None, &name, &text);
        // The warning about relative paths is expected.
        said.retain(|text| !text.contains("is now relative to the folder of the configuration"));
        assert_eq!(said, [""; 0], "{name}");
        let again = loaded("workbench-config.json", &native);
        assert_eq!((again.dialect, &again.findings), (Dialect::Native, &own.findings), "{native}");
        let sorted = |config: &Config| {
            let mut config = config.clone();
            config.toolboxes.sort_by(|a, b| a.name.cmp(&b.name));
            config
        };
        assert_eq!(sorted(&again.config), sorted(&own.config), "{native}");
        assert_eq!(imported(Some(&native), &name, &text).0, native, "once is enough");
    }
}

#[test]
fn conflicting_names_are_resolved() {
    let existing = r#"{
  // Ours.
  "toolboxes": {"fs": {"description": "d", "mcpServers": {"a": {"command": "a"}}}},
  "mcpServers": {"serena": {"command": "other"}}
}
"#;
    let text = r#"{"mcpServers": {"serena": {"description": "d", "command": "serena"}},
        "categories": {"fs": {"description": "d", "server": "serena", "tools": {"includeNames": ["a"]}}}}"#;
    let (native, said) = imported(Some(existing), "modular-mcp.json", text);
    assert_eq!(
        said,
        [
            "approximate: modular-mcp.json:1:27: mcpServers.serena: `serena` already exists: added as `serena-2`",
            "manual: modular-mcp.json: this file implies mode `modular`, but the configuration uses `auto`\n  \
             hint: set `\"toolMode\": \"modular\"`, or start with `--tool-mode modular`",
        ]
    );
    let config = loaded("workbench-config.json", &native).config;
    let names: Vec<_> = config.toolboxes.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["fs", "serena", "fs-2"]);
    assert_eq!(launch(&config, "fs-2").command, "serena");
    assert!(native.contains("// Ours."));

    let (_, said) =
        imported(None, "tools.toml", "[[servers]]\nnamespace = 1\n[[servers]]\ncommand = 'a'\n");
    let wrong = "unsupported: tools.toml:2:13: servers[0].namespace: not imported: expected";
    assert!(said.iter().any(|text| text.starts_with(wrong)), "{said:?}");
}
