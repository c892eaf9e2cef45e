//! Checks that no files use each other in a cycle, directly or through other files.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;
use regex::Regex;

use crate::tidy::text::{Source, is_word, program};

/// A Rust path that starts with a module of the tables, such as `["config", "file", "load"]`. Their
/// names are unique, so paths omit the crate.
type Path = Vec<String>;

/// One leaf of a `use` tree.
struct Import {
    /// The path as written, possibly relative.
    path: Path,
    /// The name that the file uses: the alias, if any.
    name: String,
    /// `true` for `pub use`.
    is_reexport: bool,
}

struct Module {
    file: String,
    imports: Vec<Import>,
    /// The code without its imports, comments, quotes and tests.
    body: String,
}

/// The modules of the program by path.
struct Modules(BTreeMap<Path, Module>);

/// Returns the path of a file's module: empty for `lib.rs`, `["a", "b"]` for `a/b.rs`.
fn module_path(file: &str) -> Path {
    let parts = file.trim_end_matches(".rs").split('/').filter(|part| *part != "lib");
    parts.map(str::to_owned).collect()
}

fn segments(path: &str) -> Path {
    path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Splits a `use` list at its top-level commas, ignoring commas in nested braces.
fn split_list(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (index, c) in list.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            parts.push(&list[start..index]);
            start = index + 1;
        }
    }
    parts.push(&list[start..]);
    parts
}

/// Adds every leaf of a `use` tree to `found`, each path prefixed with `prefix`.
fn collect_imports(tree: &str, prefix: &[String], is_reexport: bool, found: &mut Vec<Import>) {
    if let Some((head, list)) = tree.split_once('{') {
        let prefix = [prefix, &segments(head)].concat();
        let list = list.trim_end().trim_end_matches('}');
        for part in split_list(list).into_iter().filter(|part| !part.trim().is_empty()) {
            collect_imports(part, &prefix, is_reexport, found);
        }
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut path = [prefix, &segments(path)].concat();
    path.pop_if(|last| last == "self");
    if let Some(name) = alias.or_else(|| path.last().cloned()) {
        found.push(Import { path, name, is_reexport });
    }
}

impl Modules {
    fn new(sources: &[Source]) -> Self {
        let import = Regex::new(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]*);").expect("a pattern");
        let modules = sources.iter().filter_map(|source| {
            let file = source.module_file()?;
            // The root of a crate with several modules only declares them.
            if source.crate_name().is_some() && file == "lib.rs" {
                return None;
            }
            let code = source.code_with_module_paths();
            let mut imports = Vec::new();
            for found in import.captures_iter(&code) {
                collect_imports(&found[2], &[], found.get(1).is_some(), &mut imports);
            }
            let body = import.replace_all(&code, "").into_owned();
            let module = Module { file: source.path.clone(), imports, body };
            Some((module_path(&file), module))
        });
        Self(modules.collect())
    }

    /// Resolves a path written in `module` to a path from the root. `None` for external crates.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Path> {
        if path.first()? == "crate" {
            return Some(path[1..].to_vec());
        }
        let child = [module, &path[..1]].concat();
        self.0.contains_key(&child).then(|| [module, path].concat())
    }

    /// Finds the module that defines the item at `path`, following re-exports. `None` if the path
    /// names a module instead of an item.
    fn definer(&self, path: &[String]) -> Option<Path> {
        let mut path = path.to_vec();
        // The compiler rejects cyclic re-exports, and no chain of them is this long.
        for _ in 0..16 {
            let is_module = |length: &usize| self.0.contains_key(&path[..*length]);
            let depth = (1..=path.len()).take_while(is_module).last().unwrap_or(0);
            let (module, item) = (path[..depth].to_vec(), path.get(depth)?);
            let imports = &self.0.get(&module)?.imports;
            let Some(import) = imports.iter().find(|import| import.name == *item) else {
                return Some(module);
            };
            let Some(target) = self.absolute(&module, &import.path) else {
                return Some(module);
            };
            path = [target, path[depth + 1..].to_vec()].concat();
        }
        None
    }

    /// Returns the modules whose items a module uses.
    ///
    /// A module may use its own submodules: these aren't edges. Neither are items that it only
    /// re-exports. Their users have an edge to the defining module.
    fn uses(&self, path: &[String], module: &Module, named: &Regex) -> BTreeSet<Path> {
        let mut used: Vec<Path> = Vec::new();
        let words: BTreeSet<&str> = module.body.split(|c: char| !is_word(c)).collect();
        for import in &module.imports {
            if !import.is_reexport || words.contains(import.name.as_str()) {
                used.extend(self.absolute(path, &import.path));
            }
        }
        for found in named.captures_iter(&module.body) {
            let written = segments(&found[1]);
            let first = &written[0];
            let import = module.imports.iter().find(|import| import.name == *first);
            let written = match import {
                Some(import) => [&import.path[..], &written[1..]].concat(),
                None => written,
            };
            used.extend(self.absolute(path, &written));
        }
        let definers = used.iter().filter_map(|path| self.definer(path));
        definers.filter(|definer| !definer.starts_with(path)).collect()
    }

    /// Returns the strongly connected components: maximal sets of files that all reach each other.
    fn cycles(&self) -> Vec<Vec<&str>> {
        let named = Regex::new(r"(?:^|[^\w:])((?:\w+\s*::\s*)+\w*)").expect("a pattern");
        let edges: BTreeMap<&Path, BTreeSet<Path>> =
            self.0.iter().map(|(path, module)| (path, self.uses(path, module, &named))).collect();
        let reached = |start: &Path| {
            let mut seen = BTreeSet::new();
            let mut next: Vec<&Path> = edges[start].iter().collect();
            while let Some(path) = next.pop() {
                if seen.insert(path) {
                    next.extend(edges.get(path).into_iter().flatten());
                }
            }
            seen
        };
        let reached: BTreeMap<&Path, BTreeSet<&Path>> =
            edges.keys().map(|path| (*path, reached(path))).collect();
        let cycles: BTreeSet<Vec<&str>> = (reached.iter())
            .filter(|(path, all)| all.contains(*path))
            .map(|(path, all)| {
                let back = all.iter().filter(|other| reached[*other].contains(path));
                back.map(|path| self.0[*path].file.as_str()).collect()
            })
            .collect();
        cycles.into_iter().collect()
    }
}

