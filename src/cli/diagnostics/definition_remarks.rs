//! Remarks on definitions that could mislead a model, for reports of commands.

use serde::{Serialize, Serializer};

use crate::lint::{Remark, ServerRemarks, Severity};

/// The remarks on one server, limited to a readable number.
#[derive(Debug)]
pub(crate) struct DefinitionRemarks {
    /// `None` for a server of the lock.
    pub(crate) toolbox: Option<String>,
    /// `true` if the lock has the definitions unchanged; `None` if no lock is involved.
    pub(crate) is_reviewed: Option<bool>,
    pub(crate) server: ServerRemarks,
}

/// A remark in JSON reports.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemarkRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) toolbox: Option<&'a str>,
    pub(crate) server: &'a str,
    pub(crate) rule: &'a str,
    #[serde(serialize_with = "word")]
    pub(crate) severity: Severity,
    #[serde(flatten)]
    pub(crate) place: RemarkPlace<'a>,
    pub(crate) excerpt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) explanation: Option<&'a str>,
    pub(crate) advice: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) is_reviewed: Option<bool>,
    #[serde(skip)]
    pub(crate) words: String,
}

/// The definition with the remark, and where in it.
#[derive(Debug, Serialize)]
pub(crate) struct RemarkPlace<'a> {
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: &'a str,
    pub(crate) pointer: &'a str,
    offset: usize,
}

pub(crate) fn rows<S: Serializer>(all: &[DefinitionRemarks], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().flat_map(DefinitionRemarks::rows))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn word<S: Serializer>(severity: &Severity, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(severity.as_str())
}

impl DefinitionRemarks {
    pub(crate) fn findings(&self) -> Vec<mcp_workbench_config::Finding> {
        let toolbox = self.toolbox.as_deref().unwrap_or_default();
        let path = format!("toolboxes.{toolbox}.mcpServers.{}", self.server.server);
        let finding = |remark: &Remark| {
            mcp_workbench_config::Finding::warning(
                path.clone(),
                words(remark),
                Some(remark.rule.advice.to_owned()),
            )
        };
        let mut findings: Vec<_> = self.server.shown.iter().map(finding).collect();
        if self.server.omitted_count > 0 {
            let message =
                format!("and {} more findings in its definitions", self.server.omitted_count);
            findings.push(mcp_workbench_config::Finding::warning(path, message, None));
        }
        findings
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = RemarkRow<'_>> {
        self.server.shown.iter().map(|remark| RemarkRow {
            toolbox: self.toolbox.as_deref(),
            server: &self.server.server,
            rule: remark.rule.id,
            severity: remark.rule.severity,
            place: RemarkPlace {
                kind: remark.location.kind.as_str(),
                name: &remark.location.name,
                pointer: &remark.location.pointer,
                offset: remark.location.offset,
            },
            excerpt: &remark.excerpt,
            explanation: remark.explanation.as_deref(),
            advice: remark.rule.advice,
            is_reviewed: self.is_reviewed,
            words: words(remark),
        })
    }

    pub(crate) fn is_unreviewed_of(&self, server: &str) -> bool {
        self.is_reviewed == Some(false) && self.server.server == server
    }

    pub(crate) fn hidden_count(&self) -> usize {
        self.server.omitted_count
    }
}

pub(crate) fn words(remark: &Remark) -> String {
    let Remark { rule, location, excerpt, explanation } = remark;
    let explanation = explanation.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
    format!("{location}: {} ({}): `{excerpt}`{explanation}", rule.id, rule.severity.as_str())
}
