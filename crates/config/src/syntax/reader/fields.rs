//! The keys of an object, taken one by one. The rest are reported as unknown.

use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::key_case::to_camel_case;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::syntax::renamed::renamed_hint;

/// A key of an object, with its value.
#[derive(Clone, Debug)]
pub struct ObjectEntry<'a> {
    pub key: Located<String>,
    pub node: Node<'a>,
}

/// The keys of one object that have not been taken yet.
pub struct ObjectFields<'a> {
    location: SourceLocation,
    entries: Vec<ObjectEntry<'a>>,
    known: Vec<&'static str>,
    /// `true` if native keys can be written in `snake_case`.
    accepts_snake_case: bool,
}

impl<'a> ObjectFields<'a> {
    pub(crate) fn new(
        location: SourceLocation,
        entries: Vec<ObjectEntry<'a>>,
        accepts_snake_case: bool,
    ) -> Self {
        Self { location, entries, known: Vec::new(), accepts_snake_case }
    }

    pub(crate) fn location(&self) -> &SourceLocation {
        &self.location
    }

    /// Takes the value of `key`. `null` counts as absent.
    ///
    /// From then on `key` is a known key, which hints can suggest.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.known.push(key);
        let mut taken = self.take_keys_if(|name| name == key).pop();
        if taken.is_none() && self.accepts_snake_case {
            taken = self.take_keys_if(|name| to_camel_case(name) == key).pop();
        }
        taken.map(|entry| entry.node).filter(|node| !node.is_null())
    }

    pub(crate) fn peek(&self, key: &str) -> Option<&Node<'a>> {
        let mut entries = self.entries.iter().rev();
        entries.find(|entry| entry.key.value == key).map(|entry| &entry.node)
    }

    /// Takes the value of `key`, or of `also`, its name in other programs. Reports an error if the
    /// object has both.
    pub(crate) fn take_aliased(
        &mut self,
        key: &'static str,
        also: &'static str,
        reader: &mut ConfigReader<'_>,
    ) -> Option<Node<'a>> {
        let other = self.take_keys_if(|name| name == also).pop();
        let node = self.take(key);
        let Some(other) = other.filter(|other| !other.node.is_null()) else { return node };
        if node.is_some() {
            let message = format!("expected `{key}` or `{also}`, found both");
            reader.report_error(
                &other.key.location,
                message,
                Some("remove one of them".to_owned()),
            );
        }
        node.or(Some(other.node))
    }

    /// Takes every entry whose key satisfies `wanted`.
    pub fn take_keys_if(&mut self, wanted: impl Fn(&str) -> bool) -> Vec<ObjectEntry<'a>> {
        self.take_entries_if(|key, _| wanted(key))
    }

    /// Takes every entry whose key and value satisfy `wanted`.
    pub fn take_entries_if(
        &mut self,
        wanted: impl Fn(&str, &Node<'a>) -> bool,
    ) -> Vec<ObjectEntry<'a>> {
        self.entries.extract_if(.., |entry| wanted(&entry.key.value, &entry.node)).collect()
    }

    /// Returns the keys taken or asked for so far.
    pub(crate) fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// Reports the remaining entries as unknown keys. `elsewhere` returns a hint about where a key
    /// belongs. The old name of a key is always an error, because ignoring it could grant access.
    pub(crate) fn report_unknown_keys(
        self,
        reader: &mut ConfigReader<'_>,
        elsewhere: impl Fn(&str) -> Option<String>,
    ) {
        for entry in self.entries {
            let key = entry.key.value;
            if let Some(hint) = renamed_hint(&key, &self.known) {
                reader.report_error(&entry.key.location, "unknown key", Some(hint));
                continue;
            }
            let hint = elsewhere(&key).or_else(|| did_you_mean(&key, &self.known));
            let hint =
                hint.unwrap_or_else(|| format!("expected {}", quoted_list(&self.known, "or")));
            reader.report_unless_lenient(&entry.key.location, "unknown key", "ignored", Some(hint));
        }
    }
}
