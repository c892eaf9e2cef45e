//! The words of a line for a shell, as far as is needed to change some of them.

use std::ops::Range;

/// Returns `true` if a line for a shell stands behind this argument.
pub(super) fn is_command(argument: &str) -> bool {
    let flags = argument.strip_prefix('-').unwrap_or_default();
    flags.ends_with('c') && flags.chars().all(|c| c.is_ascii_lowercase())
}

/// The line with other words in place of some, as `change` says, which is told the word before each
/// too; `None` if all stay. Words that the shell itself makes something of are left alone.
pub(super) fn replaced(
    line: &str,
    mut change: impl FnMut(&str, &str) -> Option<String>,
) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let (mut end, mut before, mut is_changed) = (0, String::new(), false);
    for range in words(line) {
        let Some(word) = meaning(&line[range.clone()]) else {
            before.clear();
            continue;
        };
        if let Some(changed) = change(&before, &word) {
            // What assigns a variable does so outside quotation marks alone.
            let name = word.find('=').map_or("", |at| &word[..=at]);
            let (name, value) = match changed.strip_prefix(name) {
                Some(value) => (name, value),
                None => ("", changed.as_str()),
            };
            text.extend([&line[end..range.start], name, "'", value, "'"]);
            (end, is_changed) = (range.end, true);
        }
        before = word;
    }
    text.push_str(&line[end..]);
    is_changed.then_some(text)
}

/// Where the words of a line are.
fn words(line: &str) -> Vec<Range<usize>> {
    let (mut words, mut start, mut quote) = (Vec::new(), None, None);
    for (at, c) in line.char_indices() {
        let is_between = quote.is_none()
            && (c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '<' | '>'));
        if is_between {
            words.extend(start.take().map(|start| start..at));
            continue;
        }
        start.get_or_insert(at);
        quote = match quote {
            None if matches!(c, '\'' | '"') => Some(c),
            Some(open) if open == c => None,
            quote => quote,
        };
    }
    words.extend(start.map(|start| start..line.len()));
    words
}

/// The meaning of a word, as far as it stands there: without quotation marks around it, or around
/// the part behind its `=`.
fn meaning(word: &str) -> Option<String> {
    // Variables of ours are there before the shell is.
    let shells = word.replace("${", "");
    if shells.contains(['$', '`', '\\']) {
        return None;
    }
    let (name, value) = match word.split_once('=') {
        Some((name, value)) if !name.contains(['\'', '"']) => (format!("{name}="), value),
        _ => (String::new(), word),
    };
    let inner = ['\'', '"'].iter().find_map(|&mark| value.strip_prefix(mark)?.strip_suffix(mark));
    let value = inner.unwrap_or(value);
    (!value.contains(['\'', '"'])).then(|| name + value)
}
