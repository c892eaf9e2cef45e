//! `setup` from end to end: five clients with servers are set up, used and restored.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::{Output, run_to_exit};
use crate::support::{Agent, TestEnvironment, command, fake};

pub(crate) const CLAUDE: &str = "home/.claude.json";
pub(crate) const CURSOR: &str = "home/.cursor/mcp.json";
pub(crate) const CODEX: &str = "home/.codex/config.toml";
const GOOSE: &str = "home/.config/goose/config.yaml";
const CODE: &str = "home/.config/Code/User/mcp.json";
pub(crate) const CONFIG: &str = "home/.config/mcp-workbench/config.json";
const SECRETS: &str = "home/.config/mcp-workbench/config.secrets.env";
const STATE: &str = "home/.local/state/mcp-workbench/setup";

fn server(tools: &[&str]) -> Value {
    fake(json!({ "tools": tools }))
}

/// Returns the command and the quoted argument of an entry, for TOML and YAML files.
fn words(entry: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&entry["command"]), Value::from(text(&entry["args"][0])).to_string())
}

/// Five clients with servers, and one with a broken file.
pub(crate) fn clients() -> TestEnvironment {
    let git = server(&["git_status", "git_commit", "git_diff"]);
    let files = server(&["read_file", "write_file", "list_directory"]);
    let browser = server(&["browser_navigate", "browser_click"]);
    let mut github = server(&["create_issue", "list_issues"]);
    github["env"] = json!({ "GITHUB_TOKEN": "ghp_0123456789abcdefghij" });
    let claude = format!(
        r#"{{
  "numStartups": 12,
  "mcpServers": {{
    "github": {github},
    "files": {files},
    "broken": {{ "command": "sh", "args": ["-c", "echo no database >&2; exit 1"] }}
  }},
  "projects": {{ "/work/app": {{ "mcpServers": {{ "local": {git} }} }} }}
}}"#
    );
    let cursor = format!(
        "{{\r\n  // Mine.\r\n  \"mcpServers\": {{\r\n    \"files\": {files},\r\n    \"github\": {github},\r\n    \"off\": {{ \"command\": \"x\", \"disabled\": true }},\r\n  }},\r\n}}\r\n"
    );
    let (program, argument) = words(&git);
    let codex = format!(
        "model = \"gpt-5.5\" # the new one\n\n# Version control.\n[mcp_servers.git]\ncommand = \"{program}\"\nargs = [{argument}]\n\n[projects.\"/work/app\"]\ntrust_level = \"trusted\"\n"
    );
    let (program, argument) = words(&browser);
    let goose = format!(
        "GOOSE_PROVIDER: openai\nextensions:\n  developer:\n    type: builtin\n    name: developer\n    enabled: true\n  # To look at pages.\n  browser:\n    type: stdio\n    name: browser\n    cmd: {program}\n    args:\n      - {argument}\n    enabled: true\nGOOSE_MODEL: x\n"
    );
    let bench = TestEnvironment::new();
    for (file, text) in [
        (CLAUDE, claude.as_str()),
        (CURSOR, &cursor),
        (CODEX, &codex),
        (GOOSE, &goose),
        (CODE, "\u{feff}{\n\t\"inputs\": [],\n}\n"),
        ("home/.codeium/windsurf/mcp_config.json", "{ \"mcpServers\": "),
    ] {
        put(&bench, file, text);
    }
    fs::set_permissions(bench.path(CLAUDE), fs::Permissions::from_mode(0o600)).unwrap();
    bench
}

pub(crate) fn put(bench: &TestEnvironment, file: &str, text: &str) {
    fs::create_dir_all(bench.path(file).parent().unwrap()).unwrap();
    bench.write(file, text);
}

pub(crate) fn text(bench: &TestEnvironment, file: &str) -> String {
    fs::read_to_string(bench.path(file)).unwrap()
}

