//! Converts one server of another client to a native entry.

use std::sync::LazyLock;

use jsonc_parser::cst::CstInputValue;
use regex::Regex;
use serde_json::Value;
use url::{Host, Url};

use crate::authoring::import::confinement;
use crate::authoring::import::{Grade, SecretExtractor, commands, top_level};
use mcp_workbench_config::sections::client_keys::ClientKeys;
use mcp_workbench_config::sections::root::RawServer;
use mcp_workbench_config::sections::server::{TransportChoice, merge_tool_filters};
use mcp_workbench_config::syntax::document::truncate_for_message;
use mcp_workbench_config::syntax::objects::LocatedMap;
use mcp_workbench_config::syntax::reader::{Located, quoted_list};
use mcp_workbench_config::syntax::variables::{self, PlaceholderMeaning, compile, variable_name};
use mcp_workbench_settings::HttpTransport;

/// A server entry, ready to be written.
#[derive(Clone, Debug)]
pub(super) struct ImportedEntry {
    /// Entries with equal launches are the same server.
    pub(super) launch: LaunchIdentity,
    pub(super) needs: ClientNeeds,
    rest: Vec<(&'static str, CstInputValue)>,
}

/// The values of an entry that only its client has.
#[derive(Clone, Debug, Default)]
pub struct ClientNeeds {
    /// Why the entry works only in its client, such as a placeholder for the open folder.
    pub value: Option<String>,
    /// The first value that the client prompts for and that has become a variable.
    pub prompt: Option<String>,
}

/// The part of an entry that identifies the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LaunchIdentity {
    Command { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<String> },
    Url { url: String, transport: HttpTransport, headers: Vec<(String, String)> },
}

fn patterns(patterns: Vec<Located<String>>) -> Option<CstInputValue> {
    let patterns: Vec<String> = patterns.into_iter().map(|pattern| pattern.value).collect();
    (!patterns.is_empty()).then(|| patterns.into())
}

impl LaunchIdentity {
    /// Returns `true` if this starts the workbench, which must not be one of its own servers. Its
    /// `builtin` servers are allowed.
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

    /// Returns the program and its arguments, or the URL.
    pub(super) fn words(&self) -> Vec<String> {
        match self {
            Self::Command { command, args, .. } => {
                [command].into_iter().chain(args).cloned().collect()
            }
            Self::Url { url, .. } => vec![url.clone()],
        }
    }

    /// Returns `true` if both run the same program, on the same folders and addresses and in the
    /// same environment, with other options, such as a time zone.
    pub(super) fn differs_only_in_options(&self, other: &Self) -> bool {
        let setting = |launch: &Self| match launch {
            Self::Command { env, cwd, .. } => (env.clone(), cwd.clone()),
            Self::Url { .. } => (Vec::new(), None),
        };
        let (words, others) = (self.words(), other.words());
        let mut different = words.iter().filter(|word| !others.contains(word));
        let mut missing = others.iter().filter(|word| !words.contains(word));
        self != other
            && words.first() == others.first()
            && setting(self) == setting(other)
            && !different.any(|word| is_location(word))
            && !missing.any(|word| is_location(word))
    }

    /// Returns [`SignInDoubt`] for a remote server without any credentials in its entry.
    pub(super) fn may_need_sign_in(&self) -> Option<SignInDoubt> {
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
        (!is_here && !has_key).then_some(SignInDoubt::SignIn)
    }
}

/// Settings of the file and its client that affect how an entry is converted.
#[derive(Debug, Default)]
pub(super) struct ClientConventions {
    /// `true` if `$NAME` is a variable, like `${NAME}`.
    pub(super) bare_variables: bool,
    /// `true` if the client runs commands in values and uses their output.
    pub(super) runs_commands: bool,
    /// The project directory, used as the default `cwd`.
    pub(super) folder: Option<String>,
    pub(super) inputs: Vec<PromptInput>,
    /// Default call timeout in milliseconds.
    pub(super) call_timeout: Option<u64>,
}

/// A value that VS Code prompts its user for.
#[derive(Clone, Debug)]
pub(super) struct PromptInput {
    pub(super) id: String,
    pub(super) description: Option<String>,
    /// The default answer, unless the input is a secret.
    pub(super) default: Option<String>,
}

/// A doubt about a server that only a trial start can settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignInDoubt {
    /// The server may require the user to sign in.
    SignIn,
}

