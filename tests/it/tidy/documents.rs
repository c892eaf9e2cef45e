//! Checks the README, documentation, changelog, examples and lock files against the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mcp_workbench_config as config;
use pretty_assertions::assert_eq;
use regex::Regex;
use serde_json::Value;

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

/// Returns the contents of the fenced code blocks in one language.
pub(super) fn fences<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let opening = format!("```{language}\n");
    let mut rest = document;
    while let Some(start) = rest.find(&opening) {
        let body = &rest[start + opening.len()..];
        let end = body.find("\n```").expect("the end of the code block");
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
fn sections_and_fences_are_parsed() {
    let text = "# A\nx\n## B\ny\n```sh\n# no heading\n```\n## C\nz\n";
    assert_eq!(section(text, "## B"), "y\n```sh\n# no heading\n```\n");
    assert_eq!(section(text, "## C"), "z\n");
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

/// The headings in a release of the changelog, in order.
const CHANGE_KINDS: &[&str] = &["Highlights", "Breaking", "Added", "Changed", "Fixed", "Security"];

fn changelog_faults(text: &str) -> Vec<String> {
    let release = Regex::new(r"^## (Unreleased|\d+\.\d+\.\d+ – .+)$").expect("a pattern");
    let mut faults = Vec::new();
    let mut next_kind = 0;
    for line in text.lines() {
        let is_fault = if let Some(kind) = line.strip_prefix("### ") {
            let at = CHANGE_KINDS.iter().position(|known| *known == kind);
            let is_fault = at.is_none_or(|at| at < next_kind);
            next_kind = at.unwrap_or(next_kind) + 1;
            is_fault
        } else if line.starts_with("## ") {
            next_kind = 0;
            !release.is_match(line)
        } else if line.starts_with("- ") {
            !line.ends_with(['.', ')'])
        } else {
            line.starts_with(' ')
        };
        if is_fault {
            faults.push(line.to_owned());
        }
    }
    faults
}

#[test]
fn changelog_has_one_line_for_each_change_and_known_headings() {
    let good = "# Changelog\n## 0.2.0 – 2027-01-15\n### Added\n- A. [B](b.md)\n### Fixed\n- C.\n";
    assert_eq!(changelog_faults(good), [""; 0]);
    for (bad, fault) in [
        ("## 0.2\n", "## 0.2"),
        ("## Unreleased\n### News\n", "### News"),
        ("## Unreleased\n### Fixed\n- A.\n### Added\n- B.\n", "### Added"),
        ("## Unreleased\n### Added\n- No period\n", "- No period"),
        ("## Unreleased\n### Added\n- A.\n  Continued.\n", "  Continued."),
    ] {
        assert_eq!(changelog_faults(bad), [fault]);
    }
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

#[test]
fn redirects_lead_from_removed_pages_to_existing_ones() {
    let book = read("book.toml");
    let redirect = Regex::new(r#"(?m)^"/(.+)\.html" = "(.+)\.html"$"#).expect("a pattern");
    let redirects: Vec<_> = redirect.captures_iter(&book).collect();
    assert!(redirects.len() > 15, "only {} redirects", redirects.len());
    for found in redirects {
        let page = |name: &str| repository().join("docs").join(format!("{name}.md"));
        assert!(!page(&found[1]).exists(), "{}", &found[0]);
        assert!(page(&found[2]).exists(), "{}", &found[0]);
    }
}

#[test]
fn documentation_lists_inherited_variables() {
    let list = Regex::new(r"(?s)const PASSED_ON: &\[&str\] = &\[(.*?)\];").expect("a pattern");
    let name = Regex::new(r#""(\w+)""#).expect("a pattern");
    let launch = read("crates/core/src/backend/launch/environment.rs");
    let list = &list.captures(&launch).expect("the list")[1];
    let passed_on: BTreeSet<&str> =
        name.captures_iter(list).map(|found| found.get(1).expect("a name").as_str()).collect();
    let text = documentation_section("Variables that servers inherit");
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

/// Returns the names of test functions in backticks.
fn named_tests(text: &str) -> BTreeSet<String> {
    let name = Regex::new(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`").expect("a pattern");
    name.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// Returns the names of all test functions in Rust source code.
fn test_functions(source: &str) -> BTreeSet<String> {
    let test = Regex::new(
        r"#\[(?:tokio::)?test\b[^\n]*\n(?:\s*(?:#\[|//)[^\n]*\n)*\s*(?:async )?fn (\w+)",
    );
    let test = test.expect("a pattern");
    test.captures_iter(source).map(|found| found[1].to_owned()).collect()
}

#[test]
fn promises_of_the_security_model_name_existing_tests() {
    let example = "#[test]\nfn a_b() {}\nfn c_d() {}\n#[tokio::test(x)]\n// y\nasync fn e_f() {}\n";
    assert_eq!(test_functions(example), ["a_b", "e_f"].map(str::to_owned).into());
    let promises = documentation_section("Tests of these promises");
    let rows = promises.lines().filter(|line| line.starts_with("| ")).skip(2);
    let untested: Vec<_> = rows.filter(|row| named_tests(row).is_empty()).collect();
    assert_eq!(untested, [""; 0], "promises without tests");
    let named = named_tests(&promises);
    assert!(named.len() > 30, "{named:?}");
    let sources = ["src", "crates", "tests"].iter().flat_map(|folder| files(folder, "rs"));
    let known: BTreeSet<_> = sources.flat_map(|source| test_functions(&source.text)).collect();
    let missing: Vec<_> = named.difference(&known).collect();
    assert_eq!(missing, [""; 0], "tests that don't exist");
}
