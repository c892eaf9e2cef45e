//! `man`: prints the man page of the program, or writes one for each command.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::Cli;
use crate::cli::output::{CommandError, format_count, print};
use mcp_workbench_os::write_output;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench man | man -l -
  mcp-workbench man --dir ~/.local/share/man/man1";

/// Print the man page, or write all man pages to a folder
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write all man pages to this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.dir else {
        print::bytes(page(&command)?.trim_ascii_end())?;
        return Ok(ExitCode::SUCCESS);
    };
    let failed = |error: std::io::Error| {
        let message = format!("failed to write man pages to `{}`", folder.display());
        CommandError::failed(message).because(&error)
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut written = 0;
    let mut commands = vec![&command];
    while let Some(command) = commands.pop() {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        write_output(&folder.join(format!("{name}.1")), page(command)?).map_err(failed)?;
        written += 1;
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
    }
    let pages = format_count(written, "man page");
    print::data(&format!("wrote {pages} to `{}`", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn page(command: &Command) -> Result<Vec<u8>, CommandError> {
    let mut page = Vec::new();
    let title = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    Man::new(command.clone()).title(title).render(&mut page).map_err(CommandError::internal)?;
    Ok(page)
}
