//! Checks the README, documentation, changelog, examples and lock files against the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mcp_workbench::config;
use pretty_assertions::assert_eq;
use regex::Regex;
use serde_json::Value;

use crate::support::TestEnvironment;
use crate::tidy::text::{Source, files, read, repository};

/// Returns the text under `heading`, up to the next heading of the same or a higher level.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let level = heading.chars().take_while(|c| *c == '#').count();
    let mut is_code = false;
    let mut start = None;
    let mut at = 0;
    for line in document.split_inclusive('\n') {
        is_code ^= line.starts_with("```");
        let hashes = line.chars().take_while(|c| *c == '#').count();
        match start {
            None if line.trim_end() == heading => start = Some(at + line.len()),
            Some(start) if !is_code && (1..=level).contains(&hashes) => {
                return &document[start..at];
            }
            _ => {}
        }
        at += line.len();
    }
    start.map_or("", |start| &document[start..])
}

/// Returns the table rows in a text, without header rows, as cells without backticks.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let is_delimiter = |line: &str| line.starts_with("| ---");
    let lines: Vec<&str> = text.lines().collect();
    let body = lines.iter().enumerate().filter(|(index, line)| {
        let is_header = lines.get(index + 1).is_some_and(|next| is_delimiter(next));
        line.starts_with("| ") && !is_delimiter(line) && !is_header
    });
    body.map(|(_, line)| {
        let cells = line.trim().trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().trim_matches('`')).collect()
    })
    .collect()
}

/// Returns the contents of the fenced code blocks in one language.
pub(super) fn fences<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let opening = format!("```{language}\n");
    let mut rest = document;
    while let Some(start) = rest.find(&opening) {
        let body = &rest[start + opening.len()..];
        let end = body.find("\n```").expect("an end of the block");
        found.push(&body[..=end]);
        rest = &body[end..];
    }
    found
}

/// Returns the user documentation: the README and every page in `docs/`.
pub(super) fn pages() -> Vec<Source> {
    let mut pages = vec![Source::new("README.md", &read("README.md"))];
    pages.extend(files("docs", "md"));
    pages
}

/// Returns the section of the user documentation with this title. Its heading can have any level.
fn documentation_section(title: &str) -> String {
    let pages = pages();
    let found = pages.iter().find_map(|page| {
        let mut levels = (1..=4).map(|level| format!("{} {title}", "#".repeat(level)));
        let heading = levels.find(|heading| page.text.lines().any(|line| line == heading))?;
        Some(section(&page.text, &heading).to_owned())
    });
    found.unwrap_or_else(|| panic!("no page has the heading `{title}`"))
}

#[test]
fn sections_tables_and_fences_are_parsed() {
    let text =
        "# A\nx\n## B\n| k | v |\n| --- | --- |\n| `a` | 1 |\n```sh\n# no heading\n```\n## C\ny\n";
    assert_eq!(rows(section(text, "## B")), [["a", "1"]]);
    assert!(section(text, "## B").contains("# no heading"));
    assert_eq!(section(text, "## C"), "y\n");
    assert_eq!(section(text, "## D"), "");
    assert_eq!(fences(text, "sh"), ["# no heading\n"]);
    assert_eq!(fences(text, "jsonc"), [""; 0]);
}

#[test]
fn required_files_are_not_empty() {
    for path in [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "justfile",
        "schemas/workbench-config.schema.json",
        "scripts/test.sh",
        "workbench-config.json",
    ] {
        assert!(!read(path).trim().is_empty(), "{path} is empty");
    }
}

fn changelog_faults(text: &str) -> Vec<&'static str> {
    let unreleased = section(text, "## [Unreleased]");
    let mut faults = Vec::new();
    if !text.lines().any(|line| line.trim_end() == "## [Unreleased]") {
        faults.push("no section `## [Unreleased]`");
    }
    let headings = unreleased.lines().filter_map(|l| l.strip_prefix("### "));
    for heading in headings {
        let kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
        if !kinds.contains(&heading) {
            faults.push("a heading that Keep a Changelog doesn't define");
        }
    }
    let entries = unreleased.lines().filter(|line| line.starts_with("- "));
    if entries.into_iter().any(|line| !line.ends_with('.')) {
        faults.push("an entry that isn't one line with a period at the end");
    }
    faults
}

