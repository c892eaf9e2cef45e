//! Which module may use which: the table in `ARCHITECTURE.md` against the code.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;
use regex::Regex;

use crate::tidy::text::{Source, files, program, read};

/// The last cell of a row whose module may use every module of the rows above it.
const ALL_ABOVE: &str = "all above";
/// The protocol library, which is a row's edge like a module of ours.
const RMCP: &str = "rmcp";

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    module: String,
    may_use: BTreeSet<String>,
    /// `true` if the row says `all above`.
    all_above: bool,
}

/// The rows of the table whose header begins with `| module |` and ends with `| may use |`.
fn table(document: &str) -> Vec<Row> {
    let quoted = Regex::new("`([^`]+)`").expect("a pattern");
    let mut rows: Vec<Row> = Vec::new();
    let lines = document.lines().skip_while(|line| {
        let line = line.trim();
        !(line.starts_with("| module |") && line.ends_with("| may use |"))
    });
    for line in lines.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (first, last) = (cells[0], cells[cells.len() - 1]);
        let module = first.trim_matches('`').to_owned();
        let all_above = last.contains(ALL_ABOVE);
        let mut may_use: BTreeSet<String> =
            quoted.captures_iter(last).map(|found| found[1].to_owned()).collect();
        if all_above {
            may_use.extend(rows.iter().map(|row| row.module.clone()));
        }
        rows.push(Row { module, may_use, all_above });
    }
    rows
}

/// The module of a file, by the folder or the file right under the `src` of its crate; none of
/// `main.rs`, `lib.rs`.
fn module_of(source: &Source) -> Option<&str> {
    let name = source.inside().strip_prefix("src/")?.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (!matches!(name, "main" | "lib")).then_some(name)
}

/// Every module that a file names, in a `use` and in the middle of a line, and `rmcp`.
fn used(source: &Source) -> BTreeSet<String> {
    let path = Regex::new(r"\bcrate\s*::\s*(\w+|\{|\*)|\b(rmcp)\s*::").expect("a pattern");
    let own = module_of(source).unwrap_or_default();
    let code = source.program();
    path.captures_iter(&code)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .map(|found| found.as_str().to_owned())
        .filter(|name| name != own)
        .collect()
}

/// The uses in `source` that are not allowed.
fn breaches(rows: &[Row], source: &Source) -> Vec<String> {
    let Some(module) = module_of(source) else {
        return Vec::new();
    };
    let row = rows.iter().find(|row| row.module == module);
    let forbidden = used(source).into_iter().filter(|name| {
        // `use crate::{a, b}` hides edges from whoever reads the line.
        row.is_none_or(|row| !row.may_use.contains(name))
    });
    forbidden.map(|name| format!("{}: `{module}` may not use `{name}`", source.path)).collect()
}

/// The rows that use a row below them, which would make a circle possible.
fn edges_down(rows: &[Row]) -> Vec<String> {
    let mut above = BTreeSet::from([RMCP]);
    let mut down = Vec::new();
    for row in rows {
        let bad = row.may_use.iter().filter(|n| !above.contains(n.as_str()));
        down.extend(bad.map(|name| format!("`{}` uses `{name}`", row.module)));
        above.insert(&row.module);
    }
    down
}

fn architecture() -> Vec<Row> {
    table(&read("ARCHITECTURE.md"))
}

const EXAMPLE: &str = "\
| module | owns | may use |
| --- | --- | --- |
| `low` | things | — |
| `middle` | more | `low`, `rmcp` |
| `high` | all | all above |

| other | table |
";

#[test]
fn a_table_is_read() {
    let row = |module: &str, may_use: &[&str], all_above| Row {
        module: module.to_owned(),
        may_use: may_use.iter().map(|name| (*name).to_owned()).collect(),
        all_above,
    };
    let expected = [
        row("low", &[], false),
        row("middle", &["low", "rmcp"], false),
        row("high", &["low", "middle"], true),
    ];
    assert_eq!(table(EXAMPLE), expected);
}

#[test]
fn a_forbidden_edge_is_found() {
    let rows = table(EXAMPLE);
    let found = |path: &str, text: &str| breaches(&rows, &Source::new(path, text)).len();
    assert_eq!(found("src/middle.rs", "use crate::low::A;"), 0);
    assert_eq!(found("src/middle/a.rs", "use crate::middle::b::B;"), 0);
    assert_eq!(found("src/middle.rs", "use crate::high::A;"), 1);
    assert_eq!(found("src/low/a.rs", "fn f() { crate::middle::g() }"), 1);
    assert_eq!(found("src/low.rs", "/// [`crate::high`]\nfn f() {}"), 0);
    assert_eq!(found("src/low.rs", "use rmcp::model::Tool;"), 1);
    assert_eq!(found("src/high.rs", "use crate::{low, middle};"), 1);
    assert_eq!(found("src/unknown.rs", "use crate::low::A;"), 1);
    let tests = "#[cfg(test)]\nmod tests { use crate::high::A; }";
    assert_eq!(found("src/low.rs", tests), 0);
}

