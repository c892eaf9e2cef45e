//! `auth store`: where tokens are kept.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::cli::auth::no_folder;
use crate::cli::error::Error;
use crate::cli::{Global, print};
use crate::login::Home;
use crate::settings::Config;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where all tokens are moved; nothing is changed where none is named
    to: Option<To>,
}

/// The places that there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// Files that nobody else can read
    File,
    /// The system's keyring (Secret Service)
    Keyring,
}

/// Moves tokens, and says where they are.
pub(super) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let store = global.chosen().ok_or_else(no_folder)?;
    let to = args.to.map(|to| match to {
        To::File => Home::File,
        To::Keyring => Home::Keyring,
    });
    if let Some(to) = to {
        let moved = store.move_to(to).map_err(|error| {
            Error::failed(format!("nothing was moved: {error}"))
                .hint("`mcp-workbench auth store` says where tokens are")
        })?;
        if moved > 0 {
            print::note(&format!("{moved} {} moved", if moved == 1 { "login" } else { "logins" }));
        }
    }
    // There may be no configuration, or one that cannot be used.
    let config = global.read().ok().and_then(Result::ok).map(|loaded| loaded.config);
    print::data(&where_they_are(global, config.as_ref())?)?;
    Ok(ExitCode::SUCCESS)
}

/// Says where tokens are, of the workbench that this configuration is of.
pub(super) fn where_they_are(global: &Global, config: Option<&Config>) -> Result<String, Error> {
    let shared = config.map(|config| &config.shared).filter(|shared| !shared.keys.is_empty());
    if let Some(url) = shared.and_then(|shared| shared.url.as_ref()) {
        return Ok(format!("tokens are kept in the shared store {url}, sealed"));
    }
    let folder = global.credentials().ok_or_else(no_folder)?;
    let home = global.chosen().ok_or_else(no_folder)?.home().map_err(|error| {
        Error::failed(format!("where tokens are kept cannot be read: {error}"))
            .hint(format!("look at {}", folder.display()))
    })?;
    Ok(match home {
        Home::File => format!("tokens are kept in files of {}", folder.display()),
        Home::Keyring => "tokens are kept in the system's keyring".to_owned(),
    })
}
