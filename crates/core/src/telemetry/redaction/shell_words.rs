//! A minimal parser for the words of a shell command line, enough to replace some of them.

use std::ops::Range;

/// Returns `true` if the next argument is a shell command line, as after `-c`.
pub(super) fn is_command(argument: &str) -> bool {
    let flags = argument.strip_prefix('-').unwrap_or_default();
    flags.ends_with('c') && flags.chars().all(|c| c.is_ascii_lowercase())
}

/// Replaces words of a command line. `change` gets the previous word and the word; `None` leaves
/// the word as it is. Words with shell expansions are skipped. Returns `None` if nothing changed.
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
            // The name of an assignment must stay outside the quotes.
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

/// Returns a word without the quotes around it or around its value, or `None` if the shell would
/// expand it.
fn meaning(word: &str) -> Option<String> {
    // `${NAME}` is a variable of the configuration, which is substituted before the shell starts.
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
