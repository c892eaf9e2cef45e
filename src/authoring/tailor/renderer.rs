//! Renders a configuration with the reasons for its tools as comments.

use serde_json::Value;

pub(super) enum CommentedValue {
    /// Rendered without comments.
    Value(Value),
    Object(Vec<(String, CommentedValue)>),
    /// Names, one a line, each with a comment.
    Names(Vec<(String, String)>),
}

pub(super) struct FileHeader<'a> {
    /// The name of the full configuration.
    pub(super) file: &'a str,
    pub(super) task: &'a str,
    pub(super) service: Option<&'a str>,
}

/// Maximum line length for an array on one line.
const WIDTH: usize = 100;

pub(super) fn render(tree: &CommentedValue, head: &FileHeader<'_>) -> String {
    let mut text = String::from("// What one task needs, made by `mcp-workbench tailor`.\n");
    // The directory depends on where the command was run, so leave it out.
    let file = head.file.rsplit(['/', '\\']).next().unwrap_or(head.file);
    line(&mut text, "from", file);
    line(&mut text, "task", head.task);
    if let Some(service) = head.service {
        line(&mut text, "service type", service);
    }
    put(&mut text, tree, 0);
    text.push('\n');
    text
}

fn line(text: &mut String, what: &str, said: &str) {
    text.extend(["// ", what, ": ", &sanitize_comment(said), "\n"]);
}

/// Removes line breaks and control characters, so that the text cannot end its comment.
fn sanitize_comment(text: &str) -> String {
    let is_gap = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let plain: String = text.chars().map(|c| if is_gap(c) { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn put(text: &mut String, tree: &CommentedValue, depth: usize) {
    match tree {
        CommentedValue::Value(value) => put_value(text, value, depth),
        CommentedValue::Object(members) => {
            put_all(text, ['{', '}'], members, depth, |text, (key, member), comma| {
                put_key(text, key);
                put(text, member, depth + 1);
                text.push_str(comma);
            });
        }
        CommentedValue::Names(names) => {
            put_all(text, ['[', ']'], names, depth, |text, (name, why), comma| {
                let why = sanitize_comment(why);
                text.push_str(&Value::from(name.as_str()).to_string());
                text.extend([comma, " // ", &why]);
            });
        }
    }
}

fn put_key(text: &mut String, key: &str) {
    text.push_str(&Value::from(key).to_string());
    text.push_str(": ");
}

fn put_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) => {
            let members: Vec<_> = members.iter().collect();
            put_all(text, ['{', '}'], &members, depth, |text, (key, member), comma| {
                put_key(text, key);
                put_value(text, member, depth + 1);
                text.push_str(comma);
            });
        }
        Value::Array(items) => {
            let is_plain = items.iter().all(|item| !item.is_object() && !item.is_array());
            let words: Vec<String> = items.iter().map(ToString::to_string).collect();
            let short = format!("[{}]", words.join(", "));
            let column = text.len() - text.rfind('\n').map_or(0, |end| end + 1);
            if is_plain && column + short.len() < WIDTH {
                text.push_str(&short);
                return;
            }
            put_all(text, ['[', ']'], items, depth, |text, item, comma| {
                put_value(text, item, depth + 1);
                text.push_str(comma);
            });
        }
        plain => text.push_str(&plain.to_string()),
    }
}

/// Writes items one per line. `one` receives the comma that must follow the item.
fn put_all<T>(
    text: &mut String,
    [open, close]: [char; 2],
    things: &[T],
    depth: usize,
    mut one: impl FnMut(&mut String, &T, &str),
) {
    text.push(open);
    for (index, thing) in things.iter().enumerate() {
        let comma = if index + 1 < things.len() { "," } else { "" };
        indent(text, depth + 1);
        one(text, thing, comma);
    }
    if !things.is_empty() {
        indent(text, depth);
    }
    text.push(close);
}

fn indent(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}
