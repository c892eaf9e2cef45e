//! The configuration path of the rule that decided, independent of how the file spells its keys.

use std::fmt;
use std::sync::Arc;

/// The path of the key that decided, such as `agent_policies.claude-code.tool_overrides.github`.
/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePath(Arc<Key>);

#[derive(Debug, PartialEq, Eq)]
struct Key {
    path: Vec<String>,
    text: String,
    /// The project file that has the rule; `None` for the user's configuration.
    file: Option<Arc<str>>,
}

impl RulePath {
    /// The keys of the configuration are in snake case, however the file spells them.
    pub(crate) fn new(path: &[&str]) -> Self {
        let mut text = String::new();
        for key in path {
            let is_plain = !key.is_empty()
                && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
            match (is_plain, text.is_empty()) {
                (true, true) => text.push_str(key),
                (true, false) => text.extend([".", key]),
                (false, _) => text.extend(["[", &format!("{key:?}"), "]"]),
            }
        }
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Self(Arc::new(Key { path, text, file: None }))
    }

    /// Returns the path of a rule in a project file. Its text starts with `project`.
    pub(crate) fn in_project(file: &Arc<str>, path: &[&str]) -> Self {
        let Self(key) = Self::new(path);
        let path = key.path.clone();
        let text = format!("project.{}", key.text);
        Self(Arc::new(Key { path, text, file: Some(Arc::clone(file)) }))
    }

    /// Returns the project file that has the rule; `None` for the user's configuration.
    pub fn project_file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// Appends an array index.
    pub(crate) fn element(&self, index: usize) -> Self {
        let mut path = self.0.path.clone();
        path.push(index.to_string());
        let (text, file) = (format!("{}[{index}]", self.0.text), self.0.file.clone());
        Self(Arc::new(Key { path, text, file }))
    }

    /// Returns the keys of the path, outermost first.
    pub fn path(&self) -> &[String] {
        &self.0.path
    }

    /// Returns the path as text. Keys with special characters are quoted: `agent_policies["a b"]`.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for RulePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a call is dangerous or needs the user's confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RiskReason {
    /// `dangerousTools` lists the tool.
    Dangerous,
    /// The server sets `destructiveHint`, and `dangerousTools` contains that word.
    Destructive,
    /// `requireConfirmation` lists the tool.
    Listed,
    /// No list contains the tool, and `defaultPolicy.requireExplicitApproval` is on.
    Unknown,
    /// `dangerousTools` of a project file lists the tool.
    Project,
}

impl RiskReason {
    /// Returns the configuration key that causes it.
    pub fn config_key(self) -> &'static str {
        match self {
            Self::Dangerous => "dangerous_tools",
            Self::Destructive => "dangerous_tools.destructive_hint",
            Self::Listed => "require_confirmation",
            Self::Unknown => "default_policy.require_explicit_approval",
            Self::Project => "project.dangerous_tools",
        }
    }
}

impl fmt::Display for RiskReason {
    /// Completes the sentence "The user must confirm the call because …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dangerous => "the configuration marks it as dangerous",
            Self::Destructive => "its server marks it as destructive",
            Self::Listed => "the configuration requires confirmation",
            Self::Unknown => "the configuration does not list it",
            Self::Project => "the project marks it as dangerous",
        })
    }
}
