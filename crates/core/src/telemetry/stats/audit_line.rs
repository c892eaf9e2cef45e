//! The lines of an audit log, with the members that statistics read. `AuditEncoder` writes them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::telemetry::outcome::CallOutcome;
use crate::telemetry::record::{DENIED, UNKNOWN};

/// The members of every line.
#[derive(Deserialize)]
pub(super) struct LineHead<'a> {
    #[serde(borrow)]
    pub(super) time: Text<'a>,
    #[serde(borrow)]
    pub(super) kind: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CallLine<'a> {
    #[serde(borrow)]
    pub(super) agent: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) session: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) toolbox: Text<'a>,
    #[serde(borrow)]
    pub(super) server: Text<'a>,
    #[serde(borrow)]
    pub(super) tool: Text<'a>,
    #[serde(borrow)]
    pub(super) outcome: Text<'a>,
    #[serde(borrow)]
    pub(super) decision: Text<'a>,
    pub(super) ms: Option<f64>,
    pub(super) argument_bytes: u64,
    pub(super) result_bytes: u64,
}

/// A read of a resource or a prompt.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadLine<'a> {
    #[serde(borrow)]
    pub(super) toolbox: Text<'a>,
    #[serde(borrow)]
    pub(super) server: Text<'a>,
    #[serde(borrow)]
    pub(super) outcome: Text<'a>,
    #[serde(borrow)]
    pub(super) decision: Text<'a>,
    pub(super) result_bytes: u64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SessionLine<'a> {
    #[serde(borrow)]
    pub(super) client: Text<'a>,
    pub(super) has_tool_search: bool,
    pub(super) without_workbench_bytes: Option<u64>,
    pub(super) shown_bytes: u64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LlmLine<'a> {
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) outcome: Text<'a>,
    pub(super) ms: Option<f64>,
    pub(super) tokens_read: u64,
    pub(super) tokens_written: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SignInLine<'a> {
    #[serde(borrow)]
    pub(super) server: Text<'a>,
    #[serde(borrow)]
    pub(super) account: Text<'a>,
    #[serde(borrow)]
    pub(super) outcome: Text<'a>,
}

/// A denial or an exhausted quota.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RejectionLine<'a> {
    #[serde(borrow)]
    pub(super) agent: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) address: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) server: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) quota: Option<Text<'a>>,
    pub(super) times: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct LostLine {
    pub(super) records: u64,
}

impl CallLine<'_> {
    pub(super) fn outcome(&self) -> &str {
        outcome(&self.outcome, &self.decision)
    }
}

impl ReadLine<'_> {
    pub(super) fn outcome(&self) -> &str {
        outcome(&self.outcome, &self.decision)
    }
}

/// Returns the outcome of a call or read. One that wasn't let through counts as `denied` or
/// `unknown_tool`, as in the metrics.
fn outcome<'a>(outcome: &'a str, decision: &str) -> &'a str {
    match decision {
        DENIED if outcome.is_empty() => CallOutcome::Denied.as_str(),
        UNKNOWN if outcome.is_empty() => CallOutcome::UnknownTool.as_str(),
        _ => outcome,
    }
}

/// A string borrowed from the line, unless it contains escapes.
#[derive(Default)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;

        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_bytes<E: Error>(self, _: &[u8]) -> Result<Text<'de>, E> {
                Err(E::custom("expected a string"))
            }
        }

        deserializer.deserialize_str(Borrowing).map_err(D::Error::custom)
    }
}
