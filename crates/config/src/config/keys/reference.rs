//! A value that may stand elsewhere: `{"file": …}`, `{"command": […]}` or `{"keyring": …}` in place of
//! a text, wherever a secret belongs.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::entries::{Entries, entries};
use crate::config::syntax::places::{Places, absolute, located_path, with_home};
use crate::config::syntax::reader::{Located, Reader};
use crate::config::syntax::section::{Described, FromNode, Section, section};
use crate::settings::Reference;

section! {
    /// Where a value stands that is not in the file: one of these.
    #[schemars(rename = "Reference")]
    pub(crate) struct RawReference {
        /// The file that has the value in it and nothing else.
        #[schemars(extend("examples" = ["~/.config/github-token", "/run/secrets/github"]))]
        "file" as pub(crate) file: Located<String>,

        /// The program that prints the value, and its arguments. It is run without a shell.
        #[schemars(length(min = 1), extend("examples" = [["pass", "show", "github"]]))]
        "command" as pub(crate) command: Vec<Located<String>>,

        /// The entry of the system's keyring: a service, `/`, and an account.
        #[schemars(extend("examples" = ["github/me"]))]
        "keyring" as pub(crate) keyring: Located<String>,

        /// The text before the value, with a space at its end.
        #[schemars(extend("examples" = ["Bearer "]))]
        "prefix" as pub(crate) prefix: Located<String>,
    }
}

/// Reads a text, or the value that an object refers to.
pub(crate) fn value(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Located<String>> {
    let Value::Object(object) = node.value else { return reader.string(node) };
    let Some(outside) = reader.outside() else {
        if let Some(kept) = reader.keep(node) {
            return RawReference::from_node(node, reader).map(|_| kept);
        }
        let mut keys = object.properties.iter().map(|property| property.name.as_str());
        let hint = keys
            .any(|key| RawReference::DESCRIPTION.key(key).is_some())
            .then(|| "no value is taken from a file or a command here".to_owned());
        reader.mismatch(node, "a string", hint);
        return None;
    };
    let mut raw = RawReference::from_node(node, reader)?;
    let prefix = raw.prefix.take();
    let reference = raw.checked(&node.spot, &outside.places, reader)?;
    if let Some(prefix) = prefix.as_ref().filter(|prefix| !prefix.value.ends_with(' ')) {
        // The value alone is to be known for a secret, too.
        let hint = "write it as `\"Bearer \"`".to_owned();
        reader.error(&prefix.spot, "expected a space at the end", Some(hint));
        return None;
    }
    reader.refer(reference, prefix.as_ref().map_or("", |prefix| &prefix.value), node)
}

/// Reads an object of texts, or of values that objects refer to.
pub(crate) fn values(node: &Node<'_>, reader: &mut Reader<'_>) -> Entries<Located<String>> {
    entries(node, reader, |entry, reader| value(&entry.node, reader))
}

impl RawReference {
    fn checked(
        self,
        spot: &Spot,
        places: &Places<'_>,
        reader: &mut Reader<'_>,
    ) -> Option<Reference> {
        if reader.has_error_in(spot) {
            return None;
        }
        let expected = "expected one of `file`, `command` and `keyring`";
        let Self { file, command, keyring, prefix: _ } = self;
        match (file, command, keyring) {
            (Some(file), None, None) => {
                if file.value.trim().is_empty() {
                    reader.error(&file.spot, "expected the path of a file", None);
                    return None;
                }
                Some(Reference::File(located_path(&file.value, places)))
            }
            (None, Some(words), None) => {
                let mut words: Vec<String> = words.into_iter().map(|word| word.value).collect();
                let Some(program) = words.first_mut().filter(|word| !word.trim().is_empty()) else {
                    let hint = "write the program and its arguments, such as `[\"pass\", \"show\", \"github\"]`";
                    let spot = spot.key("command", spot.offset);
                    reader.error(&spot, "expected a program, found nothing", Some(hint.to_owned()));
                    return None;
                };
                *program = with_home(program, places);
                if program.contains(std::path::is_separator) {
                    *program = absolute(places.folder, program).to_string_lossy().into_owned();
                }
                Some(Reference::Command { words, folder: places.folder.to_owned() })
            }
            (None, None, Some(entry)) => {
                let parts = entry.value.split_once('/');
                let parts = parts.map(|(service, account)| (service.trim(), account.trim()));
                let parts =
                    parts.filter(|(service, account)| !service.is_empty() && !account.is_empty());
                let Some((service, account)) = parts else {
                    let hint = "write it as `github/me`".to_owned();
                    reader.error(
                        &entry.spot,
                        "expected a service, `/`, and an account",
                        Some(hint),
                    );
                    return None;
                };
                Some(Reference::Keyring {
                    service: service.to_owned(),
                    account: account.to_owned(),
                })
            }
            (None, None, None) => {
                reader.error(spot, expected, None);
                None
            }
            _ => {
                reader.error(spot, format!("{expected}, found several"), None);
                None
            }
        }
    }
}

/// A value that stands elsewhere, and may not stand in the file.
pub(crate) struct Elsewhere(pub(crate) Located<String>);

impl FromNode for Elsewhere {
    const SECTION: Option<&'static Section> = RawReference::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        value(node, reader).map(Self)
    }
}

/// The schema of what [`value`] reads.
pub(crate) struct TextOrReference;

impl JsonSchema for TextOrReference {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TextOrReference".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let reference = generator.subschema_for::<RawReference>();
        json_schema!({ "anyOf": [{ "type": "string" }, reference] })
    }
}
