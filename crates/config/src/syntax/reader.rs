//! A typed reader for the located syntax tree. It returns the values that it can use and collects
//! findings about all others.
//!
//! The reader knows types, variables and keys. The meaning of the settings is checked one level up.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use crate::env::EnvSource;
use crate::syntax::document::{
    Node, SourceLocation, find_duplicate_keys, line_columns, truncate_for_message, type_name,
};
use crate::syntax::finding::{Finding, Severity};
use crate::syntax::key_case::to_snake_case;
use crate::syntax::variables::{
    PlaceholderMeaning, VariableCase, expand_named, find_foreign_placeholders,
};
use mcp_workbench_names::nearest;

mod fields;
mod json;
mod references;

pub(crate) use fields::ObjectEntry;
pub use fields::ObjectFields;
pub(crate) use references::ReferenceContext;
use references::{RecordedReference, ReferenceMode};

/// A value and its location in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub location: SourceLocation,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceFormat {
    Json,
    /// TOML of another program, with its own terms and no `${NAME}` variables.
    Toml,
    /// A catalog file, whose native keys can be written in `snake_case`.
    Catalog,
}

/// Reads typed values and collects findings about invalid ones.
pub struct ConfigReader<'e> {
    /// The source of `${NAME}` variables. `None`: strings aren't expanded.
    env: Option<&'e dyn EnvSource>,
    names: VariableCase,
    /// In a disabled entry, unset variables are ignored and warnings are suppressed.
    is_disabled_entry: bool,
    /// The file belongs to another program, which accepts values that a native file may not have.
    lenient: bool,
    form: SourceFormat,
    pub(crate) key_hint: fn(&str) -> Option<String>,
    findings: Vec<(usize, Finding)>,
    /// The paths of all errors. Sorted, so that errors below a path are found without a scan.
    error_paths: BTreeSet<String>,
    /// The problems of single servers, by the path of the server's entry.
    entry_problems: BTreeMap<String, Vec<Problem>>,
    references: ReferenceMode<'e>,
    referred: BTreeMap<String, RecordedReference>,
    /// `true` once an error rejects the whole file.
    is_refused: bool,
}

struct Problem {
    /// The path within the entry; empty for the entry as a whole.
    place: String,
    message: String,
    hint: Option<String>,
}

/// Why a server entry cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct ServerEntryError {
    pub(crate) reason: String,
    pub(crate) hint: String,
}

impl<'e> ConfigReader<'e> {
    pub fn new(env: Option<&'e dyn EnvSource>) -> Self {
        Self {
            env,
            names: VariableCase::Capitals,
            is_disabled_entry: false,
            lenient: false,
            form: SourceFormat::Json,
            key_hint: |_| None,
            findings: Vec::new(),
            error_paths: BTreeSet::new(),
            entry_problems: BTreeMap::new(),
            references: ReferenceMode::Rejected,
            referred: BTreeMap::new(),
            is_refused: false,
        }
    }

    /// Sets the function that returns a hint about where an unknown key belongs.
    pub(crate) fn with_key_hint(self, elsewhere: fn(&str) -> Option<String>) -> Self {
        Self { key_hint: elsewhere, ..self }
    }

    /// Creates a reader for another program's file. Values that the program accepts are warnings
    /// instead of errors.
    pub(crate) fn new_lenient(env: Option<&'e dyn EnvSource>) -> Self {
        Self { lenient: true, ..Self::new(env) }
    }

    /// Creates a reader for a Modular MCP file, where variable names can be lower case.
    pub(crate) fn for_modular(env: Option<&'e dyn EnvSource>) -> Self {
        Self { names: VariableCase::AnyCase, ..Self::new_lenient(env) }
    }

    /// Creates a reader for another program's TOML file, where `${NAME}` has no meaning.
    pub(crate) fn for_toml() -> Self {
        Self { form: SourceFormat::Toml, ..Self::new_lenient(None) }
    }

    /// Creates a reader for a catalog file, where native keys can be written in `snake_case`.
    pub(crate) fn for_catalog(env: Option<&'e dyn EnvSource>) -> Self {
        Self { form: SourceFormat::Catalog, ..Self::new(env) }
    }

    pub(crate) fn is_toml(&self) -> bool {
        self.form == SourceFormat::Toml
    }

