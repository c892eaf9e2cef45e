//! One server of another client, put into our words.

use std::sync::LazyLock;

use jsonc_parser::cst::CstInputValue;
use regex::Regex;
use url::{Host, Url};

use crate::authoring::import::cells;
use crate::authoring::import::{Grade, HideSecrets, category, commands};
use crate::config::keys::foreign::Foreign;
use crate::config::keys::raw::RawServer;
use crate::config::keys::server::{Means, filters};
use crate::config::syntax::document::shortened;
use crate::config::syntax::entries::Entries;
use crate::config::syntax::expand::{self, Meaning, compile, variable_name};
use crate::config::syntax::reader::{Located, listed};
use crate::settings::HttpTransport;

/// A server block as it is going to be written.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The launch, which decides which server it is; equal ones are the same.
    pub(super) launch: BlockLaunch,
    rest: Vec<(&'static str, CstInputValue)>,
}

/// The part of a block that decides which server it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockLaunch {
    /// One that is started.
    Command { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<String> },
    /// One that is reached over HTTP.
    Url { url: String, transport: HttpTransport, headers: Vec<(String, String)> },
}

/// The patterns of a filter as a value to be written; none if there are none.
fn patterns(patterns: Vec<Located<String>>) -> Option<CstInputValue> {
    let patterns: Vec<String> = patterns.into_iter().map(|pattern| pattern.value).collect();
    (!patterns.is_empty()).then(|| patterns.into())
}

impl BlockLaunch {
    /// Returns `true` if this starts the workbench, which must not be one of its own servers; the
    /// small ones that it carries may be.
    pub(super) fn is_workbench(&self) -> bool {
        let program = |word: &str| {
            let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
            last.trim_end_matches(".exe") == "mcp-workbench"
        };
        match self {
            Self::Command { command, args, .. } => {
                let is_builtin = args.iter().any(|arg| arg == "builtin");
                !is_builtin && (program(command) || args.iter().any(|arg| program(arg)))
            }
            Self::Url { .. } => false,
        }
    }

    /// Returns the doubt about reaching it, if there is one.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let Self::Url { url, headers, .. } = self else { return None };
        let Ok(address) = Url::parse(url.trim()) else { return None };
        let is_here = match address.host()? {
            Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        let has_key =
            headers.iter().any(|(name, value)| is_secret_name(name) || value.contains("${"))
                || address.query_pairs().any(|(name, _)| is_secret_name(&name))
                || address.password().is_some();
        (!is_here && !has_key).then_some(Doubt::SignIn)
    }
}

/// The particulars of the file that a block is from.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    /// `$NAME` is a variable, as `${NAME}` is.
    pub(super) bare_variables: bool,
    /// Commands in values are run, and what they print is taken.
    pub(super) runs_commands: bool,
    /// The folder the server starts in.
    pub(super) folder: Option<String>,
    /// The inputs that the client asks its user for.
    pub(super) inputs: Vec<Input>,
    /// How long a call may take, in milliseconds, where the block says nothing of it.
    pub(super) call_timeout: Option<u64>,
}

/// A value that VS Code asks its user for.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) id: String,
    /// The question.
    pub(super) description: Option<String>,
    /// The answer that is offered, if it is no secret.
    pub(super) default: Option<String>,
}

/// A doubt about a server that only its start removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It may want its user to sign in.
    SignIn,
}