#[test]
fn changelog_follows_keep_a_changelog() {
    assert_eq!(changelog_faults("# Changelog\n").len(), 1);
    assert_eq!(changelog_faults("## [Unreleased]\n### News\n- No stop\n").len(), 2);
    assert_eq!(changelog_faults("## [Unreleased]\n### Added\n- A thing.\n"), [""; 0]);
    assert_eq!(changelog_faults(&read("CHANGELOG.md")), [""; 0]);
}

/// Returns the variables that the example configurations may expand.
fn example_environment() -> BTreeMap<String, String> {
    [("HOME", "/home/me"), ("PWD", "/home/me/project"), ("LLM_API_KEY", "a-key")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// Returns a configuration's errors, warnings and schema violations.
fn config_faults(text: &str) -> Vec<String> {
    let loaded =
        config::parse(text, Path::new("it"), Path::new("/project"), &example_environment());
    let mut faults = match loaded {
        Ok(loaded) => loaded.report().map(|report| report.to_string()),
        Err(report) => Some(report.to_string()),
    }
    .into_iter()
    .collect::<Vec<_>>();
    let tree = jsonc_parser::parse_to_ast(
        text,
        &jsonc_parser::CollectOptions::default(),
        &jsonc_parser::ParseOptions::default(),
    );
    let value = tree.map(|tree| tree.value.map_or(Value::Null, Value::from));
    match value {
        Ok(value) => {
            let validator = jsonschema::validator_for(&config::schema()).expect("a schema");
            let errors = validator.iter_errors(&value);
            faults
                .extend(errors.map(|error| format!("schema: {}: {error}", error.instance_path())));
        }
        Err(error) => faults.push(error.to_string()),
    }
    faults
}

#[test]
fn invalid_configurations_are_found() {
    let good = r#"{"mcpServers": {"a": {"command": "a"}}} // fine"#;
    assert_eq!(config_faults(good), [""; 0]);
    for bad in [
        "{}",
        r#"{"mcpServers": {"a": {"command": "a"}}, "toolMod": "proxy"}"#,
        r#"{"mcpServers": {"a": {"command": "a", "toolfilters": []}}}"#,
        r#"{"mcpServers": {"a": {"command": "${NOWHERE}"}}}"#,
        r#"{"mcpServers": {"a": {"command": "a", "callTimeoutMs": 0}}}"#,
    ] {
        assert_ne!(config_faults(bad), [""; 0], "{bad}");
    }
}

#[test]
fn documented_configurations_are_valid() {
    let mut shown = files("examples", "json");
    // This folder has the rules for `tailor` and another program's file, which may need more than
    // Workbench supports (see `selective_example_is_valid_unmodified`).
    shown.retain(|source| !source.path.starts_with("examples/selective/"));
    shown.push(Source::new("workbench-config.json", &read("workbench-config.json")));
    let pages = pages();
    let on_pages = pages.iter().flat_map(|page| {
        let blocks = fences(&page.text, "jsonc").into_iter().enumerate();
        blocks.map(|(n, text)| Source::new(&format!("{}, {}", page.path, n + 1), text))
    });
    let before = shown.len();
    shown.extend(on_pages);
    assert!(shown.len() >= before + 3, "too few configurations in the documentation");
    for source in shown {
        assert_eq!(config_faults(&source.text), [""; 0], "{}", source.path);
    }
}

#[test]
fn documented_files_of_other_programs_are_valid() {
    let mut shown = files("examples/modular", "json");
    shown.extend(files("examples/toolman", "toml"));
    assert!(shown.len() >= 3);
    let (toolman, modular) =
        (documentation_section("Toolman"), documentation_section("Modular MCP"));
    let blocks = fences(&toolman, "toml").into_iter();
    shown.extend(blocks.map(|text| Source::new("tools.toml", text)));
    let blocks = fences(&modular, "json").into_iter();
    shown.extend(blocks.map(|text| Source::new("modular-mcp.json", text)));
    for Source { path, text } in shown {
        let loaded =
            config::parse(&text, Path::new(&path), Path::new("/project"), &example_environment());
        let loaded = loaded.unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(loaded.findings, [], "{path}");
        let expected = if path.ends_with("toml") { "activate" } else { "modular" };
        assert_eq!(loaded.config.mode.as_str(), expected, "{path}");
    }
}

#[test]
fn configurations_reference_an_existing_schema() {
    let schema = Regex::new(r#""\$schema":\s*"([^"]+)""#).expect("a pattern");
    let mut shown = files("examples", "json");
    // Files of other programs reference those programs' schemas.
    let others = ["examples/modular/", "examples/selective/"];
    shown.retain(|source| !others.iter().any(|folder| source.path.starts_with(folder)));
    shown.push(Source::new("workbench-config.json", &read("workbench-config.json")));
    for Source { path, text } in shown {
        let named = schema.captures(&text).expect("a `$schema`");
        let folder = repository().join(&path);
        let file = folder.parent().expect("a folder").join(&named[1]);
        assert!(file.is_file(), "{path} names {}", file.display());
    }
}

#[test]
fn documented_json_is_valid() {
    let pages = pages();
    let blocks: Vec<_> = pages.iter().flat_map(|page| fences(&page.text, "json")).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let parsed = serde_json::from_str::<Value>(block);
        assert!(parsed.is_ok(), "{block}{parsed:?}");
    }
}

/// Returns the anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the headings of a page, except lines in code blocks.
fn headings(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code && line.starts_with('#')
    })
}

