//! The keys of an object, taken one by one by whoever knows them.

use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};

/// One key of an object with its value.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub key: Located<String>,
    pub node: Node<'a>,
}

/// The keys of one object, to be taken one by one; what is left over is unknown.
pub struct Fields<'a> {
    spot: Spot,
    entries: Vec<Entry<'a>>,
    known: Vec<&'static str>,
    /// `true` if keys of ours may be written in `snake_case`.
    has_snakes: bool,
}

impl<'a> Fields<'a> {
    /// The keys of the object at `spot`, of which none is known yet.
    pub(crate) fn new(spot: Spot, entries: Vec<Entry<'a>>, has_snakes: bool) -> Self {
        Self { spot, entries, known: Vec::new(), has_snakes }
    }

    /// Where the object stands.
    pub(crate) fn spot(&self) -> &Spot {
        &self.spot
    }

    /// Takes the value of `key`; `null` is as good as absent.
    ///
    /// Asking for a key is what makes it known.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.known.push(key);
        let mut taken = self.take_all(|name| name == key).pop();
        if taken.is_none() && self.has_snakes {
            taken = self.take_all(|name| camel(name) == key).pop();
        }
        taken.map(|entry| entry.node).filter(|node| !node.is_null())
    }

    /// Returns the value of `key` without taking it.
    pub(crate) fn peek(&self, key: &str) -> Option<&Node<'a>> {
        let mut entries = self.entries.iter().rev();
        entries.find(|entry| entry.key.value == key).map(|entry| &entry.node)
    }

    /// Takes the value of a key that is called `key`, or `also` by other programs; it is an error
    /// to have both.
    pub(crate) fn either(
        &mut self,
        key: &'static str,
        also: &'static str,
        reader: &mut Reader<'_>,
    ) -> Option<Node<'a>> {
        let other = self.take_all(|name| name == also).pop();
        let node = self.take(key);
        let Some(other) = other.filter(|other| !other.node.is_null()) else { return node };
        if node.is_some() {
            let message = format!("this is `{key}` in other words, which is there too");
            reader.error(&other.key.spot, message, Some("remove one of the two".to_owned()));
        }
        node.or(Some(other.node))
    }

    /// Takes every entry for which `wanted` holds.
    pub fn take_all(&mut self, wanted: impl Fn(&str) -> bool) -> Vec<Entry<'a>> {
        self.take_where(|key, _| wanted(key))
    }

    /// Takes every entry of whose key and value `wanted` holds.
    pub fn take_where(&mut self, wanted: impl Fn(&str, &Node<'a>) -> bool) -> Vec<Entry<'a>> {
        self.entries.extract_if(.., |entry| wanted(&entry.key.value, &entry.node)).collect()
    }

    /// Every key asked for so far.
    pub(crate) fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// Notes every entry that nobody asked for; `elsewhere` may say where a key belongs.
    pub(crate) fn refuse_unknown(
        self,
        reader: &mut Reader<'_>,
        elsewhere: impl Fn(&str) -> Option<String>,
    ) {
        for entry in self.entries {
            let key = entry.key.value;
            let hint = elsewhere(&key).or_else(|| did_you_mean(&key, &self.known));
            let hint = hint.unwrap_or_else(|| format!("expected {}", listed(&self.known, "or")));
            reader.fault(&entry.key.spot, "unknown key", "ignored", Some(hint));
        }
    }
}

/// `allowed_servers` as `allowedServers`.
pub(crate) fn camel(key: &str) -> String {
    let mut parts = key.split('_');
    let mut camel = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut chars = part.chars();
        camel.extend(chars.next().into_iter().flat_map(char::to_uppercase).chain(chars));
    }
    camel
}

/// `allowedServers` as `allowed_servers`.
pub(crate) fn snake(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
