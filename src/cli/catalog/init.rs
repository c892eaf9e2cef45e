//! `catalog init`: a catalog folder, made of what the configured servers list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::authoring::import::{Launches, Source};
use crate::cli::catalog::draft::Draft;
use crate::cli::error::Error;
use crate::cli::size::count;
use crate::cli::{EMBEDDED_CONFIG, Global, print, with_gateway, without_rules};
use crate::config::Loaded;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench catalog init catalog
  mcp-workbench check --config catalog
  mcp-workbench --config catalog              Serve it, in navigate mode";

/// Write a catalog folder from the configured servers
///
/// Starts every server and writes what it lists: a category is a toolbox, a service one of its
/// servers, and each tool has a file. `_config.yaml` has the servers and settings as the
/// configuration has them, but for the mode; variables stay variables, and what looks secret becomes
/// one. A server that cannot be started is left out, and said.
///
/// Exits with 0 if all servers are in it, 1 if one could not be started.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder to write
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write into a folder that has something in it, in place of files of the same names
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let loaded = global.load_to_start()?;
    if loaded.config.navigator.catalog.is_some() {
        let message = format!("`{}` has a catalog already", loaded.file);
        return Err(Error::wrong(message).hint("`--config` names the file to make one of"));
    }
    let shown = args.folder.display();
    let is_taken = match fs::read_dir(&args.folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => args.folder.exists(),
    };
    if is_taken && !args.force {
        let error = Error::failed(format!("`{shown}` is there already, and not empty"));
        return Err(error.hint("name another folder, or write into it with `--force`"));
    }
    let source = (!global.embedded_config).then(|| global.config_file()).transpose()?;
    let launches = launches(source.as_deref(), &loaded)?;
    let mut config = without_rules(loaded.config);
    // What is written is what servers say themselves.
    for server in config.toolboxes.iter_mut().flat_map(|toolbox| &mut toolbox.servers) {
        server.overrides.retain(|_, over| over.enabled == Some(false));
        for over in server.overrides.values_mut() {
            over.name = None;
        }
    }
    let base = base(source.as_deref())?;
    let (draft, failures) =
        with_gateway(global, config, async |gateway| Draft::new(gateway, &launches, &base).await)?;
    if draft.tools == 0 {
        let remarks = draft.remarks.iter().chain(&failures);
        let remarks: Vec<_> = remarks.map(String::as_str).collect();
        let error = Error::failed(format!("`{shown}` is not written: there are no tools for it"));
        return Err(error.because(&remarks.join("\n")));
    }
    draft.write(&args.folder, source.as_deref())?;
    let mut sections = vec![format!(
        "wrote `{shown}`: {} with {} and {}",
        categories(draft.categories),
        count(draft.services, "service"),
        count(draft.tools, "tool"),
    )];
    if draft.variables.names().len() > 0 {
        let names: Vec<_> = draft.variables.names().map(|name| format!("`{name}`")).collect();
        sections.push(format!(
            "set {} before the start: secrets that stood in the configuration are variables now",
            names.join(", ")
        ));
    }
    sections.extend(draft.remarks.iter().map(|remark| format!("warning: {remark}")));
    let has_failed = !failures.is_empty();
    sections.extend(failures);
    sections.push(format!("hint: `mcp-workbench check --config {shown}` reads all of it"));
    print::prose(&sections.join("\n\n"))?;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn categories(count: usize) -> String {
    if count == 1 { "1 category".to_owned() } else { format!("{count} categories") }
}

/// The servers and settings as the file has them.
fn launches(source: Option<&Path>, loaded: &Loaded) -> Result<Launches, Error> {
    let (file, text) = match source {
        Some(path) => (loaded.file.clone(), fs::read_to_string(path).map_err(Error::internal)?),
        None => ("embedded.json".to_owned(), EMBEDDED_CONFIG.to_owned()),
    };
    Ok(Launches::of(&Source { file, text }))
}

/// Where relative paths of the configuration start.
fn base(source: Option<&Path>) -> Result<PathBuf, Error> {
    match source {
        Some(file) => Ok(file.parent().unwrap_or(Path::new("/")).to_owned()),
        None => std::env::current_dir().map_err(Error::internal),
    }
}
