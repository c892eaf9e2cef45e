//! `import`: a new configuration, a longer one, and none.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::Bench;

const CLIENT: &str = r#"{
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "files"], "env": { "TOKEN": "secret" } },
    "web": { "type": "http", "url": "https://example.org/mcp" },
    "old": { "type": "sse", "url": "https://example.org/sse" }
  }
}
"#;

const EXISTING: &str = r#"{
  // Mine.
  "toolboxes": {
    "dev": {
      "description": "Development",
      "mcpServers": { "git": { "command": "uvx" } }
    }
  }
}
"#;

fn mode(bench: &Bench, file: &str) -> u32 {
    fs::metadata(bench.path(file)).unwrap().permissions().mode() & 0o777
}

fn text(bench: &Bench, file: &str) -> String {
    fs::read_to_string(bench.path(file)).unwrap()
}

#[test]
fn a_new_configuration_is_written() {
    let bench = Bench::new().file(".claude.json", CLIENT);
    fs::set_permissions(bench.path(".claude.json"), Permissions::from_mode(0o600)).unwrap();
    let output = bench.run_bare(["import", ".claude.json"]);
    assert_eq!(mode(&bench, "workbench-config.json"), 0o600, "it holds the same secrets");
    let written = text(&bench, "workbench-config.json");
    insta::assert_snapshot!(format!("{output}\n--- workbench-config.json\n{written}"));
    assert_eq!(bench.run_bare(["check"]).code, Some(0));
}

#[test]
fn a_configuration_is_extended() {
    let bench = Bench::new().file(".claude.json", CLIENT).file("my.json", EXISTING);
    fs::set_permissions(bench.path("my.json"), Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("my.json", bench.path("link.json")).unwrap();
    let args = ["import", ".claude.json", "--toolbox", "dev", "--config", "link.json"];
    let output = bench.run_bare(args);
    assert_eq!(mode(&bench, "my.json"), 0o640);
    assert!(bench.path("link.json").is_symlink());
    let written = text(&bench, "my.json");
    insta::assert_snapshot!(format!("{output}\n--- my.json\n{written}"));
    let again = bench.run_bare(args);
    assert_eq!(again.code, Some(0), "it is there already: {again}");
    assert_eq!(text(&bench, "my.json"), written);
    let drafts = fs::read_dir(bench.dir()).unwrap();
    let names = drafts.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("json.")).count(), 0);
}

#[test]
fn a_dry_run_writes_nothing() {
    let bench = Bench::new().file(".claude.json", CLIENT);
    let output = bench.run_bare(["import", ".claude.json", "--per-server", "--dry-run"]);
    assert!(!bench.path("workbench-config.json").exists());
    insta::assert_snapshot!(output);
}

#[test]
fn what_cannot_be_read_is_refused() {
    let bench = Bench::new().file(".claude.json", CLIENT).file("empty.json", "{}");
    bench.write("workbench-config.json", "{ \"toolboxes\": ");
    let runs: [&[&str]; 3] = [
        &["import", ".claude.json", "missing.json"],
        &["import", ".claude.json"],
        &["import", "empty.json", "--config", "new.json"],
    ];
    let outputs = runs.map(|args| bench.run_bare(args.iter().copied()).to_string());
    assert_eq!(text(&bench, "workbench-config.json"), "{ \"toolboxes\": ");
    assert!(!bench.path("new.json").exists());
    insta::assert_snapshot!(outputs.join("\n"));
}

#[test]
fn what_was_imported_is_served() {
    let servers = json!({ "calc": crate::support::fake(json!({ "tools": ["add"] })) });
    let bench = Bench::new().file("mcp.json", &json!({ "mcpServers": servers }).to_string());
    let output = bench.run_bare(["import", "mcp.json", "--toolbox", "math"]);
    assert_eq!(output.code, Some(0), "{output}");
    let output = bench.run_bare(["call", "math", "calc", "add", "{}"]);
    assert_eq!(output.stdout, "{}\n");
}

#[test]
fn an_import_is_told_as_json() {
    let bench = Bench::new().file(".claude.json", CLIENT);
    let output = bench.run_bare(["import", ".claude.json", "--json"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(bench.path("workbench-config.json").exists());
    insta::assert_snapshot!(output.stdout);
}
