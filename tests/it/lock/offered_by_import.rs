//! Locks that `import --lock` and `setup --lock` write.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{TestEnvironment, fake};

fn client(servers: &[(&str, &str)]) -> String {
    let server = |&(name, said): &(&str, &str)| {
        let tool = json!({"name": "add", "description": said, "inputSchema": {"type": "object"}});
        (name.to_owned(), fake(json!({"tools": [tool]})))
    };
    let servers: serde_json::Map<String, Value> = servers.iter().map(server).collect();
    json!({"mcpServers": servers}).to_string()
}

fn said(bench: &TestEnvironment, file: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(bench.path(file)).expect("a lock");
    let lock: Value = serde_json::from_str(&text).expect("JSON");
    let servers = lock["servers"].as_object().expect("servers").iter();
    let of = |server: &Value| server["tools"]["add"]["definition"]["description"].clone();
    let text = |said: Value| said.as_str().expect("a text").to_owned();
    servers.map(|(name, server)| (name.clone(), text(of(server)))).collect()
}

fn told(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, said)| ((*name).to_owned(), (*said).to_owned())).collect()
}

#[test]
fn import_locks_only_the_servers_that_it_adds() {
    let bench = TestEnvironment::new().file("one.json", &client(&[("a", "Adds.")]));
    let args = |file| ["import", file, "--per-server", "--yes", "--lock"];
    let output = bench.run_bare(args("one.json"));
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output.stdout.contains("workbench.lock` was written: 1 server with 1 tool"),
        "{output}"
    );
    assert!(!output.stdout.contains("hint: run `mcp-workbench lock`"), "{output}");
    assert_eq!(said(&bench, "workbench.lock"), told(&[("a", "Adds.")]));
    let config = fs::read_to_string(bench.path("workbench-config.json")).expect("a file");
    bench.write("workbench-config.json", &config.replace("Adds.", "Steals."));
    let bench = bench.file("two.json", &client(&[("b", "Adds more.")]));
    let output = bench.run_bare(args("two.json"));
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(said(&bench, "workbench.lock"), told(&[("a", "Adds."), ("b", "Adds more.")]));
    assert_eq!(
        bench.run_bare(["lock", "--check"]).code,
        Some(1),
        "`import --lock` accepted a changed definition"
    );
    let both = bench.run_bare(["import", "two.json", "--lock", "--dry-run"]);
    assert_eq!(both.code, Some(2), "{both}");
}

#[test]
fn setup_locks_the_imported_servers() {
    let bench = TestEnvironment::new();
    fs::create_dir_all(bench.path("home/.cursor")).expect("a folder");
    let bench = bench.file("home/.cursor/mcp.json", &client(&[("a", "Adds.")]));
    let output = bench.run_bare(["setup", "--client", "cursor", "--yes", "--lock"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("workbench.lock` was written: 1 server"), "{output}");
    let folder = fs::read_dir(bench.path("home/.config/mcp-workbench")).expect("a folder");
    let mut files = folder.flatten().map(|entry| entry.file_name());
    assert!(files.any(|name| name == "workbench.lock"), "{output}");
}