/// A finding about an entry, before its location is known.
#[derive(Debug)]
pub(super) struct EntryNote {
    pub(super) grade: Grade,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

fn number_object(members: [(&str, Option<u64>); 2]) -> CstInputValue {
    let members = members.into_iter();
    let members = members.filter_map(|(key, number)| Some((key.to_owned(), number?.into())));
    CstInputValue::Object(members.collect())
}

impl ImportedEntry {
    /// Converts an entry. Returns `None` if it has no command, or if its transport is unsupported.
    #[expect(clippy::too_many_lines, reason = "one line for each key")]
    pub(super) fn new(
        raw: RawServer,
        means: TransportChoice,
        dialect: &ClientConventions,
        (name, secrets): (&str, &mut dyn SecretExtractor),
    ) -> Option<(Self, Vec<EntryNote>)> {
        let RawServer {
            command: _,
            args,
            env,
            cwd,
            url: _,
            headers,
            oauth,
            auth,
            tool_filters,
            resource_filters,
            prompt_filters,
            extension_methods,
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
            direct,
            share_process,
            eager,
            isolation,
            on_definition_change,
            protocol,
            roots,
            limits,
            result_cache,
            client_keys: foreign,
        } = raw;
        let ClientKeys {
            enabled,
            transport_type: _,
            url: _,
            timeout_ms,
            environment,
            include,
            exclude,
        } = foreign;
        let mut rewrite = PlaceholderRewriter {
            dialect,
            server: name,
            commands: Vec::new(),
            remarks: Vec::new(),
            needs: ClientNeeds::default(),
        };
        let mut launch = match means {
            TransportChoice::Stdio(command) => {
                let mut command = command.value.into_iter();
                let program = command.next().filter(|program| !program.trim().is_empty())?;
                let args = command.chain(args.into_iter().flatten().map(|arg| arg.value));
                LaunchIdentity::Command {
                    command: rewrite.text(&program, ""),
                    args: args.map(|arg| rewrite.text(&arg, "")).collect(),
                    env: rewrite.env([environment, env.unwrap_or_default()]),
                    cwd: cwd
                        .map(|cwd| rewrite.text(&cwd.value, ""))
                        .or_else(|| dialect.folder.clone()),
                }
            }
            TransportChoice::Http(url, transport) => {
                let headers = rewrite.headers(headers.unwrap_or_default());
                LaunchIdentity::Url { transport, headers, url: rewrite.text(&url.value, "") }
            }
            TransportChoice::Unsupported { .. } => return None,
        };
        let (mut remarks, needs) = (rewrite.remarks, rewrite.needs);
        remarks.extend(relative_paths(&launch));
        named_secrets(&mut launch, name, secrets);
        remarks.extend(plain_secrets(&launch, name, secrets));
        remarks.extend(extract_secrets(&mut launch, name, secrets));

        let off = disabled.is_some_and(|disabled| disabled.value)
            || enabled.is_some_and(|enabled| !enabled.value);
        let filters = merge_tool_filters(tool_filters, include, exclude);
        let number = |number: Located<u64>| CstInputValue::from(number.value);
        let boolean = |boolean: Located<bool>| CstInputValue::from(boolean.value);
        let call_timeout = call_timeout_ms.or(timeout_ms).map(number);
        let call_timeout = call_timeout.or(dialect.call_timeout.map(CstInputValue::from));
        let rest = [
            ("oauth", oauth.map(|oauth| top_level::json_to_cst(oauth.into_json()))),
            ("auth", auth.map(|auth| top_level::json_to_cst(auth.value.into_json()))),
            ("description", description.map(|text| text.value.into())),
            ("namespace", namespace.map(|text| text.value.into())),
            ("showServer", show_server.map(boolean)),
            ("toolFilters", (!filters.is_empty()).then(|| filters.into())),
            ("resourceFilters", resource_filters.and_then(patterns)),
            ("promptFilters", prompt_filters.and_then(patterns)),
            ("extensionMethods", extension_methods.and_then(patterns)),
            ("overrides", overrides.map(|all| top_level::json_to_cst(top_level::overrides(all)))),
            ("disabled", off.then(|| true.into())),
            ("startupTimeoutMs", startup_timeout_ms.map(number)),
            ("callTimeoutMs", call_timeout),
            ("totalCallTimeoutMs", total_call_timeout_ms.map(number)),
            ("idleTimeoutMs", idle_timeout_ms.map(number)),
            ("inheritEnv", inherit_env.map(boolean)),
            ("sandbox", sandbox.map(confinement::sandbox)),
            ("container", container.map(confinement::container)),
            ("direct", direct.map(boolean)),
            ("shareProcess", share_process.map(boolean)),
            ("eager", eager.map(boolean)),
            ("isolation", isolation.map(|word| word.value.into())),
            ("onDefinitionChange", on_definition_change.map(|word| word.value.into())),
            ("protocol", protocol.map(|word| word.value.into())),
            ("roots", roots.map(boolean)),
            ("limits", limits.map(|rates| number_object(rates.members()))),
            ("resultCache", result_cache.map(|cache| number_object(cache.members()))),
        ];
        let rest = rest.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Some((Self { launch, needs, rest: rest.collect() }, remarks))
    }

