//! Links from messages to the headings of the troubleshooting page.

use std::fmt;

use serde::{Deserialize, Serialize};

const PAGE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/troubleshooting.md");

/// A problem that the troubleshooting page has a heading for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Symptom {
    CallDenied,
    PortInUse,
    ServerDoesNotStart,
    SignInFails,
    ToolMissing,
}

impl Symptom {
    fn anchor(self) -> &'static str {
        match self {
            Self::CallDenied => "call-denied",
            Self::PortInUse => "port-in-use",
            Self::ServerDoesNotStart => "server-does-not-start",
            Self::SignInFails => "sign-in-fails",
            Self::ToolMissing => "tool-missing",
        }
    }
}

/// The line that ends a message: `see URL`.
impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "see {PAGE}#{}", self.anchor())
    }
}

#[cfg(test)]
mod tests {
    use super::Symptom::*;

    #[test]
    fn troubleshooting_page_has_every_heading() {
        let page = include_str!("../../../docs/troubleshooting.md");
        let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
        let anchors: Vec<_> = headings.map(|h| h.to_lowercase().replace(' ', "-")).collect();
        for symptom in [CallDenied, PortInUse, ServerDoesNotStart, SignInFails, ToolMissing] {
            assert!(anchors.iter().any(|anchor| anchor == symptom.anchor()), "{symptom}");
        }
    }
}
