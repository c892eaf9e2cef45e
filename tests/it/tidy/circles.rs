//! Circles of files: files that use each other, directly or by way of others.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;
use regex::Regex;

use crate::tidy::text::{Source, is_word, program};

/// A path of Rust, from the root of the crate: `["config", "file", "load"]`. No two crates have a
/// module of one name, and each knows the modules of others as its own.
type Path = Vec<String>;

/// One leaf of a `use`.
struct Import {
    /// The path as it is written.
    path: Path,
    /// The name under which it is known in the file.
    name: String,
    /// `true` if it is handed on to others (`pub use`).
    is_handed_on: bool,
}

/// A file as far as other files are concerned.
struct Module {
    file: String,
    imports: Vec<Import>,
    /// The code without its imports.
    body: String,
}

/// The files of a program by their paths in it.
struct Modules(BTreeMap<Path, Module>);

/// Returns the path of a file's module: nothing for `src/lib.rs`, `["a", "b"]` for `src/a/b.rs`.
fn module_path(file: &str) -> Path {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    let parts = inside.split('/').filter(|part| *part != "lib");
    parts.map(str::to_owned).collect()
}

/// Returns the segments of a written path.
fn segments(path: &str) -> Path {
    path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Returns the parts of a `use` list that stand between commas, whatever braces are in them.
fn between_commas(list: &str) -> Vec<&str> {
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

/// Adds every leaf of a `use` tree below `above`.
fn leaves(tree: &str, above: &[String], is_handed_on: bool, found: &mut Vec<Import>) {
    if let Some((head, list)) = tree.split_once('{') {
        let above = [above, &segments(head)].concat();
        let list = list.trim_end().trim_end_matches('}');
        for part in between_commas(list).into_iter().filter(|part| !part.trim().is_empty()) {
            leaves(part, &above, is_handed_on, found);
        }
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut path = [above, &segments(path)].concat();
    path.pop_if(|last| last == "self");
    if let Some(name) = alias.or_else(|| path.last().cloned()) {
        found.push(Import { path, name, is_handed_on });
    }
}

impl Modules {
    fn new(sources: &[Source]) -> Self {
        let import = Regex::new(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]*);").expect("a pattern");
        // The root of a crate below names its modules and nothing else.
        let is_root_below =
            |source: &Source| source.of_crate().is_some() && source.inside() == "src/lib.rs";
        let sources = sources.iter().filter(|source| !is_root_below(source));
        let modules = sources.map(|source| {
            let code = source.program();
            let mut imports = Vec::new();
            for found in import.captures_iter(&code) {
                leaves(&found[2], &[], found.get(1).is_some(), &mut imports);
            }
            let body = import.replace_all(&code, "").into_owned();
            (module_path(source.inside()), Module { file: source.path.clone(), imports, body })
        });
        Self(modules.collect())
    }

    /// Returns a path written in `module` as one from the root; none for what is not of this crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Path> {
        if path.first()? == "crate" {
            return Some(path[1..].to_vec());
        }
        let child = [module, &path[..1]].concat();
        self.0.contains_key(&child).then(|| [module, path].concat())
    }

    /// Finds the module in which the item at `path` is defined, through files that hand it on; none
    /// for a path that names a module and no item.
    fn definer(&self, path: &[String]) -> Option<Path> {
        let mut path = path.to_vec();
        // Handing on in a ring would be an error of the compiler; nothing is handed on this often.
        for _ in 0..16 {
            let is_module = |length: &usize| self.0.contains_key(&path[..*length]);
            let depth = (1..=path.len()).take_while(is_module).last().unwrap_or(0);
            let (module, item) = (path[..depth].to_vec(), path.get(depth)?);
            let imports = &self.0.get(&module)?.imports;
            let Some(import) = imports.iter().find(|import| import.name == *item) else {
                return Some(module);
            };
            let Some(further) = self.absolute(&module, &import.path) else {
                return Some(module);
            };
            path = [further, path[depth + 1..].to_vec()].concat();
        }
        None
    }

    /// Returns the modules whose items a module uses.
    ///
    /// A file with a folder beside it may put its own parts together: what it takes from them is no
    /// edge. What is only handed on is none either; whoever takes it has an edge to its definer.
    fn uses(&self, path: &[String], module: &Module, named: &Regex) -> BTreeSet<Path> {
        let mut used: Vec<Path> = Vec::new();
        let words: BTreeSet<&str> = module.body.split(|c: char| !is_word(c)).collect();
        for import in &module.imports {
            if !import.is_handed_on || words.contains(import.name.as_str()) {
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

    /// Finds the circles: the largest sets of files of which each leads to each.
    fn circles(&self) -> Vec<Vec<&str>> {
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
        let circles: BTreeSet<Vec<&str>> = (reached.iter())
            .filter(|(path, all)| all.contains(*path))
            .map(|(path, all)| {
                let back = all.iter().filter(|other| reached[*other].contains(path));
                back.map(|path| self.0[*path].file.as_str()).collect()
            })
            .collect();
        circles.into_iter().collect()
    }
}

/// Finds the circles in files that are given as paths and texts.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    let owned = |circle: Vec<&str>| circle.into_iter().map(str::to_owned).collect();
    Modules::new(&sources).circles().into_iter().map(owned).collect()
}

#[test]
fn a_circle_of_files_is_found() {
    let of_two = [vec!["src/a.rs".to_owned(), "src/b.rs".to_owned()]];
    let b = ("src/b.rs", "fn g() { crate::a::f() }");
    for a in [
        "use crate::b::g;",
        "use crate::{b::{self, h as i}, c};\nfn f() { b::g() }",
        "use crate::b;\nfn f() -> b::G {}",
        "fn f() { crate :: b :: g() }",
    ] {
        assert_eq!(circles_of(&[("src/a.rs", a), b]), of_two, "{a}");
    }
    for a in ["use crate::b;", "/// [`crate::b::g`]", "\"crate::b::g\"", "use std::b::g;"] {
        assert_eq!(circles_of(&[("src/a.rs", a), b]), [[""; 0]; 0], "{a}");
    }
    let by_three = [
        ("src/a.rs", "use crate::b::B;"),
        ("src/b.rs", "use crate::c::C;"),
        ("src/c.rs", "use crate::a::A;"),
    ];
    assert_eq!(circles_of(&by_three), [["src/a.rs", "src/b.rs", "src/c.rs"]]);
}

#[test]
fn what_is_handed_on_is_its_definers() {
    let parent = "mod b;\nmod c;\npub use b::B;";
    let b = ("src/a/b.rs", "use crate::a::c::C;");
    let circle = [("src/a.rs", parent), b, ("src/a/c.rs", "use crate::a::B;")];
    assert_eq!(circles_of(&circle), [["src/a/b.rs", "src/a/c.rs"]]);
    let none = [("src/a.rs", parent), b, ("src/a/c.rs", "use crate::a::A;")];
    assert_eq!(circles_of(&none), [[""; 0]; 0]);
    // A file may put its own parts together, but an outsider is no part.
    let own = [("src/a.rs", "mod b;\nfn f() { b::g() }"), ("src/a/b.rs", "use crate::a::A;")];
    assert_eq!(circles_of(&own), [[""; 0]; 0]);
    let outside =
        [("src/a.rs", "use crate::d::D;"), ("src/a/b.rs", ""), ("src/d.rs", "use crate::a::A;")];
    assert_eq!(circles_of(&outside), [["src/a.rs", "src/d.rs"]]);
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let sources = program();
    let modules = Modules::new(&sources);
    assert_eq!(modules.circles(), [[""; 0]; 0]);
}
