//! Catalogs: folders of YAML files that are generated, validated, compared and served.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real::entry;
use crate::support::{Agent, TestEnvironment, fake};

fn configured() -> TestEnvironment {
    let builtin = |name: &str| entry(env!("CARGO_BIN_EXE_mcp-workbench"), &["builtin", name]);
    let mut notes = builtin("notes");
    notes["env"] = json!({ "API_TOKEN": "a-plain-secret", "LEVEL": "${LEVEL:-debug}" });
    TestEnvironment::new().server("desk", "clock", builtin("clock")).server("desk", "notes", notes)
}

fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let path = path.strip_prefix(folder).expect("a file in it");
                found.push(path.display().to_string());
            }
        }
    }
    found.sort();
    found
}

fn serve(bench: &TestEnvironment, arguments: &[&str]) -> Agent {
    let folder = bench.path_text("catalog");
    let arguments = [&["serve", "--config", folder.as_str()], arguments].concat();
    let agent =
        bench.direct(&entry(env!("CARGO_BIN_EXE_mcp-workbench"), &arguments)).relisting_on_change();
    agent.initialize();
    agent
}

#[test]
fn generated_catalog_passes_checks_and_is_served() {
    let bench = configured().env("API_TOKEN", "another-secret");
    let folder = bench.path_text("catalog");
    let written = bench.run(["catalog", "init", &folder]);
    assert_eq!(written.code, Some(0), "{written}");
    assert!(written.stdout.contains("1 category, 2 services, "), "{written}");
    assert!(written.stdout.contains("set `API_TOKEN` before you start"), "{written}");
    let all = files(&bench.path("catalog"));
    for file in
        ["_config.yaml", "desk/_category.yaml", "desk/clock/_service.yaml", "desk/clock/now.yaml"]
    {
        assert!(all.iter().any(|path| path == file), "{file} in {all:?}");
    }
    for file in &all {
        let text = fs::read_to_string(bench.path("catalog").join(file)).expect("a text");
        assert!(!text.contains("secret"), "{file}: {text}");
    }
    let config = fs::read_to_string(bench.path("catalog/_config.yaml")).expect("a text");
    assert!(config.contains("API_TOKEN: \"${API_TOKEN}\""), "{config}");
    assert!(config.contains("LEVEL: \"${LEVEL:-debug}\""), "{config}");

    let again = bench.run(["catalog", "init", &folder]);
    assert_eq!(again.code, Some(1), "{again}");
    assert!(again.stderr.contains("not empty"), "{again}");
    assert_eq!(bench.run(["catalog", "init", "--force", &folder]).code, Some(0));

    let checked = bench.run(["check", "--config", &folder]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{checked}");
    assert!(checked.stdout.contains("mode `navigate`"), "{checked}");
    for arguments in [
        ["catalog", "check", &folder, "--config", "none.json"].as_slice(),
        &["catalog", "check", "--config", &folder],
    ] {
        let compared = bench.run(arguments.iter().copied());
        assert_eq!(compared.code, Some(0), "{compared}");
        assert!(compared.stdout.contains("the catalog matches its servers"), "{compared}");
    }

    let agent = serve(&bench, &["--tool-mode", "proxy"]);
    agent.open("desk");
    let answer = agent.use_tool(["desk", "clock", "now"], json!({}));
    assert!(!answer.is_tool_error(), "{}", answer.text());
}

fn config_of(bench: &TestEnvironment) -> (String, String) {
    let written = bench.run(["catalog", "init", &bench.path_text("catalog")]);
    assert_eq!(written.code, Some(0), "{written}");
    (fs::read_to_string(bench.path("catalog/_config.yaml")).expect("a text"), written.stdout)
}

#[test]
fn servers_with_different_secrets_stay_separate() {
    let account = |token: &str| {
        let mut server = fake(json!({ "tools": ["add"] }));
        server["env"]["GITHUB_TOKEN"] = token.into();
        server
    };
    let bench = TestEnvironment::new().server("work", "github", account("first-s3cret")).server(
        "home",
        "github",
        account("other-s3cret"),
    );
    let (config, said) = config_of(&bench);
    assert!(!config.contains("s3cret"), "{config}");
    assert!(said.contains("set `GITHUB_TOKEN`, `GITHUB_TOKEN_2` before you start"), "{said}");
    for toolbox in ["work", "home"] {
        let service = bench.path(&format!("catalog/{toolbox}/github/_service.yaml"));
        let service = fs::read_to_string(service).expect("a text");
        let (server, token) = match toolbox {
            "work" => ("github", "${GITHUB_TOKEN}"),
            _ => ("home-github", "${GITHUB_TOKEN_2}"),
        };
        assert!(service.contains(&format!("mcp_server: {server}\n")), "{service}");
        let block = config.split(&format!("\n  {server}:\n")).nth(1).expect("a block");
        let set = block.lines().find(|line| line.contains("GITHUB_TOKEN:")).expect("a line");
        assert!(set.ends_with(&format!("\"{token}\"")), "{set}");
    }
}

#[cfg(unix)]
#[test]
fn catalog_config_inherits_the_permissions_of_its_source() {
    use std::os::unix::fs::PermissionsExt;

    let bench = TestEnvironment::new().server("a", "b", fake(json!({ "tools": ["add"] })));
    bench.write_config();
    let only_ours = fs::Permissions::from_mode(0o600);
    fs::set_permissions(bench.config_path(), only_ours).expect("permissions");
    config_of(&bench);
    let mode = fs::metadata(bench.path("catalog/_config.yaml")).expect("a file").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn generated_catalog_keeps_access_rules() {
    let bench = TestEnvironment::new()
        .server("maths", "calc", fake(json!({ "tools": ["add", "sub", "echo"] })))
        .set(
            "agentPolicies",
            json!({ "ann": { "allowedServers": ["calc"],
                                               "toolOverrides": { "calc": ["add"] } } }),
        )
        .set("defaultPolicy", json!({ "allowUnknownServers": false }))
        .set("dangerousTools", json!(["calc:add"]))
        .set("audit", json!({ "file": "logs/audit.jsonl" }))
        .set("toolMode", json!("proxy"))
        .set(
            "navigator",
            json!({ "llm": { "baseUrl": "http://127.0.0.1:1", "model": "m",
                                           "apiKey": "s3cret" } }),
        )
        .set(
            "macros",
            json!({ "adds": { "toolbox": "maths", "description": "Adds",
                                         "steps": { "one": { "tool": "calc:add" } } } }),
        )
        .env("NAVIGATOR_LLM_APIKEY", "x");
    let (config, said) = config_of(&bench);
    assert!(!config.contains("s3cret"), "{config}");
    assert!(config.contains(&bench.path_text("logs/audit.jsonl")), "{config}");
    assert!(!config.contains("toolMode"), "{config}");
    assert!(said.contains("warning: not copied: `macros`"), "{said}");
    let agent = serve(&bench, &["--tool-mode", "direct", "--agent", "ann"]);
    assert_eq!(agent.tool_names(), ["add"]);
    let agent = serve(&bench, &["--tool-mode", "direct", "--agent", "bob"]);
    assert_eq!(agent.tool_names(), [""; 0]);
    let explained =
        bench.run(["explain", "ann", "calc", "add", "--config", &bench.path_text("catalog")]);
    let line = config.lines().position(|line| line.contains("toolOverrides:")).expect("a line");
    let place = format!("catalog/_config.yaml:{})", line + 2);
    assert!(explained.stdout.contains(&place), "{place}: {explained}");
    assert!(explained.stdout.contains("dangerous"), "{explained}");
}

#[test]
fn unusual_tool_names_round_trip_through_file_names() {
    let long = "x".repeat(300);
    let names = ["send", "Send", "aux", "_x", "a\u{7}b", " ", &long];
    let bench = TestEnvironment::new().server("a", "b", fake(json!({ "tools": names })));
    let (_, said) = config_of(&bench);
    assert!(said.contains("1 service, 4 tools"), "{said}");
    for left in ["a\\u{7}b", " ", &format!("{}…", "x".repeat(63))] {
        assert!(said.contains(&format!("skipped tool `{left}` of `a/b`: ")), "{said}");
    }
    let here = files(&bench.path("catalog/a/b"));
    assert_eq!(here, ["%53end.yaml", "%5Fx.yaml", "%61ux.yaml", "_service.yaml", "send.yaml"]);
    let checked = bench.run(["check", "--config", &bench.path_text("catalog")]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{checked}");
}

#[test]
fn catalog_init_refuses_to_write_an_empty_catalog() {
    let bench = TestEnvironment::new().server("a", "b", entry("no-such-program", &[]));
    let written = bench.run(["catalog", "init", &bench.path_text("catalog")]);
    assert_eq!(written.code, Some(1), "{written}");
    assert!(written.stderr.contains("no tools to write"), "{written}");
    assert!(written.stderr.contains("`a/b` failed to start"), "{written}");
    assert!(!bench.path("catalog").exists());
}

#[test]
fn catalog_init_force_replaces_yml_files() {
    let bench = TestEnvironment::new().server("a", "b", fake(json!({ "tools": ["add"] })));
    config_of(&bench);
    for file in ["_config", "a/_category", "a/b/_service", "a/b/add"] {
        let path = |ending: &str| bench.path(&format!("catalog/{file}.{ending}"));
        fs::rename(path("yaml"), path("yml")).expect("renamed");
    }
    let folder = bench.path_text("catalog");
    assert_eq!(bench.run(["catalog", "init", "--force", &folder]).code, Some(0));
    let wanted = ["_config.yaml", "a/_category.yaml", "a/b/_service.yaml", "a/b/add.yaml"];
    assert_eq!(files(&bench.path("catalog")), wanted);
    assert_eq!(bench.run(["check", "--config", &folder]).code, Some(0));
}

#[test]
fn catalog_check_reports_differences() {
    let bench = configured().env("API_TOKEN", "another-secret");
    let folder = bench.path_text("catalog");
    assert_eq!(bench.run(["catalog", "init", &folder]).code, Some(0));
    let now = bench.path("catalog/desk/clock/now.yaml");
    fs::rename(&now, bench.path("catalog/desk/clock/then.yaml")).expect("renamed");
    bench.write(
        "catalog/desk/notes/add_note.yaml",
        "description: d\nparameters: {title: {type: integer}, colour: {type: string}}\n",
    );
    let compared = bench.run(["catalog", "check", "--config", &folder]);
    assert_eq!(compared.code, Some(1), "{compared}");
    let lines: Vec<_> = compared.stdout.lines().collect();
    assert!(
        lines.contains(&"desk/clock/then: gone: the server does not list this tool"),
        "{compared}"
    );
    let new = "desk/clock/now: new: the catalog has no file for this tool";
    assert!(lines.contains(&new), "{compared}");
    let note = lines.iter().find(|line| line.starts_with("desk/notes/add_note: parameters differ"));
    let note = note.expect("a line");
    assert!(note.contains("`colour` was removed"), "{note}");
    assert!(note.contains("`title` changed from integer to string"), "{note}");
    let compared = bench.run(["catalog", "check", "--json", "--config", &folder]);
    let report: Value = serde_json::from_str(&compared.stdout).expect("JSON");
    assert_eq!(report["same"], json!(false));
    assert_eq!(report["differences"].as_array().map(Vec::len), Some(3), "{report}");
}

fn scripted() -> TestEnvironment {
    let server = fake(json!({ "tools": ["add", "sub", "echo"] }));
    let config = json!({ "autoReload": "all", "mcp_servers": { "calc-mcp": server } });
    let bench = TestEnvironment::new();
    for (path, text) in [
        // JSON is YAML.
        ("catalog/_config.yaml", config.to_string()),
        ("catalog/maths/_category.yaml", "description: Numbers".to_owned()),
        ("catalog/maths/calc/_service.yaml", "description: Sums\nmcp_server: calc-mcp".to_owned()),
        ("catalog/maths/calc/add.yaml", "description: Adds".to_owned()),
    ] {
        fs::create_dir_all(bench.path(path).parent().expect("a folder")).expect("a folder");
        bench.write(path, &text);
    }
    bench
}

// invariant: catalog-degrades
#[test]
fn only_check_reads_every_tool_file_of_a_catalog() {
    let bench = scripted();
    bench.write(
        "catalog/maths/calc/sub.yaml",
        "description: Subtracts\nparameters: {a: {type: int}}",
    );
    let folder = bench.path_text("catalog");
    let checked = bench.run(["check", "--config", &folder]);
    assert_eq!(checked.code, Some(1), "{checked}");
    assert!(
        checked.stderr.contains("  maths/calc/sub.yaml:2:24: parameters.a.type: "),
        "{checked}"
    );
    let checked = bench.run(["check", "--json", "--config", &folder]);
    let report: Value = serde_json::from_str(&checked.stdout).expect("JSON");
    assert_eq!(report["dialect"], "catalog");
    assert_eq!(report["errors"][0]["file"], "maths/calc/sub.yaml");
    assert_eq!(report["errors"][0]["line"], 2);
    let agent = serve(&bench, &["--tool-mode", "direct"]);
    assert_eq!(agent.tool_names(), ["add", "sub"], "the tool list does not need the file");
}

#[test]
fn invalid_catalog_reports_all_errors() {
    let bench = scripted();
    bench.write("catalog/_config.yaml", "mcp_servers: {calc-mcp: {}}\nlimits: {maxBites: 1}");
    bench.write("catalog/maths/_category.yaml", "description: [");
    let file = bench.path_text("catalog/_config.yaml");
    let checked = bench.run(["check", "--config", &file]);
    assert_eq!(checked.code, Some(2), "{checked}");
    assert!(checked.stderr.contains("  _config.yaml:1:15: mcp_servers.calc-mcp: "), "{checked}");
    assert!(checked.stderr.contains("  _config.yaml:2:10: limits.maxBites: "), "{checked}");
    assert!(checked.stderr.contains("  maths/_category.yaml:"), "{checked}");
}

#[test]
fn invalid_service_file_disables_only_that_service() {
    let bench = scripted();
    fs::create_dir_all(bench.path("catalog/maths/more")).expect("a folder");
    bench.write("catalog/maths/more/sub.yaml", "description: Subtracts");
    bench.write("catalog/maths/more/_service.yaml", "description: More\nmcp_server: calk-mcp");
    let folder = bench.path_text("catalog");
    let checked = bench.run(["check", "--config", &folder]);
    assert_eq!(checked.code, Some(1), "{checked}");
    assert!(checked.stderr.contains("  maths/more/_service.yaml:2:13: mcp_server: "), "{checked}");
    assert!(checked.stderr.contains("did you mean `calc-mcp`?"), "{checked}");
    assert!(checked.stdout.contains("failed"), "{checked}");
    let strict = bench.run(["serve", "--strict", "--config", &folder]);
    assert_eq!(strict.code, Some(2), "{strict}");
    assert!(strict.stderr.contains("  maths/more/_service.yaml:2:13: "), "{strict}");

    let agent = serve(&bench, &["--tool-mode", "proxy"]);
    agent.wait_stderr("maths/more/_service.yaml:2:13: mcp_server: no server `calk-mcp`");
    let opened = agent.open("maths").text();
    let opened: Value = serde_json::from_str(&opened).expect("JSON");
    let failed = &opened["failed_servers"][0];
    assert_eq!(failed["server"], "more");
    let reason = failed["reason"].as_str().expect("a reason");
    assert!(reason.contains("no server `calk-mcp` in `mcp_servers`"), "{reason}");
    assert!(failed.to_string().contains("did you mean `calc-mcp`?"), "{failed}");
    assert!(!agent.use_tool(["maths", "calc", "add"], json!({})).is_tool_error());
    let called = agent.use_tool(["maths", "more", "sub"], json!({}));
    assert!(called.is_tool_error() && called.text().contains("calk-mcp"), "{}", called.text());
    bench.write("catalog/maths/more/_service.yaml", "description: More\nmcp_server: calc-mcp");
    agent.wait_stderr("configuration reloaded");
    assert!(!agent.use_tool(["maths", "more", "sub"], json!({})).is_tool_error());
}

fn tools_of(agent: &Agent, count: usize) -> Vec<String> {
    let mut names = agent.tool_names();
    while names.len() != count {
        agent.next_notification("notifications/tools/list_changed");
        names = agent.tool_names();
    }
    names
}

#[test]
fn added_tool_file_becomes_a_tool() {
    let bench = scripted();
    let agent = serve(&bench, &["--tool-mode", "direct"]);
    assert_eq!(agent.tool_names(), ["add"]);
    bench.write("catalog/maths/calc/sub.yaml", "description: Subtracts");
    assert_eq!(tools_of(&agent, 2), ["add", "sub"]);
    fs::remove_file(bench.path("catalog/maths/calc/add.yaml")).expect("removed");
    assert_eq!(tools_of(&agent, 1), ["sub"]);
    bench.write("catalog/_config.yaml", "mcp_servers: [");
    agent.wait_stderr("configuration not reloaded");
    assert_eq!(agent.tool_names(), ["sub"], "a broken reload changed the tool list");
}

#[test]
fn added_folder_becomes_a_service() {
    let bench = scripted();
    let agent = serve(&bench, &["--tool-mode", "direct"]);
    assert_eq!(agent.tool_names(), ["add"]);
    // Servers run in the catalog folder and may create files there.
    fs::create_dir_all(bench.path("catalog/data/cache")).expect("a folder");
    bench.write("catalog/data/cache/entry", "");
    // Moved into place, so that the folder appears complete.
    let (ready, more) = (bench.path("ready"), bench.path("catalog/more"));
    fs::create_dir_all(ready.join("calc")).expect("a folder");
    for (file, text) in [
        ("_category.yaml", "description: More"),
        ("calc/_service.yaml", "description: More\nmcp_server: calc-mcp"),
        ("calc/echo.yaml", "description: Says it again"),
    ] {
        bench.write(&format!("ready/{file}"), text);
    }
    fs::rename(&ready, &more).expect("moved");
    assert_eq!(tools_of(&agent, 2), ["add", "echo"]);
    // New folders are watched, too.
    bench.write("catalog/more/calc/sub.yaml", "description: Subtracts");
    assert_eq!(tools_of(&agent, 3), ["add", "sub", "echo"]);
    fs::rename(&more, &ready).expect("moved");
    assert_eq!(tools_of(&agent, 1), ["add"]);
}

#[test]
fn services_can_share_a_server() {
    let bench = scripted();
    fs::create_dir_all(bench.path("catalog/other/less")).expect("a folder");
    bench.write("catalog/other/_category.yaml", "description: Others");
    bench.write("catalog/other/less/_service.yaml", "description: Less\nmcp_server: calc-mcp");
    bench.write("catalog/other/less/sub.yaml", "description: Subtracts");
    let folder = bench.path_text("catalog");
    let compared = bench.run(["catalog", "check", "--config", &folder]);
    assert_eq!(compared.code, Some(0), "{compared}");
    let new: Vec<_> = compared.stdout.lines().filter(|line| line.contains(": new: ")).collect();
    assert_eq!(new.len(), 1, "{compared}");
    assert!(new[0].starts_with("maths/calc/echo: new: "), "{compared}");
    let strict = bench.run(["catalog", "check", "--strict", "--config", &folder]);
    assert_eq!(strict.code, Some(1), "{strict}");
}

#[test]
fn configuration_can_refer_to_a_catalog() {
    let bench = scripted();
    fs::remove_file(bench.path("catalog/_config.yaml")).expect("removed");
    let bench = bench
        .server("dev", "calc-mcp", fake(json!({ "tools": ["add", "sub"] })))
        .set("navigator", json!({ "catalog": "catalog" }))
        .set("toolMode", json!("proxy"));
    bench.write("catalog/maths/calc/bad.yaml", "parameters: [");
    let checked = bench.run(["check"]);
    assert_eq!(checked.code, Some(1), "{checked}");
    assert!(checked.stderr.contains("  catalog/maths/calc/bad.yaml:1:14: "), "{checked}");
    fs::remove_file(bench.path("catalog/maths/calc/bad.yaml")).expect("removed");
    bench.write("catalog/maths/calc/mul.yaml", "description: Multiplies");
    let compared = bench.run(["catalog", "check"]);
    assert_eq!(compared.code, Some(1), "{compared}");
    assert!(compared.stdout.contains("maths/calc/mul: gone"), "{compared}");
    assert!(compared.stdout.contains("maths/calc/sub: new"), "{compared}");
    bench.write("catalog/maths/calc/_service.yaml", "description: Sums\nmcp_server: dev/calk");
    let checked = bench.run(["check"]);
    assert_eq!(checked.code, Some(1), "{checked}");
    assert!(checked.stderr.contains("  catalog/maths/calc/_service.yaml:2:13: "), "{checked}");
    let agent = bench.agent();
    agent.initialize();
    assert!(!agent.use_tool(["dev", "calc-mcp", "add"], json!({})).is_tool_error());
}
