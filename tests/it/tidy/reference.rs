//! Generates `docs/reference.md` and the rules in `docs/remarks.md` from the sources.

use std::fmt::Write;

use mcp_workbench::catalog::remarks::RULES;
use mcp_workbench::telemetry::METRICS;
use regex::Regex;
use serde_json::Value;

use crate::support::expect_page;
use crate::tidy::text::read;

/// The start of `docs/reference.md`.
const HEAD: &str = "\
# Words and numbers

Every word and number that the program answers, counts or writes, and every key that it reads. The page is made
from the program's own types; what they mean together is on the pages that are linked.
";

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

fn write_table(page: &mut String, title: &str, about: &str, head: &str, items: &[Item]) {
    assert!(items.len() > 2, "{title}");
    writeln!(page, "\n## {title}\n\n{about}\n\n| {head} | means |\n| --- | --- |").expect("text");
    for Item { name, doc } in items {
        assert!(!doc.is_empty(), "{name} has no doc comment");
        writeln!(page, "| `{name}` | {doc} |").expect("text");
    }
}

fn write_codes(page: &mut String) {
    let item = Regex::new(r"^pub const \w+: i64 = (-\d+);").expect("a pattern");
    let about = "An answer of the protocol that is an error has one of these as its `code` if it is ours; what a \
                 server answers passes as it came. A tool that fails answers with a result that has `isError`.";
    let items = documented_items(&read("crates/wire/src/wire/code.rs"), &item);
    write_table(page, "Codes of errors", about, "code", &items);
}

fn write_outcomes(page: &mut String) {
    let variants = |file: &str, name: &str| {
        labeled_variants(&format!("crates/core/src/telemetry/{file}"), name)
    };
    let about = "The `outcome` of a call in [the audit](observing.md) and in figures. The audit has two more: `denied`, a \
                 tool that is there, but not for this agent, and `lost`, a call that was running when the program was killed.";
    write_table(page, "Outcomes of calls", about, "word", &variants("outcome.rs", "CallOutcome"));
    let about = "Why a call was not let through, where that was no rule (`stoppedBy`).";
    write_table(
        page,
        "What stops a call",
        about,
        "word",
        &variants("context.rs", "CallStopReason"),
    );
    let about = "Why somebody was not let in over HTTP (`why`).";
    write_table(page, "Denials", about, "word", &variants("event.rs", "AccessDenialReason"));
    let about = "The things of which a caller can have so many and no more (`what`); see [Limits](limits.md).";
    write_table(page, "What callers hold", about, "word", &variants("quota.rs", "QuotaKind"));
    let about = "The `outcome` of a request to a language model.";
    write_table(
        page,
        "Outcomes of requests to models",
        about,
        "word",
        &variants("llm_outcome.rs", "LlmOutcome"),
    );
}

fn write_events(page: &mut String) {
    let text = read("crates/core/src/telemetry/event.rs");
    let begin = text.find("pub enum Event<").expect("the events");
    let body = &text[begin..];
    let body = &body[..body.find("\n}").expect("the end of the enum")];
    let variant = Regex::new(r"^([A-Z]\w*)\b").expect("a pattern");
    let about = "What happens inside, as one stream that the log, the figures, the audit, the spans and the live views are \
                 made from.";
    write_table(page, "Events", about, "event", &documented_items(body, &variant));
}

fn write_metrics(page: &mut String) {
    page.push_str(
        "\n## Metrics\n\nAt `/metrics` of `serve --http` (OpenMetrics text), each name after `mcp_workbench_`; a counter's \
         name has `_total` behind it.\n\n| name | kind | labels | what |\n| --- | --- | --- | --- |\n",
    );
    for metric in METRICS {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (metric.name, metric.kind.as_str(), metric.help);
        writeln!(page, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).expect("text");
    }
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
        "\n### {title}\n\n| key | type | default, range | what |\n| --- | --- | --- | --- |"
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
fn remarks_page_lists_current_rules() {
    let page = read("docs/remarks.md");
    let (head, rest) = page.split_once(" -->\n").expect("the mark before the table");
    let (_, tail) = rest.split_once("\n## ").expect("the heading after the table");
    let mut table = "\n| rule | severity | finds |\n| --- | --- | --- |\n".to_owned();
    for rule in RULES {
        let finds = rule.finds.replace('|', "\\|");
        writeln!(table, "| `{}` | {} | {finds} |", rule.id, rule.severity.as_str())
            .expect("a text");
    }
    expect_page("docs/remarks.md", &format!("{head} -->\n{table}\n## {tail}"));
}

#[test]
fn reference_page_is_current() {
    let mut page = HEAD.to_owned();
    write_codes(&mut page);
    write_outcomes(&mut page);
    write_events(&mut page);
    write_metrics(&mut page);
    page.push_str(
        "\n## Keys\n\nEvery key of the configuration, as `mcp-workbench schema` has it; \
         [Configuration](configuration.md) explains them by what they are for.\n",
    );
    let schema: Value = serde_json::from_str(&read("schemas/workbench-config.schema.json"))
        .expect("the schema is JSON");
    write_keys(&mut page, "Top level", &schema);
    let definitions = schema["definitions"].as_object().expect("definitions");
    for (name, definition) in definitions {
        write_keys(&mut page, name, definition);
    }
    expect_page("docs/reference.md", &page);
}

#[test]
fn multiline_doc_comments_belong_to_the_next_item() {
    let text = "/// One,\n/// and [`Two`].\n#[serde]\npub const A: i64 = -1;\n/// Lost.\n\npub const B: i64 = -2;";
    let item = Regex::new(r"^pub const \w+: i64 = (-\d+);").expect("a pattern");
    let expected = [("-1", "One, and `Two`."), ("-2", "")];
    let expected = expected.map(|(name, doc)| Item { name: name.to_owned(), doc: doc.to_owned() });
    assert_eq!(documented_items(text, &item), expected);
}
