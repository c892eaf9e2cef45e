//! Logins in the system keyring, with a fake `secret-tool`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::sign_in::authority::Authority;
use crate::sign_in::{credentials, login, texts};
use crate::support::TestEnvironment;
use crate::support::process::Output;

/// Stores secrets in files and logs its arguments. Hangs if `hangs` exists, and fails if `locked`
/// does.
const STAND_IN: &str = r#"#!/bin/sh
ring=$(dirname "$0")
echo "$*" >> "$ring/arguments"
[ ! -e "$ring/hangs" ] || exec sleep 60
if [ -e "$ring/locked" ]; then echo "secret-tool: the collection is locked" >&2; exit 1; fi
for name; do :; done
case $1 in
store) cat > "$ring/$name.secret" ;;
lookup) cat "$ring/$name.secret" 2> /dev/null ;;
clear) rm "$ring/$name.secret" 2> /dev/null ;;
esac
"#;

fn bench(authority: &Authority) -> (TestEnvironment, PathBuf) {
    let bench = TestEnvironment::new()
        .server("dev", "hub", json!({ "url": authority.mcp }))
        .set("toolMode", json!("proxy"));
    let ring = bench.path("ring");
    fs::create_dir(&ring).unwrap();
    let program = ring.join("secret-tool");
    fs::write(&program, STAND_IN).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", ring.display());
    (bench.env("PATH", &path), ring)
}

fn secrets_in(ring: &PathBuf) -> Vec<PathBuf> {
    let files = fs::read_dir(ring).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|ending| ending == "secret")).collect()
}

fn call(bench: &TestEnvironment) -> Output {
    bench.run(["call", "dev", "hub", "read"])
}

#[test]
fn tokens_move_to_the_keyring_and_back() {
    let authority = Authority::start();
    authority.set("ttl=2");
    let (bench, ring) = bench(&authority);
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    let mut secrets = Vec::new();
    texts(&login(&bench), "", &mut secrets);
    assert!(secrets.len() >= 2, "{secrets:?}");
    // A running workbench follows a change of the store.
    let agent = bench.agent();
    agent.initialize();

    let moved = bench.run(["auth", "store", "keyring"]);
    assert_eq!(moved.code, Some(0), "{moved}");
    assert_eq!(moved.stdout, "tokens are stored in the system keyring\n");
    assert!(moved.stderr.contains("moved 1 login"), "{moved}");
    assert!(credentials(&bench).is_empty());
    assert_eq!(secrets_in(&ring).len(), 1);
    let status = bench.run(["auth", "status"]);
    assert!(status.stdout.contains("signed in"), "{status}");
    assert!(status.stderr.contains("stored in the system keyring"), "{status}");

    // Wait until the token has expired by the clock of the authorization server.
    std::thread::sleep(Duration::from_millis(2500));
    authority.set("ttl=3600");
    let called = format!("{:?}", agent.use_tool(["dev", "hub", "read"], json!({})));
    assert!(called.contains("read by ann"), "{called}");
    assert!(call(&bench).stdout.contains("read by ann"));
    let counts = authority.counts();
    assert_eq!((&counts["refresh"], &counts["refused"]), (&json!(1), &json!(0)), "{counts}");
    let renewed = fs::read_to_string(&secrets_in(&ring)[0]).unwrap();
    texts(&serde_json::from_str(&renewed).unwrap(), "", &mut secrets);

    // Other processes can see the arguments, and the state folder must not keep a copy.
    let arguments = fs::read_to_string(ring.join("arguments")).unwrap();
    let folder = bench.path("home/.local/state/mcp-workbench");
    let files: Vec<u8> = crate::sign_in::walk(&folder)
        .into_iter()
        .flat_map(|file| fs::read(file).unwrap_or_default())
        .collect();
    let files = String::from_utf8_lossy(&files);
    for secret in &secrets {
        assert!(!arguments.contains(secret) && !files.contains(secret), "{arguments}");
    }

    assert_eq!(bench.run(["auth", "store", "file"]).code, Some(0));
    assert!(secrets_in(&ring).is_empty() && credentials(&bench).len() == 1);
    assert!(call(&bench).stdout.contains("read by ann"));
    assert_eq!(bench.run(["auth", "store", "keyring"]).code, Some(0));
    assert_eq!(bench.run(["auth", "logout", "hub"]).stdout, "signed out of hub\n");
    let left: String =
        secrets_in(&ring).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert!(secrets.iter().all(|secret| !left.contains(secret) || secret.len() < 30), "{left}");
}

#[test]
fn unavailable_keyring_is_an_error_without_file_fallback() {
    let authority = Authority::start();
    let (bench, ring) = bench(&authority);
    assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
    fs::write(ring.join("hangs"), "").unwrap();
    let began = Instant::now();
    let refused = bench.run(["auth", "store", "keyring"]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(refused.code, Some(1));
    let why =
        "the tokens were not moved: failed to use the keyring: `secret-tool` timed out after 2 s";
    assert!(refused.stderr.contains(why), "{refused}");
    assert!(call(&bench).stdout.contains("read by ann"));

    fs::remove_file(ring.join("hangs")).unwrap();
    assert_eq!(bench.run(["auth", "store", "keyring"]).code, Some(0));
    fs::write(ring.join("locked"), "").unwrap();
    let said = call(&bench);
    assert_ne!(said.code, Some(0), "{said}");
    assert!(said.stderr.contains("the collection is locked"), "{said}");
    let status = bench.run(["auth", "status"]);
    assert_eq!(status.code, Some(1), "{status}");
    assert!(status.stderr.contains("the collection is locked"), "{status}");
    assert!(credentials(&bench).is_empty());
    fs::remove_file(ring.join("locked")).unwrap();
    assert!(call(&bench).stdout.contains("read by ann"));
}
