//! Packages in the lock: version and integrity of the package that a server runs from.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::lock::{locked, read};
use crate::support::TestEnvironment;
use crate::support::process::fake_path;

/// The `npx` cache folder of `a-server`.
const FETCHED: &str = "home/.npm/_npx/1";

fn bench(spec: &str) -> TestEnvironment {
    let script = json!({"tools": ["add"]});
    let text = format!("#!/bin/sh\nexec '{}' '{script}'\n", fake_path());
    let bench = TestEnvironment::new().file("npx", &text);
    fs::set_permissions(bench.path("npx"), fs::Permissions::from_mode(0o755)).expect("a mode");
    fetch(&bench, "1.2.0", "sha512-one");
    let package = json!({"_npx": {"packages": [spec]}}).to_string();
    let bench = bench.file(&format!("{FETCHED}/package.json"), &package);
    bench.server("dev", "a", json!({"command": "./npx", "args": ["-y", spec]}))
}

fn fetch(bench: &TestEnvironment, version: &str, integrity: &str) {
    let modules = bench.path(&format!("{FETCHED}/node_modules"));
    fs::create_dir_all(modules.join("a-server")).expect("folders");
    let manifest = json!({"name": "a-server", "version": version}).to_string();
    fs::write(modules.join("a-server/package.json"), manifest).expect("a file");
    let entry = json!({"version": version, "integrity": integrity});
    let lock = json!({"packages": {"node_modules/a-server": entry}}).to_string();
    fs::write(modules.join(".package-lock.json"), lock).expect("a file");
}

fn text(bench: &TestEnvironment) -> String {
    fs::read_to_string(bench.path("workbench.lock")).expect("a lock")
}

#[test]
fn lock_has_version_and_integrity_of_the_package() {
    let bench = bench("a-server@1.2.0");
    let written = bench.run(["lock"]);
    assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""), "{written}");
    let lock: serde_json::Value = serde_json::from_str(&text(&bench)).expect("JSON");
    let run = json!({
        "registry": "npm",
        "name": "a-server",
        "version": "1.2.0",
        "integrity": "sha512-one",
        "contents": "files-sha256:e2c2badb8313da5c9b1e84d9d1afa0f5fda5303d34a588bc2c80ba769fb2a5f0",
    });
    assert_eq!(lock["servers"]["a"]["package"], run);
    assert_eq!(bench.run(["lock", "--check"]).code, Some(0));
}

#[test]
fn details_of_the_lock_name_servers_without_a_version() {
    let bench = bench("a-server").server(
        "dev",
        "b",
        json!({"command": "./npx", "args": ["-y", "b-server"]}),
    );
    let short = bench.run(["lock"]).stderr;
    assert!(short.contains("2 servers do not pin") && !short.contains("`dev/a`"), "{short}");
    let listed = bench.run(["lock", "--details"]).stderr;
    assert!(listed.contains("in `dev/a`, replace `a-server` with `a-server@1.2.0`"), "{listed}");
}

#[test]
fn unknown_package_facts_are_not_drift() {
    let bench = bench("a-server");
    locked(&bench);
    let before = text(&bench);
    fs::remove_dir_all(bench.path("home/.npm")).expect("a folder");
    let checked = bench.run(["lock", "--check"]);
    assert_eq!(checked.code, Some(0), "{checked}");
    assert!(checked.stdout.contains("does not pin a version of `a-server`"), "{checked}");
    let again = bench.run(["lock"]);
    assert!(again.stderr.contains("note: `npx a-server` does not pin a version"), "{again}");
    assert_eq!(text(&bench), before, "package facts from another machine were dropped");
}

#[test]
fn other_version_is_a_note_and_other_integrity_is_drift() {
    let bench = bench("a-server");
    locked(&bench);
    fetch(&bench, "1.3.0", "sha512-two");
    let checked = bench.run(["lock", "--check"]);
    assert_eq!(checked.code, Some(0), "{checked}");
    let note = "`a` would run `a-server` 1.3.0; the lock has `a-server` 1.2.0";
    assert!(checked.stdout.contains(note), "{checked}");
    fetch(&bench, "1.2.0", "sha512-two");
    let checked = bench.run(["lock", "--check"]);
    assert_eq!(checked.code, Some(1), "{checked}");
    bench.settings().bind(|| insta::assert_snapshot!(checked));
    bench.settings().bind(|| insta::assert_snapshot!(bench.run(["lock", "--diff"])));
    let report = read(&bench.run(["lock", "--check", "--json"]));
    assert_eq!(report["drift"][0]["kind"], "package");
    let sarif = read(&bench.run(["lock", "--check", "--format", "sarif"]));
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "package-changed");
    assert_eq!(bench.run(["lock", "--accept", "a:package"]).code, Some(0));
    assert_eq!(bench.run(["lock", "--check"]).code, Some(0));
    assert!(text(&bench).contains("sha512-two"));
}
