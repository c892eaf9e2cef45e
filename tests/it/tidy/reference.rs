//! Generates the tables in the documentation that list codes, metrics, keys and rules.

use std::fmt::Write;

use mcp_workbench::lint::RULES;
use mcp_workbench_core::telemetry::METRICS;
use regex::Regex;
use serde_json::Value;

use crate::support::expect_page;
use crate::tidy::text::read;

/// A source item and its doc comment, joined into one line.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    name: String,
    doc: String,
}

/// Returns the items that the pattern `item` matches, with their doc comments. Its first group is
/// the name.
fn documented_items(text: &str, item: &Regex) -> Vec<Item> {
    let mut doc = Vec::new();
    let mut items = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            doc.push(comment.trim());
            continue;
        }
        if let Some(found) = item.captures(line) {
            items.push(Item { name: found[1].to_owned(), doc: table_cell(&doc.join(" ")) });
        }
        if !line.starts_with("#[") {
            doc.clear();
        }
    }
    items
}

/// Formats a doc comment as a table cell: removes intra-doc links and escapes `|`.
fn table_cell(doc: &str) -> String {
    let link = Regex::new(r"\[(`[^`]+`)\]").expect("a pattern");
    link.replace_all(doc, "$1").replace('|', "\\|")
}

/// Returns the variants of an enum, each named by its string in the enum's `impl` block.
fn labeled_variants(path: &str, name: &str) -> Vec<Item> {
    let text = read(path);
    let begin = format!("pub enum {name} {{");
    let begin = text.find(&begin).unwrap_or_else(|| panic!("no {name} in {path}"));
    let body = &text[begin..];
    let body = &body[..body.find("\n}").expect("the end of the enum")];
    let variant = Regex::new(r"^([A-Z]\w*)\b").expect("a pattern");
    let implementation = text.find(&format!("impl {name} {{")).map_or("", |at| &text[at..]);
    let label = |variant: &str| {
        let arm = Regex::new(&format!(r#"Self::{variant} => "([^"]+)""#)).expect("a pattern");
        arm.captures(implementation)
            .map_or_else(|| panic!("{name}::{variant}"), |found| found[1].to_owned())
    };
    let items = documented_items(body, &variant);
    items.into_iter().map(|item| Item { name: label(&item.name), ..item }).collect()
}

/// Returns a table with the names and doc comments of items.
fn item_table(head: &str, items: &[Item]) -> String {
    assert!(items.len() > 2, "{head}: {items:?}");
    let mut table = format!("| {head} | meaning |\n| --- | --- |\n");
    for Item { name, doc } in items {
        assert!(!doc.is_empty(), "{name} has no doc comment");
        writeln!(table, "| `{name}` | {doc} |").expect("text");
    }
    table
}

fn error_codes() -> String {
    let item = Regex::new(r"^pub const \w+: i64 = (-\d+);").expect("a pattern");
    item_table("code", &documented_items(&read("crates/wire/src/code.rs"), &item))
}

/// Returns the table of an enum in `crates/core/src/telemetry`.
fn enum_table(file: &str, name: &str) -> String {
    let path = format!("crates/core/src/telemetry/{file}.rs");
    item_table("value", &labeled_variants(&path, name))
}

fn metrics() -> String {
    let mut table = "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for metric in METRICS {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (metric.name, metric.kind.as_str(), metric.help);
        writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).expect("text");
    }
    table
}

fn rules() -> String {
    let mut table = "| rule | severity | finds |\n| --- | --- | --- |\n".to_owned();
    for rule in RULES {
        let finds = rule.finds.replace('|', "\\|");
        writeln!(table, "| `{}` | {} | {finds} |", rule.id, rule.severity.as_str()).expect("text");
    }
    table
}

fn keys() -> String {
    let schema: Value =
        serde_json::from_str(&read("schemas/workbench-config.schema.json")).expect("a JSON schema");
    let mut text = String::new();
    write_keys(&mut text, "Top level", &schema);
    let definitions = schema["definitions"].as_object().expect("definitions");
    for (name, definition) in definitions {
        write_keys(&mut text, name, definition);
    }
    text.trim_start().to_owned()
}

