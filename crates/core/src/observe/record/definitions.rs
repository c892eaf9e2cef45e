//! The lines of definitions that are not what they were, or not as the lock has them.

use std::time::SystemTime;

use crate::catalog::{ChangedDefinition, Difference, Drifted};
use crate::name::ServerRef;
use crate::observe::record::{Scribe, cut, head, number, text};

/// A definition that a server has changed, for the thread that writes.
#[derive(Debug)]
pub(crate) struct ChangeRecord {
    pub(crate) at: SystemTime,
    pub(crate) toolbox: String,
    pub(crate) server: String,
    pub(crate) changed: ChangedDefinition,
}

/// A definition that is not as the lock has it, for the thread that writes.
#[derive(Debug)]
pub(crate) struct DriftRecord {
    pub(crate) at: SystemTime,
    pub(crate) server: ServerRef,
    pub(crate) drifted: Drifted,
    /// The fate of it, in the word of the configuration.
    pub(crate) becomes: &'static str,
}

impl Scribe {
    /// Writes the line of a definition that a server has changed.
    pub(crate) fn definition(&self, line: &mut Vec<u8>, change: &ChangeRecord) {
        let ChangeRecord { at, toolbox, server, changed } = change;
        head(line, *at, "definition_changed");
        text(line, "toolbox", toolbox);
        text(line, "server", server);
        text(line, "primitive", changed.word);
        text(line, "name", &cut(&self.secrets.redact(&changed.name)));
        text(line, "members", &cut(&self.secrets.redact(&changed.members.join(", "))));
        text(line, "before", &changed.before);
        text(line, "after", &changed.after);
        if changed.untold > 0 {
            number(line, "untold", changed.untold);
        }
        line.extend_from_slice(b"}\n");
    }

    /// Writes the line of a definition that is not as the lock has it.
    pub(crate) fn drift(&self, line: &mut Vec<u8>, record: &DriftRecord) {
        let DriftRecord { at, server, drifted, becomes } = record;
        head(line, *at, "definition_drift");
        text(line, "toolbox", server.toolbox.as_str());
        text(line, "server", server.server.as_str());
        text(line, "primitive", drifted.word);
        text(line, "name", &cut(&self.secrets.redact(&drifted.name)));
        text(line, "difference", drifted.what.word());
        if let Difference::Changed(members) = &drifted.what {
            text(line, "members", &cut(&self.secrets.redact(&members.join(", "))));
        }
        text(line, "definitions", becomes);
        line.extend_from_slice(b"}\n");
    }
}