/// Something to say about a block.
#[derive(Debug)]
pub(super) struct Remark {
    pub(super) grade: Grade,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// An object of numbers, as far as there are any.
fn written(members: [(&str, Option<u64>); 2]) -> CstInputValue {
    let members = members.into_iter();
    let members = members.filter_map(|(key, number)| Some((key.to_owned(), number?.into())));
    CstInputValue::Object(members.collect())
}

impl Block {
    /// Puts a block into our words; none if what it names is empty, or cannot be reached.
    pub(super) fn new(
        raw: RawServer,
        means: Means,
        dialect: &Dialect,
        (name, secrets): (&str, &mut dyn HideSecrets),
    ) -> Option<(Self, Vec<Remark>)> {
        let RawServer {
            command: _,
            args,
            env,
            cwd,
            url: _,
            headers,
            oauth,
            tool_filters,
            resource_filters,
            prompt_filters,
            overrides,
            transport: _,
            description,
            namespace,
            show_server,
            disabled,
            startup_timeout_ms,
            call_timeout_ms,
            total_call_timeout_ms,
            idle_timeout_ms,
            inherit_env,
            sandbox,
            container,
            shared,
            eager,
            isolation,
            definitions,
            protocol,
            roots,
            limits,
            cache,
            foreign,
        } = raw;
        let Foreign { enabled, kind: _, url: _, timeout_ms, environment, include, exclude } =
            foreign;
        let mut rewrite =
            Rewrite { dialect, server: name, commands: Vec::new(), remarks: Vec::new() };
        let mut launch = match means {
            Means::Command(command) => {
                let mut command = command.value.into_iter();
                let program = command.next().filter(|program| !program.trim().is_empty())?;
                let args = command.chain(args.into_iter().flatten().map(|arg| arg.value));
                BlockLaunch::Command {
                    command: rewrite.text(&program, ""),
                    args: args.map(|arg| rewrite.text(&arg, "")).collect(),
                    env: rewrite.env([environment, env.unwrap_or_default()]),
                    cwd: cwd
                        .map(|cwd| rewrite.text(&cwd.value, ""))
                        .or_else(|| dialect.folder.clone()),
                }
            }
            Means::Url(url, transport) => {
                let headers = rewrite.headers(headers.unwrap_or_default());
                BlockLaunch::Url { transport, headers, url: rewrite.text(&url.value, "") }
            }
            Means::Unsupported { .. } => return None,
        };
        let mut remarks = rewrite.remarks;
        remarks.extend(relative_paths(&launch));
        named_secrets(&mut launch, name, secrets);
        remarks.extend(plain_secrets(&launch));
        remarks.extend(moved_secrets(&mut launch, name, secrets));

        let off = disabled.is_some_and(|disabled| disabled.value)
            || enabled.is_some_and(|enabled| !enabled.value);
        let filters = filters(tool_filters, include, exclude);
        let number = |number: Located<u64>| CstInputValue::from(number.value);
        let boolean = |boolean: Located<bool>| CstInputValue::from(boolean.value);
        let call_timeout = call_timeout_ms.or(timeout_ms).map(number);
        let call_timeout = call_timeout.or(dialect.call_timeout.map(CstInputValue::from));
        let rest = [
            ("oauth", oauth.map(|oauth| category::written(oauth.written()))),
            ("description", description.map(|text| text.value.into())),
            ("namespace", namespace.map(|text| text.value.into())),
            ("showServer", show_server.map(boolean)),
            ("toolFilters", (!filters.is_empty()).then(|| filters.into())),
            ("resourceFilters", resource_filters.and_then(patterns)),
            ("promptFilters", prompt_filters.and_then(patterns)),
            ("overrides", overrides.map(|all| category::written(category::overrides(all)))),
            ("disabled", off.then(|| true.into())),
            ("startupTimeoutMs", startup_timeout_ms.map(number)),
            ("callTimeoutMs", call_timeout),
            ("totalCallTimeoutMs", total_call_timeout_ms.map(number)),
            ("idleTimeoutMs", idle_timeout_ms.map(number)),
            ("inheritEnv", inherit_env.map(boolean)),
            ("sandbox", sandbox.map(cells::sandbox)),
            ("container", container.map(cells::container)),
            ("shared", shared.map(boolean)),
            ("eager", eager.map(boolean)),
            ("isolation", isolation.map(|word| word.value.into())),
            ("definitions", definitions.map(|word| word.value.into())),
            ("protocol", protocol.map(|word| word.value.into())),
            ("roots", roots.map(boolean)),
            ("limits", limits.map(|rates| written(rates.members()))),
            ("cache", cache.map(|cache| written(cache.members()))),
        ];
        let rest = rest.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Some((Self { launch, rest: rest.collect() }, remarks))
    }

    /// The block as a value to be written.
    pub(super) fn into_value(self) -> CstInputValue {
        let object = |members: Vec<(String, String)>| {
            let members = members.into_iter().map(|(name, value)| (name, value.into()));
            CstInputValue::Object(members.collect())
        };
        let mut pairs: Vec<(String, CstInputValue)> = Vec::new();
        match self.launch {
            BlockLaunch::Command { command, args, env, cwd } => {
                pairs.push(("command".to_owned(), command.into()));
                if !args.is_empty() {
                    pairs.push(("args".to_owned(), args.into()));
                }
                if !env.is_empty() {
                    pairs.push(("env".to_owned(), object(env)));
                }
                if let Some(cwd) = cwd {
                    pairs.push(("cwd".to_owned(), cwd.into()));
                }
            }
            BlockLaunch::Url { url, transport, headers } => {
                if transport == HttpTransport::Sse {
                    pairs.push(("type".to_owned(), "sse".into()));
                }
                pairs.push(("url".to_owned(), url.into()));
                if !headers.is_empty() {
                    pairs.push(("headers".to_owned(), object(headers)));
                }
            }
        }
        let rest = self.rest.into_iter();
        pairs.extend(rest.map(|(key, value)| (key.to_owned(), value)));
        CstInputValue::Object(pairs)
    }
}

/// The longest command that is repeated, in bytes.
const MAX_COMMAND: usize = 200;

/// Writes placeholders of other clients as ours.
struct Rewrite<'a> {
    dialect: &'a Dialect,
    /// The server's name.
    server: &'a str,
    /// The variables that stand for commands.
    commands: Vec<String>,
    remarks: Vec<Remark>,
}

