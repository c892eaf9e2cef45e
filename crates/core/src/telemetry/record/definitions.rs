//! Audit lines for changed definitions and for definitions that differ from `workbench.lock`.

use std::time::SystemTime;

use crate::catalog::{DefinitionChange, DefinitionDrift, DriftKind};
use crate::telemetry::record::{AuditEncoder, cut, head, number, text};
use mcp_workbench_names::ServerRef;

#[derive(Debug)]
pub(crate) struct ChangeRecord {
    pub(crate) at: SystemTime,
    pub(crate) toolbox: String,
    pub(crate) server: String,
    pub(crate) changed: DefinitionChange,
}

#[derive(Debug)]
pub(crate) struct DriftRecord {
    pub(crate) at: SystemTime,
    pub(crate) server: ServerRef,
    pub(crate) drifted: DefinitionDrift,
    /// The action taken, in the words of the configuration key `onDefinitionChange`.
    pub(crate) action: &'static str,
}

impl AuditEncoder {
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
        if changed.suppressed > 0 {
            number(line, "suppressed", changed.suppressed);
        }
        line.extend_from_slice(b"}\n");
    }

    pub(crate) fn drift(&self, line: &mut Vec<u8>, record: &DriftRecord) {
        let DriftRecord { at, server, drifted, action } = record;
        head(line, *at, "definition_drift");
        text(line, "toolbox", server.toolbox.as_str());
        text(line, "server", server.server.as_str());
        text(line, "primitive", drifted.word);
        text(line, "name", &cut(&self.secrets.redact(&drifted.name)));
        text(line, "difference", drifted.kind.as_str());
        if let DriftKind::Changed(members) = &drifted.kind {
            text(line, "members", &cut(&self.secrets.redact(&members.join(", "))));
        }
        text(line, "action", action);
        line.extend_from_slice(b"}\n");
    }
}