/// All files of the home folder except caches and the workbench's own state.
pub(crate) fn home(bench: &TestEnvironment) -> BTreeMap<String, Vec<u8>> {
    fn walk(folder: &Path, home: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(home).unwrap().display().to_string();
            if name == ".cache" || name == ".local" {
                continue;
            }
            if path.is_dir() {
                walk(&path, home, found);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    let home = bench.path("home");
    walk(&home, &home, &mut found);
    found
}

pub(crate) fn mode(bench: &TestEnvironment, file: &str) -> u32 {
    fs::metadata(bench.path(file)).unwrap().permissions().mode() & 0o777
}

fn of_json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"))
}

pub(crate) fn agent(bench: &TestEnvironment, entry: &Value) -> Agent {
    let mut start = command(entry["command"].as_str().unwrap());
    let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    start.args(args).current_dir(bench.dir()).env("HOME", bench.path("home"));
    start.env_remove("WORKBENCH_CACHE_DIR");
    Agent::start(start)
}

fn entry(bench: &TestEnvironment) -> Value {
    let claude: Value = serde_json::from_str(&text(bench, CLAUDE)).unwrap();
    claude["mcpServers"]["workbench"].clone()
}

#[test]
fn dry_run_shows_the_plan_without_changes() {
    let bench = clients();
    let before = home(&bench);
    let shown = bench.run_bare(["setup", "--dry-run"]);
    assert_eq!(shown.code, Some(0), "{shown}");
    let asked = bench.run_bare(["setup"]);
    assert_eq!(asked.code, Some(2), "{asked}");
    assert_eq!(asked.stdout, shown.stdout);
    assert_eq!(home(&bench), before);
    assert!(!bench.path(STATE).exists());
    bench.settings().bind(|| insta::assert_snapshot!(format!("{shown}\n---\n{}", asked.stderr)));
}

#[test]
fn five_clients_are_set_up_and_restored() {
    let bench = clients();
    let before = home(&bench);
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    let files = [CLAUDE, CURSOR, CODEX, GOOSE, CODE, CONFIG, SECRETS];
    let written = files.map(|file| format!("--- {file}\n{}", text(&bench, file))).join("\n");
    bench.settings().bind(|| {
        insta::assert_snapshot!("setup", output);
        insta::assert_snapshot!("setup_files", written.replace('\r', "␍").replace('\u{feff}', "␂"));
    });
    for (file, expected) in [(CLAUDE, 0o600), (CONFIG, 0o600), (SECRETS, 0o600)] {
        assert_eq!(mode(&bench, file), expected, "{file}");
    }
    assert!(!text(&bench, CONFIG).contains("ghp_"), "{}", text(&bench, CONFIG));
    assert_eq!(mode(&bench, &format!("{STATE}/journal.json")), 0o600);

    let agent = agent(&bench, &entry(&bench)).begin(false, json!({}));
    let github = of_json(&bench.run_bare(["list", "--json", "--config", &bench.path_text(CONFIG)]));
    assert!(github.to_string().contains("create_issue"), "{github}");
    let toolbox = toolbox_of(&bench, "github");
    let _ = agent.open(&toolbox);
    let answer = agent.use_tool([&toolbox, "github", "list_issues"], json!({}));
    assert!(answer.result().is_some_and(|result| result["isError"] != true), "{answer:?}");
    agent.close_stdin();
    agent.wait_end();

    let status = bench.run_bare(["setup", "status"]);
    bench.settings().bind(|| insta::assert_snapshot!("setup_status", status));

    // A second run also moves servers that were added since.
    let notes = server(&["add_note", "find_note"]);
    let more = text(&bench, CURSOR).replace("// Mine.\r\n", "// Mine, too.\r\n");
    let more = more.replace("\"mcpServers\": {", &format!("\"mcpServers\": {{\"notes\": {notes},"));
    bench.write(CURSOR, &more);
    let again = of_json(&bench.run_bare(["setup", "--yes", "--json"]));
    let cursor = again["clients"].as_array().unwrap().iter().find(|own| own["id"] == "cursor");
    assert_eq!(cursor.unwrap()["removed"], json!(["notes"]), "{again}");
    assert!(!text(&bench, CURSOR).contains("\"notes\""), "{}", text(&bench, CURSOR));
    assert!(text(&bench, CONFIG).contains("\"notes\""), "{}", text(&bench, CONFIG));
    let nothing = bench.run_bare(["setup", "--yes"]);
    assert_eq!(nothing.code, Some(0), "{nothing}");
    assert!(nothing.stdout.contains("nothing to do: the other clients"), "{nothing}");

    let undone = bench.run_bare(["setup", "undo"]);
    assert_eq!(undone.code, Some(0), "{undone}");
    bench.settings().bind(|| insta::assert_snapshot!("setup_undo", undone));
    let mut after = home(&bench);
    // The file that the user edited has its old content and the edits.
    let cursor =
        after.insert(CURSOR["home/".len()..].to_owned(), before[".cursor/mcp.json"].clone());
    assert_eq!(after, before);
    let cursor = String::from_utf8(cursor.unwrap()).unwrap();
    for part in ["// Mine, too.\r\n", "\"notes\":", "\"files\":", "\"github\":", "\"off\":"] {
        assert!(cursor.contains(part), "{part}: {cursor}");
    }
    assert!(!cursor.contains("workbench\":"), "{cursor}");
    let nothing = bench.run_bare(["setup", "undo"]);
    assert_eq!(nothing.code, Some(1), "{nothing}");
}

fn toolbox_of(bench: &TestEnvironment, server: &str) -> String {
    let config: Value = serde_json::from_str(&text(bench, CONFIG)).unwrap();
    let toolboxes = config["toolboxes"].as_object().unwrap();
    let own = toolboxes.iter().find(|(_, toolbox)| toolbox["mcpServers"].get(server).is_some());
    own.unwrap().0.clone()
}

#[test]
fn undo_restores_untouched_files_byte_for_byte() {
    let bench = clients();
    let before = home(&bench);
    assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
    assert_ne!(home(&bench), before);
    assert_eq!(bench.run_bare(["setup", "undo", "--dry-run"]).code, Some(0));
    assert_ne!(home(&bench), before);
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    assert_eq!(home(&bench), before);
    assert_eq!(mode(&bench, CLAUDE), 0o600);
}

#[test]
fn unwritable_file_leaves_other_clients_set_up() {
    let bench = clients();
    // The file name is too long for a temporary file next to it.
    let long = bench.path(&format!("home/{}", "x".repeat(250)));
    fs::rename(bench.path(CURSOR), &long).unwrap();
    symlink(&long, bench.path(CURSOR)).unwrap();
    let before = home(&bench);
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("error: Cursor is unchanged"), "{output}");
    assert!(output.stdout.contains("4 clients now use the workbench"), "{output}");
    assert_eq!(fs::read(&long).unwrap(), before[".cursor/mcp.json"]);
    assert!(entry(&bench).is_object());
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    assert_eq!(home(&bench), before);
    assert!(bench.path(CURSOR).is_symlink());
}