impl Rewrite<'_> {
    /// Puts variables in place of commands, which are never run here; `key` is what the value is
    /// called, if it is called anything.
    fn of_commands(&mut self, text: &str, key: &str) -> String {
        let (mut written, mut end) = (String::new(), 0);
        for place in commands::find(text) {
            let command = &text[place.clone()];
            let name = self.variable(key);
            let message = format!(
                "`{}` is a command, which is not run here; it is `${{{name}}}` now",
                shortened(command)
            );
            let hint = if command.len() > MAX_COMMAND || command.contains('\n') {
                format!("set `{name}` to what it prints before the start")
            } else {
                format!("run `export {name}=\"{command}\"` before the start")
            };
            self.remarks.push(Remark { grade: Grade::Manual, message, hint: Some(hint) });
            written.extend([&text[end..place.start], "${", &name, "}"]);
            end = place.end;
        }
        written.push_str(&text[end..]);
        written
    }

    /// Returns a name for another variable of this server.
    fn variable(&mut self, key: &str) -> String {
        let server = variable_name(self.server);
        let key = variable_name(if key.is_empty() { "value" } else { key });
        let name = if key.starts_with(&server) { key } else { format!("{server}_{key}") };
        let before = self.commands.iter().filter(|other| **other == name).count();
        self.commands.push(name.clone());
        if before == 0 { name } else { format!("{name}_{}", before + 1) }
    }

    /// Puts variables in place of what Continue keeps for its user.
    fn of_continue(&mut self, text: &str) -> String {
        let mut written = text.to_owned();
        for found in KEPT.captures_iter(text) {
            let name = variable_name(&found[1]);
            let message = format!("`{}` is kept by Continue; it is `${{{name}}}` now", &found[0]);
            let hint = Some(format!("run `export {name}=value` before the start"));
            self.remarks.push(Remark { grade: Grade::Manual, message, hint });
            written = written.replace(&found[0], &format!("${{{name}}}"));
        }
        written
    }

    /// The variable for what VS Code asks for, and what is to be said of it.
    fn input(&self, found: &str, name: String) -> (Option<String>, Option<(String, String)>) {
        let id = found.trim_start_matches("${input:").trim_end_matches('}');
        let input = self.dialect.inputs.iter().find(|input| input.id == id);
        if let Some(default) = input.and_then(|input| input.default.as_deref())
            && !default.contains(['}', '$'])
        {
            return (Some(format!("{name}:-{default}")), None);
        }
        let asked = input.and_then(|input| input.description.as_deref());
        let asked = asked.map_or("a value".to_owned(), |asked| format!("“{}”", shortened(asked)));
        let message = format!("`{found}` asked for {asked}; it is `${{{name}}}` now");
        let hint = format!("run `export {name}=value` before the start");
        (Some(name), Some((message, hint)))
    }

    /// The headers of a server over HTTP.
    fn headers(&mut self, headers: Entries<Located<String>>) -> Vec<(String, String)> {
        let headers = headers.0.into_iter().map(|(name, value)| {
            let value = self.text(&value.value, &name.value);
            (name.value, value)
        });
        headers.collect()
    }

    fn env(&mut self, sources: [Entries<String>; 2]) -> Vec<(String, String)> {
        let mut env: Vec<(String, String)> = Vec::new();
        for (name, value) in sources.into_iter().flat_map(|entries| entries.0) {
            env.retain(|(other, _)| *other != name.value);
            let value = self.text(&value, &name.value);
            env.push((name.value, value));
        }
        env
    }

    /// Writes a value as ours; `key` is what it is called, if it is called anything.
    fn text(&mut self, text: &str, key: &str) -> String {
        let runs_commands = self.dialect.runs_commands;
        let bare = runs_commands.then(|| self.of_commands(text, key));
        let text = bare.as_deref().unwrap_or(text);
        let mut written = self.of_continue(text);
        for placeholder in expand::foreign(text) {
            let found = placeholder.text;
            let (ours, remark) = match placeholder.meaning {
                Meaning::Variable(name) => (Some(name), None),
                Meaning::Home => (Some("HOME".to_owned()), None),
                Meaning::Input(name) => self.input(found, name),
                Meaning::Folder | Meaning::Nothing => {
                    let message = format!("`{found}` has no meaning here and is left as it is");
                    (None, Some((message, "write the value itself".to_owned())))
                }
            };
            if let Some(name) = ours {
                written = written.replace(found, &format!("${{{name}}}"));
            }
            if let Some((message, hint)) = remark {
                self.remarks.push(Remark { grade: Grade::Manual, message, hint: Some(hint) });
            }
        }
        if self.dialect.bare_variables {
            written = BARE.replace_all(&written, "$${${1}}").into_owned();
        }
        written
    }
}