    /// Runs `read`. If `off`, unset variables are left as written, without a finding.
    pub(crate) fn with_disabled<T>(&mut self, off: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.is_disabled_entry, off);
        let value = read(self);
        self.is_disabled_entry = before;
        value
    }

    /// Runs `read` with the strictness of a native file, even in another program's file.
    pub(crate) fn with_strict<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.lenient, false);
        let value = read(self);
        self.lenient = before;
        value
    }

    /// Reports an error. Inside a server's entry it disables that server; elsewhere it rejects the
    /// file.
    pub(crate) fn report_error(
        &mut self,
        location: &SourceLocation,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let Some(entry) = location.server_entry() else {
            return self.report_fatal(location, message, hint);
        };
        let (path, entry, message) = (location.path(), entry.path(), message.into());
        let place = path.strip_prefix(entry.as_str()).unwrap_or_default();
        let place = place.trim_start_matches('.').to_owned();
        let problem = Problem { place, message: message.clone(), hint: hint.clone() };
        self.entry_problems.entry(entry).or_default().push(problem);
        self.error_paths.insert(path);
        self.note(Severity::Error, location, message, hint);
    }

    /// Reports an error that rejects the file, even inside a server's entry.
    pub(crate) fn report_fatal(
        &mut self,
        location: &SourceLocation,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.is_refused = true;
        self.error_paths.insert(location.path());
        self.note(Severity::Error, location, message.into(), hint);
    }

    pub(crate) fn is_rejected(&self) -> bool {
        self.is_refused
    }

    /// Returns why the server at `entry` cannot be used: its first problem, and how many more there
    /// are.
    pub(crate) fn server_entry_error(&self, entry: &SourceLocation) -> Option<ServerEntryError> {
        let problems = self.entry_problems.get(&entry.path())?;
        let first = problems.first()?;
        let place = match first.place.as_str() {
            "" => String::new(),
            place => format!("`{place}`: "),
        };
        let more = match problems.len() {
            1 => String::new(),
            2 => ", and one more problem".to_owned(),
            count => format!(", and {} more problems", count - 1),
        };
        let hint = first.hint.clone();
        Some(ServerEntryError {
            reason: format!("invalid configuration entry: {place}{}{more}", first.message),
            hint: hint.unwrap_or_else(|| {
                "run `mcp-workbench check` for the position of the error".to_owned()
            }),
        })
    }

    /// Reports an error in a native file, and a warning in a file of another program, which accepts
    /// such a value. `instead` ends the warning, e.g. "ignored".
    pub(crate) fn report_unless_lenient(
        &mut self,
        location: &SourceLocation,
        message: &str,
        instead: &str,
        hint: Option<String>,
    ) {
        if self.lenient {
            self.report_warning(location, format!("{message}; {instead}"), hint);
        } else {
            self.report_error(location, message, hint);
        }
    }

    /// Reports keys that are written twice, because the parser would silently use the last. Skips a
    /// location if `concerns` returns false for it.
    pub(crate) fn report_duplicate_keys(
        &mut self,
        text: &str,
        root: &Node<'_>,
        concerns: impl Fn(&SourceLocation) -> bool,
    ) {
        let mut duplicates = find_duplicate_keys(root);
        duplicates.retain(|(location, _)| concerns(location));
        duplicates.sort_by_key(|(_, first)| *first);
        let firsts: Vec<usize> = duplicates.iter().map(|(_, first)| *first).collect();
        let lines = line_columns(text, &firsts);
        for ((location, _), (line, _)) in duplicates.into_iter().zip(lines) {
            let message = format!("duplicate key; first defined in line {line}");
            let hint = Some("remove one of them".to_owned());
            if !self.lenient
                && location.server_entry().is_some_and(|entry| entry.path() == location.path())
            {
                // Two servers have the same name, so it is ambiguous which one the user meant.
                self.report_fatal(&location, message, hint);
            } else {
                self.report_unless_lenient(&location, &message, "the last one applies", hint);
            }
        }
    }

    /// Reports a warning, unless the entry is disabled.
    pub fn report_warning(
        &mut self,
        location: &SourceLocation,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        if self.is_disabled_entry {
            return;
        }
        self.note(Severity::Warning, location, message.into(), hint);
    }

    fn note(
        &mut self,
        severity: Severity,
        location: &SourceLocation,
        message: String,
        hint: Option<String>,
    ) {
        let path = location.path();
        let finding = Finding { severity, file: None, path, position: None, message, hint };
        self.findings.push((location.offset, finding));
    }

    /// Returns `true` if an error was reported at or below `key` of the object at `location`. The
    /// key then need not be reported as missing.
    pub(crate) fn has_error_under(&self, location: &SourceLocation, key: &str) -> bool {
        // The file may use either spelling.
        [key, &to_snake_case(key)].iter().any(|key| self.has_error_in(&location.child_key(key, 0)))
    }

    /// Returns `true` if an error was reported at exactly `location`.
    pub(crate) fn has_error_at(&self, location: &SourceLocation) -> bool {
        self.error_paths.contains(&location.path())
    }

    /// Returns `true` if an error was reported at `location` or below it.
    pub(crate) fn has_error_in(&self, location: &SourceLocation) -> bool {
        let path = location.path();
        let mut alike = self
            .error_paths
            .range(path.clone()..)
            .map_while(|wrong| wrong.strip_prefix(path.as_str()));
        // Skip keys that only share a prefix with this one.
        alike.any(|rest| path.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// Returns all findings in file order, with their positions in `text`.
    pub fn into_findings(mut self, text: &str) -> Vec<Finding> {
        self.findings.sort_by_key(|(offset, _)| *offset);
        let offsets: Vec<usize> = self.findings.iter().map(|(offset, _)| *offset).collect();
        let positions = line_columns(text, &offsets);
        self.findings
            .into_iter()
            .zip(positions)
            .map(|((_, finding), position)| Finding { position: Some(position), ..finding })
            .collect()
    }

    /// Reads an object, whose keys are then taken one by one.
    pub fn read_fields<'a>(&mut self, node: &Node<'a>) -> Option<ObjectFields<'a>> {
        let Some(object) = node.value.as_object() else {
            self.report_type_mismatch(node, "an object", None);
            return None;
        };
        let entries = object
            .properties
            .iter()
            .map(|property| ObjectEntry {
                key: Located {
                    value: property.name.as_str().to_owned(),
                    location: node.location.child_key(property.name.as_str(), property.start()),
                },
                node: node.child(property),
            })
            .collect();
        Some(ObjectFields::new(node.location.clone(), entries, self.form == SourceFormat::Catalog))
    }

    /// Reads an object whose keys are names that the user chose. Variables in the keys are
    /// expanded.
    pub(crate) fn read_map_entries<'a>(&mut self, node: &Node<'a>) -> Vec<ObjectEntry<'a>> {
        let fields = self.read_fields(node);
        let mut entries: Vec<ObjectEntry<'a>> = Vec::new();
        for mut entry in fields.into_iter().flat_map(|mut fields| fields.take_keys_if(|_| true)) {
            let written = std::mem::take(&mut entry.key.value);
            entry.key.value = self.expand_variables(&written, &entry.key.location);
            let clash = entry.key.value != written
                && entries.iter().any(|earlier| earlier.key.value == entry.key.value);
            if clash {
                self.report_fatal(
                    &entry.key.location,
                    "duplicate name after expanding variables",
                    None,
                );
            }
            entries.push(entry);
        }
        if self.lenient {
            let mut paths = HashSet::new();
            entries.reverse();
            entries.retain(|entry| paths.insert(entry.key.location.path()));
            entries.reverse();
        }
        entries
    }

    /// Reads a string and expands its variables.
    pub fn read_string(&mut self, node: &Node<'_>) -> Option<Located<String>> {
        let Value::StringLit(literal) = node.value else {
            let hint = matches!(node.value, Value::NumberLit(_) | Value::BooleanLit(_))
                .then(|| "put it in double quotes".to_owned());
            self.report_type_mismatch(node, "a string", hint);
            return None;
        };
        let value = self.expand_variables(&literal.value, &node.location);
        if value.contains('\0') {
            self.report_error(&node.location, "a string must not contain a NUL character", None);
            return None;
        }
        Some(Located { value, location: node.location.clone() })
    }

    pub fn read_strings(&mut self, node: &Node<'_>) -> Option<Vec<Located<String>>> {
        let Value::Array(array) = node.value else {
            let hint = matches!(node.value, Value::StringLit(_))
                .then(|| "write an array, such as `[\"-y\", \"name\"]`".to_owned());
            self.report_type_mismatch(node, "an array of strings", hint);
            return None;
        };
        let elements = array.elements.iter().enumerate();
        let strings = elements.filter_map(|(index, value)| {
            let spot = node.location.child_index(index, value.start());
            self.read_string(&Node { location: spot, value })
        });
        Some(strings.collect())
    }

    pub fn read_bool(&mut self, node: &Node<'_>) -> Option<Located<bool>> {
        let Value::BooleanLit(literal) = node.value else {
            self.report_type_mismatch(node, "`true` or `false`", None);
            return None;
        };
        Some(Located { value: literal.value, location: node.location.clone() })
    }

    /// Reads a whole number of at least 0.
    pub(crate) fn read_u64(&mut self, node: &Node<'_>) -> Option<Located<u64>> {
        let Value::NumberLit(literal) = node.value else {
            let hint = matches!(node.value, Value::StringLit(_))
                .then(|| "write the number without quotes".to_owned());
            self.report_type_mismatch(node, "a whole number", hint);
            return None;
        };
        let Some(value) = whole_number(literal.value) else {
            self.report_error(
                &node.location,
                format!(
                    "expected a whole number of at least 0, found `{}`",
                    truncate_for_message(literal.value)
                ),
                None,
            );
            return None;
        };
        Some(Located { value, location: node.location.clone() })
    }

    pub(crate) fn report_type_mismatch(
        &mut self,
        node: &Node<'_>,
        expected: &str,
        hint: Option<String>,
    ) {
        let mut message = format!("expected {expected}, found {}", type_name(node.value));
        if self.is_toml() {
            message = message.replace("an object", "a table");
        }
        self.report_error(&node.location, message, hint);
    }

    fn expand_variables(&mut self, text: &str, location: &SourceLocation) -> String {
        let Some(env) = self.env else {
            return text.to_owned();
        };
        let (value, mut unset) = expand_named(text, env, self.names);
        // Placeholders of other clients are reported below.
        unset.retain(|name| find_foreign_placeholders(&format!("${{{name}}}")).is_empty());
        if self.is_disabled_entry {
            return value.into_owned();
        }
        for name in unset {
            let message = format!("environment variable `{name}` is not set");
            let hint =
                format!("set it before starting the workbench, or write `${{{name}:-default}}`");
            self.report_unless_lenient(location, &message, "left unchanged", Some(hint));
        }
        for placeholder in find_foreign_placeholders(text) {
            let hint = match placeholder.meaning {
                PlaceholderMeaning::Variable(name) => format!("write `${{{name}}}`"),
                PlaceholderMeaning::PromptedInput(name) => format!(
                    "prompting for values is not supported: write `${{{name}}}` and set that variable"
                ),
                PlaceholderMeaning::Home => {
                    "write `~` in `command` and `cwd`, `${HOME}` elsewhere".to_owned()
                }
                PlaceholderMeaning::Folder => {
                    "write a path; relative paths start at the folder of this file".to_owned()
                }
                PlaceholderMeaning::Unknown => {
                    "write the value itself, or a `${VARIABLE}`".to_owned()
                }
            };
            self.report_warning(
                location,
                format!("`{}` is not supported and left unchanged", placeholder.text),
                Some(hint),
            );
        }
        value.into_owned()
    }
}

/// Suggests the name in `known` that is closest to `wanted`.
pub(crate) fn did_you_mean(wanted: &str, known: &[&str]) -> Option<String> {
    let near = nearest(wanted, known.iter().copied(), 1);
    near.first().map(|name| format!("did you mean `{name}`?"))
}

/// Joins names in backticks: `a`, `b` or `c`, where `or` is `word`.
pub fn quoted_list(names: &[impl AsRef<str>], word: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {word} {last}", most.join(", ")),
    }
}

/// Parses a JSON number as a whole number in any spelling (`5`, `5.0`, `5e3`).
fn whole_number(text: &str) -> Option<u64> {
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let value: f64 = text.parse().ok()?;
    // Below 2^53 an `f64` holds every whole number exactly.
    let whole = value.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&value);
    whole.then(|| format!("{value:.0}").parse().ok())?
}
