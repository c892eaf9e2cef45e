//! `auth store`: shows where tokens are stored, or moves them.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::cli::auth::no_folder;
use crate::cli::error::CommandError;
use crate::cli::{GlobalArgs, print};
use crate::login::StorageBackend;
use crate::settings::Config;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where all tokens are moved; nothing is changed where none is named
    to: Option<StoreTarget>,
}

/// The places that there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StoreTarget {
    /// Files that nobody else can read
    File,
    /// The system's keyring (Secret Service)
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
            CommandError::failed(format!("nothing was moved: {error}"))
                .with_hint("`mcp-workbench auth store` says where tokens are")
        })?;
        if moved > 0 {
            print::note(&format!("{moved} {} moved", if moved == 1 { "login" } else { "logins" }));
        }
    }
    // Works without a valid configuration, too.
    let config = global.read().ok().and_then(Result::ok).map(|loaded| loaded.config);
    print::data(&store_description(global, config.as_ref())?)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn store_description(
    global: &GlobalArgs,
    config: Option<&Config>,
) -> Result<String, CommandError> {
    let shared = config.map(|config| &config.shared).filter(|shared| !shared.keys.is_empty());
    if let Some(url) = shared.and_then(|shared| shared.url.as_ref()) {
        return Ok(format!("tokens are kept in the shared store {url}, sealed"));
    }
    let folder = global.credentials().ok_or_else(no_folder)?;
    let home = global.login_store().ok_or_else(no_folder)?.home().map_err(|error| {
        CommandError::failed(format!("where tokens are kept cannot be read: {error}"))
            .with_hint(format!("look at {}", folder.display()))
    })?;
    Ok(match home {
        StorageBackend::File => format!("tokens are kept in files of {}", folder.display()),
        StorageBackend::Keyring => "tokens are kept in the system's keyring".to_owned(),
    })
}