/// Finds the cycles in files given as pairs of path and text.
fn cycles_in(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    let owned = |cycle: Vec<&str>| cycle.into_iter().map(str::to_owned).collect();
    Modules::new(&sources).cycles().into_iter().map(owned).collect()
}

#[test]
fn file_cycles_are_found() {
    let two_files = [vec!["src/a.rs".to_owned(), "src/b.rs".to_owned()]];
    let b = ("src/b.rs", "fn g() { crate::a::f() }");
    for a in [
        "use crate::b::g;",
        "use crate::{b::{self, h as i}, c};\nfn f() { b::g() }",
        "use crate::b;\nfn f() -> b::G {}",
        "fn f() { crate :: b :: g() }",
    ] {
        assert_eq!(cycles_in(&[("src/a.rs", a), b]), two_files, "{a}");
    }
    for a in ["use crate::b;", "/// [`crate::b::g`]", "\"crate::b::g\"", "use std::b::g;"] {
        assert_eq!(cycles_in(&[("src/a.rs", a), b]), [[""; 0]; 0], "{a}");
    }
    let three_files = [
        ("src/a.rs", "use crate::b::B;"),
        ("src/b.rs", "use crate::c::C;"),
        ("src/c.rs", "use crate::a::A;"),
    ];
    assert_eq!(cycles_in(&three_files), [["src/a.rs", "src/b.rs", "src/c.rs"]]);
}

#[test]
fn reexports_are_edges_to_the_defining_module() {
    let parent = "mod b;\nmod c;\npub use b::B;";
    let b = ("src/a/b.rs", "use crate::a::c::C;");
    let cyclic = [("src/a.rs", parent), b, ("src/a/c.rs", "use crate::a::B;")];
    assert_eq!(cycles_in(&cyclic), [["src/a/b.rs", "src/a/c.rs"]]);
    let acyclic = [("src/a.rs", parent), b, ("src/a/c.rs", "use crate::a::A;")];
    assert_eq!(cycles_in(&acyclic), [[""; 0]; 0]);
    // A file may use its own submodules, but not other modules that use it.
    let own = [("src/a.rs", "mod b;\nfn f() { b::g() }"), ("src/a/b.rs", "use crate::a::A;")];
    assert_eq!(cycles_in(&own), [[""; 0]; 0]);
    let outside =
        [("src/a.rs", "use crate::d::D;"), ("src/a/b.rs", ""), ("src/d.rs", "use crate::a::A;")];
    assert_eq!(cycles_in(&outside), [["src/a.rs", "src/d.rs"]]);
}

// invariant: edges-match-tables
#[test]
fn files_are_acyclic() {
    let sources = program();
    let modules = Modules::new(&sources);
    assert_eq!(modules.cycles(), [[""; 0]; 0]);
}
