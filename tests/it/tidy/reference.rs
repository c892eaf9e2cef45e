//! The page of words and numbers, made from the sources: codes of errors, outcomes, metrics, every key.

use std::fmt::Write;

use mcp_workbench::catalog::remarks::RULES;
use mcp_workbench::observe::METRICS;
use regex::Regex;
use serde_json::Value;

use crate::support::expect_page;
use crate::tidy::text::read;

/// The first lines of the page.
const HEAD: &str = "\
# Words and numbers

Every word and number that the program answers, counts or writes, and every key that it reads. The page is made
from the program's own types; what they mean together is on the pages that are linked.
";

/// An item of a source with its doc comment, as one line.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    name: String,
    doc: String,
}

/// The doc comment of each line that `item` matches; its first group is the name.
fn documented(text: &str, item: &Regex) -> Vec<Item> {
    let mut doc = Vec::new();
    let mut items = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("///") {
            doc.push(said.trim());
            continue;
        }
        if let Some(found) = item.captures(line) {
            items.push(Item { name: found[1].to_owned(), doc: plain(&doc.join(" ")) });
        }
        if !line.starts_with("#[") {
            doc.clear();
        }
    }
    items
}

/// A doc comment without the marks that lead to code.
fn plain(doc: &str) -> String {
    let link = Regex::new(r"\[(`[^`]+`)\]").expect("a pattern");
    link.replace_all(doc, "$1").replace('|', "\\|")
}

/// The variants of an enum in a source, each under the word that it is written as.
fn words(path: &str, name: &str) -> Vec<Item> {
    let text = read(path);
    let begin = format!("pub enum {name} {{");
    let begin = text.find(&begin).unwrap_or_else(|| panic!("no {name} in {path}"));
    let body = &text[begin..];
    let body = &body[..body.find("\n}").expect("an end")];
    let variant = Regex::new(r"^([A-Z]\w*)\b").expect("a pattern");
    let of = text.find(&format!("impl {name} {{")).map_or("", |at| &text[at..]);
    let word = |variant: &str| {
        let arm = Regex::new(&format!(r#"Self::{variant} => "([^"]+)""#)).expect("a pattern");
        arm.captures(of).map_or_else(|| panic!("{name}::{variant}"), |found| found[1].to_owned())
    };
    let items = documented(body, &variant);
    items.into_iter().map(|item| Item { name: word(&item.name), ..item }).collect()
}

fn table(page: &mut String, title: &str, about: &str, head: &str, items: &[Item]) {
    assert!(items.len() > 2, "{title}");
    writeln!(page, "\n## {title}\n\n{about}\n\n| {head} | means |\n| --- | --- |").expect("text");
    for Item { name, doc } in items {
        assert!(!doc.is_empty(), "{name} is not described");
        writeln!(page, "| `{name}` | {doc} |").expect("text");
    }
}

fn codes(page: &mut String) {
    let item = Regex::new(r"^pub const \w+: i64 = (-\d+);").expect("a pattern");
    let about = "An answer of the protocol that is an error has one of these as its `code` if it is ours; what a \
                 server answers passes as it came. A tool that fails answers with a result that has `isError`.";
    let items = documented(&read("crates/wire/src/wire/code.rs"), &item);
    table(page, "Codes of errors", about, "code", &items);
}

fn outcomes(page: &mut String) {
    let observe = |file: &str, name: &str| words(&format!("crates/core/src/observe/{file}"), name);
    let about = "The `outcome` of a call in [the audit](observing.md) and in figures. The audit has two more: `denied`, a \
                 tool that is there, but not for this agent, and `lost`, a call that was running when the program was killed.";
    table(page, "Outcomes of calls", about, "word", &observe("ending.rs", "Ending"));
    let about = "Why a call was not let through, where that was no rule (`stoppedBy`).";
    table(page, "What stops a call", about, "word", &observe("context.rs", "Stop"));
    let about = "Why somebody was not let in over HTTP (`why`).";
    table(page, "Denials", about, "word", &observe("event.rs", "DeniedFor"));
    let about = "The things of which a caller can have so many and no more (`what`); see [Limits](limits.md).";
    table(page, "What callers hold", about, "word", &observe("holdings.rs", "Holding"));
    let about = "The `outcome` of a request to a language model.";
    table(
        page,
        "Outcomes of requests to models",
        about,
        "word",
        &observe("llm_outcome.rs", "LlmOutcome"),
    );
}

fn events(page: &mut String) {
    let text = read("crates/core/src/observe/event.rs");
    let begin = text.find("pub enum Event<").expect("the events");
    let body = &text[begin..];
    let body = &body[..body.find("\n}").expect("an end")];
    let variant = Regex::new(r"^([A-Z]\w*)\b").expect("a pattern");
    let about = "What happens inside, as one stream that the log, the figures, the audit, the spans and the live views are \
                 made from.";
    table(page, "Events", about, "event", &documented(body, &variant));
}

fn metrics(page: &mut String) {
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

/// The type of a value in a schema, in a few words.
fn kind(schema: &Value) -> String {
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
            let mut kinds: Vec<_> = kinds.iter().map(kind).filter(|kind| kind != "null").collect();
            kinds.dedup();
            return kinds.join(", ");
        }
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).filter(|kind| kind != "null").collect(),
        kind => vec![text(kind)],
    };
    let of = |kind: String| match kind.as_str() {
        "array" if schema["items"].is_object() => {
            format!("list of {}", self::kind(&schema["items"]))
        }
        "object" if schema["additionalProperties"].is_object() => {
            format!("by name: {}", self::kind(&schema["additionalProperties"]))
        }
        _ => kind,
    };
    kinds.into_iter().map(of).collect::<Vec<_>>().join(", ")
}