#[test]
fn documentation_links_resolve() {
    assert_eq!(anchor("## A `key`, and more"), "a-key-and-more");
    let link = Regex::new(r"\]\(([^)#:]*)(?:#([^)]*))?\)").expect("a pattern");
    let mut seen = 0;
    for page in pages() {
        for found in link.captures_iter(&page.text) {
            let to = Path::new(&page.path).parent().expect("a folder").join(&found[1]);
            let to = if found[1].is_empty() { page.path.clone().into() } else { to };
            let to = repository().join(to);
            assert!(to.exists(), "{}: {}", page.path, &found[0]);
            if let Some(wanted) = found.get(2) {
                let target = std::fs::read_to_string(&to).expect("a page");
                let exists = headings(&target).any(|line| anchor(line) == wanted.as_str());
                assert!(exists, "{}: {}", page.path, &found[0]);
            }
            seen += 1;
        }
    }
    assert!(seen > 50, "only {seen} links checked");
}

#[test]
fn summary_links_every_page() {
    let summary = read("docs/SUMMARY.md");
    for page in files("docs", "md") {
        let name = page.path.trim_start_matches("docs/");
        assert!(name == "SUMMARY.md" || summary.contains(&format!("({name})")), "{name}");
    }
}

/// Returns the keys and defaults in which a table differs from an object of the schema.
fn key_faults(table: &[Vec<&str>], schema: &Value) -> Vec<String> {
    let properties = schema["properties"].as_object().expect("properties");
    let described: BTreeSet<&str> = table.iter().map(|row| row[0]).collect();
    let known: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
    let differ = described.symmetric_difference(&known);
    let mut faults: Vec<String> = differ.map(|key| format!("`{key}`")).collect();
    for row in table {
        let default = match properties.get(row[0]).and_then(|key| key.get("default")) {
            Some(Value::String(word)) => word.clone(),
            Some(other) => other.to_string(),
            None => continue,
        };
        if row[1] != default {
            faults.push(format!("`{}`: the default is {default}, not {}", row[0], row[1]));
        }
    }
    faults
}

#[test]
fn documentation_lists_every_key_with_its_default() {
    let example = serde_json::json!({"properties": {"a": {"default": 1}, "b": {}}});
    assert_eq!(key_faults(&[vec!["a", "1"], vec!["b", "x"]], &example), [""; 0]);
    assert_eq!(key_faults(&[vec!["a", "2"], vec!["c", "x"]], &example).len(), 3);

    let schema = config::schema();
    // `docs/tailor.md` documents the rules of `tailor`.
    let mut rest: Vec<&str> = schema["definitions"]
        .as_object()
        .expect("definitions")
        .keys()
        .map(String::as_str)
        .filter(|name| !["ServiceType", "StepTool", "TaskPattern", "TaskRules"].contains(name))
        .collect();
    for (title, pointer) in [
        ("Top level", ""),
        ("The key `search`", "/definitions/Search"),
        ("`navigator`", "/definitions/Navigator"),
        ("`budget`", "/definitions/Budget"),
        ("An endpoint", "/definitions/Endpoint"),
        ("`limits`", "/properties/limits"),
        ("`http`", "/properties/http"),
        ("`tls`", "/definitions/Tls"),
        ("`shared`", "/definitions/Shared"),
        ("`perCaller`", "/definitions/PerCaller"),
        ("`perAgent` and `perServer`", "/definitions/Rates"),
        ("`cache`", "/definitions/Cache"),
        ("`audit`", "/definitions/Audit"),
        ("`telemetry`", "/definitions/Telemetry"),
        ("A toolbox", "/definitions/Toolbox"),
        ("A client", "/definitions/Client"),
        ("`auth`", "/properties/auth"),
        ("A token", "/definitions/Token"),
        ("A reference", "/definitions/Reference"),
        ("`jwt`", "/definitions/Jwt"),
        ("A server", "/definitions/Server"),
        ("`sandbox`", "/definitions/Sandbox"),
        ("`container`", "/definitions/Container"),
        ("`oauth`", "/definitions/OAuth"),
        ("`identityProvider`", "/definitions/IdentityProvider"),
        ("A category", "/definitions/Category"),
        ("`tools` of a category", "/definitions/Category/properties/tools"),
        ("A macro", "/definitions/Macro"),
        ("A step", "/definitions/Step"),
        ("An override", "/definitions/Override"),
        ("An agent", "/definitions/AgentPolicy"),
        ("A condition", "/definitions/When"),
        ("An argument", "/definitions/Argument"),
        ("A time", "/definitions/Time"),
        ("`defaultPolicy`", "/properties/defaultPolicy"),
    ] {
        let object = schema.pointer(pointer).expect("an object of the schema");
        let faults = key_faults(&rows(&documentation_section(title)), object);
        assert_eq!(faults, [""; 0], "{title}");
        rest.retain(|name| !pointer.split('/').any(|part| part == *name));
    }
    assert_eq!(rest, [""; 0], "schema definitions without a documented table");
}

