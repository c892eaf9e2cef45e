//! The program reads data that the previous version stored.
//!
//! Rust names can change; the text of stored data can't. The previous version wrote the fixtures
//! (`tests/stored/README.md`), so a rename that changes the text fails here.

mod logins;
mod shared_store;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::process::{Output, fake_path};
use crate::support::{DEADLINE, TestEnvironment};

const LISTINGS: &str = "home/.cache/mcp-workbench/listings";
const JOURNAL: &str = "home/.local/state/mcp-workbench/setup/journal.json";

fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored").join(name)
}

fn fixture(name: &str) -> String {
    fs::read_to_string(fixture_path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json_fixture(name: &str) -> Value {
    serde_json::from_str(&fixture(name)).expect("JSON")
}

fn base64_fixture(name: &str) -> Vec<u8> {
    STANDARD.decode(fixture(name).trim()).expect("base64")
}

/// Writes a file that only its owner can read: the program ignores folders that others can write to.
fn put(env: &TestEnvironment, file: &str, content: impl AsRef<[u8]>) {
    let path = env.path(file);
    let folder = path.parent().expect("a folder");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).expect("a folder");
    fs::write(&path, content).expect("a file in the test folder");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions");
}

/// Puts the fake server on PATH. The fixtures start it by name, because a path would make
/// fingerprints depend on the machine.
fn with_fake_on_path(env: TestEnvironment) -> TestEnvironment {
    let folder = Path::new(fake_path()).parent().expect("a folder").display().to_string();
    env.env("PATH", &folder)
}

#[track_caller]
fn parse(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"))
}

fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A cache with the listings of two servers. Their program doesn't exist, so they can't start.
fn with_listings() -> TestEnvironment {
    let env = TestEnvironment::new().config(json_fixture("listings/workbench.json"));
    put(&env, &format!("{LISTINGS}/key"), base64_fixture("listings/key.base64"));
    for file in fs::read_dir(fixture_path("listings")).expect("fixtures") {
        let name = file.expect("a file").file_name().into_string().expect("UTF-8");
        if name.ends_with(".listing") {
            put(&env, &format!("{LISTINGS}/{name}"), fixture(&format!("listings/{name}")));
        }
    }
    env
}

#[test]
fn listings_of_the_previous_version_are_read() {
    let env = with_listings();
    let listed = parse(&env.run(["list", "--json"]));
    let tools = listed["tools"].as_array().expect("tools").iter();
    let tools: Value = tools
        .map(|tool| {
            let [toolbox, server, definition] =
                ["toolbox", "server", "definition"].map(|member| &tool[member]);
            json!({ "toolbox": toolbox, "server": server, "tool": tool["tool"], "definition": definition })
        })
        .collect();
    assert_eq!(tools, json_fixture("listings/list.json"));
    assert_eq!(listed["failed"], json!([]));

    let agent = env.agent();
    let hello = agent.initialize();
    assert!(hello["instructions"].to_string().contains("Be kind."), "{hello}");
    for (method, member, expected) in [
        ("prompts/list", "prompts", json!([{ "name": "greet", "description": "Greets." }])),
        ("resources/list", "resources", json!([{ "uri": "note://one", "name": "one" }])),
        (
            "resources/templates/list",
            "resourceTemplates",
            json!([{ "uriTemplate": "note://{name}", "name": "note" }]),
        ),
    ] {
        assert_eq!(agent.request(method, json!({})).ok()[member], expected);
    }
}

#[test]
fn lock_of_the_previous_version_is_in_sync() {
    let lock = fixture("lock/workbench.lock");
    let config = json_fixture("lock/workbench.json");
    let env = with_fake_on_path(TestEnvironment::new().config(config.clone()));
    let env = env.file("workbench.lock", &lock);
    let checked = env.run(["lock", "--check", "--json"]);
    assert_eq!(checked.code, Some(0), "{checked}");
    assert_eq!(parse(&checked)["drift"], json!([]), "{checked}");
    let script =
        config["toolboxes"]["box"]["mcpServers"]["srv"]["args"][0].as_str().expect("a script");

    let locked = env.run(["lock"]);
    assert_eq!(locked.code, Some(0), "{locked}");
    let mut now: Value =
        serde_json::from_str(&fs::read_to_string(env.path("workbench.lock")).expect("a lock"))
            .expect("JSON");
    // The previous version didn't record resources.
    let resources = now["servers"]["srv"].as_object_mut().expect("a server").remove("resources");
    assert!(resources.is_some_and(|all| all["note://one"]["hash"].is_string()));
    assert_eq!(now, serde_json::from_str::<Value>(&lock).expect("JSON"));

    let mut changed = config.clone();
    let script = script.replace("Returns its arguments.", "Returns something else.");
    changed["toolboxes"]["box"]["mcpServers"]["srv"]["args"][0] = script.into();
    let checked = env.config(changed).run(["lock", "--check", "--json"]);
    assert_eq!(checked.code, Some(1), "{checked}");
}

fn with_audit() -> TestEnvironment {
    let env = TestEnvironment::new().config(json_fixture("audit/workbench.json"));
    put(&env, "audit.jsonl", fixture("audit/audit.jsonl"));
    put(&env, "audit.jsonl.key", base64_fixture("audit/audit.jsonl.key.base64"));
    with_fake_on_path(env)
}

/// The table rows with numbers: the first word, then every word with a digit. Headings and charts
/// can change.
fn figures(text: &str) -> Vec<Vec<&str>> {
    const FIRST: [&str; 11] = [
        "echo",
        "sleep",
        "crash",
        "fail",
        "refuse",
        "strict",
        "nothing",
        "secret",
        "srv",
        "127.0.0.1",
        "test-agent",
    ];
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|words| words.first().is_some_and(|first| FIRST.contains(first)));
    let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    rows.map(|words| {
        let (first, rest) = words.split_first().expect("a word");
        std::iter::once(*first).chain(rest.iter().copied().filter(|word| has_digit(word))).collect()
    })
    .filter(|row: &Vec<_>| row.len() > 1)
    .collect()
}

