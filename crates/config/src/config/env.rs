//! The environment as an argument: the one place that reads the process's own.
//!
//! Everything that wants a variable takes an [`EnvSource`], so a test hands in a map and never
//! touches the process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use etcetera::base_strategy::{BaseStrategy, choose_base_strategy, choose_native_strategy};

/// Where environment variables come from.
pub trait EnvSource {
    /// The value of `name`; set but empty counts as set.
    fn get(&self, name: &str) -> Option<String>;

    /// Every variable, exactly as the system holds it, to be handed on to a child.
    fn vars(&self) -> Vec<(OsString, OsString)>;

    /// The home folder of the user, which `~` stands for.
    fn home(&self) -> Option<PathBuf> {
        self.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
    }

    /// The user's folder for configurations.
    fn configuration(&self) -> Option<PathBuf> {
        let named =
            self.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| Some(self.home()?.join(".config")))
    }

    /// The user's folder for what can be made again.
    fn cache(&self) -> Option<PathBuf> {
        self.home().map(|home| home.join(".cache"))
    }

    /// The user's folder for what programs remember, such as how a change is undone.
    fn state(&self) -> Option<PathBuf> {
        let named = self.get("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| Some(self.home()?.join(".local/state")))
    }
}

/// The environment this process was started with.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnv;

impl EnvSource for ProcessEnv {
    /// A value that is not UTF-8 keeps what can be read of it: text is all a config can hold.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    fn vars(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().collect()
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
    }

    /// `~/.config` but on Windows, which has a place of its own.
    fn configuration(&self) -> Option<PathBuf> {
        choose_base_strategy().ok().map(|folders| folders.config_dir())
    }

    /// Where the platform has it, such as `~/Library/Caches`.
    fn cache(&self) -> Option<PathBuf> {
        choose_native_strategy().ok().map(|folders| folders.cache_dir())
    }

    /// `~/.local/state`, but on Windows, which keeps such things beside the rest.
    fn state(&self) -> Option<PathBuf> {
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
