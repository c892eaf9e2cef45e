//! Toolman's `tools.toml`, put in our words: a list of servers, each with a namespace and a command
//! line.

use std::sync::LazyLock;

use jsonc_parser::common::Ranged;
use regex::Regex;

use crate::config::env::EnvSource;
use crate::config::keys::raw::{RawConfig, RawServer};
use crate::config::load::toolman::naming::name_of;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::Entries;
use crate::config::syntax::expand::compile;
use crate::config::syntax::reader::{Fields, Located, Reader};
use crate::os::Platform;

mod naming;

/// `true` where there is no shell, and `\\` stands between the folders of a path.
const ON_WINDOWS: bool = matches!(Platform::THIS, Platform::Windows);

/// Reads the file; `env` is what a shell would know, and without it variables are written in our
/// way.
pub fn read(
    root: &Node<'_>,
    env: Option<&dyn EnvSource>,
    reader: &mut Reader<'_>,
) -> Option<RawConfig> {
    let mut fields = reader.fields(root)?;
    let active_toolsets = fields.take("active_toolsets").and_then(|node| reader.strings(&node));
    let servers = fields.take("servers").map(|node| servers(&node, env, reader));
    fields.refuse_unknown(reader, |_| None);
    Some(RawConfig { active_toolsets, mcp_servers: servers, ..RawConfig::default() })
}

fn servers(
    node: &Node<'_>,
    env: Option<&dyn EnvSource>,
    reader: &mut Reader<'_>,
) -> Entries<RawServer> {
    let Some(array) = node.value.as_array() else {
        let hint = "write `[[servers]]` before the keys of each server";
        reader.mismatch(node, "an array of tables", Some(hint.to_owned()));
        return Entries::default();
    };
    let mut servers: Vec<(Located<String>, RawServer)> = Vec::new();
    for (index, value) in array.elements.iter().enumerate() {
        let spot = node.spot.index(index, value.start());
        let node = Node { spot, value };
        let read = reader.fields(&node).and_then(|mut fields| {
            let read = server(&mut fields, env, reader);
            fields.refuse_unknown(reader, |_| None);
            read
        });
        // A table that is wrong is a server all the same, which says what is wrong.
        let broken = || (format!("server-{}", index + 1), RawServer::default());
        let read = read.or_else(|| reader.trouble(&node.spot).map(|_| broken()));
        if let Some((wanted, server)) = read {
            let mut name = wanted.clone();
            let mut number = 2;
            while servers.iter().any(|(other, _)| other.value == name) {
                name = format!("{wanted}-{number}");
                number += 1;
            }
            servers.push((Located { value: name, spot: node.spot }, server));
        }
    }
    Entries(servers)
}

/// One server, and a name for it.
fn server(
    fields: &mut Fields<'_>,
    env: Option<&dyn EnvSource>,
    reader: &mut Reader<'_>,
) -> Option<(String, RawServer)> {
    let namespace = fields.take("namespace");
    if namespace.is_none() {
        let hint = "write `namespace = \"\"` for names as they are".to_owned();
        reader.warn(fields.spot(), "no `namespace`, so there is nothing before names", Some(hint));
    }
    let namespace = namespace.map_or_else(
        || Some(Located { value: String::new(), spot: fields.spot().clone() }),
        |node| reader.string(&node),
    );
    let command = fields.take("command").map(|node| reader.string(&node));
    let Some(command) = command else {
        let hint = "write the command line that starts it: `command = \"node build/index.js\"`";
        reader.error(fields.spot(), "expected a `command`", Some(hint.to_owned()));
        return None;
    };
    let (namespace, command) = (namespace?, command?);
    let line = Line::read(&command, env, reader)?;
    let name = if namespace.value.trim().is_empty() {
        name_of(&command.value)
    } else {
        namespace.value.clone()
    };
    let env = line
        .env
        .into_iter()
        .map(|(name, value)| (Located { value: name, spot: command.spot.clone() }, value));
    let server = RawServer {
        command: Some(Located { value: line.words, spot: command.spot.clone() }),
        env: Some(Entries(env.collect())),
        namespace: Some(namespace),
        ..RawServer::default()
    };
    Some((name, server))
}

/// A command line, taken apart.
struct Line {
    words: Vec<String>,
    /// Variables that the line uses, for the shell that reads it.
    env: Vec<(String, String)>,
}