#[test]
fn audit_of_the_previous_version_has_the_same_figures() {
    let env = with_audit();
    let mut expected = json_fixture("audit/stats.json");
    expected["files"] = json!([env.path("audit.jsonl")]);
    assert_eq!(parse(&env.run(["stats", "--json"])), expected);
    let shown = env.run(["stats"]).stdout;
    let before = fixture("audit/stats.txt");
    assert_eq!(figures(&shown), figures(&before));
    assert!(figures(&before).len() >= 20, "{before}");
}

#[test]
fn call_of_a_killed_process_of_the_previous_version_is_recorded_as_lost() {
    let env = with_audit();
    put(&env, "audit.jsonl.killed.open", fixture("audit/audit.jsonl.killed.open"));
    let agent = env.agent();
    agent.initialize();
    agent.call("box__srv__fail", json!({}));
    agent.close_stdin();
    agent.wait_exit(DEADLINE);
    assert!(!env.path("audit.jsonl.killed.open").exists());

    let stats = parse(&env.run(["stats", "--json"]));
    let tools = stats["tools"].as_array().expect("tools");
    let outcomes =
        |tool: &str| &tools.iter().find(|row| row["tool"] == tool).expect("a row")["outcomes"];
    assert_eq!(outcomes("sleep"), &json!({ "cancelled": 1, "lost": 2 }));
    assert_eq!(outcomes("fail"), &json!({ "tool_error": 2 }));

    let lines = fs::read_to_string(env.path("audit.jsonl")).expect("the audit");
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let hashes: Vec<Value> = lines
        .filter(|line: &Value| line["tool"] == "fail")
        .map(|line| line["argumentsHash"].clone())
        .collect();
    assert!(hashes[0].is_string(), "{hashes:?}");
    assert_eq!(
        hashes,
        [hashes[0].clone(), hashes[0].clone()],
        "equal arguments got different hashes"
    );
}

/// A home folder after `setup`. Returns each file that it wrote, with the previous text.
fn with_setup() -> (TestEnvironment, Vec<(String, Option<String>)>) {
    let env = TestEnvironment::new();
    let home = env.path_text("home");
    let mut journal: Value =
        serde_json::from_str(&fixture("setup/journal.json").replace("{{home}}", &home))
            .expect("JSON");
    let mut files = Vec::new();
    for record in journal["files"].as_array_mut().expect("files") {
        let path =
            record["path"].as_str().expect("a path").strip_prefix(&home).expect("a file at home");
        let file = format!("home{path}");
        let text = fixture(&format!("setup/{file}")).replace("{{home}}", &home);
        put(&env, &file, &text);
        record["after"] = sha256_hex(&text).into();
        files.push((file, record["before"].as_str().map(str::to_owned)));
    }
    put(&env, JOURNAL, journal.to_string());
    (env, files)
}

#[test]
fn setup_of_the_previous_version_is_undone_byte_for_byte() {
    let (env, files) = with_setup();
    let undone = env.run_bare(["setup", "undo"]);
    assert_eq!(undone.code, Some(0), "{undone}");
    assert_eq!(files.iter().filter(|(_, before)| before.is_some()).count(), 4);
    for (file, before) in files {
        assert_eq!(fs::read_to_string(env.path(&file)).ok(), before, "{file}");
    }
}

#[test]
fn servers_removed_by_a_setup_of_the_previous_version_return_to_edited_files() {
    let (env, files) = with_setup();
    for (file, old, new) in [
        ("home/.claude.json", "\"numStartups\": 12", "\"numStartups\": 13"),
        ("home/.cursor/mcp.json", "// Mine.", "// Mine, too."),
        ("home/.codex/config.toml", "# the new one", "# the newest one"),
        ("home/.config/goose/config.yaml", "GOOSE_MODEL: x", "GOOSE_MODEL: y"),
    ] {
        let text = fs::read_to_string(env.path(file)).expect("a file");
        assert!(text.contains(old), "{text}");
        put(&env, file, text.replace(old, new));
    }
    let undone = env.run_bare(["setup", "undo"]);
    assert_eq!(undone.code, Some(0), "{undone}");
    for (file, server, edited) in [
        ("home/.claude.json", "\"github\"", "\"numStartups\": 13"),
        ("home/.cursor/mcp.json", "\"files\"", "// Mine, too."),
        ("home/.codex/config.toml", "[mcp_servers.git]", "# the newest one"),
        ("home/.config/goose/config.yaml", "  browser:", "GOOSE_MODEL: y"),
    ] {
        assert!(files.iter().any(|(own, _)| own == file), "{file}");
        let text = fs::read_to_string(env.path(file)).expect("a file");
        assert!(text.contains(server) && text.contains(edited), "{file}: {text}");
        assert!(!text.contains("workbench"), "{file}: {text}");
    }
}