/// A section with the keys of one object, and sections of the objects in it that have no name.
fn keys(page: &mut String, title: &str, object: &Value) {
    let Some(members) = object["properties"].as_object() else { return };
    writeln!(
        page,
        "\n### {title}\n\n| key | type | default, range | what |\n| --- | --- | --- | --- |"
    )
    .expect("text");
    let mut inside = Vec::new();
    for (key, schema) in members.iter().filter(|(key, _)| *key != "$schema") {
        let mut said = Vec::new();
        if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            said.push(format!("`{default}`"));
        }
        let bounds = (&schema["minimum"], &schema["maximum"]);
        match bounds {
            (Value::Number(least), Value::Number(most)) => said.push(format!("{least} to {most}")),
            (Value::Number(least), _) => said.push(format!("at least {least}")),
            _ => {}
        }
        let mut kind = kind(schema);
        if schema["properties"].is_object() {
            let title = format!("{title}.{key}").replace("Top level.", "");
            kind = format!("[{title}](#{})", title.to_lowercase().replace('.', ""));
            inside.push((title, schema));
        }
        let what = plain(schema["description"].as_str().unwrap_or_default());
        assert!(!what.is_empty(), "{title}.{key} is not described");
        let said = said.join("; ");
        writeln!(page, "| `{key}` | {kind} | {said} | {what} |").expect("text");
    }
    for (title, schema) in inside {
        keys(page, &title, schema);
    }
}

#[test]
fn the_page_of_remarks_has_the_rules() {
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
fn the_page_of_words_and_numbers_is_what_the_program_says() {
    let mut page = HEAD.to_owned();
    codes(&mut page);
    outcomes(&mut page);
    events(&mut page);
    metrics(&mut page);
    page.push_str(
        "\n## Keys\n\nEvery key of the configuration, as `mcp-workbench schema` has it; \
         [Configuration](configuration.md) explains them by what they are for.\n",
    );
    let schema: Value = serde_json::from_str(&read("schemas/workbench-config.schema.json"))
        .expect("the schema is JSON");
    keys(&mut page, "Top level", &schema);
    let definitions = schema["definitions"].as_object().expect("definitions");
    for (name, definition) in definitions {
        keys(&mut page, name, definition);
    }
    expect_page("docs/reference.md", &page);
}

#[test]
fn a_comment_of_several_lines_belongs_to_the_item_under_it() {
    let text = "/// One,\n/// and [`Two`].\n#[serde]\npub const A: i64 = -1;\n/// Lost.\n\npub const B: i64 = -2;";
    let item = Regex::new(r"^pub const \w+: i64 = (-\d+);").expect("a pattern");
    let expected = [("-1", "One, and `Two`."), ("-2", "")];
    let expected = expected.map(|(name, doc)| Item { name: name.to_owned(), doc: doc.to_owned() });
    assert_eq!(documented(text, &item), expected);
}
