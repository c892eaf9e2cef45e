//! A typed reader over the located tree: it takes what it can use and notes everything it cannot.
//!
//! It knows types, variables and keys, and nothing of what the settings mean; that is for the
//! checker, one level up.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use fields::snake;
use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use crate::config::env::EnvSource;
use crate::config::syntax::document::{Node, Spot, duplicates, kind, positions, shortened};
use crate::config::syntax::expand::{Meaning, Names, expand_named, foreign};
use crate::config::syntax::finding::{Finding, Severity};
use crate::name::nearest;

mod fields;
mod json;
mod referring;

pub use fields::Fields;
pub(crate) use fields::{Entry, camel};
pub(crate) use referring::Outside;
use referring::{References, Referred};

/// A value with where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub spot: Spot,
}

/// The kind of file that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    /// TOML, which has other words for things.
    Toml,
    /// A file of a catalog, where keys of ours may be written in `snake_case`.
    Catalog,
}

/// Reads values, and collects what is wrong with them.
pub struct Reader<'e> {
    /// Where `${NAME}` comes from; without it, strings stay as they are written.
    env: Option<&'e dyn EnvSource>,
    names: Names,
    /// Inside an entry that is switched off, nobody wants to hear of variables.
    off: bool,
    /// The file is of another program, which takes what we would refuse.
    lenient: bool,
    form: Form,
    /// Says of a key that nobody asked for where it belongs.
    pub(crate) elsewhere: fn(&str) -> Option<String>,
    found: Vec<(usize, Finding)>,
    /// The paths of all errors, in order, to look one up among thousands.
    wrong: BTreeSet<String>,
    /// Problems of single servers, by the paths of their entries.
    troubles: BTreeMap<String, Vec<Problem>>,
    references: References<'e>,
    /// The values that stand elsewhere, by the paths of the objects that refer to them.
    referred: BTreeMap<String, Referred>,
    /// Set once something is wrong for which the whole file is refused.
    is_refused: bool,
}

/// Something that is wrong with a server's entry.
struct Problem {
    /// Where in the entry; empty: the entry as a whole.
    place: String,
    message: String,
    hint: Option<String>,
}

/// Why a server cannot be used, as its entry is written.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) reason: String,
    pub(crate) hint: String,
}

impl<'e> Reader<'e> {
    pub fn new(env: Option<&'e dyn EnvSource>) -> Self {
        Self {
            env,
            names: Names::Capitals,
            off: false,
            lenient: false,
            form: Form::Json,
            elsewhere: |_| None,
            found: Vec::new(),
            wrong: BTreeSet::new(),
            troubles: BTreeMap::new(),
            references: References::Refused,
            referred: BTreeMap::new(),
            is_refused: false,
        }
    }

    /// Returns this reader with `elsewhere`, which says of a key that nobody asked for where it
    /// belongs.
    pub(crate) fn hinting(self, elsewhere: fn(&str) -> Option<String>) -> Self {
        Self { elsewhere, ..self }
    }

    /// A reader of another program's file: what that program takes is not refused.
    pub(crate) fn lenient(env: Option<&'e dyn EnvSource>) -> Self {
        Self { lenient: true, ..Self::new(env) }
    }

    /// A reader of Modular MCP's file, in which variables may have names in small letters.
    pub(crate) fn of_modular(env: Option<&'e dyn EnvSource>) -> Self {
        Self { names: Names::AnyCase, ..Self::lenient(env) }
    }

    /// A reader of another program's TOML, in which `${NAME}` has no meaning.
    pub(crate) fn of_toml() -> Self {
        Self { form: Form::Toml, ..Self::lenient(None) }
    }

    /// A reader of a catalog's files, in which keys of ours may be written in `snake_case`.
    pub(crate) fn of_catalog(env: Option<&'e dyn EnvSource>) -> Self {
        Self { form: Form::Catalog, ..Self::new(env) }
    }

    /// Returns `true` if it reads TOML.
    pub(crate) fn is_toml(&self) -> bool {
        self.form == Form::Toml
    }

