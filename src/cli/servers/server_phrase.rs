//! Describes a server in a short phrase, as a person would.
//!
//! The first source that yields a phrase wins: a description in the entry, the table of known
//! servers, the server's own description and instructions, its tools. Texts of servers end up in
//! the configuration and in the prompts of models. Only plain characters pass, on one line, and a
//! text with a remark (`lint`) is ignored.

use std::borrow::Cow;
use std::collections::BTreeSet;

use url::Url;

use crate::lint::{ScanInput, scan};
use mcp_workbench_core::catalog::{ToolDefinition, shorten};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_wire::json::RawJson;

mod known;
mod tool_words;

/// Maximum length of a phrase, in characters.
const MAX_PHRASE: usize = 90;
/// Programs that start other programs or connect to servers, and their subcommands.
const LAUNCHERS: [&str; 29] = [
    "npx",
    "npm",
    "pnpm",
    "pnpx",
    "yarn",
    "dlx",
    "exec",
    "uvx",
    "uv",
    "tool",
    "pipx",
    "node",
    "deno",
    "bun",
    "bunx",
    "tsx",
    "python",
    "python3",
    "docker",
    "podman",
    "nerdctl",
    "container",
    "env",
    "cmd",
    "bash",
    "run",
    "mcp-remote",
    "mcp-proxy",
    "supergateway",
];

/// The facts that a phrase is made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFacts<'a> {
    pub(crate) name: &'a str,
    /// The command line that starts it, or its URL.
    pub(crate) command_line: &'a [String],
    /// The description in its entry; may be empty.
    pub(crate) written: &'a str,
    pub(crate) itself: Option<&'a ServerTexts>,
    pub(crate) tools: Vec<&'a ToolDefinition>,
}

/// A running server's texts about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerTexts {
    /// The server's `Implementation` (MCP), as JSON.
    pub(crate) info: Option<RawJson>,
    pub(crate) instructions: Option<String>,
}

/// Returns a phrase that describes the server. `None` if nothing is known about it.
pub(crate) fn describe(server: &ServerFacts<'_>) -> Option<String> {
    let written = || Some(plain(server.written)).filter(|text| !text.is_empty());
    let info = |key: &str| {
        let info = server.itself?.info.as_ref()?;
        info.member(key)?.decode_string_lossy().map(Cow::into_owned)
    };
    let instructions = || first_sentence(server.itself?.instructions.as_deref()?, false);
    written()
        .or_else(|| known_phrase(server).map(str::to_owned))
        .or_else(|| first_sentence(&info("description")?, true))
        .or_else(instructions)
        .or_else(|| match server.tools.as_slice() {
            [only] => first_sentence(only.description.as_deref()?, true),
            _ => None,
        })
        .or_else(|| tool_words::phrase(server.name, &server.tools))
}

