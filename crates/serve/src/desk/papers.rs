//! The configuration, as only who has read it can tell of it.

use crate::desk::ask::Finding;

/// A server with its tools that nobody has used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Its toolbox.
    pub toolbox: String,
    /// Its name.
    pub server: String,
    /// The tools, as the toolbox shows them and as the server calls them.
    pub tools: Vec<(String, String)>,
    /// How many tools of it agents may use, used or not.
    pub shown: usize,
}

/// Makes a patch that leaves tools out.
pub type Patch = dyn Fn(&[Idle]) -> Result<String, String> + Send + Sync;
/// Finds the text of the configuration, without secrets, and what is wrong or odd in it.
pub type Findings = dyn Fn() -> Result<(Option<String>, Vec<Finding>), String> + Send + Sync;

/// The configuration as its user has it. Both functions may take a while.
pub struct Papers {
    /// The file, as the user named it.
    pub config: String,
    /// Makes a patch.
    pub patch: Box<Patch>,
    /// Looks the file through.
    pub findings: Box<Findings>,
}

impl Default for Papers {
    fn default() -> Self {
        const NONE: &str = "the configuration is no file of its own here";
        Self {
            config: String::new(),
            patch: Box::new(|_| Ok(String::new())),
            findings: Box::new(|| Err(NONE.to_owned())),
        }
    }
}