#[test]
fn interrupted_setup_can_be_undone() {
    let bench = clients();
    let before = home(&bench);
    assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
    // Simulates a crash after the journal was written: these files weren't changed yet, and the
    // user has edited one since.
    let codex = String::from_utf8(before[".codex/config.toml"].clone()).unwrap();
    bench.write(CODEX, &format!("{codex}[tui]\n"));
    fs::write(bench.path(GOOSE), &before[".config/goose/config.yaml"]).unwrap();
    fs::remove_file(bench.path(SECRETS)).unwrap();
    let output = bench.run_bare(["setup", "undo"]);
    assert_eq!(output.code, Some(0), "{output}");
    let mut after = home(&bench);
    let codex = after
        .insert(".codex/config.toml".to_owned(), codex.clone().into())
        .map(|own| own == format!("{codex}[tui]\n").into_bytes());
    assert_eq!((after, codex), (before, Some(true)));
}

#[test]
fn failed_undo_can_be_repeated() {
    let bench = clients();
    let before = home(&bench);
    assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
    let written = text(&bench, CURSOR);
    bench.write(CURSOR, "{ \"mcpServers\": ");
    let output = bench.run_bare(["setup", "undo"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("not changed: invalid file"), "{output}");
    // Cursor still starts the workbench, so its configuration stays.
    assert!(bench.path(CONFIG).exists() && bench.path(SECRETS).exists());
    bench.write(CURSOR, &written);
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    assert_eq!(home(&bench), before);
}

#[test]
fn symlinked_file_is_changed_once_and_stays_a_link() {
    let bench = TestEnvironment::new();
    let before = json!({ "mcpServers": { "files": server(&["read_file"]) } }).to_string();
    put(&bench, CURSOR, &before);
    let link = bench.path("home/.codeium/windsurf/mcp_config.json");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(bench.path(CURSOR), &link).unwrap();
    assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
    assert_eq!(text(&bench, CURSOR).matches("mcp-workbench\"").count(), 1);
    assert!(link.is_symlink() && fs::read(link).unwrap() == fs::read(bench.path(CURSOR)).unwrap());
    assert_eq!(bench.run_bare(["setup", "undo"]).code, Some(0));
    assert_eq!(text(&bench, CURSOR), before);
}

#[test]
fn only_named_clients_are_set_up() {
    let bench = clients();
    let before = home(&bench);
    let output = bench.run_bare(["setup", "--client", "codex", "--yes"]);
    assert_eq!(output.code, Some(0), "{output}");
    let after = home(&bench);
    let changed = after.iter().filter(|(file, text)| before.get(*file) != Some(text));
    let changed: Vec<_> = changed.map(|(file, _)| file.as_str()).collect();
    assert_eq!(changed, [".codex/config.toml", ".config/mcp-workbench/config.json"]);
    let output = bench.run_bare(["setup", "--client", "nobody"]);
    assert_eq!(output.code, Some(2), "{output}");
}

#[test]
fn undo_keeps_an_edited_configuration_and_its_secrets() {
    let bench = clients();
    assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
    let mine = text(&bench, CONFIG).replacen('{', "{\n  // Mine now.", 1);
    bench.write(CONFIG, &mine);
    let output = bench.run_bare(["setup", "undo"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(text(&bench, CONFIG), mine);
    assert!(bench.path(SECRETS).exists());
    assert!(!text(&bench, CLAUDE).contains("workbench"));
}

#[test]
fn client_with_another_workbench_is_left_unchanged() {
    let bench = TestEnvironment::new();
    let own = r#"{"mcpServers": {"mine": {"command": "mcp-workbench", "args": ["--config", "/my.json"]}}}"#;
    put(&bench, CURSOR, own);
    let (program, argument) = words(&server(&["git_status"]));
    put(
        &bench,
        CODEX,
        &format!("[mcp_servers.git]\ncommand = \"{program}\"\nargs = [{argument}]\n"),
    );
    let output = bench.run_bare(["setup", "--yes"]);
    assert_eq!(text(&bench, CURSOR), own);
    assert!(output.stdout.contains("already starts another workbench (`mine`)"), "{output}");
    assert!(text(&bench, CODEX).contains("[mcp_servers.workbench]"), "{output}");
}

#[test]
fn skips_servers_that_depend_on_the_client_folder() {
    let bench = TestEnvironment::new();
    let mut here = server(&["read_file"]);
    here["args"].as_array_mut().unwrap().push(json!("."));
    let servers =
        json!({ "mcpServers": { "here": here, "far": { "command": "no-such-program" } } });
    put(&bench, CURSOR, &servers.to_string());
    let output = bench.run_bare(["setup", "--dry-run"]);
    assert!(output.stdout.contains("`here` (Cursor): depends on the client's"), "{output}");
    assert!(output.stdout.contains("`far` (Cursor): failed to start"), "{output}");
}

#[test]
fn secrets_file_next_to_the_configuration_is_read() {
    let mut entry = server(&["add"]);
    entry["env"] = json!({ "TOKEN": "${ONLY_THERE}" });
    let bench = TestEnvironment::new().server("dev", "srv", entry);
    let output = bench.run(["call", "dev", "srv", "add", "{}"]);
    assert_eq!(output.code, Some(1), "{output}");
    bench.write("workbench.secrets.env", "# Mine.\nONLY_THERE=of the file\nwhat is this\n");
    let output = bench.run(["call", "dev", "srv", "add", "{}"]);
    assert_eq!(output.code, Some(0), "{output}");
    let output = bench.run(["check"]);
    assert!(output.to_string().contains("workbench.secrets.env:3:1"), "{output}");
}

#[test]
fn setup_fails_without_clients() {
    let bench = TestEnvironment::new();
    let output = run_to_exit(bench.command(&["setup", "--yes"]), "");
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("no MCP client found"), "{output}");
}

#[test]
fn setup_without_servers_changes_nothing() {
    let failing = r#"{"mcpServers": {"x": {"command": "no-such-program"}}}"#;
    for cursor in ["{}", failing] {
        let bench = TestEnvironment::new();
        put(&bench, CURSOR, cursor);
        put(&bench, CODEX, "model = \"x\"\n");
        let before = home(&bench);
        let output = bench.run_bare(["setup", "--yes"]);
        assert_eq!(output.code, Some(1), "{output}");
        assert!(output.stdout.contains("mcp-workbench add --user NAME -- COMMAND"), "{output}");
        assert!(output.stdout.contains("~/.codex/config.toml"), "{output}");
        assert_eq!(home(&bench), before);
        assert_eq!(bench.run_bare(["setup", "--dry-run"]).code, Some(0));
    }
}

#[test]
fn plan_says_why_servers_stay() {
    let bench = TestEnvironment::new();
    let mut open = server(&["read_file"]);
    open["args"].as_array_mut().unwrap().push(json!("${workspaceFolder}"));
    let mut asks = server(&["list_issues"]);
    asks["env"] = json!({ "K": "${input:key}" });
    let servers = json!({ "mcpServers": {
        "open": open, "asks": asks, "off": { "command": "x", "disabled": true },
    } });
    put(&bench, CURSOR, &servers.to_string());
    let (program, argument) = words(&server(&["git_status"]));
    let inline =
        format!("mcp_servers = {{ git = {{ command = \"{program}\", args = [{argument}] }} }}\n");
    put(&bench, CODEX, &inline);
    let projects = json!({ "projects": { "/a": { "mcpServers": { "local": server(&["x"]) } } } });
    put(&bench, CLAUDE, &projects.to_string());
    let output = bench.run_bare(["setup", "--dry-run"]);
    for line in [
        "`open` (Cursor): depends on the folder that is open in the client",
        "`asks` (Cursor): asks for `key` when it starts, which the workbench can't",
        "`off` (Cursor): is disabled",
        "`local` (Claude Code): belongs to a single project",
        "`~/.codex/config.toml` (Codex): `mcp_servers` is written with inline tables",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output}");
    }
    let status = bench.run_bare(["setup", "status"]);
    assert!(status.stdout.contains("off (disabled)"), "{status}");
}

#[test]
fn second_plan_and_undo_name_what_stays() {
    let bench = TestEnvironment::new();
    put(&bench, CURSOR, &json!({ "mcpServers": { "git": server(&["git_status"]) } }).to_string());
    assert_eq!(bench.run_bare(["setup", "--yes"]).code, Some(0));
    // The user adds another server, and another one with the name of the moved server.
    let mut cursor: Value = serde_json::from_str(&text(&bench, CURSOR)).unwrap();
    cursor["mcpServers"]["files"] = server(&["read_file", "write_file"]);
    put(&bench, CURSOR, &cursor.to_string());
    let again = bench.run_bare(["setup", "--dry-run"]);
    let row = again.stdout.lines().find(|line| line.starts_with("Cursor")).unwrap_or_default();
    assert!(row.contains("unchanged") && row.contains("files"), "{again}");
    cursor["mcpServers"]["git"] = json!({ "command": "other-git" });
    put(&bench, CURSOR, &cursor.to_string());
    let undone = bench.run_bare(["setup", "undo"]);
    assert!(undone.stdout.contains("not restored"), "{undone}");
    assert!(text(&bench, CURSOR).contains("other-git"), "{undone}");
}
