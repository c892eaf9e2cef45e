//! Checks the files in `deploy/` against this program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::support::TestEnvironment;

const CONFIGS: [&str; 6] = [
    "kubernetes/base/workbench-config.json",
    "kubernetes/overlays/replicas/workbench-config.json",
    "kubernetes/overlays/per-task/workbench-config.json",
    "kubernetes/overlays/exposed-server/workbench-config.json",
    "kubernetes/overlays/exposed-server/memory.json",
    "compose/workbench-config.json",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn metrics(text: &str) -> BTreeSet<String> {
    let names = text.split("mcp_workbench_").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        let suffixes = ["_total", "_bucket", "_count", "_sum"];
        suffixes.into_iter().find_map(|kind| name.strip_suffix(kind)).unwrap_or(name).to_owned()
    });
    names.collect()
}

#[test]
fn rules_and_dashboard_use_documented_metrics() {
    let codes = read("docs/codes.md");
    let (_, known) = codes.split_once("<!-- generated: metrics -->").expect("the marker");
    let (known, _) = known.split_once("<!-- end of metrics -->").expect("the marker");
    let rows = known.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let known: BTreeSet<&str> = rows.map(|(name, _)| name).collect();
    let mut asked = metrics(&read("deploy/prometheus/rules.yaml"));
    asked.extend(metrics(&read("deploy/grafana/dashboard.json")));
    assert!(asked.len() > 15, "{asked:?}");
    let unknown: Vec<_> = asked.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn deployed_configurations_have_no_errors() {
    for file in CONFIGS {
        let text = read(&format!("deploy/{file}"));
        let mut bench = TestEnvironment::new().file("config.json", &text);
        for name in ["CLAUDE", "WORKBENCH"] {
            bench = bench.env(&format!("TOKEN_OF_{name}"), "mcpw_0123456789abcdefghijklmnop");
        }
        for name in ["TOKEN_FOR_MEMORY", "GITHUB_TOKEN", "REDIS_PASSWORD"] {
            bench = bench.env(name, "0123456789abcdefghijklmnop");
        }
        bench = bench.env("POD_IP", "10.1.2.3");
        let checked = bench.run_bare(["check", "--json", "--config", "config.json"]);
        let report: Value = serde_json::from_str(&checked.stdout).expect("JSON");
        // Warnings are ignored: which programs exist depends on the image.
        assert_eq!(report["errors"], Value::Array(Vec::new()), "{file}: {checked}");
        assert_ne!(checked.code, Some(2), "{file}: {checked}");
    }
}

#[test]
fn tailor_reproduces_the_per_task_example() {
    let folder = root().join("deploy/kubernetes/overlays/per-task");
    let bench = TestEnvironment::new();
    let (full, made) = (folder.join("full.json"), bench.path_text("workbench-config.json"));
    let full = full.to_string_lossy();
    let args = ["tailor", "--config", &full, "--task", "Add an endpoint", "--output", &made];
    let output = bench.run_bare(args.into_iter().chain(["--project-type", "payments-api"]));
    assert_eq!(output.code, Some(0), "{output}");
    let made = fs::read_to_string(made).expect("a written file");
    assert_eq!(made, fs::read_to_string(folder.join("workbench-config.json")).unwrap());
}

#[test]
fn proxies_forward_every_path_of_clients_and_none_of_operators() {
    for file in [
        "proxies/haproxy.cfg",
        "proxies/nginx.conf",
        "kubernetes/overlays/replicas/ingress.yaml",
        "kubernetes/overlays/replicas-gateway/gateway.yaml",
    ] {
        let text = read(&format!("deploy/{file}"));
        let text: Vec<_> =
            text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        let text = text.join("\n");
        for path in ["/mcp", "/.well-known/oauth-protected-resource", "/oauth/callback"] {
            assert!(text.contains(path), "{file}: {path}");
        }
        assert!(!text.contains("/metrics") && !text.contains("/page"), "{file}");
    }
}
