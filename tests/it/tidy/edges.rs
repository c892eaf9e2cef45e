//! Checks the edges between modules and crates against the tables in `ARCHITECTURE.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use pretty_assertions::assert_eq;
use regex::Regex;

use crate::tidy::text::{Source, files, program, read};

/// The last cell of a module that may use every module above it in the table.
const ALL_ABOVE: &str = "all above";
/// The MCP library. The table lists it as an edge, like a module.
const RMCP: &str = "rmcp";

/// One row of the module table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    module: String,
    may_use: BTreeSet<String>,
    /// `true` if the row says `all above`.
    all_above: bool,
}

/// Parses the table whose header starts with `| module |` and ends with `| may use |`.
fn module_table(document: &str) -> Vec<Row> {
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

/// Returns the module of a file. `None` for `main.rs` and for a `lib.rs` of several modules.
pub(super) fn module_of(source: &Source) -> Option<String> {
    let file = source.module_file()?;
    let name = file.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (!matches!(name, "main" | "lib")).then(|| name.to_owned())
}

/// Returns the other modules that a file names in `use` or inline paths, including `rmcp`.
fn used_modules(source: &Source) -> BTreeSet<String> {
    static PATH: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\bcrate\s*::\s*(\w+|\{|\*)|\b(rmcp)\s*::").expect("a pattern")
    });
    let own = module_of(source).unwrap_or_default();
    let code = source.code_with_module_paths();
    PATH.captures_iter(&code)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .map(|found| found.as_str().to_owned())
        .filter(|name| *name != own)
        .collect()
}

/// Returns the edges of `source` that the table doesn't allow.
fn forbidden_edges(rows: &[Row], source: &Source) -> Vec<String> {
    let Some(module) = module_of(source) else {
        return Vec::new();
    };
    let row = rows.iter().find(|row| row.module == module);
    let forbidden = used_modules(source).into_iter().filter(|name| {
        // This also rejects `use crate::{a, b}`, which `used_modules` reports as `{`.
        row.is_none_or(|row| !row.may_use.contains(name))
    });
    forbidden.map(|name| format!("{}: `{module}` may not use `{name}`", source.path)).collect()
}

/// Returns the uses of modules that aren't above their user in the table. They allow cycles.
fn downward_edges(rows: &[Row]) -> Vec<String> {
    let mut above = BTreeSet::from([RMCP]);
    let mut down = Vec::new();
    for row in rows {
        let bad = row.may_use.iter().filter(|n| !above.contains(n.as_str()));
        down.extend(bad.map(|name| format!("`{}` uses `{name}`", row.module)));
        above.insert(&row.module);
    }
    down
}