#[test]
fn an_edge_down_is_found() {
    assert_eq!(edges_down(&table(EXAMPLE)), [""; 0]);
    let circle = EXAMPLE.replace("| things | — |", "| things | `high` |");
    assert_eq!(edges_down(&table(&circle)), ["`low` uses `high`"]);
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let rows = architecture();
    let found: Vec<String> = program().iter().flat_map(|source| breaches(&rows, source)).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_table_has_every_module_and_no_other() {
    let mut declared = modules("src/lib.rs");
    for row in crates(&read("ARCHITECTURE.md")) {
        declared.extend(modules(&format!("crates/{}/src/lib.rs", row.name)));
    }
    let rows = architecture();
    let listed: BTreeSet<String> = rows.iter().map(|row| row.module.clone()).collect();
    assert_eq!(listed, declared);
    assert_eq!(listed.len(), rows.len(), "a module stands in the table twice");
}

/// The modules that the root of a crate declares.
fn modules(root: &str) -> BTreeSet<String> {
    let module = Regex::new(r"(?m)^pub mod (\w+);").expect("a pattern");
    module.captures_iter(&read(root)).map(|found| found[1].to_owned()).collect()
}

/// One row of the table of crates.
#[derive(Debug, PartialEq, Eq)]
struct CrateRow {
    name: String,
    modules: BTreeSet<String>,
    may_use: BTreeSet<String>,
}

/// The rows of the table whose header is `| crate | modules | may use |`.
fn crates(document: &str) -> Vec<CrateRow> {
    let quoted = Regex::new("`([^`]+)`").expect("a pattern");
    let names = |cell: &str| quoted.captures_iter(cell).map(|found| found[1].to_owned()).collect();
    let lines = document.lines().skip_while(|line| *line != "| crate | modules | may use |");
    let rows = lines.skip(2).take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`').to_owned();
        CrateRow { name, modules: names(cells[1]), may_use: names(cells[2]) }
    });
    rows.collect()
}

/// The crates of ours that a manifest names in one of its tables.
fn named_crates(manifest: &str, table: &str) -> BTreeSet<String> {
    let ours = Regex::new(r"(?m)^mcp-workbench-(\w+)\b").expect("a pattern");
    let tables = manifest.split("\n[").filter_map(|rest| rest.split_once(']'));
    let named = tables.filter(|(name, _)| *name == table);
    let found = named.flat_map(|(_, lines)| ours.captures_iter(lines));
    found.map(|found| found[1].to_owned()).collect()
}

/// The crates that only tests of `name` use and that do not stand above it.
fn crates_down_in_tests(rows: &[CrateRow], name: &str, manifest: &str) -> BTreeSet<String> {
    let above: BTreeSet<_> =
        rows.iter().map(|row| row.name.clone()).take_while(|above| above != name).collect();
    named_crates(manifest, "dev-dependencies").difference(&above).cloned().collect()
}

/// The crates that use one which does not stand above them.
fn crates_down(rows: &[CrateRow]) -> Vec<String> {
    let mut above = BTreeSet::new();
    let mut down = Vec::new();
    for row in rows {
        let bad = row.may_use.iter().filter(|name| !above.contains(*name));
        down.extend(bad.map(|name| format!("`{}` uses `{name}`", row.name)));
        above.insert(&row.name);
    }
    down
}

#[test]
fn crates_use_only_crates_above_them_and_no_more_than_they_need() {
    let example = "| crate | modules | may use |\n| --- | --- | --- |\n\
        | `low` | `a`, `b` | `high` |\n| `high` | `c` | `low` |\n";
    assert_eq!(crates_down(&crates(example)), ["`low` uses `high`"]);
    let manifest = "[package]\nname = \"mcp-workbench-middle\"\n\n[dependencies]\n\
        mcp-workbench-low.workspace = true\nserde = \"1\"\n\n[dev-dependencies]\n\
        mcp-workbench-low = { workspace = true }\nmcp-workbench-high.workspace = true\n";
    assert_eq!(named_crates(manifest, "dependencies"), BTreeSet::from(["low".to_owned()]));
    let example = "| crate | modules | may use |\n| --- | --- | --- |\n\
        | `low` | `a` | — |\n| `middle` | `b` | `low` |\n| `high` | `c` | — |\n";
    let down = crates_down_in_tests(&crates(example), "middle", manifest);
    assert_eq!(down, BTreeSet::from(["high".to_owned()]));

    let rows = crates(&read("ARCHITECTURE.md"));
    assert_eq!(crates_down(&rows), [""; 0]);
    let of_module = |module: &String| rows.iter().find(|row| row.modules.contains(module));
    let modules_table = architecture();
    for row in &rows {
        assert_eq!(modules(&format!("crates/{}/src/lib.rs", row.name)), row.modules);
        let manifest = read(&format!("crates/{}/Cargo.toml", row.name));
        let named = named_crates(&manifest, "dependencies");
        assert_eq!(named, row.may_use, "the manifest of `{}`", row.name);
        let down = crates_down_in_tests(&rows, &row.name, &manifest);
        assert_eq!(down, BTreeSet::new(), "the tests of `{}`", row.name);
        let own = modules_table.iter().filter(|module| row.modules.contains(&module.module));
        let used = own.flat_map(|module| &module.may_use).filter_map(of_module);
        let mut used: BTreeSet<String> = used.map(|row| row.name.clone()).collect();
        used.remove(&row.name);
        assert_eq!(row.may_use, used, "what the modules of `{}` use", row.name);
    }
    let manifests = files("crates", "toml");
    assert_eq!(manifests.len(), rows.len(), "each crate stands in the table");
}

#[test]
fn edges_point_up_the_table_only() {
    assert_eq!(edges_down(&architecture()), [""; 0]);
}

#[test]
fn every_edge_in_the_table_is_used() {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in program() {
        if let Some(module) = module_of(&source) {
            let edges = all.entry(module.to_owned()).or_default();
            edges.extend(used(&source));
        }
    }
    for row in architecture().iter().filter(|row| !row.all_above) {
        let used = all.remove(&row.module).unwrap_or_default();
        assert_eq!(row.may_use, used, "the edges of `{}`", row.module);
    }
}

/// The names that a file takes from `backend`.
fn taken_from_backend(code: &str) -> BTreeSet<String> {
    let path = Regex::new(r"\bbackend\s*::\s*(?:(\w+)|\{([^}]*)\})").expect("a pattern");
    let names = path
        .captures_iter(code)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .flat_map(|names| names.as_str().split(','));
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn only_the_gateway_holds_backends() {
    let caught = taken_from_backend("use crate::backend::{self, Pool};\nbackend::Live::new()");
    assert!(caught.contains("Pool") && caught.contains("Live"));
    for source in program() {
        if !matches!(module_of(&source), Some("exposure" | "frontend")) {
            continue;
        }
        for name in taken_from_backend(&source.program()) {
            assert!(
                matches!(name.as_str(), "self" | "Outcome" | "Error" | "events"),
                "{}: `backend::{name}`: answers, errors and events are all that is seen of a backend",
                source.path
            );
        }
    }
}

#[test]
fn the_executable_is_the_command_line_and_nothing_else() {
    let path = Regex::new(r"\bmcp_workbench::(\w+)").expect("a pattern");
    let main = read("src/main.rs");
    let used: Vec<&str> =
        path.captures_iter(&main).map(|found| found.get(1).expect("a name").as_str()).collect();
    assert_eq!(used, ["cli"]);
    assert_eq!(mcp_workbench::name::PROGRAM, env!("CARGO_PKG_NAME"));
}

/// The tests that a document names: names in quotes after the word `test` or `tests`.
fn named_tests(document: &str) -> Vec<String> {
    let group = Regex::new(r"\btests?((?:[\s,]+(?:and\s+)?`\w+`)+)").expect("a pattern");
    let name = Regex::new(r"`(\w+)`").expect("a pattern");
    group
        .captures_iter(document)
        .flat_map(|found| {
            let names = found.get(1).map_or("", |names| names.as_str());
            name.captures_iter(names).map(|found| found[1].to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn named_tests_exist() {
    let example = "as (test `a_b`) and (tests `c`,\n`d`, lint `e`); `f` is no test.";
    assert_eq!(named_tests(example), ["a_b", "c", "d"]);
    let sources: String = ["src", "crates", "tests"]
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .map(|source| source.text)
        .collect();
    let mut named = named_tests(&read("ARCHITECTURE.md"));
    assert!(named.len() > 20, "{named:?}");
    let replicas = read("docs/replicas.md");
    let (_, failures) = replicas.split_once("| fails |").expect("what may fail");
    let rows = failures.lines().skip(2).take_while(|line| line.starts_with('|'));
    for row in rows {
        let tests = named_tests(row);
        assert!(!tests.is_empty() || row.contains("(same test)"), "no test shows it: {row}");
        named.extend(tests);
    }
    for name in named {
        let is_there = sources.contains(&format!("fn {name}("));
        assert!(is_there, "there is no test `{name}`");
    }
}
