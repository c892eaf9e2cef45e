//! `auth store`: shows where tokens are stored, or moves them.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::cli::access::auth::no_folder;
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, format_count, print};
use mcp_workbench_login::StorageBackend;
use mcp_workbench_settings::Config;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to move all tokens [default: only show]
    to: Option<StoreTarget>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StoreTarget {
    /// Files that only you can read
    File,
    /// System keyring (Secret Service)
    Keyring,
}

pub(super) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let store = global.login_store().ok_or_else(no_folder)?;
    let to = args.to.map(|to| match to {
        StoreTarget::File => StorageBackend::File,
        StoreTarget::Keyring => StorageBackend::Keyring,
    });
    if let Some(to) = to {
        let moved = store.move_to(to).map_err(|error| {
            CommandError::failed(format!("the tokens were not moved: {error}"))
                .with_hint("run `mcp-workbench auth store` to see where tokens are stored")
        })?;
        if moved > 0 {
            print::note(&format!("moved {}", format_count(moved, "login")));
        }
    }
    // Works without a valid configuration, too.
    let config = global.read().ok().map(|loaded| loaded.config);
    print::data(&store_description(global, config.as_ref())?)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn store_description(
    global: &GlobalArgs,
    config: Option<&Config>,
) -> Result<String, CommandError> {
    let shared = config.map(|config| &config.shared_store).filter(|shared| !shared.keys.is_empty());
    if let Some(url) = shared.and_then(|shared| shared.url.as_ref()) {
        return Ok(format!("tokens are stored in the shared store {url}, encrypted"));
    }
    let folder = global.credentials().ok_or_else(no_folder)?;
    let home = global.login_store().ok_or_else(no_folder)?.home().map_err(|error| {
        CommandError::failed(format!("failed to read where tokens are stored: {error}"))
            .with_hint(format!("check the folder {}", folder.display()))
    })?;
    Ok(match home {
        StorageBackend::File => format!("tokens are stored in files in {}", folder.display()),
        StorageBackend::Keyring => "tokens are stored in the system keyring".to_owned(),
    })
}
