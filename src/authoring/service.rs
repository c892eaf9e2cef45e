//! The user service: one HTTP workbench that all clients of the machine share.
//!
//! No I/O. A file next to the configuration records the service's address and the agents' tokens.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub mod definition;
pub mod tokens;

/// The version of the service file format.
pub const VERSION: u32 = 1;
const ENDING: &str = "service.json";

/// The content of a service file. The tokens are secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserService {
    pub version: u32,
    pub address: SocketAddr,
    /// `true` if it serves HTTPS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// The path of the workbench program.
    pub program: String,
    pub manager: ServiceManager,
    /// Its name in the service manager.
    pub name: String,
    /// Tokens by agent name.
    pub tokens: BTreeMap<String, String>,
}

/// A service manager that can start a user's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceManager {
    Systemd,
    Launchd,
    #[serde(rename = "tasks")]
    TaskScheduler,
    /// No service manager is available; the user starts the service.
    #[serde(rename = "nobody")]
    Unmanaged,
}

/// Returns the path of the service file for `config`.
pub fn service_path(config: &Path) -> PathBuf {
    config.with_extension(ENDING)
}

impl UserService {
    /// Parses a service file.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is invalid or its version isn't [`VERSION`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let service: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if service.version == VERSION {
            Ok(service)
        } else {
            Err(format!("expected version {VERSION}, found {}", service.version))
        }
    }

    /// The MCP endpoint for clients.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}/mcp", self.address)
    }

    /// The command line of the service. All clients belong to one user, so they share logins.
    pub fn command_line(&self, config: &Path) -> Vec<String> {
        let config = config.display().to_string();
        let address = self.address.to_string();
        let args = ["--config", &config, "serve", "--http", &address, "--shared-logins"];
        std::iter::once(self.program.clone()).chain(args.map(str::to_owned)).collect()
    }
}

#[cfg(test)]
mod tests;