impl Line {
    fn read(
        command: &Located<String>,
        env: Option<&dyn EnvSource>,
        reader: &mut Reader<'_>,
    ) -> Option<Self> {
        let text = command.value.trim();
        if let Some(sign) = wants_a_shell(text) {
            return Self::for_a_shell(command, sign, env, reader);
        }
        // A backslash is a part of paths there, and no escape.
        let escaped = ON_WINDOWS.then(|| text.replace('\\', "\\\\"));
        let words = shlex::split(escaped.as_deref().unwrap_or(text)).unwrap_or_else(|| {
            let hint = "close the quotation marks, or put `\\` before one that is meant literally";
            let message = "a quotation mark is not closed; taken apart at white space";
            reader.warn(&command.spot, message, Some(hint.to_owned()));
            text.split_whitespace().map(str::to_owned).collect()
        });
        let home = match env {
            Some(env) => env.home().map(|home| home.to_string_lossy().into_owned()),
            None => Some("${HOME}".to_owned()),
        };
        let words = words.into_iter().map(|word| match (word.strip_prefix('~'), &home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                format!("{home}{rest}")
            }
            _ => word,
        });
        let words: Vec<String> = words.collect();
        if words.is_empty() {
            let hint = "write the command line that starts the server, such as `node index.js`";
            reader.error(&command.spot, "expected a command, found nothing", Some(hint.to_owned()));
            return None;
        }
        Some(Self { words, env: Vec::new() })
    }

    /// The whole line as the one argument of a shell.
    fn for_a_shell(
        command: &Located<String>,
        sign: char,
        env: Option<&dyn EnvSource>,
        reader: &mut Reader<'_>,
    ) -> Option<Self> {
        let text = command.value.trim();
        if ON_WINDOWS {
            let message = format!("left out: `{sign}` wants a shell, and there is none here");
            let hint = "put what is meant literally into quotation marks".to_owned();
            reader.warn(&command.spot, message, Some(hint));
            return None;
        }
        if let Some(address) = text.split_whitespace().find(|word| is_open_address(word)) {
            let message = format!("a shell takes `{address}` apart at `{sign}`");
            let hint = "put the address into quotation marks".to_owned();
            reader.warn(&command.spot, message, Some(hint));
        }
        let mut variables: Vec<(String, String)> = Vec::new();
        for found in VARIABLE.captures_iter(text) {
            let name = &found[1];
            let is_assigned = text.contains(&format!("{name}="));
            if is_assigned || variables.iter().any(|(other, _)| other == name) {
                continue;
            }
            match env.map(|env| env.get(name)) {
                Some(Some(value)) => variables.push((name.to_owned(), value)),
                Some(None) => {
                    let message = format!("environment variable `{name}` is not set");
                    let hint = format!("run `export {name}=value` before the start");
                    reader.warn(&command.spot, message, Some(hint));
                }
                // What our own files understand.
                None if !name.contains(|c: char| c.is_ascii_lowercase()) => {
                    variables.push((name.to_owned(), format!("${{{name}:-}}")));
                }
                None => {}
            }
        }
        let words = ["sh", "-c", text].map(str::to_owned).into();
        Some(Self { words, env: variables })
    }
}

static VARIABLE: LazyLock<Regex> = LazyLock::new(|| compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)"));

/// An address that a shell would not pass on whole.
fn is_open_address(word: &str) -> bool {
    word.contains("://") && !word.starts_with(['"', '\'']) && word.contains(['&', ';'])
}

/// The first sign in a command line that only a shell understands: operators, redirections,
/// variables, globs, and variables that are set before the program.
fn wants_a_shell(line: &str) -> Option<char> {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_name = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if first.split_once('=').is_some_and(|(name, _)| is_name(name)) {
        return Some('=');
    }
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') if !ON_WINDOWS => _ = chars.next(),
            (_, '$' | '`') | (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '[') => {
                return Some(c);
            }
            (None, '\'' | '"') => quote = Some(c),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_only_a_shell_understands_is_told_from_what_is_quoted() {
        for plain in ["node a.js", "'$A' \"a b\" c", "a '*' \"&\" \\$x", "a --b=c", "a 'it''s'"] {
            assert_eq!(wants_a_shell(plain), None, "{plain}");
        }
        for (line, sign) in [
            ("a | b", '|'),
            ("A=1 b", '='),
            ("a $B", '$'),
            ("a \"${B}\"", '$'),
            ("a `b`", '`'),
            ("cd x && y", '&'),
            ("a *.js", '*'),
            ("a 2>/dev/null", '>'),
        ] {
            assert_eq!(wants_a_shell(line), Some(sign), "{line}");
        }
    }
}
