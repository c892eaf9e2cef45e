//! `add`: adds a server to the configuration.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use url::Url;

use crate::authoring::edit::{ConfigText, NewServer, add_server, command_entry, url_entry};
use crate::cli::config_edit::{self, EditTarget};
use crate::cli::error::CommandError;
use crate::cli::{GlobalArgs, completion, print};
use crate::telemetry::{is_secret_variable, url_password};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench add time -- uvx mcp-server-time
  mcp-workbench add files --toolbox code -- npx -y \\
      @modelcontextprotocol/server-filesystem .
  mcp-workbench add github --env 'TOKEN=${GITHUB_TOKEN}' -- github-mcp stdio
  mcp-workbench add docs https://example.com/mcp \\
      --header 'Authorization: Bearer ${DOCS_TOKEN}'";

/// Add a server to the configuration
///
/// Edits the active configuration, or the file of `--config`; creates `./workbench-config.json` if
/// there is none. Everything else in the file stays as it is, including comments. Without
/// `--toolbox`, the server gets a toolbox of its own.
///
/// Run `mcp-workbench reload` to apply the change to running workbenches.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Server name
    name: String,
    /// URL of a remote server
    #[arg(value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Command line that starts the server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Toolbox of the server (created if missing)
    #[arg(long, short, value_name = "NAME", add = ArgValueCandidates::new(completion::toolboxes))]
    toolbox: Option<String>,
    /// Description of a new toolbox
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Environment variable (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parse_env, requires = "command")]
    env: Vec<(String, String)>,
    /// HTTP header for every request (repeatable)
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = parse_header, requires = "url")]
    header: Vec<(String, String)>,
    /// Edit ~/.config/mcp-workbench/config.json
    #[arg(long, conflicts_with = "config")]
    user: bool,
    /// Show the change as a diff, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct AddReport<'a> {
    file: &'a Path,
    toolbox: &'a str,
    server: &'a str,
    written: bool,
    warnings: &'a [String],
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let name = args.name.trim();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(CommandError::usage("the server name is empty"));
    }
    let target = EditTarget::find(global, args.user)?;
    let before = target.text.as_deref().unwrap_or("{\n}\n");
    let new = NewServer {
        name: name.to_owned(),
        toolbox: args.toolbox.clone(),
        description: Some(description(args)),
        entry: entry(args)?,
    };
    let source = ConfigText { file: &target.location.path, text: before };
    let added =
        add_server(source, &new).map_err(|error| config_edit::edit_error(error, &target))?;
    target.check(&added.text, before)?;
    let mut warnings = secret_warnings(args);
    if added.is_new_toolbox && args.description.is_none() {
        warnings.push(format!(
            "toolbox `{}` has a generated description; set one with `--description` or edit the \
             file",
            args.toolbox.as_deref().unwrap_or_default()
        ));
    }
    if !args.dry_run {
        if let Some(folder) = target.location.path.parent() {
            fs::create_dir_all(folder).map_err(|error| target.unwritable(&error))?;
        }
        target.write(&added.text)?;
    }
    let toolbox = args.toolbox.as_deref().unwrap_or(name);
    let shown = &target.location.display_path;
    if args.json {
        let written = !args.dry_run;
        let report = AddReport { file: shown, toolbox, server: name, written, warnings: &warnings };
        print::json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        print::text_unredacted(&config_edit::unified_diff(shown, before, &added.text))?;
    } else {
        print::prose(&format!(
            "added `{name}` to toolbox `{toolbox}` in `{}`\n\nhint: run `mcp-workbench check \
             --connect` to test it",
            shown.display()
        ))?;
    }
    for warning in warnings {
        print::note(&format!("warning: {warning}"));
    }
    Ok(ExitCode::SUCCESS)
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
        return Ok(url_entry(url, &args.header));
    }
    if args.command.first().is_none_or(|program| program.trim().is_empty()) {
        let name = args.name.trim();
        return Err(CommandError::usage("missing server command or URL").with_hint(format!(
            "run `mcp-workbench add {name} -- COMMAND [ARGS]` or `mcp-workbench add {name} URL`"
        )));
    }
    Ok(command_entry(&args.command, &args.env))
}

fn description(args: &Args) -> String {
    let generated = || format!("Tools of {}", args.toolbox.as_deref().unwrap_or_default());
    args.description.clone().unwrap_or_else(generated)
}

fn secret_warnings(args: &Args) -> Vec<String> {
    let is_plain = |value: &str| !value.trim().is_empty() && !value.contains("${");
    let advice = |what: &str, instead: &str| {
        format!(
            "{what} looks like a secret and is stored in plain text; to read it from a variable, \
             use {instead}"
        )
    };
    let mut warnings = Vec::new();
    for (name, value) in &args.env {
        if (is_secret_variable(name) || !url_password(value).is_empty()) && is_plain(value) {
            let instead = format!("`--env '{name}=${{{name}}}'`");
            warnings.push(advice(&format!("`{name}`"), &instead));
        }
    }
    for (name, value) in &args.header {
        if is_secret_variable(&name.replace('-', "_")) && is_plain(value) {
            let scheme =
                value.split_once(' ').map_or(String::new(), |(word, _)| format!("{word} "));
            let instead = format!("`--header '{name}: {scheme}${{TOKEN}}'`");
            warnings.push(advice(&format!("`{name}`"), &instead));
        }
    }
    if let Some(url) = &args.url
        && Url::parse(url).is_ok_and(|url| url.password().is_some())
    {
        warnings.push(advice("the password in the URL", "`${PASSWORD}`"));
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