#[test]
fn documentation_lists_inherited_variables() {
    let list = Regex::new(r"(?s)const PASSED_ON: &\[&str\] = &\[(.*?)\];").expect("a pattern");
    let name = Regex::new(r#""(\w+)""#).expect("a pattern");
    let launch = read("crates/core/src/backend/launch/environment.rs");
    let list = &list.captures(&launch).expect("the list")[1];
    let passed_on: BTreeSet<&str> =
        name.captures_iter(list).map(|found| found.get(1).expect("a name").as_str()).collect();
    let text = documentation_section("What servers get as their environment");
    let quoted = Regex::new("`([A-Z_]+)`").expect("a pattern");
    let named: BTreeSet<&str> =
        quoted.captures_iter(&text).map(|found| found.get(1).expect("a name").as_str()).collect();
    assert!(passed_on.len() > 10);
    assert_eq!(named, passed_on);
}

/// Returns the lines of a lock file that contain a download address.
fn download_addresses(path: &str, text: &str) -> Vec<String> {
    // Cargo writes this address for the public registry even if it uses a mirror.
    let cargo = "source = \"registry+https://github.com/rust-lang/";
    let address =
        Regex::new(r#""resolved":|^source = |--(extra-)?index-url|(file|git\+)\w*:/|@ https?:"#)
            .expect("a pattern");
    let lines = text.lines().map(str::trim).enumerate();
    lines
        .filter(|(_, line)| !line.starts_with(cargo) && address.is_match(line))
        .map(|(index, line)| format!("{path}:{}: {line}", index + 1))
        .collect()
}

#[test]
fn lock_files_have_no_download_addresses() {
    for bad in [
        r#"source = "registry+https://mirror.example/index""#,
        r#""resolved": "https://registry.example/a.tgz","#,
        "--index-url https://mirror.example/simple",
        "a @ https://mirror.example/a.whl",
    ] {
        assert_eq!(download_addresses("a", bad).len(), 1, "{bad}");
    }
    for path in [
        "Cargo.lock",
        "packaging/tools/package-lock.json",
        "packaging/tools/requirements.txt",
        "tests/conformance/package-lock.json",
        "tests/servers/package-lock.json",
        "tests/servers/requirements.txt",
        "tests/servers/requirements-v1.txt",
        "tests/signin/requirements.txt",
    ] {
        let text = read(path);
        assert!(text.lines().count() > 5, "{path}");
        assert_eq!(download_addresses(path, &text), [""; 0]);
    }
}

/// Returns the commands that `--help` lists, except `help` itself.
fn listed_commands(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    let listed = lines.take_while(|line| *line != "Options:");
    // Continuation lines of a description have a deeper indent.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn readme_and_help_list_the_same_commands() {
    let example = "Usage: x\n\nUse:\n  a     Does a\n          and more\n\nMore:\n  help  Helps\n\nOptions:\n  -b  B\n";
    assert_eq!(listed_commands(example), BTreeSet::from(["a"]));

    let help = TestEnvironment::new().run_bare(["--help"]);
    let readme = read("README.md");
    let table = rows(section(&readme, "## Commands"));
    let described: BTreeSet<&str> = table.iter().map(|row| row[0]).collect();
    assert_eq!(described, listed_commands(&help.stdout));
}
