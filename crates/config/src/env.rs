//! Access to environment variables and per-user directories. Only [`ProcessEnv`] reads the process
//! environment; everything else takes an [`EnvSource`], so that tests can pass a map.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use etcetera::base_strategy::{BaseStrategy, choose_base_strategy, choose_native_strategy};

/// A source of environment variables and per-user directories.
pub trait EnvSource {
    /// Returns the value of `name`. An empty value counts as set.
    fn get(&self, name: &str) -> Option<String>;

    /// Returns all variables, unconverted, to pass on to a child process.
    fn vars(&self) -> Vec<(OsString, OsString)>;

    /// Returns the user's home directory, which replaces `~` in paths.
    fn home_dir(&self) -> Option<PathBuf> {
        self.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
    }

    /// Returns the user's configuration directory: `$XDG_CONFIG_HOME` if absolute, or `~/.config`.
    fn config_dir(&self) -> Option<PathBuf> {
        let named =
            self.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| Some(self.home_dir()?.join(".config")))
    }

    /// Returns the user's cache directory, for files that can be regenerated.
    fn cache_dir(&self) -> Option<PathBuf> {
        self.home_dir().map(|home| home.join(".cache"))
    }

    /// Returns the user's state directory: `$XDG_STATE_HOME` if absolute, or `~/.local/state`.
    fn state_dir(&self) -> Option<PathBuf> {
        let named = self.get("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| Some(self.home_dir()?.join(".local/state")))
    }
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnv;

impl EnvSource for ProcessEnv {
    /// Replaces invalid UTF-8, because configuration values are strings.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    fn vars(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
    }

    /// The XDG directory, except on Windows, which has its own directory for this.
    fn config_dir(&self) -> Option<PathBuf> {
        choose_base_strategy().ok().map(|folders| folders.config_dir())
    }

    /// The platform's cache directory, such as `~/Library/Caches` on macOS.
    fn cache_dir(&self) -> Option<PathBuf> {
        choose_native_strategy().ok().map(|folders| folders.cache_dir())
    }

    /// The XDG directory, or on Windows the data directory, because Windows has no state directory.
    fn state_dir(&self) -> Option<PathBuf> {
        let folders = choose_base_strategy().ok()?;
        Some(folders.state_dir().unwrap_or_else(|| folders.data_dir()))
    }
}

impl EnvSource for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        BTreeMap::get(self, name).cloned()
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        self.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }
}