    /// Reads with `read`; when `off`, variables that are not set stay as they are written.
    pub(crate) fn switched<T>(&mut self, off: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.off, off);
        let value = read(self);
        self.off = before;
        value
    }

    /// Reads with `read` what is as strict in another program's file as in ours.
    pub(crate) fn strictly<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.lenient, false);
        let value = read(self);
        self.lenient = before;
        value
    }

    /// Notes an error. One in the entry of a server costs that server; any other the whole file.
    pub(crate) fn error(&mut self, spot: &Spot, message: impl Into<String>, hint: Option<String>) {
        let Some(entry) = spot.entry() else { return self.refuse(spot, message, hint) };
        let (path, entry, message) = (spot.path(), entry.path(), message.into());
        let place = path.strip_prefix(entry.as_str()).unwrap_or_default();
        let place = place.trim_start_matches('.').to_owned();
        let problem = Problem { place, message: message.clone(), hint: hint.clone() };
        self.troubles.entry(entry).or_default().push(problem);
        self.wrong.insert(path);
        self.note(Severity::Error, spot, message, hint);
    }

    /// Notes an error for which the whole file is refused, wherever it stands.
    pub(crate) fn refuse(&mut self, spot: &Spot, message: impl Into<String>, hint: Option<String>) {
        self.is_refused = true;
        self.wrong.insert(spot.path());
        self.note(Severity::Error, spot, message.into(), hint);
    }

    /// Returns whether the whole file is refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns what is wrong with the server whose entry this is, if anything is.
    pub(crate) fn trouble(&self, entry: &Spot) -> Option<Trouble> {
        let problems = self.troubles.get(&entry.path())?;
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
        Some(Trouble {
            reason: format!(
                "its entry in the configuration is wrong: {place}{}{more}",
                first.message
            ),
            hint: hint.unwrap_or_else(|| {
                "correct its entry; `mcp-workbench check` says where it stands".to_owned()
            }),
        })
    }

    /// Notes what is an error in our own format, and which the programs take whose files we read
    /// besides; `instead` says what comes of it there.
    pub(crate) fn fault(
        &mut self,
        spot: &Spot,
        message: &str,
        instead: &str,
        hint: Option<String>,
    ) {
        if self.lenient {
            self.warn(spot, format!("{message}; {instead}"), hint);
        } else {
            self.error(spot, message, hint);
        }
    }

    /// Notes keys that are written twice: the last would win, and the other be lost without a word.
    /// Those that stand where nothing `concerns` us are passed over.
    pub(crate) fn note_duplicates(
        &mut self,
        text: &str,
        root: &Node<'_>,
        concerns: impl Fn(&Spot) -> bool,
    ) {
        let mut duplicates = duplicates(root);
        duplicates.retain(|(spot, _)| concerns(spot));
        duplicates.sort_by_key(|(_, first)| *first);
        let firsts: Vec<usize> = duplicates.iter().map(|(_, first)| *first).collect();
        let lines = positions(text, &firsts);
        for ((spot, _), (line, _)) in duplicates.into_iter().zip(lines) {
            let message = format!("this key is written twice; the first is in line {line}");
            let hint = Some("remove one of the two".to_owned());
            if !self.lenient && spot.entry().is_some_and(|entry| entry.path() == spot.path()) {
                // Which of two servers of one name is meant nobody knows.
                self.refuse(&spot, message, hint);
            } else {
                self.fault(&spot, &message, "the last one counts", hint);
            }
        }
    }

    /// Notes a warning; about what is switched off there are none.
    pub(crate) fn warn(&mut self, spot: &Spot, message: impl Into<String>, hint: Option<String>) {
        if self.off {
            return;
        }
        self.note(Severity::Warning, spot, message.into(), hint);
    }

    fn note(&mut self, severity: Severity, spot: &Spot, message: String, hint: Option<String>) {
        let path = spot.path();
        let finding = Finding { severity, file: None, path, position: None, message, hint };
        self.found.push((spot.offset, finding));
    }

    /// Returns `true` if there is an error about `key` of the object at `spot`, or about what is in
    /// it; then nobody needs to hear that it is missing as well.
    pub(crate) fn has_error_under(&self, spot: &Spot, key: &str) -> bool {
        // It may be written in either way.
        [key, &snake(key)].iter().any(|key| self.has_error_in(&spot.key(key, 0)))
    }

    /// Returns whether there is an error about the whole of what stands at `spot`.
    pub(crate) fn has_error_at(&self, spot: &Spot) -> bool {
        self.wrong.contains(&spot.path())
    }

    /// Returns `true` if there is an error about what stands at `spot`, or about what is in it.
    pub(crate) fn has_error_in(&self, spot: &Spot) -> bool {
        let path = spot.path();
        let mut alike =
            self.wrong.range(path.clone()..).map_while(|wrong| wrong.strip_prefix(path.as_str()));
        // Another key may begin with the same letters.
        alike.any(|rest| path.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// Everything noted, in the order of the file.
    pub fn into_findings(mut self, text: &str) -> Vec<Finding> {
        self.found.sort_by_key(|(offset, _)| *offset);
        let offsets: Vec<usize> = self.found.iter().map(|(offset, _)| *offset).collect();
        let positions = positions(text, &offsets);
        self.found
            .into_iter()
            .zip(positions)
            .map(|((_, finding), position)| Finding { position: Some(position), ..finding })
            .collect()
    }

    /// The node as an object, ready to have its keys taken.
    pub fn fields<'a>(&mut self, node: &Node<'a>) -> Option<Fields<'a>> {
        let Some(object) = node.value.as_object() else {
            self.mismatch(node, "an object", None);
            return None;
        };
        let entries = object
            .properties
            .iter()
            .map(|property| Entry {
                key: Located {
                    value: property.name.as_str().to_owned(),
                    spot: node.spot.key(property.name.as_str(), property.start()),
                },
                node: node.child(property),
            })
            .collect();
        Some(Fields::new(node.spot.clone(), entries, self.form == Form::Catalog))
    }

    /// The node as an object whose keys are the user's own names; variables in them are expanded.
    pub(crate) fn named_entries<'a>(&mut self, node: &Node<'a>) -> Vec<Entry<'a>> {
        let fields = self.fields(node);
        let mut entries: Vec<Entry<'a>> = Vec::new();
        for mut entry in fields.into_iter().flat_map(|mut fields| fields.take_all(|_| true)) {
            let written = std::mem::take(&mut entry.key.value);
            entry.key.value = self.expanded(&written, &entry.key.spot);
            let clash = entry.key.value != written
                && entries.iter().any(|earlier| earlier.key.value == entry.key.value);
            if clash {
                self.refuse(
                    &entry.key.spot,
                    "another key here comes to the same name once its variables are expanded",
                    None,
                );
            }
            entries.push(entry);
        }
        if self.lenient {
            // What is written twice has been reported, and the last one counts.
            let mut paths = HashSet::new();
            entries.reverse();
            entries.retain(|entry| paths.insert(entry.key.spot.path()));
            entries.reverse();
        }
        entries
    }

    /// The node as a string, its variables expanded.
    pub fn string(&mut self, node: &Node<'_>) -> Option<Located<String>> {
        let Value::StringLit(literal) = node.value else {
            let hint = matches!(node.value, Value::NumberLit(_) | Value::BooleanLit(_))
                .then(|| "put it in double quotes".to_owned());
            self.mismatch(node, "a string", hint);
            return None;
        };
        let value = self.expanded(&literal.value, &node.spot);
        if value.contains('\0') {
            self.error(&node.spot, "a string may not contain a NUL character", None);
            return None;
        }
        Some(Located { value, spot: node.spot.clone() })
    }

    /// The node as an array of strings.
    pub fn strings(&mut self, node: &Node<'_>) -> Option<Vec<Located<String>>> {
        let Value::Array(array) = node.value else {
            let hint = matches!(node.value, Value::StringLit(_))
                .then(|| "put each string into `[ … ]`, such as `[\"-y\", \"name\"]`".to_owned());
            self.mismatch(node, "an array of strings", hint);
            return None;
        };
        let elements = array.elements.iter().enumerate();
        let strings = elements.filter_map(|(index, value)| {
            let spot = node.spot.index(index, value.start());
            self.string(&Node { spot, value })
        });
        Some(strings.collect())
    }

    /// The node as a boolean.
    pub fn boolean(&mut self, node: &Node<'_>) -> Option<Located<bool>> {
        let Value::BooleanLit(literal) = node.value else {
            self.mismatch(node, "`true` or `false`", None);
            return None;
        };
        Some(Located { value: literal.value, spot: node.spot.clone() })
    }

    /// The node as a whole number that is not negative.
    pub(crate) fn number(&mut self, node: &Node<'_>) -> Option<Located<u64>> {
        let Value::NumberLit(literal) = node.value else {
            let hint = matches!(node.value, Value::StringLit(_))
                .then(|| "write the number without quotes".to_owned());
            self.mismatch(node, "a whole number", hint);
            return None;
        };
        let Some(value) = whole_number(literal.value) else {
            self.error(
                &node.spot,
                format!("expected a whole number from 0 up, found `{}`", shortened(literal.value)),
                None,
            );
            return None;
        };
        Some(Located { value, spot: node.spot.clone() })
    }

    /// Notes that a value is of another kind than it should be.
    pub(crate) fn mismatch(&mut self, node: &Node<'_>, expected: &str, hint: Option<String>) {
        let mut message = format!("expected {expected}, found {}", kind(node.value));
        if self.is_toml() {
            message = message.replace("an object", "a table");
        }
        self.error(&node.spot, message, hint);
    }

    fn expanded(&mut self, text: &str, spot: &Spot) -> String {
        let Some(env) = self.env else {
            return text.to_owned();
        };
        let (value, mut unset) = expand_named(text, env, self.names);
        // Placeholders of other clients are spoken of below.
        unset.retain(|name| foreign(&format!("${{{name}}}")).is_empty());
        if self.off {
            return value.into_owned();
        }
        for name in unset {
            let message = format!("environment variable `{name}` is not set");
            let hint = format!(
                "run `export {name}=value` before the start, or write `${{{name}:-default}}`"
            );
            self.fault(spot, &message, "left as it is", Some(hint));
        }
        for placeholder in foreign(text) {
            let hint = match placeholder.meaning {
                Meaning::Variable(name) => format!("write `${{{name}}}`"),
                Meaning::Input(name) => format!(
                    "nobody is asked for input here: write `${{{name}}}` and set that variable"
                ),
                Meaning::Home => "write `~` in `command` and `cwd`, `${HOME}` elsewhere".to_owned(),
                Meaning::Folder => {
                    "no editor has a folder open here: write a path, relative ones start at this file"
                        .to_owned()
                }
                Meaning::Nothing => "write the value itself, or a `${VARIABLE}`".to_owned(),
            };
            self.warn(spot, format!("`{}` is left as it is", placeholder.text), Some(hint));
        }
        value.into_owned()
    }
}

/// A hint with the name that is nearest to `wanted`.
pub(crate) fn did_you_mean(wanted: &str, known: &[&str]) -> Option<String> {
    let near = nearest(wanted, known.iter().copied(), 1);
    near.first().map(|name| format!("did you mean `{name}`?"))
}

/// The names in backticks: `a`, `b` or `c`.
pub fn listed(names: &[impl AsRef<str>], word: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {word} {last}", most.join(", ")),
    }
}

/// The whole number that a JSON number stands for, however it is spelled (`5`, `5.0`, `5e3`).
fn whole_number(text: &str) -> Option<u64> {
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let value: f64 = text.parse().ok()?;
    // Below 2^53 every whole number is exact.
    let whole = value.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&value);
    whole.then(|| format!("{value:.0}").parse().ok())?
}