    /// Adds a description, unless the entry has one.
    pub(super) fn describe(&mut self, text: &str) {
        if self.rest.iter().all(|(key, _)| *key != "description") {
            self.rest.push(("description", text.into()));
        }
    }

    pub(super) fn tool_filters(&self) -> Vec<String> {
        let own = self.rest.iter().find(|(key, _)| *key == "toolFilters");
        let own = own.map(|(_, value)| top_level::cst_to_json(value.clone()));
        let own = own.as_ref().and_then(Value::as_array).into_iter().flatten();
        own.filter_map(|filter| Some(filter.as_str()?.to_owned())).collect()
    }

    pub(super) fn set_tool_filters(&mut self, filters: Vec<String>) {
        self.rest.retain(|(key, _)| *key != "toolFilters");
        if !filters.is_empty() {
            self.rest.push(("toolFilters", filters.into()));
        }
    }

    /// Returns the keys that restrict this entry, but not `kept`, in the same way.
    pub(super) fn restrictions_lost_in(&self, kept: &Self) -> Vec<&'static str> {
        // The values can only be compared as text.
        let text = |entry: &Self, key: &str| {
            let mut members = entry.rest.iter();
            members.find(|(other, _)| *other == key).map(|(_, value)| format!("{value:?}"))
        };
        let restricting = |key: &str| key.ends_with("Filters") || key == "disabled";
        let keys = self.rest.iter().map(|(key, _)| *key).filter(|key| restricting(key));
        keys.filter(|key| text(self, key) != text(kept, key)).collect()
    }

