//! The rule that decided: the key of the file, in words that do not depend on how the file spells
//! it.

use std::fmt;
use std::sync::Arc;

/// The key that decided on a tool, such as `agent_policies.claude-code.tool_overrides.github`.
/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule(Arc<Key>);

#[derive(Debug, PartialEq, Eq)]
struct Key {
    path: Vec<String>,
    text: String,
}

impl Rule {
    /// The key under these keys, in the document's spelling.
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
        Self(Arc::new(Key { path, text }))
    }

    /// Element `index` of what is there.
    pub(crate) fn element(&self, index: usize) -> Self {
        let mut path = self.0.path.clone();
        path.push(index.to_string());
        Self(Arc::new(Key { path, text: format!("{}[{index}]", self.0.text) }))
    }

    /// The keys that lead to it, in the document's spelling.
    pub fn path(&self) -> &[String] {
        &self.0.path
    }

    /// The key in words.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a call is dangerous, or is to be confirmed by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// `dangerousTools` names the tool.
    Dangerous,
    /// Its server says that it is destructive, and `dangerousTools` has the word for that.
    Destructive,
    /// `requireConfirmation` names it.
    Listed,
    /// No list speaks of it, and `defaultPolicy.requireExplicitApproval` is on.
    Unknown,
}

impl Concern {
    /// The key that says so.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Dangerous => "dangerous_tools",
            Self::Destructive => "dangerous_tools.destructive_hint",
            Self::Listed => "require_confirmation",
            Self::Unknown => "default_policy.require_explicit_approval",
        }
    }
}

impl fmt::Display for Concern {
    /// Why, in words that go on from "The user is asked because …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dangerous => "the configuration says that it is dangerous",
            Self::Destructive => "its server says that it is destructive",
            Self::Listed => "the configuration says that it is to be confirmed",
            Self::Unknown => "no list of the configuration speaks of it",
        })
    }
}
