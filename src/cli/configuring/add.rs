//! `add`: adds a server to the configuration.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use url::Url;

use crate::authoring::edit::{
    AddOutcome, ConfigText, NewServer, add_server, command_entry, url_entry,
};
use crate::authoring::import::{CandidateServer, NoExtraction, collect_candidates};
use crate::cli::args::{GlobalArgs, completion};
use crate::cli::files::config_edit::{self, EditTarget};
use crate::cli::files::pasted;
use crate::cli::output::{CommandError, print};
use crate::cli::servers::running_workbenches::reload_running;
use mcp_workbench_core::telemetry::{is_secret_variable, url_password};

mod trial;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench add time -- uvx mcp-server-time
  mcp-workbench add files --toolbox code -- npx -y \\
      @modelcontextprotocol/server-filesystem .
  mcp-workbench add github --env 'TOKEN=${GITHUB_TOKEN}' -- github-mcp stdio
  mcp-workbench add docs https://example.com/mcp \\
      --header 'Authorization: Bearer ${DOCS_TOKEN}'
  mcp-workbench add '{\"mcpServers\": {\"time\": {\"command\": \"uvx\",
      \"args\": [\"mcp-server-time\"]}}}'";

/// Add a server to the configuration
///
/// Edits the active configuration, or the file of `--config`; creates `./workbench-config.json` if
/// there is none. Everything else in the file stays as it is, including comments. Without
/// `--toolbox`, the server gets a toolbox of its own.
///
/// Starts the server once, shows its tools, and describes a new toolbox by them. A server that fails
/// to start is added nevertheless. Accepts entries in JSON as READMEs show them.
///
/// Running workbenches apply the change, unless the file has other changes that wait for
/// `mcp-workbench reload`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct Args {
    /// Server name, or pasted JSON with names
    name: String,
    /// URL of a remote server, or its pasted JSON entry; `-` reads it from stdin
    #[arg(value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Command line that starts the server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    entry: EntryArgs,
    /// Edit ~/.config/mcp-workbench/config.json
    #[arg(long, conflicts_with = "config")]
    user: bool,
    /// Do not start the server
    #[arg(long)]
    no_start: bool,
    /// Show the change as a diff; write and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct ToolboxArgs {
    /// Toolbox of the server (created if missing)
    #[arg(long, short, value_name = "NAME", add = ArgValueCandidates::new(completion::toolboxes))]
    toolbox: Option<String>,
    /// Description of a new toolbox
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct EntryArgs {
    /// Environment variable (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parse_env, requires = "command")]
    env: Vec<(String, String)>,
    /// HTTP header for every request (repeatable)
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = parse_header, requires = "url")]
    header: Vec<(String, String)>,
}