    pub(super) fn into_value(self) -> CstInputValue {
        let object = |members: Vec<(String, String)>| {
            let members = members.into_iter().map(|(name, value)| (name, value.into()));
            CstInputValue::Object(members.collect())
        };
        let mut pairs: Vec<(String, CstInputValue)> = Vec::new();
        match self.launch {
            LaunchIdentity::Command { command, args, env, cwd } => {
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
            LaunchIdentity::Url { url, transport, headers } => {
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

/// Maximum length of a command repeated in a hint, in bytes.
const MAX_COMMAND: usize = 200;

/// Rewrites the placeholders of other clients as `${NAME}`.
struct PlaceholderRewriter<'a> {
    dialect: &'a ClientConventions,
    server: &'a str,
    commands: Vec<String>,
    remarks: Vec<EntryNote>,
    needs: ClientNeeds,
}

impl PlaceholderRewriter<'_> {
    /// Replaces commands in `text` with variables, because the workbench never runs them. `key` is
    /// the name of the variable or header, or empty.
    fn replace_commands(&mut self, text: &str, key: &str) -> String {
        let (mut written, mut end) = (String::new(), 0);
        for place in commands::find(text) {
            let command = &text[place.clone()];
            let name = self.variable(key);
            let message = format!(
                "command `{}` is not supported; replaced by `${{{name}}}`",
                truncate_for_message(command)
            );
            let hint = if command.len() > MAX_COMMAND || command.contains('\n') {
                format!("set `{name}` to its output before starting the workbench")
            } else {
                format!("run `export {name}=\"{command}\"` before starting the workbench")
            };
            self.remarks.push(EntryNote { grade: Grade::Manual, message, hint: Some(hint) });
            written.extend([&text[end..place.start], "${", &name, "}"]);
            end = place.end;
        }
        written.push_str(&text[end..]);
        written
    }

    /// Returns a variable name that is unique in this server's entry.
    fn variable(&mut self, key: &str) -> String {
        let server = variable_name(self.server);
        let key = variable_name(if key.is_empty() { "value" } else { key });
        let name = if key.starts_with(&server) { key } else { format!("{server}_{key}") };
        let before = self.commands.iter().filter(|other| **other == name).count();
        self.commands.push(name.clone());
        if before == 0 { name } else { format!("{name}_{}", before + 1) }
    }

    /// Replaces references to secrets and inputs that Continue stores.
    fn replace_continue_secrets(&mut self, text: &str) -> String {
        let mut written = text.to_owned();
        for found in KEPT.captures_iter(text) {
            let name = variable_name(&found[1]);
            let message =
                format!("`{}` is stored by Continue; replaced by `${{{name}}}`", &found[0]);
            let hint = Some(format!("set `{name}` before starting the workbench"));
            self.remarks.push(EntryNote { grade: Grade::Manual, message, hint });
            written = written.replace(&found[0], &format!("${{{name}}}"));
        }
        written
    }

    /// Returns the replacement for a VS Code input, and a message with a hint unless it has a
    /// default.
    fn input(&self, found: &str, name: String) -> (Option<String>, Option<(String, String)>) {
        let id = found.trim_start_matches("${input:").trim_end_matches('}');
        let input = self.dialect.inputs.iter().find(|input| input.id == id);
        if let Some(default) = input.and_then(|input| input.default.as_deref())
            && !default.contains(['}', '$'])
        {
            return (Some(format!("{name}:-{default}")), None);
        }
        let asked = input.and_then(|input| input.description.as_deref());
        let asked = asked
            .map_or("a value".to_owned(), |asked| format!("“{}”", truncate_for_message(asked)));
        let message = format!("`{found}` prompts for {asked}; replaced by `${{{name}}}`");
        let hint = format!("set `{name}` before starting the workbench");
        (Some(name), Some((message, hint)))
    }

    fn headers(&mut self, headers: LocatedMap<Located<String>>) -> Vec<(String, String)> {
        let headers = headers.0.into_iter().map(|(name, value)| {
            let value = self.text(&value.value, &name.value);
            (name.value, value)
        });
        headers.collect()
    }

    fn env(&mut self, sources: [LocatedMap<String>; 2]) -> Vec<(String, String)> {
        let mut env: Vec<(String, String)> = Vec::new();
        for (name, value) in sources.into_iter().flat_map(|entries| entries.0) {
            env.retain(|(other, _)| *other != name.value);
            let value = self.text(&value, &name.value);
            env.push((name.value, value));
        }
        env
    }

    /// Rewrites all placeholders in `text`. `key` is the name of the variable or header, or empty.
    fn text(&mut self, text: &str, key: &str) -> String {
        let runs_commands = self.dialect.runs_commands;
        let bare = runs_commands.then(|| self.replace_commands(text, key));
        let text = bare.as_deref().unwrap_or(text);
        let mut written = self.replace_continue_secrets(text);
        for placeholder in variables::find_foreign_placeholders(text) {
            let found = placeholder.text;
            let (ours, remark) = match placeholder.meaning {
                PlaceholderMeaning::Variable(name) => (Some(name), None),
                PlaceholderMeaning::Home => (Some("HOME".to_owned()), None),
                PlaceholderMeaning::PromptedInput(name) => {
                    let (ours, remark) = self.input(found, name);
                    if remark.is_some() {
                        let id = found.trim_start_matches("${input:").trim_end_matches('}');
                        self.needs.prompt.get_or_insert_with(|| id.to_owned());
                    }
                    (ours, remark)
                }
                meaning @ (PlaceholderMeaning::Folder | PlaceholderMeaning::Unknown) => {
                    let reason = if meaning == PlaceholderMeaning::Folder {
                        "depends on the folder that is open in the client".to_owned()
                    } else {
                        format!("contains `{found}`, which only the client can replace")
                    };
                    self.needs.value.get_or_insert(reason);
                    let message = format!("`{found}` is not supported and left unchanged");
                    (None, Some((message, "write the value itself".to_owned())))
                }
            };
            if let Some(name) = ours {
                written = written.replace(found, &format!("${{{name}}}"));
            }
            if let Some((message, hint)) = remark {
                self.remarks.push(EntryNote { grade: Grade::Manual, message, hint: Some(hint) });
            }
        }
        if self.dialect.bare_variables {
            written = BARE.replace_all(&written, "$${${1}}").into_owned();
        }
        written
    }
}

/// A secret or input stored by Continue: `${{ secrets.NAME }}`.
static KEPT: LazyLock<Regex> =
    LazyLock::new(|| compile(r"\$\{\{\s*(?:secrets|inputs)\.([A-Za-z0-9_.-]+)\s*\}\}"));

static BARE: LazyLock<Regex> = LazyLock::new(|| compile(r"\$([A-Z_][A-Z0-9_]*)"));

/// Warns about relative paths, which now start at the directory of the configuration.
fn relative_paths(launch: &LaunchIdentity) -> Option<EntryNote> {
    let is_relative = |text: &&String| {
        matches!(text.as_str(), "." | "..") || text.starts_with("./") || text.starts_with("../")
    };
    let LaunchIdentity::Command { command, args, cwd, .. } = launch else { return None };
    let words = args.iter().chain([command]).chain(cwd);
    let relative: Vec<&String> = words.filter(is_relative).collect();
    let folder_is_known = cwd.as_ref().is_some_and(|cwd| cwd.starts_with('/'));
    if relative.is_empty() || folder_is_known {
        return None;
    }
    Some(EntryNote {
        grade: Grade::Approximate,
        message: format!(
            "{} is now relative to the folder of the configuration",
            quoted_list(&relative, "and")
        ),
        hint: Some("use absolute paths, or set `cwd`".to_owned()),
    })
}

/// Returns `true` for a path or a URL: what a server works on, rather than how.
pub(super) fn is_location(word: &str) -> bool {
    let value =
        word.rsplit_once('=').filter(|_| word.starts_with('-')).map_or(word, |(_, value)| value);
    let is_drive = value.get(1..3).is_some_and(|mark| mark == ":\\" || mark == ":/");
    value.starts_with(['/', '~', '.', '$']) || value.contains("://") || is_drive
}

fn is_secret_name(name: &str) -> bool {
    const MARKS: [&str; 6] = ["TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL", "AUTH"];
    let name = name.to_uppercase();
    MARKS.iter().any(|mark| name.contains(mark))
}

/// Warns about values in plain text that are probably secrets.
fn plain_secrets(
    launch: &LaunchIdentity,
    server: &str,
    secrets: &mut dyn SecretExtractor,
) -> Option<EntryNote> {
    let (LaunchIdentity::Command { env: named, .. } | LaunchIdentity::Url { headers: named, .. }) =
        launch;
    let plain = named
        .iter()
        .filter(|(name, value)| !value.is_empty() && !value.contains("${") && is_secret_name(name));
    let plain: Vec<_> = plain.collect();
    let (first, value) = plain.first()?;
    let names: Vec<&str> = plain.iter().map(|(name, _)| name.as_str()).collect();
    let (short, long) = (variable_name(first), variable_name(&format!("{server}_{first}")));
    let wanted = match launch {
        LaunchIdentity::Command { .. } => [short, long],
        // Many servers have a header of the same name.
        LaunchIdentity::Url { .. } => [long.clone(), long],
    };
    let variable = secrets.propose_variable(wanted, value);
    let scheme = value.split_once(' ').map_or("", |(scheme, _)| scheme);
    let is_scheme = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphabetic());
    let scheme = if is_scheme { format!("{scheme} ") } else { String::new() };
    Some(EntryNote {
        grade: Grade::Manual,
        message: format!("secret in plain text: {}", quoted_list(&names, "and")),
        hint: Some(format!(
            "write `\"{first}\": \"{scheme}${{{variable}}}\"` and set the variable"
        )),
    })
}

fn named_secrets(launch: &mut LaunchIdentity, server: &str, secrets: &mut dyn SecretExtractor) {
    match launch {
        LaunchIdentity::Command { env, .. } => {
            for (name, value) in env {
                secrets.extract_named(name, name, value);
            }
        }
        LaunchIdentity::Url { headers, .. } => {
            for (name, value) in headers {
                secrets.extract_named(&format!("{server}_{name}"), name, value);
            }
        }
    }
}

/// Extracts secrets from arguments and the URL. Arguments are visible to every user of the machine
/// in the process list.
fn extract_secrets(
    launch: &mut LaunchIdentity,
    server: &str,
    secrets: &mut dyn SecretExtractor,
) -> Option<EntryNote> {
    let (place, moved) = match launch {
        LaunchIdentity::Command { args, .. } => {
            ("arguments", secrets.extract_from_args(server, args))
        }
        LaunchIdentity::Url { url, .. } => ("URL", secrets.extract_from_url(server, url)),
    };
    let first = moved.first().filter(|_| !secrets.stores_values())?;
    let what = if moved.len() == 1 { "a secret" } else { "secrets" };
    let names: Vec<String> = moved.iter().map(|name| format!("${{{name}}}")).collect();
    Some(EntryNote {
        grade: Grade::Manual,
        message: format!("{what} in its {place} replaced by {}", quoted_list(&names, "and")),
        hint: Some(format!(
            "set each variable for the workbench, such as `export {first}=…` in your shell \
             profile or `env` in your client's workbench entry; the values are in the imported file"
        )),
    })
}
