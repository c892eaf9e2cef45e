//! The service of a user: one workbench over HTTP that all clients of the machine share.
//!
//! Pure. The file beside the configuration remembers where it listens and whose token is which.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub mod definition;
pub mod tokens;

/// The form of the file that this program writes.
pub const VERSION: u32 = 1;
/// How the name of the file ends.
const ENDING: &str = "service.json";

/// One service, as its file has it. The tokens are secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The form of the file.
    pub version: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// `true` if it encrypts what goes over HTTP, so that it is asked by `https`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// The program that serves.
    pub program: String,
    /// Who starts it.
    pub manager: Manager,
    /// Its name there.
    pub name: String,
    /// The tokens of agents, by their names.
    pub tokens: BTreeMap<String, String>,
}

/// A program of the platform that starts services of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Manager {
    /// systemd, as it runs for a user.
    Systemd,
    /// launchd of macOS.
    Launchd,
    /// The task scheduler of Windows.
    Tasks,
    /// None is there: whoever wants the service starts it.
    Nobody,
}

/// The file of the service of a configuration.
pub fn file(config: &Path) -> PathBuf {
    config.with_extension(ENDING)
}

impl Service {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// Why it is none of ours.
    pub fn read(text: &str) -> Result<Self, String> {
        let service: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if service.version == VERSION {
            Ok(service)
        } else {
            Err(format!("it has version {}, not {VERSION}", service.version))
        }
    }

    /// The address that agents ask.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}/mcp", self.address)
    }

    /// The command that serves.
    pub fn words(&self, config: &Path) -> Vec<String> {
        let config = config.display().to_string();
        let args = ["--config", &config, "serve", "--http", &self.address.to_string()];
        std::iter::once(self.program.clone()).chain(args.map(str::to_owned)).collect()
    }
}

#[cfg(test)]
mod tests;
