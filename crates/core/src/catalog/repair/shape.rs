//! The shapes of list entries (MCP 2025-11-25, schema), as far as the official SDKs check them.

use std::fmt;

use crate::catalog::repair::notes::{RepairNotes, is_absent};
use mcp_workbench_wire::json::{self, EditError, RawJson};

/// The expected form of a value.
#[derive(Debug)]
pub enum Shape {
    Text,
    Boolean,
    /// A whole number that JavaScript represents exactly.
    Integer,
    /// A number from 0 to 1.
    Fraction,
    /// A time with an offset (RFC 3339).
    Time,
    Word(&'static [&'static str]),
    /// An object with any members.
    Object,
    /// An object whose members with these names have these shapes.
    Members(&'static [KnownMember]),
    /// An array. Items of another shape are removed.
    Items(&'static Shape),
    /// A JSON Schema of an object.
    InputSchema,
    /// A JSON Schema; until MCP 2025-11-25, of an object.
    OutputSchema,
    /// JSON Schemas by the name of a property.
    Properties,
}

#[derive(Debug)]
pub struct KnownMember {
    key: &'static str,
    shape: Shape,
    is_required: bool,
}

const fn required(key: &'static str, shape: Shape) -> KnownMember {
    KnownMember { key, shape, is_required: true }
}

const fn optional(key: &'static str, shape: Shape) -> KnownMember {
    KnownMember { key, shape, is_required: false }
}

const ROLES: Shape = Shape::Items(&Shape::Word(&["user", "assistant"]));

const ANNOTATIONS: Shape = Shape::Members(&[
    optional("audience", ROLES),
    optional("priority", Shape::Fraction),
    optional("lastModified", Shape::Time),
]);

const ICONS: Shape = Shape::Items(&Shape::Members(&[
    required("src", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("sizes", Shape::Items(&Shape::Text)),
    optional("theme", Shape::Word(&["light", "dark"])),
]));

pub(in crate::catalog) const TOOL: Shape = Shape::Members(&[
    required("name", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    required("inputSchema", Shape::InputSchema),
    optional("outputSchema", Shape::OutputSchema),
    optional(
        "annotations",
        Shape::Members(&[
            optional("title", Shape::Text),
            optional("readOnlyHint", Shape::Boolean),
            optional("destructiveHint", Shape::Boolean),
            optional("idempotentHint", Shape::Boolean),
            optional("openWorldHint", Shape::Boolean),
        ]),
    ),
    optional(
        "execution",
        Shape::Members(&[optional(
            "taskSupport",
            Shape::Word(&["required", "optional", "forbidden"]),
        )]),
    ),
    optional("icons", ICONS),
    optional("_meta", Shape::Object),
]);

pub(in crate::catalog) const RESOURCE: Shape = Shape::Members(&[
    required("uri", Shape::Text),
    required("name", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("size", Shape::Integer),
    optional("annotations", ANNOTATIONS),
    optional("icons", ICONS),
    optional("_meta", Shape::Object),
]);

pub(in crate::catalog) const TEMPLATE: Shape = Shape::Members(&[
    required("uriTemplate", Shape::Text),
    required("name", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("annotations", ANNOTATIONS),
    optional("icons", ICONS),
    optional("_meta", Shape::Object),
]);

pub(in crate::catalog) const PROMPT: Shape = Shape::Members(&[
    required("name", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional(
        "arguments",
        Shape::Items(&Shape::Members(&[
            required("name", Shape::Text),
            optional("title", Shape::Text),
            optional("description", Shape::Text),
            optional("required", Shape::Boolean),
        ])),
    ),
    optional("icons", ICONS),
    optional("_meta", Shape::Object),
]);

const SCHEMA: &[KnownMember] = &[
    optional("$schema", Shape::Text),
    optional("properties", Shape::Properties),
    optional("required", Shape::Items(&Shape::Text)),
];

/// Keywords that describe a schema's root without `type`.
const ROOT_KEYWORDS: [&str; 8] =
    ["$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "enum", "const"];

/// The path of a member, such as `annotations.title`.
pub(in crate::catalog) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    key: &'static str,
}

impl Place<'_> {
    pub(super) const ROOT: Self = Self { parent: None, key: "" };
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent.filter(|parent| parent.parent.is_some()) {
            write!(f, "{parent}.")?;
        }
        f.write_str(self.key)
    }
}

/// `None` if the value has the shape already. The error is a clause such as `is null`.
type Fitted = Result<Option<RawJson>, String>;

impl Shape {
    pub(super) fn fit(&self, value: &RawJson, at: &Place<'_>, notes: &mut RepairNotes) -> Fitted {
        let is = |is_fit: bool, expected: &str| {
            if is_fit {
                Ok(None)
            } else if is_absent(Some(value)) {
                Err("is null".to_owned())
            } else {
                Err(format!("is not {expected}"))
            }
        };
        let number = || value.parse::<f64>().ok();
        match self {
            Self::Text => is(value.as_bytes().starts_with(b"\""), "a string"),
            Self::Boolean => is(matches!(value.as_bytes(), b"true" | b"false"), "a boolean"),
            Self::Integer => is(number().is_some_and(is_exact_integer), "an integer"),
            Self::Fraction => {
                is(number().is_some_and(|number| (0.0..=1.0).contains(&number)), "from 0 to 1")
            }
            Self::Time => is(value.decode_string().is_some_and(|time| is_time(&time)), "a time"),
            Self::Word(words) => {
                let word = value.decode_string();
                is(word.is_some_and(|word| words.contains(&&*word)), "a known value")
            }
            Self::Object => is(is_object(value), "an object"),
            Self::Members(known) => {
                is(is_object(value), "an object")?;
                fit_members(value, known, at, notes)
            }
            Self::Items(shape) => {
                let Some(items) = value.items() else { return is(false, "an array") };
                Ok(fit_items(&items, shape, at, notes))
            }
            Self::InputSchema | Self::OutputSchema => {
                is(is_object(value), "an object")?;
                fit_schema(value, matches!(self, Self::OutputSchema), at, notes)
            }
            Self::Properties => {
                is(is_object(value), "an object")?;
                Ok(fit_properties(value, at, notes))
            }
        }
    }
}

fn fit_members(
    value: &RawJson,
    known: &'static [KnownMember],
    at: &Place<'_>,
    notes: &mut RepairNotes,
) -> Fitted {
    let members = value.members().ok_or_else(|| edit_failed(EditError::UnreadableName))?;
    let mut fitted: Option<RawJson> = None;
    for KnownMember { key, shape, is_required } in known {
        let place = Place { parent: Some(at), key };
        // Parsers differ in which of repeated members they use.
        let mut values = members.iter().filter(|(name, _)| name == key).peekable();
        if values.peek().is_none() {
            if *is_required {
                return Err(format!("has no `{key}`"));
            }
            continue;
        }
        let own = fitted.as_ref().unwrap_or(value);
        let fit: Fitted =
            values.try_fold(None, |last, (_, value)| Ok(shape.fit(value, &place, notes)?.or(last)));
        let edited = match fit {
            Ok(None) => continue,
            Ok(Some(better)) => own.with_member(key, &better),
            Err(why) if *is_required => {
                return Err(if why.starts_with('`') { why } else { format!("`{place}` {why}") });
            }
            Err(why) => {
                notes.push(format!("removed `{place}`, which {why}"));
                own.without_member(key)
            }
        };
        fitted = Some(edited.map_err(edit_failed)?);
    }
    Ok(fitted)
}

fn fit_items(
    items: &[RawJson],
    shape: &Shape,
    at: &Place<'_>,
    notes: &mut RepairNotes,
) -> Option<RawJson> {
    let mut is_changed = false;
    let mut fitted = Vec::with_capacity(items.len());
    for item in items {
        match shape.fit(item, at, notes) {
            Ok(None) => fitted.push(item.clone()),
            Ok(Some(better)) => {
                is_changed = true;
                fitted.push(better);
            }
            Err(why) => {
                is_changed = true;
                notes.push(format!("removed an item of `{at}`, which {why}"));
            }
        }
    }
    is_changed.then(|| json::array(&fitted))
}

fn fit_schema(value: &RawJson, is_output: bool, at: &Place<'_>, notes: &mut RepairNotes) -> Fitted {
    let object = RawJson::from_text("object");
    let members = value.members().unwrap_or_default();
    let mut types = members.iter().filter(|(key, _)| key == "type").map(|(_, kind)| kind);
    // Parsers use the last of repeated members.
    let (is_single, declared) = (types.clone().count() == 1, types.next_back());
    let is_any_root = || is_output && ROOT_KEYWORDS.iter().any(|key| value.member(key).is_some());
    let typed = match declared {
        Some(kind) if is_single && *kind == object => None,
        declared if is_absent(declared) => {
            if is_any_root() {
                None
            } else {
                notes.push(format!("added `type: object` to `{at}`"));
                Some(value.with_member("type", &object).map_err(edit_failed)?)
            }
        }
        Some(kind) if means_object(kind) => {
            notes.push(format!("set `type` of `{at}` to `object`"));
            Some(value.with_member("type", &object).map_err(edit_failed)?)
        }
        // Valid in MCP 2026-07-28. Lists for older clients omit it.
        _ if is_output => None,
        _ => return Err(format!("`{at}` is not the schema of an object")),
    };
    let fitted = fit_members(typed.as_ref().unwrap_or(value), SCHEMA, at, notes)?;
    Ok(fitted.or(typed))
}

/// Returns `true` for other spellings of `object`, and for lists of types with it.
fn means_object(kind: &RawJson) -> bool {
    let is_object = |kind: &RawJson| {
        kind.decode_string().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("object"))
    };
    is_object(kind) || kind.items().is_some_and(|kinds| kinds.iter().any(is_object))
}

/// Replaces schemas that aren't objects. MCP until 2025-11-25 has no boolean schemas, but some
/// generators write `true` for any value.
fn fit_properties(value: &RawJson, at: &Place<'_>, notes: &mut RepairNotes) -> Option<RawJson> {
    let mut members = value.members()?;
    let mut count = 0;
    for (_, schema) in &mut members {
        if !is_object(schema) {
            count += 1;
            let is_never = schema.as_bytes() == b"false";
            *schema = if is_never {
                json::object([("not", &json::object([]))])
            } else {
                json::object([])
            };
        }
    }
    if count == 0 {
        return None;
    }
    notes.push(format!("replaced {count} of `{at}`, which are not objects"));
    Some(json::object(members.iter().map(|(key, schema)| (&**key, schema))))
}

pub(in crate::catalog) fn is_object(value: &RawJson) -> bool {
    value.as_bytes().starts_with(b"{")
}

fn is_exact_integer(number: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_992.0;
    number.fract() == 0.0 && number.abs() <= MAX
}

fn is_time(text: &str) -> bool {
    // The parser also accepts lower case, blanks and leap seconds, which strict clients reject.
    let is_plain = text.as_bytes().get(10) == Some(&b'T')
        && text.get(17..19).is_some_and(|seconds| seconds != "60")
        && !text.ends_with('z');
    is_plain && chrono::DateTime::parse_from_rfc3339(text).is_ok()
}

fn edit_failed(error: EditError) -> String {
    error.to_string()
}
