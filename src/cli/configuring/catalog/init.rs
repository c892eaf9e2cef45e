//! `catalog init`: generates a catalog folder from the configured servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::authoring::import::{NativeEntries, SourceFile};
use crate::cli::args::GlobalArgs;
use crate::cli::configuring::catalog::draft::CatalogDraft;
use crate::cli::gateways::{with_gateway, without_policy};
use crate::cli::output::{CommandError, format_count, print, quoted};
use crate::cli::runtime::{EMBEDDED_CONFIG, current_folder};
use mcp_workbench_config::LoadedConfig;
use mcp_workbench_os::read_input_text;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench catalog init catalog
  mcp-workbench catalog check catalog
  mcp-workbench --config catalog         Serve it in navigate mode";

/// Generate a catalog folder from the configured servers
///
/// Starts every server and writes its tools: a category per toolbox, a service per server, a file per
/// tool. `_config.yaml` gets the servers and settings of the configuration, except for the mode.
/// Variables are preserved, and values that look like secrets become variables. A server that fails
/// to start is left out and reported.
///
/// Exits with 0 if all servers are included, and with 1 if one failed to start.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder to create
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Overwrite files in a non-empty folder
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let loaded = global.load_for_start()?;
    if loaded.config.navigator.catalog.is_some() {
        let message = format!("`{}` already has a catalog", loaded.file);
        return Err(CommandError::usage(message)
            .with_hint("choose a configuration without a catalog with `--config FILE`"));
    }
    let shown = args.folder.display();
    let is_taken = match fs::read_dir(&args.folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => args.folder.exists(),
    };
    if is_taken && !args.force {
        let error = CommandError::failed(format!("`{shown}` already exists and is not empty"));
        return Err(
            error.with_hint("choose another folder, or use `--force` to write into this one")
        );
    }
    let source = (!global.embedded_config).then(|| global.config_file()).transpose()?;
    let launches = launches(source.as_deref(), &loaded)?;
    let mut config = without_policy(loaded.config);
    // The catalog records the servers' own definitions, so overrides are dropped, except those that
    // disable a tool.
    for server in config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        server.overrides.retain(|_, over| over.enabled == Some(false));
        for over in server.overrides.values_mut() {
            over.name = None;
        }
    }
    let base = base(source.as_deref())?;
    let (draft, failures) = with_gateway(global, config, async |gateway| {
        CatalogDraft::collect(gateway, &launches, &base).await
    })?;
    if draft.tools == 0 {
        let remarks = draft.remarks.iter().chain(&failures);
        let remarks: Vec<_> = remarks.map(String::as_str).collect();
        let error = CommandError::failed(format!("`{shown}` was not written: no tools to write"));
        return Err(error.with_cause(&remarks.join("\n")));
    }
    draft.write(&args.folder, source.as_deref())?;
    let mut sections = vec![format!(
        "wrote `{shown}`: {}, {}, {}",
        format_count(draft.categories, "category"),
        format_count(draft.services, "service"),
        format_count(draft.tools, "tool"),
    )];
    if draft.variables.names().len() > 0 {
        let names = quoted(draft.variables.names(), ", ");
        sections.push(format!(
            "set {names} before you start the workbench: these variables replace secrets of the \
             configuration"
        ));
    }
    sections.extend(draft.remarks.iter().map(|remark| format!("warning: {remark}")));
    let has_failed = !failures.is_empty();
    sections.extend(failures);
    sections.push(format!("hint: run `mcp-workbench catalog check {shown}` to validate it"));
    print::prose(&sections.join("\n\n"))?;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn launches(source: Option<&Path>, loaded: &LoadedConfig) -> Result<NativeEntries, CommandError> {
    let (file, text) = match source {
        Some(path) => (loaded.file.clone(), read_input_text(path).map_err(CommandError::internal)?),
        None => ("embedded.json".to_owned(), EMBEDDED_CONFIG.to_owned()),
    };
    Ok(NativeEntries::read(&SourceFile { file, text }))
}

fn base(source: Option<&Path>) -> Result<PathBuf, CommandError> {
    match source {
        Some(file) => Ok(file.parent().unwrap_or(Path::new("/")).to_owned()),
        None => current_folder(),
    }
}