/// Replaces the text between the markers `<!-- generated: NAME -->` and `<!-- end of NAME -->`.
fn replace_generated(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- generated: {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no marker {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no marker {end}"));
    format!("{before}{begin}\n{}\n\n{end}{after}", text.trim_end())
}

/// Describes the type of a schema in Markdown.
fn type_text(schema: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<_> =
            choices.iter().filter(|c| !c.is_null()).map(|c| format!("`{}`", text(c))).collect();
        return choices.join(", ");
    }
    if let Some(word) = schema["const"].as_str() {
        return format!("`{word}`");
    }
    for any in ["anyOf", "oneOf"] {
        if let Some(kinds) = schema[any].as_array() {
            let mut kinds: Vec<_> =
                kinds.iter().map(type_text).filter(|kind| kind != "null").collect();
            kinds.dedup();
            return kinds.join(", ");
        }
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).filter(|kind| kind != "null").collect(),
        kind => vec![text(kind)],
    };
    let with_items = |kind: String| match kind.as_str() {
        "array" if schema["items"].is_object() => {
            format!("list of {}", type_text(&schema["items"]))
        }
        "object" if schema["additionalProperties"].is_object() => {
            format!("by name: {}", type_text(&schema["additionalProperties"]))
        }
        _ => kind,
    };
    kinds.into_iter().map(with_items).collect::<Vec<_>>().join(", ")
}

/// Writes a section with the keys of one object, then a section for each inline object in it.
fn write_keys(page: &mut String, title: &str, object: &Value) {
    let Some(members) = object["properties"].as_object() else { return };
    writeln!(
        page,
        "\n### {title}\n\n| key | type | default, range | meaning |\n| --- | --- | --- | --- |"
    )
    .expect("text");
    let mut inline_objects = Vec::new();
    for (key, schema) in members.iter().filter(|(key, _)| *key != "$schema") {
        let mut default_and_range = Vec::new();
        if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            default_and_range.push(format!("`{default}`"));
        }
        let bounds = (&schema["minimum"], &schema["maximum"]);
        match bounds {
            (Value::Number(least), Value::Number(most)) => {
                default_and_range.push(format!("{least} to {most}"));
            }
            (Value::Number(least), _) => default_and_range.push(format!("at least {least}")),
            _ => {}
        }
        let mut kind = type_text(schema);
        if schema["properties"].is_object() {
            let title = format!("{title}.{key}").replace("Top level.", "");
            kind = format!("[{title}](#{})", title.to_lowercase().replace('.', ""));
            inline_objects.push((title, schema));
        }
        let description = table_cell(schema["description"].as_str().unwrap_or_default());
        assert!(!description.is_empty(), "{title}.{key} has no description");
        let default_and_range = default_and_range.join("; ");
        writeln!(page, "| `{key}` | {kind} | {default_and_range} | {description} |").expect("text");
    }
    for (title, schema) in inline_objects {
        write_keys(page, &title, schema);
    }
}

#[test]
fn generated_tables_are_current() {
    for (page, tables) in [
        ("docs/configuration.md", vec![("keys", keys())]),
        (
            "docs/codes.md",
            vec![
                ("error codes", error_codes()),
                ("call outcomes", enum_table("outcome", "CallOutcome")),
                ("stop reasons", enum_table("outcome", "CallStopReason")),
                ("denials", enum_table("event", "AccessDenialReason")),
                ("quotas", enum_table("quota", "QuotaKind")),
                ("model outcomes", enum_table("llm_outcome", "LlmOutcome")),
                ("metrics", metrics()),
            ],
        ),
        ("docs/review-definitions.md", vec![("rules", rules())]),
    ] {
        let replace =
            |text: String, (name, table): &(&str, String)| replace_generated(&text, name, table);
        expect_page(page, &tables.iter().fold(read(page), replace));
    }
}

#[test]
fn only_text_between_the_markers_is_replaced() {
    let page = "a\n<!-- generated: x -->\nold\n<!-- end of x -->\nb\n";
    let replaced = replace_generated(page, "x", "new\n");
    assert_eq!(replaced, "a\n<!-- generated: x -->\n\nnew\n\n<!-- end of x -->\nb\n");
    assert_eq!(replace_generated(&replaced, "x", "new"), replaced);
}

#[test]
fn multiline_doc_comments_belong_to_the_next_item() {
    let text = "/// One,\n/// and [`Two`].\n#[serde]\npub const A: i64 = -1;\n/// Lost.\n\npub const B: i64 = -2;";
    let item = Regex::new(r"^pub const \w+: i64 = (-\d+);").expect("a pattern");
    let expected = [("-1", "One, and `Two`."), ("-2", "")];
    let expected = expected.map(|(name, doc)| Item { name: name.to_owned(), doc: doc.to_owned() });
    assert_eq!(documented_items(text, &item), expected);
}