#[derive(Serialize)]
struct AddReport<'a> {
    file: &'a Path,
    written: bool,
    added: Vec<AddedServer<'a>>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct AddedServer<'a> {
    toolbox: &'a str,
    server: &'a str,
    /// `None` if the server wasn't started.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let target = EditTarget::find(global, args.user)?;
    let before = target.text.as_deref().unwrap_or("{\n}\n");
    let mut servers = servers(args)?;
    if is_blank(before) {
        // In a file of its own, a described server would count as one of Modular MCP.
        for server in &mut servers {
            let name = server.name.clone();
            server.toolbox.get_or_insert(name);
        }
    }
    let mut after = edited(&servers, &target, before)?;
    let has_options = !args.entry.env.is_empty() || !args.entry.header.is_empty();
    let mut warnings = secret_warnings(&servers, has_options);
    let mut trials = Vec::new();
    if !args.dry_run && !args.no_start {
        trials = trial::run(global, &after.text, &target, &servers)?;
        for (server, trial) in servers.iter_mut().zip(&trials) {
            trial.describe(server, args.toolbox.description.as_deref());
        }
        after = edited(&servers, &target, before)?;
    } else if after.is_new_toolbox && args.toolbox.description.is_none() {
        let names: Vec<&str> = servers.iter().filter_map(|s| s.toolbox.as_deref()).collect();
        warnings.push(format!(
            "toolbox `{}` has a generated description; set one with `--description` or edit the \
             file",
            args.toolbox.toolbox.as_deref().unwrap_or(&names.join("`, `"))
        ));
    }
    if !args.dry_run {
        if let Some(folder) = target.location.path.parent() {
            fs::create_dir_all(folder).map_err(|error| target.unwritable(&error))?;
        }
        target.write(&after.text)?;
    }
    let reloaded = if args.dry_run { None } else { reload_running(global, &target.location.path) };
    let shown = &target.location.display_path;
    if args.json {
        let added = servers.iter().enumerate().map(|(index, server)| {
            let trial = trials.get(index);
            AddedServer {
                toolbox: server.toolbox.as_deref().unwrap_or(&server.name),
                server: &server.name,
                tools: trial.map(|trial| trial.tools.iter().map(|tool| &*tool.name).collect()),
                failure: trial.and_then(|trial| trial.failure.as_deref()),
            }
        });
        print::json(&AddReport {
            file: shown,
            written: !args.dry_run,
            added: added.collect(),
            warnings: &warnings,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        config_edit::print_diff(shown, before, &after.text)?;
    } else {
        let mut lines = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            let (name, toolbox) = (&server.name, server.toolbox.as_deref().unwrap_or(&server.name));
            lines.push(format!("added `{name}` to toolbox `{toolbox}` in `{}`", shown.display()));
            lines.extend(trials.get(index).map(ToString::to_string));
        }
        if trials.is_empty() {
            lines.push("\nhint: run `mcp-workbench check --connect` to test it".to_owned());
        }
        lines.extend(reloaded);
        print::prose(&lines.join("\n"))?;
    }
    for warning in warnings {
        print::note(&format!("warning: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the servers from the command line or from pasted JSON.
fn servers(args: &Args) -> Result<Vec<NewServer>, CommandError> {
    let new = |name: String, entry: serde_json::Value| NewServer {
        toolbox: args.toolbox.toolbox.clone(),
        description: Some(args.toolbox.description.clone().unwrap_or_else(|| {
            format!("Tools of {}", args.toolbox.toolbox.as_deref().unwrap_or(&name))
        })),
        name,
        entry,
    };
    let name = args.name.trim();
    let (text, name) = match &args.url {
        Some(url) if pasted::is_pasted(url) => (Some(url.as_str()), Some(name)),
        _ if args.command.is_empty() && args.url.is_none() && pasted::is_pasted(name) => {
            (Some(name), None)
        }
        _ => (None, Some(name)),
    };
    if name.is_some_and(str::is_empty) {
        return Err(CommandError::usage("the server name is empty"));
    }
    if name.is_some_and(|name| name.chars().any(char::is_control)) {
        let problem = "a server name must not contain control characters, such as line breaks";
        return Err(CommandError::usage(problem));
    }
    let Some(text) = text else {
        return Ok(vec![new(args.name.trim().to_owned(), entry(args)?)]);
    };
    if !args.entry.header.is_empty() {
        return Err(CommandError::usage("`--header` doesn't apply to a pasted entry")
            .with_hint("put `headers` into the entry"));
    }
    let file = pasted::as_file(&pasted::read(text)?, name)?;
    let found = collect_candidates(None, &[file], &mut NoExtraction);
    let found = found.map_err(CommandError::invalid_config)?;
    match (found.servers(), name) {
        ([], _) => Err(CommandError::usage("the pasted text has no server")
            .with_hint("paste an entry with a `command` or a `url`")),
        ([_, _, ..], Some(_)) => Err(CommandError::usage("the pasted text has several servers")
            .with_hint("leave out the name to add all of them")),
        (all, name) => {
            let of = |server: &CandidateServer| {
                let name = name.unwrap_or(&server.name).to_owned();
                new(name, serde_json::Value::Object(server.block.clone()))
            };
            Ok(all.iter().map(of).collect())
        }
    }
}

/// Adds all servers to the text.
fn edited(
    servers: &[NewServer],
    target: &EditTarget,
    before: &str,
) -> Result<AddOutcome, CommandError> {
    let mut after = AddOutcome { text: before.to_owned(), is_new_toolbox: false };
    for new in servers {
        let source = ConfigText { file: &target.location.path, text: &after.text };
        let added =
            add_server(source, new).map_err(|error| config_edit::edit_error(error, target))?;
        let is_new_toolbox = after.is_new_toolbox || added.is_new_toolbox;
        after = AddOutcome { is_new_toolbox, ..added };
    }
    target.check(&after.text, before)?;
    Ok(after)
}

fn entry(args: &Args) -> Result<serde_json::Value, CommandError> {
    if let Some(url) = &args.url {
        let is_http = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !is_http && !url.contains("${") {
            return Err(CommandError::usage(format!("expected an HTTP URL, found `{url}`"))
                .with_hint(format!(
                    "put a command after `--`: `mcp-workbench add {} -- {url}`",
                    args.name.trim()
                )));
        }
        return Ok(url_entry(url, &args.entry.header));
    }
    if args.command.first().is_none_or(|program| program.trim().is_empty()) {
        let name = args.name.trim();
        if Url::parse(name).is_ok_and(|url| url.has_host()) {
            return Err(CommandError::usage("missing server name").with_hint(format!(
                "run `mcp-workbench add {} {name}`, or choose another name",
                name_for(name)
            )));
        }
        return Err(CommandError::usage("missing server command or URL").with_hint(format!(
            "run `mcp-workbench add {name} -- COMMAND [ARGS]` or `mcp-workbench add {name} URL`"
        )));
    }
    Ok(command_entry(&args.command, &args.entry.env))
}

/// Returns a server name from the host of a URL: `context7` for `https://mcp.context7.com/mcp`.
fn name_for(url: &str) -> String {
    const GENERIC: [&str; 5] = ["mcp", "api", "www", "app", "server"];
    let url = Url::parse(url).ok();
    let Some(host) = url.as_ref().and_then(Url::domain) else { return "NAME".to_owned() };
    let labels: Vec<&str> = host.split('.').collect();
    let without_ending = labels.get(..labels.len().saturating_sub(1)).unwrap_or_default();
    // A short label before the ending belongs to it, as in `co.uk`.
    let is_own = |label: &&&str| label.len() > 3 && !GENERIC.contains(label);
    let mut own = without_ending.iter().rev();
    let named = own.find(is_own).or(without_ending.last()).or(labels.first());
    named.map_or_else(|| "NAME".to_owned(), |label| (*label).to_owned())
}

/// Returns `true` for the text of an empty object.
fn is_blank(text: &str) -> bool {
    text.chars().filter(|c| !c.is_whitespace()).eq("{}".chars())
}

/// Warns about values that look like secrets. With `has_options`, advises the options that replace
/// them.
fn secret_warnings(servers: &[NewServer], has_options: bool) -> Vec<String> {
    let advice = |what: &str, instead: &str| {
        format!(
            "{what} looks like a secret and is stored in plain text; to read it from a variable, \
             use {instead}"
        )
    };
    let mut warnings = Vec::new();
    for server in servers {
        let plain = |key: &str| {
            let members = server.entry.get(key).and_then(serde_json::Value::as_object);
            let texts = members.into_iter().flatten();
            let texts = texts.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
            texts.filter(|(_, value)| !value.trim().is_empty() && !value.contains("${"))
        };
        for (name, value) in plain("env") {
            if is_secret_variable(name) || !url_password(value).is_empty() {
                let instead = if has_options {
                    format!("`--env '{name}=${{{name}}}'`")
                } else {
                    format!("`${{{name}}}`")
                };
                warnings.push(advice(&format!("`{name}`"), &instead));
            }
        }
        for (name, value) in plain("headers") {
            if is_secret_variable(&name.replace('-', "_")) {
                let scheme =
                    value.split_once(' ').map_or(String::new(), |(word, _)| format!("{word} "));
                let instead = if has_options {
                    format!("`--header '{name}: {scheme}${{TOKEN}}'`")
                } else {
                    format!("`{scheme}${{TOKEN}}`")
                };
                warnings.push(advice(&format!("`{name}`"), &instead));
            }
        }
        let url = server.entry.get("url").and_then(serde_json::Value::as_str).unwrap_or_default();
        if Url::parse(url).is_ok_and(|url| url.password().is_some()) {
            warnings.push(advice("the password in the URL", "`${PASSWORD}`"));
        }
    }
    warnings
}

fn parse_env(text: &str) -> Result<(String, String), String> {
    pair(text, '=').ok_or_else(|| "expected NAME=VALUE".to_owned())
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = pair(text, ':').ok_or("expected NAME: VALUE")?;
    Ok((name, value.trim().to_owned()))
}

fn pair(text: &str, between: char) -> Option<(String, String)> {
    let (name, value) = text.split_once(between)?;
    let name = name.trim();
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_comes_from_the_host() {
        for (url, name) in [
            ("https://example.com/mcp", "example"),
            ("https://mcp.context7.com/mcp", "context7"),
            ("https://mcp.example.co.uk", "example"),
            ("https://mcp.x.io/sse", "x"),
            ("http://localhost:3000/mcp", "localhost"),
            ("http://127.0.0.1:3000/mcp", "NAME"),
        ] {
            assert_eq!(name_for(url), name, "{url}");
        }
    }
}
