//! The configuration file as the user wrote it: its path, its text without secrets, and patches for
//! it. Filled in by the command line, which has parsed it.

use crate::admin::protocol::ConfigFinding;

/// A server and its unused tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedServerTools {
    pub toolbox: String,
    pub server: String,
    /// For each tool, its name in the toolbox and its name at the server.
    pub tools: Vec<(String, String)>,
    /// Number of tools that agents can use, used or not.
    pub shown: usize,
}

/// Returns a patch that excludes the tools.
pub type PatchFn = dyn Fn(&[UnusedServerTools]) -> Result<String, String> + Send + Sync;
/// Returns the configuration text without secrets, and the problems found in it.
pub type FindingsFn =
    dyn Fn() -> Result<(Option<String>, Vec<ConfigFinding>), String> + Send + Sync;

/// Access to the configuration file. Both functions read files and can block.
pub struct ConfigSource {
    /// The path as the user entered it.
    pub config: String,
    pub patch: Box<PatchFn>,
    pub findings: Box<FindingsFn>,
}

impl Default for ConfigSource {
    fn default() -> Self {
        const NONE: &str = "the configuration does not come from a file";
        Self {
            config: String::new(),
            patch: Box::new(|_| Ok(String::new())),
            findings: Box::new(|| Err(NONE.to_owned())),
        }
    }
}
