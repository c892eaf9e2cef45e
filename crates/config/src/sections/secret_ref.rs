//! Secret references: `{"file": …}`, `{"command": […]}` or `{"keyring": …}` instead of a string, in
//! settings that hold a secret.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::objects::{LocatedMap, read_map};
use crate::syntax::paths::{PathResolver, expand_tilde, join_absolute, resolve_path};
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{ConfigSection, FromNode, SectionSpec, section};
use mcp_workbench_settings::SecretRef;

section! {
    /// Reference to a secret outside of this file, with one of `file`, `command` and `keyring`.
    #[schemars(rename = "Reference")]
    pub(crate) struct RawSecretRef {
        /// File that contains only the value.
        #[schemars(extend("examples" = ["~/.config/github-token", "/run/secrets/github"]))]
        "file" as pub(crate) file: Located<String>,

        /// Program that prints the value, and its arguments. Run without a shell.
        #[schemars(length(min = 1), extend("examples" = [["pass", "show", "github"]]))]
        "command" as pub(crate) command: Vec<Located<String>>,

        /// Entry of the system keyring, as `service/account`.
        #[schemars(extend("examples" = ["github/me"]))]
        "keyring" as pub(crate) keyring: Located<String>,

        /// Text before the value, such as `Bearer `. Must end with a space.
        #[schemars(extend("examples" = ["Bearer "]))]
        "prefix" as pub(crate) prefix: Located<String>,
    }
}

/// Reads a string, or resolves the secret reference in an object.
pub(crate) fn read_text_or_ref(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<Located<String>> {
    let Value::Object(object) = node.value else { return reader.read_string(node) };
    let Some(outside) = reader.reference_context() else {
        if let Some(kept) = reader.preserve_reference(node) {
            return RawSecretRef::from_node(node, reader).map(|_| kept);
        }
        let mut keys = object.properties.iter().map(|property| property.name.as_str());
        let hint = keys
            .any(|key| RawSecretRef::SPEC.key(key).is_some())
            .then(|| "references to secrets are not supported in this setting".to_owned());
        reader.report_type_mismatch(node, "a string", hint);
        return None;
    };
    let mut raw = RawSecretRef::from_node(node, reader)?;
    let prefix = raw.prefix.take();
    let reference = raw.checked(&node.location, &outside.paths, reader)?;
    if let Some(prefix) = prefix.as_ref().filter(|prefix| !prefix.value.ends_with(' ')) {
        // Redaction must also match the value without the prefix, so the prefix has to end a word.
        let hint = "write `\"Bearer \"`".to_owned();
        reader.report_error(&prefix.location, "expected a space at the end", Some(hint));
        return None;
    }
    reader.resolve_reference(reference, prefix.as_ref().map_or("", |prefix| &prefix.value), node)
}

pub(crate) fn read_text_or_ref_map(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
) -> LocatedMap<Located<String>> {
    read_map(node, reader, |entry, reader| read_text_or_ref(&entry.node, reader))
}

impl RawSecretRef {
    fn checked(
        self,
        location: &SourceLocation,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<SecretRef> {
        if reader.has_error_in(location) {
            return None;
        }
        let expected = "expected one of `file`, `command` and `keyring`";
        let Self { file, command, keyring, prefix: _ } = self;
        match (file, command, keyring) {
            (Some(file), None, None) => {
                if file.value.trim().is_empty() {
                    reader.report_error(&file.location, "expected a file path", None);
                    return None;
                }
                Some(SecretRef::File(resolve_path(&file.value, paths)))
            }
            (None, Some(words), None) => {
                let mut words: Vec<String> = words.into_iter().map(|word| word.value).collect();
                let Some(program) = words.first_mut().filter(|word| !word.trim().is_empty()) else {
                    let hint = "write the program and its arguments, such as `[\"pass\", \"show\", \"github\"]`";
                    let location = location.child_key("command", location.offset);
                    reader.report_error(
                        &location,
                        "expected a program, found nothing",
                        Some(hint.to_owned()),
                    );
                    return None;
                };
                *program = expand_tilde(program, paths);
                if program.contains(std::path::is_separator) {
                    *program =
                        join_absolute(paths.base_dir, program).to_string_lossy().into_owned();
                }
                Some(SecretRef::Command { words, folder: paths.base_dir.to_owned() })
            }
            (None, None, Some(entry)) => {
                let parts = entry.value.split_once('/');
                let parts = parts.map(|(service, account)| (service.trim(), account.trim()));
                let parts =
                    parts.filter(|(service, account)| !service.is_empty() && !account.is_empty());
                let Some((service, account)) = parts else {
                    let hint = "write, for example, `github/me`".to_owned();
                    reader.report_error(&entry.location, "expected `service/account`", Some(hint));
                    return None;
                };
                Some(SecretRef::Keyring {
                    service: service.to_owned(),
                    account: account.to_owned(),
                })
            }
            (None, None, None) => {
                reader.report_error(location, expected, None);
                None
            }
            _ => {
                reader.report_error(location, format!("{expected}, found several"), None);
                None
            }
        }
    }
}

/// A secret reference where the file must not contain the value itself.
pub(crate) struct SecretRefOnly(pub(crate) Located<String>);

impl FromNode for SecretRefOnly {
    const SECTION: Option<&'static SectionSpec> = RawSecretRef::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        read_text_or_ref(node, reader).map(Self)
    }
}

pub(crate) struct TextOrSecretRef;

impl JsonSchema for TextOrSecretRef {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TextOrReference".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let reference = generator.subschema_for::<RawSecretRef>();
        json_schema!({ "anyOf": [{ "type": "string" }, reference] })
    }
}
