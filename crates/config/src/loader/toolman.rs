//! Reads Toolman's `tools.toml`: a list of servers, each with a namespace and a command line.

use std::sync::LazyLock;

use jsonc_parser::common::Ranged;
use regex::Regex;

use crate::env::EnvSource;
use crate::loader::toolman::naming::derive_server_name;
use crate::sections::root::{RawConfig, RawServer};
use crate::syntax::document::Node;
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located, ObjectFields};
use crate::syntax::variables::compile;
use mcp_workbench_os::Platform;

mod naming;

/// Windows has no POSIX shell, and `\` separates path components.
const ON_WINDOWS: bool = matches!(Platform::THIS, Platform::Windows);

/// Reads the file. Without `env`, variables become `${NAME}` references as in native files.
pub fn read(
    root: &Node<'_>,
    env: Option<&dyn EnvSource>,
    reader: &mut ConfigReader<'_>,
) -> Option<RawConfig> {
    let mut fields = reader.read_fields(root)?;
    let active_toolsets =
        fields.take("active_toolsets").and_then(|node| reader.read_strings(&node));
    let servers = fields.take("servers").map(|node| servers(&node, env, reader));
    fields.report_unknown_keys(reader, |_| None);
    Some(RawConfig { active_toolsets, mcp_servers: servers, ..RawConfig::default() })
}

fn servers(
    node: &Node<'_>,
    env: Option<&dyn EnvSource>,
    reader: &mut ConfigReader<'_>,
) -> LocatedMap<RawServer> {
    let Some(array) = node.value.as_array() else {
        let hint = "start each server with a line `[[servers]]`";
        reader.report_type_mismatch(node, "an array of tables", Some(hint.to_owned()));
        return LocatedMap::default();
    };
    let mut servers: Vec<(Located<String>, RawServer)> = Vec::new();
    for (index, value) in array.elements.iter().enumerate() {
        let spot = node.location.child_index(index, value.start());
        let node = Node { location: spot, value };
        let read = reader.read_fields(&node).and_then(|mut fields| {
            let read = server(&mut fields, env, reader);
            fields.report_unknown_keys(reader, |_| None);
            read
        });
        // Keep an invalid table as a broken server, so that its error is reported to agents.
        let broken = || (format!("server-{}", index + 1), RawServer::default());
        let read = read.or_else(|| reader.server_entry_error(&node.location).map(|_| broken()));
        if let Some((wanted, server)) = read {
            let mut name = wanted.clone();
            let mut number = 2;
            while servers.iter().any(|(other, _)| other.value == name) {
                name = format!("{wanted}-{number}");
                number += 1;
            }
            servers.push((Located { value: name, location: node.location }, server));
        }
    }
    LocatedMap(servers)
}

/// Reads one server, and derives a name from its namespace or command line.
fn server(
    fields: &mut ObjectFields<'_>,
    env: Option<&dyn EnvSource>,
    reader: &mut ConfigReader<'_>,
) -> Option<(String, RawServer)> {
    let namespace = fields.take("namespace");
    if namespace.is_none() {
        let hint = "add `namespace = \"\"` to use names without a prefix".to_owned();
        reader.report_warning(
            fields.location(),
            "no `namespace`: names have no prefix",
            Some(hint),
        );
    }
    let namespace = namespace.map_or_else(
        || Some(Located { value: String::new(), location: fields.location().clone() }),
        |node| reader.read_string(&node),
    );
    let command = fields.take("command").map(|node| reader.read_string(&node));
    let Some(command) = command else {
        let hint = "add the command line of the server: `command = \"node build/index.js\"`";
        reader.report_error(fields.location(), "expected a `command`", Some(hint.to_owned()));
        return None;
    };
    let (namespace, command) = (namespace?, command?);
    let line = CommandLine::read(&command, env, reader)?;
    let name = if namespace.value.trim().is_empty() {
        derive_server_name(&command.value)
    } else {
        namespace.value.clone()
    };
    let env = line
        .env
        .into_iter()
        .map(|(name, value)| (Located { value: name, location: command.location.clone() }, value));
    let server = RawServer {
        command: Some(Located { value: line.words, location: command.location.clone() }),
        env: Some(LocatedMap(env.collect())),
        namespace: Some(namespace),
        ..RawServer::default()
    };
    Some((name, server))
}

struct CommandLine {
    words: Vec<String>,
    /// Variables that the shell command uses.
    env: Vec<(String, String)>,
}

impl CommandLine {
    fn read(
        command: &Located<String>,
        env: Option<&dyn EnvSource>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<Self> {
        let text = command.value.trim();
        if let Some(sign) = find_shell_syntax(text) {
            return Self::shell_command(command, sign, env, reader);
        }
        // On Windows a backslash separates path components, so it must not act as an escape.
        let escaped = ON_WINDOWS.then(|| text.replace('\\', "\\\\"));
        let words = shlex::split(escaped.as_deref().unwrap_or(text)).unwrap_or_else(|| {
            let hint = "close the quotes, or write `\\` before a literal quote";
            let message = "unclosed quote; split at white space instead";
            reader.report_warning(&command.location, message, Some(hint.to_owned()));
            text.split_whitespace().map(str::to_owned).collect()
        });
        let home = match env {
            Some(env) => env.home_dir().map(|home| home.to_string_lossy().into_owned()),
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
            let hint = "write the command line of the server, such as `node index.js`";
            reader.report_error(
                &command.location,
                "expected a command, found nothing",
                Some(hint.to_owned()),
            );
            return None;
        }
        Some(Self { words, env: Vec::new() })
    }

    /// Runs the whole line with `sh -c`, and passes on the variables that it uses.
    fn shell_command(
        command: &Located<String>,
        sign: char,
        env: Option<&dyn EnvSource>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<Self> {
        let text = command.value.trim();
        if ON_WINDOWS {
            let message = format!("ignored: `{sign}` needs a POSIX shell, which Windows lacks");
            let hint = "put literal text in quotes".to_owned();
            reader.report_warning(&command.location, message, Some(hint));
            return None;
        }
        if let Some(address) = text.split_whitespace().find(|word| is_open_address(word)) {
            let message = format!("the shell splits `{address}` at `{sign}`");
            let hint = "put the URL in quotes".to_owned();
            reader.report_warning(&command.location, message, Some(hint));
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
                    let hint = format!("set `{name}` before starting the workbench");
                    reader.report_warning(&command.location, message, Some(hint));
                }
                // Native files expand only upper-case variables.
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

/// Returns `true` for a URL that an unquoted `&` or `;` would split.
fn is_open_address(word: &str) -> bool {
    word.contains("://") && !word.starts_with(['"', '\'']) && word.contains(['&', ';'])
}

/// Returns the first character that needs a shell: operators, redirections, variables, globs, or an
/// assignment before the program.
fn find_shell_syntax(line: &str) -> Option<char> {
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
    fn detects_unquoted_shell_syntax() {
        for plain in ["node a.js", "'$A' \"a b\" c", "a '*' \"&\" \\$x", "a --b=c", "a 'it''s'"] {
            assert_eq!(find_shell_syntax(plain), None, "{plain}");
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
            assert_eq!(find_shell_syntax(line), Some(sign), "{line}");
        }
    }
}