/// Returns the phrase of the table for the package, image or host in the command line, or for the
/// name of a service.
fn known_phrase(server: &ServerFacts<'_>) -> Option<&'static str> {
    let of = |name: &str| {
        let row = known::KNOWN.iter().find(|(_, names)| names.contains(&name));
        row.map(|(phrase, _)| *phrase)
    };
    let name = server.name.to_lowercase();
    let affixes = |name: &str| {
        let name = name.trim_start_matches("mcp-").trim_end_matches("-mcp");
        name.trim_end_matches("-server").trim_end_matches("-mcp").to_owned()
    };
    program_names(server.command_line)
        .iter()
        .find_map(|name| of(name))
        .or_else(|| of(&affixes(&name)))
}

/// Returns the names of the package, script, image or host in a command line. Only containers have
/// other words before it, so later words, such as the folders that a server works on, don't count.
fn program_names(command_line: &[String]) -> Vec<String> {
    let is_path = |word: &str| word.starts_with(['/', '.', '~', '$']);
    let is_container = command_line.first().is_some_and(|program| {
        matches!(last_part(program), "docker" | "podman" | "nerdctl" | "container")
    });
    let words = command_line.iter().map(|word| word.to_lowercase());
    let named = words.filter(|word| {
        let is_option = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let is_launcher = LAUNCHERS.contains(&without_version(last_part(word)));
        let is_folder = is_container && is_path(word);
        word.len() > 2 && !is_option && !is_launcher && !is_folder
    });
    let mut names = Vec::new();
    for word in named.take(if is_container { usize::MAX } else { 1 }) {
        if let Some(host) = Url::parse(&word).ok().and_then(|url| url.host_str().map(str::to_owned))
        {
            names.push(host);
            continue;
        }
        let last = last_part(&word);
        let end = word.len() - last.len() + without_version(last).len();
        names.push(word[..end].to_owned());
        // A script's package is a folder above it. An image's repository says nothing.
        let parts = word.split(['/', '\\']).filter(|part| !part.starts_with('@'));
        let parts = parts.filter(|part| !is_container || *part == last).map(without_version);
        // The bare `mcp` of `@scope/mcp` says nothing.
        names.extend(parts.filter(|part| part.len() > 3).map(str::to_owned));
    }
    names
}

/// Removes the version or tag of a package, image or script: `name@1.2`, `name==1.2`, `name:tag`,
/// `name.js`.
fn without_version(part: &str) -> &str {
    let name = part.split(['@', '=', '>', '<', '~', '[', ':']).next().unwrap_or(part);
    let extensions = [".js", ".mjs", ".cjs", ".ts", ".py", ".exe", ".cmd"];
    extensions.iter().find_map(|extension| name.strip_suffix(extension)).unwrap_or(name)
}

fn last_part(word: &str) -> &str {
    word.rsplit(['/', '\\']).next().unwrap_or(word)
}

/// Words before the part of a sentence that says what a server is for.
const LEAD_INS: [&str; 30] = [
    "provides tools for ",
    "provides tools to ",
    "provides access to ",
    "gives access to ",
    "provides ",
    "offers ",
    "lets you ",
    "allows you to ",
    "enables you to ",
    "helps you ",
    "can be used to ",
    "use this server to ",
    "use this tool to ",
    "use these tools to ",
    "use this mcp server to ",
    "server that lets you ",
    "server that ",
    "server which ",
    "server to ",
    "server for ",
    "server exposing ",
    "integration for ",
    "interface to ",
    "interface for ",
    "tools for ",
    "tools to ",
    "tool for ",
    "tool to ",
    "tool that ",
    "access to ",
];
/// Beginnings of sentences that give orders to a model instead of describing the server.
const ORDERS: [&str; 29] = [
    "always",
    "never",
    "you",
    "your",
    "important",
    "when",
    "whenever",
    "if",
    "do",
    "don't",
    "before",
    "after",
    "use",
    "call",
    "note",
    "please",
    "must",
    "start",
    "first",
    "prefer",
    "only",
    "make",
    "remember",
    "follow",
    "avoid",
    "ensure",
    "for",
    "welcome",
    "this",
];
/// Ends of the part of a sentence that is worth keeping.
const CLAUSES: [&str; 14] = [
    "; ",
    " - ",
    " – ",
    " — ",
    " (",
    ": ",
    " whenever ",
    " when ",
    " if ",
    " so that ",
    " that ",
    ", including ",
    " based on ",
    ", ",
];

/// Returns the first sentence as a phrase, without words such as "This server provides".
/// `is_description` accepts sentences without such words, whatever they begin with.
fn first_sentence(text: &str, is_description: bool) -> Option<String> {
    let start: String = text.chars().take(4 * MAX_PHRASE).collect();
    // Headings say only a name.
    let lines = start.lines().map(str::trim);
    let lines = lines.skip_while(|line| line.is_empty() || line.starts_with('#'));
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let paragraph = paragraph.as_str();
    if has_remarks(paragraph) {
        return None;
    }
    let sentence = plain(paragraph);
    let end = sentence.match_indices(['.', '!', '?']).find(|(at, _)| {
        let rest = &sentence[at + 1..];
        rest.is_empty() || rest.starts_with(' ') && !sentence[..*at].ends_with("e.g")
    });
    let sentence = end.map_or(sentence.as_str(), |(at, _)| &sentence[..at]);
    let lower = sentence.to_ascii_lowercase();
    let lead_in = LEAD_INS.iter().filter_map(|lead_in| {
        let at = lower.find(lead_in)?;
        let is_start = at == 0 || lower[..at].ends_with([' ', '-']);
        (at <= MAX_PHRASE / 2 && is_start).then_some(at + lead_in.len())
    });
    let phrase = if let Some(at) = lead_in.max() {
        sentence.get(at..)?.trim()
    } else {
        let first = lower.split([' ', ',', ':']).next().unwrap_or_default();
        let is_order = ORDERS.contains(&first) || first.starts_with('#');
        if is_order && !is_description {
            return None;
        }
        sentence.trim()
    };
    let mut phrase = phrase.to_owned();
    for clause in CLAUSES {
        let is_long = phrase.chars().count() > MAX_PHRASE;
        let is_order = matches!(clause, " whenever " | " when " | " if ");
        if let Some(at) = phrase.find(clause).filter(|at| (is_long || is_order) && *at > 12) {
            phrase.truncate(at);
        }
    }
    let phrase = shorten(phrase.trim_matches([' ', ',', ';', ':', '-', '.']), MAX_PHRASE);
    let words = phrase.split(' ').count();
    (words > 1 && phrase.chars().any(char::is_alphabetic)).then(|| uncapitalized(&phrase))
}

/// Lowercases the first word if it is certainly an ordinary one.
fn uncapitalized(phrase: &str) -> String {
    let (first, rest) = phrase.split_once(' ').unwrap_or((phrase, ""));
    let lower = first.to_ascii_lowercase();
    let stem = lower.strip_suffix('s').unwrap_or(&lower);
    let is_ordinary = ["a", "an", "the", "all", "fetche", "searche", "tool", "manage"]
        .contains(&stem)
        || tool_words::is_verb(stem);
    if is_ordinary { format!("{lower} {rest}") } else { phrase.to_owned() }
}

fn has_remarks(text: &str) -> bool {
    let server = ScanInput { server: "x", instructions: vec![text], ..ScanInput::default() };
    scan(&[server]).iter().any(|remarks| !remarks.shown.is_empty())
}

/// Returns the text on one line, without markup and without characters that have a meaning in
/// configurations, such as `$` and `{`.
fn plain(text: &str) -> String {
    let kept =
        |c: &char| c.is_alphanumeric() || c.is_whitespace() || ".,;:!?'()/-–—+&%@_".contains(*c);
    let text: String = text.chars().filter(kept).collect();
    untrusted_text::single_line(&text)
}

/// Joins words as in a sentence: `a, b and c`.
pub(crate) fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Returns the words of a name, in lower case: `listR2Buckets` is `list r2 buckets`.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut before = ' ';
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        let is_start = c.is_uppercase()
            && (before.is_lowercase()
                || before.is_ascii_digit()
                || before.is_uppercase() && chars.peek().is_some_and(|next| next.is_lowercase()));
        if is_start || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the words of a server's name that its tools repeat.
fn own_words(server: &str) -> BTreeSet<String> {
    words_of(server).into_iter().collect()
}

#[cfg(test)]
mod tests;
