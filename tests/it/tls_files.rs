//! TLS files in `check` and in the audit log.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::support::tls::{Ca, Pair};
use crate::support::{DEADLINE, TestEnvironment, fake};

fn bench() -> TestEnvironment {
    TestEnvironment::new()
        .server("box", "fake", fake(json!({ "tools": ["echo"] })))
        .set("toolMode", json!("proxy"))
        .set("autoReload", json!("all"))
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn wait(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "the condition was not met in time");
        // The workbench re-reads the files a moment after they changed.
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn check_reports_what_startup_would_reject() {
    let ca = Ca::new("Test CA");
    let good = ca.issue("good");
    let other = KeyPair::generate().unwrap().serialize_pem();
    let pair = |cert: &str, key: &str| Pair { cert: cert.to_owned(), key: key.to_owned() };
    for (pair, said) in [
        (ca.issue_for("old", [2020, 2021]), " expired "),
        (pair(&good.cert, &other), "does not match the certificate"),
        (pair("hello", &good.key), "no valid certificate in"),
    ] {
        let bench = bench().with_tls(&pair, json!({}));
        let [checked, started] = [&["check"][..], &["serve", "--http", "127.0.0.1:0"]]
            .map(|args| bench.run(args.iter().copied()));
        assert_eq!((checked.code, started.code), (Some(1), Some(2)), "{checked}{started}");
        assert_eq!(checked.stderr.matches("http.tls").count(), 1, "{checked}");
        assert_eq!(checked.stderr.matches(said).count(), 1, "{checked}");
        assert!(started.stderr.contains(said), "{started}");
    }
    let bench = bench().with_tls(&good, json!({}));
    let checked = bench.run(["check"]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{checked}");
    mode(bench.dir(), 0o755);
    mode(&bench.path("tls.key"), 0o644);
    let checked = bench.run(["check"]);
    assert!(checked.stderr.contains("other users can read the private key"), "{checked}");
    assert!(checked.stderr.contains("chmod 600"), "{checked}");
    fs::remove_file(bench.path("tls.crt")).unwrap();
    let report: Value = serde_json::from_str(&bench.run(["check", "--json"]).stdout).unwrap();
    let errors = report["errors"].as_array().unwrap();
    let [error] = &errors[..] else { panic!("{report:#}") };
    assert_eq!(error["path"], "http.tls");
    assert!(error["message"].as_str().unwrap().starts_with("failed to read"), "{error}");
}

#[test]
fn audit_records_accepted_and_rejected_certificates() {
    let ca = Ca::new("Test CA");
    let bench = bench()
        .set("audit", json!({ "file": "audit.jsonl" }))
        .with_tls(&ca.issue_for("one", [2020, 2089]), json!({}));
    let (program, _http) = bench.http();
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(bench.path("audit.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["kind"] == "certificate").collect()
    };
    wait(|| lines().len() == 1);
    ca.issue_for("two", [2020, 2021]).write(&bench);
    program.0.wait_stderr("TLS certificates not reloaded");
    ca.issue_for("three", [2020, 2088]).write(&bench);
    wait(|| lines().last().is_some_and(|line| line["until"] == "2088-01-01T00:00:00Z"));
    let lines = lines();
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    assert_eq!([&first["outcome"], &first["until"]], ["loaded", "2089-01-01T00:00:00Z"]);
    assert_eq!(last["outcome"], "loaded");
    // The two files are written one after the other, so a mixed pair may have been read.
    let refused = &lines[1..lines.len() - 1];
    assert!(!refused.is_empty() && refused.iter().all(|line| line["outcome"] == "rejected"));
    let reasons: Vec<_> = refused.iter().filter_map(|line| line["reason"].as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("expired")), "{reasons:?}");
    assert!(!fs::read_to_string(bench.path("audit.jsonl")).unwrap().contains("PRIVATE KEY"));
}