/// A secret or an answer that Continue keeps: `${{ secrets.NAME }}`.
static KEPT: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\$\{\{\s*(?:secrets|inputs)\.([A-Za-z0-9_.-]+)\s*\}\}"));

static BARE: LazyLock<Regex> = LazyLock::new(|| compile(r"\$([A-Z_][A-Z0-9_]*)"));

/// Paths that started at another folder there.
fn relative_paths(launch: &BlockLaunch) -> Option<Remark> {
    let is_relative = |text: &&String| {
        matches!(text.as_str(), "." | "..") || text.starts_with("./") || text.starts_with("../")
    };
    let BlockLaunch::Command { command, args, cwd, .. } = launch else { return None };
    let words = args.iter().chain([command]).chain(cwd);
    let relative: Vec<&String> = words.filter(is_relative).collect();
    let folder_is_known = cwd.as_ref().is_some_and(|cwd| cwd.starts_with('/'));
    if relative.is_empty() || folder_is_known {
        return None;
    }
    Some(Remark {
        grade: Grade::Approximate,
        message: format!(
            "{} starts at the folder of the configuration now",
            listed(&relative, "and")
        ),
        hint: Some("write whole paths, or set `cwd`".to_owned()),
    })
}

/// Returns `true` if what is called so is likely to be secret.
fn is_secret_name(name: &str) -> bool {
    const MARKS: [&str; 6] = ["TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL", "AUTH"];
    let name = name.to_uppercase();
    MARKS.iter().any(|mark| name.contains(mark))
}

/// Values that look like secrets and stand in the file as they are.
fn plain_secrets(launch: &BlockLaunch) -> Option<Remark> {
    let (BlockLaunch::Command { env: named, .. } | BlockLaunch::Url { headers: named, .. }) =
        launch;
    let plain = named
        .iter()
        .filter(|(name, value)| !value.is_empty() && !value.contains("${") && is_secret_name(name));
    let plain: Vec<_> = plain.collect();
    let (first, value) = plain.first()?;
    let names: Vec<&str> = plain.iter().map(|(name, _)| name.as_str()).collect();
    let variable = variable_name(first);
    let scheme = value.split_once(' ').map_or("", |(scheme, _)| scheme);
    let is_scheme = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphabetic());
    let scheme = if is_scheme { format!("{scheme} ") } else { String::new() };
    Some(Remark {
        grade: Grade::Manual,
        message: format!("the file holds a plain secret in {}", listed(&names, "and")),
        hint: Some(format!(
            "write `\"{first}\": \"{scheme}${{{variable}}}\"` and set the variable"
        )),
    })
}

/// Puts variables in place of secrets in variables and headers, where somebody keeps them.
fn named_secrets(launch: &mut BlockLaunch, server: &str, secrets: &mut dyn HideSecrets) {
    match launch {
        BlockLaunch::Command { env, .. } => {
            for (name, value) in env {
                secrets.in_named(name, name, value);
            }
        }
        BlockLaunch::Url { headers, .. } => {
            for (name, value) in headers {
                secrets.in_named(&format!("{server}_{name}"), name, value);
            }
        }
    }
}

/// Puts variables in place of secrets in arguments and in the address: everybody on the machine can
/// read the arguments of a program.
fn moved_secrets(
    launch: &mut BlockLaunch,
    server: &str,
    secrets: &mut dyn HideSecrets,
) -> Option<Remark> {
    let (place, moved) = match launch {
        BlockLaunch::Command { args, .. } => ("arguments", secrets.in_arguments(server, args)),
        BlockLaunch::Url { url, .. } => ("address", secrets.in_address(server, url)),
    };
    let first = moved.first().filter(|_| !secrets.keeps_values())?;
    let (what, verb) = if moved.len() == 1 { ("a secret", "is") } else { ("secrets", "are") };
    let names: Vec<String> = moved.iter().map(|name| format!("${{{name}}}")).collect();
    Some(Remark {
        grade: Grade::Manual,
        message: format!("{what} in its {place} {verb} {} now", listed(&names, "and")),
        hint: Some(format!(
            "set each variable where the workbench is started, such as `export {first}=…` in your \
             shell's profile or `env` in your client's entry of the workbench; the values are in \
             the file that this is from"
        )),
    })
}