fn read_module_table() -> Vec<Row> {
    module_table(&read("ARCHITECTURE.md"))
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
fn module_table_is_parsed() {
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
    assert_eq!(module_table(EXAMPLE), expected);
}

#[test]
fn forbidden_edges_are_found() {
    let rows = module_table(EXAMPLE);
    let found = |path: &str, text: &str| forbidden_edges(&rows, &Source::new(path, text)).len();
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
fn downward_edges_are_found() {
    assert_eq!(downward_edges(&module_table(EXAMPLE)), [""; 0]);
    let cyclic = EXAMPLE.replace("| things | — |", "| things | `high` |");
    assert_eq!(downward_edges(&module_table(&cyclic)), ["`low` uses `high`"]);
}

// invariant: edges-match-tables
#[test]
fn modules_use_only_allowed_edges() {
    let rows = read_module_table();
    let found: Vec<String> =
        program().iter().flat_map(|source| forbidden_edges(&rows, source)).collect();
    assert_eq!(found, [""; 0]);
}

// invariant: edges-match-tables
#[test]
fn module_table_lists_exactly_the_declared_modules() {
    let declared: BTreeSet<String> = program().iter().filter_map(module_of).collect();
    let rows = read_module_table();
    let listed: BTreeSet<String> = rows.iter().map(|row| row.module.clone()).collect();
    assert_eq!(listed, declared);
    assert_eq!(listed.len(), rows.len(), "a module occurs twice in the table");
}

/// Returns the modules of a crate in `crates/`.
fn modules_of(crate_name: &str) -> BTreeSet<String> {
    let mut sources = program();
    sources.retain(|source| source.crate_name() == Some(crate_name));
    sources.iter().filter_map(module_of).collect()
}

/// One row of the crate table.
#[derive(Debug, PartialEq, Eq)]
struct CrateRow {
    name: String,
    modules: BTreeSet<String>,
    may_use: BTreeSet<String>,
}

/// Parses the table whose header is `| crate | modules | may use |`.
fn crate_table(document: &str) -> Vec<CrateRow> {
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

/// Returns the workspace crates that one table of a manifest lists, without their common prefix.
fn workspace_dependencies(manifest: &str, table: &str) -> BTreeSet<String> {
    let dependency = Regex::new(r"(?m)^mcp-workbench-(\w+)\b").expect("a pattern");
    let tables = manifest.split("\n[").filter_map(|rest| rest.split_once(']'));
    let named = tables.filter(|(name, _)| *name == table);
    let found = named.flat_map(|(_, lines)| dependency.captures_iter(lines));
    found.map(|found| found[1].to_owned()).collect()
}

/// Returns the dev-dependencies of the crate `name` that aren't above it in the table.
fn downward_dev_dependencies(rows: &[CrateRow], name: &str, manifest: &str) -> BTreeSet<String> {
    let above: BTreeSet<_> =
        rows.iter().map(|row| row.name.clone()).take_while(|above| above != name).collect();
    workspace_dependencies(manifest, "dev-dependencies").difference(&above).cloned().collect()
}

/// Returns the uses of crates that aren't above their user in the table.
fn downward_crate_edges(rows: &[CrateRow]) -> Vec<String> {
    let mut above = BTreeSet::new();
    let mut down = Vec::new();
    for row in rows {
        let bad = row.may_use.iter().filter(|name| !above.contains(*name));
        down.extend(bad.map(|name| format!("`{}` uses `{name}`", row.name)));
        above.insert(&row.name);
    }
    down
}

// invariant: edges-match-tables
#[test]
fn crates_depend_only_on_needed_crates_above() {
    let example = "| crate | modules | may use |\n| --- | --- | --- |\n\
        | `low` | `a`, `b` | `high` |\n| `high` | `c` | `low` |\n";
    assert_eq!(downward_crate_edges(&crate_table(example)), ["`low` uses `high`"]);
    let manifest = "[package]\nname = \"mcp-workbench-middle\"\n\n[dependencies]\n\
        mcp-workbench-low.workspace = true\nserde = \"1\"\n\n[dev-dependencies]\n\
        mcp-workbench-low = { workspace = true }\nmcp-workbench-high.workspace = true\n";
    assert_eq!(
        workspace_dependencies(manifest, "dependencies"),
        BTreeSet::from(["low".to_owned()])
    );
    let example = "| crate | modules | may use |\n| --- | --- | --- |\n\
        | `low` | `a` | — |\n| `middle` | `b` | `low` |\n| `high` | `c` | — |\n";
    let down = downward_dev_dependencies(&crate_table(example), "middle", manifest);
    assert_eq!(down, BTreeSet::from(["high".to_owned()]));

    let rows = crate_table(&read("ARCHITECTURE.md"));
    assert_eq!(downward_crate_edges(&rows), [""; 0]);
    let crate_of = |module: &String| rows.iter().find(|row| row.modules.contains(module));
    let modules_table = read_module_table();
    for row in &rows {
        assert_eq!(modules_of(&row.name), row.modules);
        let manifest = read(&format!("crates/{}/Cargo.toml", row.name));
        let named = workspace_dependencies(&manifest, "dependencies");
        assert_eq!(named, row.may_use, "dependencies of `{}` in its manifest", row.name);
        let down = downward_dev_dependencies(&rows, &row.name, &manifest);
        assert_eq!(down, BTreeSet::new(), "dev-dependencies of `{}`", row.name);
        let own = modules_table.iter().filter(|module| row.modules.contains(&module.module));
        let used = own.flat_map(|module| &module.may_use).filter_map(crate_of);
        let mut used: BTreeSet<String> = used.map(|row| row.name.clone()).collect();
        used.remove(&row.name);
        assert_eq!(row.may_use, used, "crates that the modules of `{}` use", row.name);
    }
    let manifests = files("crates", "toml");
    assert_eq!(manifests.len(), rows.len(), "a crate is missing from the table");
}

// invariant: edges-match-tables
#[test]
fn edges_point_only_up_the_table() {
    assert_eq!(downward_edges(&read_module_table()), [""; 0]);
}

// invariant: edges-match-tables
#[test]
fn allowed_edges_are_used() {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in program() {
        if let Some(module) = module_of(&source) {
            let edges = all.entry(module).or_default();
            edges.extend(used_modules(&source));
        }
    }
    for row in read_module_table().iter().filter(|row| !row.all_above) {
        let used = all.remove(&row.module).unwrap_or_default();
        assert_eq!(row.may_use, used, "edges of `{}`", row.module);
    }
}

/// Returns the names that a file uses from `backend`.
fn used_backend_names(code: &str) -> BTreeSet<String> {
    let path = Regex::new(r"\bbackend\s*::\s*(?:(\w+)|\{([^}]*)\})").expect("a pattern");
    let names = path
        .captures_iter(code)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .flat_map(|names| names.as_str().split(','));
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

// invariant: gateway-owns-backends
#[test]
fn only_gateway_uses_backends_directly() {
    let found = used_backend_names("use crate::backend::{self, Pool};\nbackend::Live::new()");
    assert!(found.contains("Pool") && found.contains("Live"));
    for source in program() {
        if !matches!(module_of(&source).as_deref(), Some("exposure" | "frontend" | "http")) {
            continue;
        }
        for name in used_backend_names(&source.program()) {
            assert!(
                matches!(name.as_str(), "self" | "RpcOutcome" | "BackendError" | "events"),
                "{}: `backend::{name}`: only outcomes, errors and events of `backend` are allowed here",
                source.path
            );
        }
    }
}

#[test]
fn main_uses_only_cli() {
    let path = Regex::new(r"\bmcp_workbench::(\w+)").expect("a pattern");
    let main = read("src/main.rs");
    let used: Vec<&str> =
        path.captures_iter(&main).map(|found| found.get(1).expect("a name").as_str()).collect();
    assert_eq!(used, ["cli"]);
    assert_eq!(mcp_workbench_names::PROGRAM, env!("CARGO_PKG_NAME"));
}

/// Returns the modules that a file imports from the folders in `src/cli`, as `group::module`.
fn imported_cli_modules(import: &Regex, code: &str) -> BTreeSet<String> {
    let modules = import.captures_iter(code).flat_map(|found| {
        let names = found.get(2).or(found.get(3)).map_or("", |names| names.as_str()).split(',');
        let group = found[1].to_owned();
        names.map(move |name| format!("{group}::{}", name.trim())).collect::<Vec<_>>()
    });
    modules.collect()
}

#[test]
fn commands_do_not_use_each_other() {
    let import = Regex::new(r"\bcli::(\w+)::(?:(\w+)|\{([^}]*)\})").expect("a pattern");
    let found = imported_cli_modules(
        &import,
        "use crate::cli::access::{lock, token};\ncli::tools::call::f()",
    );
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["access::lock", "access::token", "tools::call"]
    );
    let module = |source: &Source| {
        let inside = source.path.strip_prefix("src/cli/")?.trim_end_matches(".rs");
        let mut parts = inside.split('/');
        Some(format!("{}::{}", parts.next()?, parts.next()?))
    };
    let all = files("src/cli", "rs");
    let is_command = |source: &&Source| {
        source.path.matches('/').count() == 3
            && source.text.contains("pub(crate) struct Args")
            && source.text.contains("pub(crate) fn run(")
    };
    let commands: BTreeSet<String> = all.iter().filter(is_command).filter_map(module).collect();
    assert!(commands.len() > 25, "{commands:?}");
    for source in &all {
        let own = module(source).unwrap_or_default();
        let mut used = imported_cli_modules(&import, &source.text);
        used.retain(|module| *module != own && commands.contains(module));
        assert_eq!(used, BTreeSet::new(), "{}", source.path);
    }
}
