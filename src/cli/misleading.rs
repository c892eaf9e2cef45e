//! Remarks on definitions that could mislead a model, as commands tell them.

use serde::{Serialize, Serializer};

use crate::catalog::remarks::{Remark, ServerRemarks, Severity};
use crate::config;

/// The remarks on one server, of which no more are shown than a person would read.
#[derive(Debug)]
pub(crate) struct Remarks {
    /// The toolbox that shows it; `None` for a server of the lock.
    pub(crate) toolbox: Option<String>,
    /// `true` if the lock has the definitions as they are; `None` where no lock is looked at.
    pub(crate) is_reviewed: Option<bool>,
    /// The remarks, and the name of the server.
    pub(crate) server: ServerRemarks,
}

/// One remark, for those who read JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) toolbox: Option<&'a str>,
    pub(crate) server: &'a str,
    pub(crate) rule: &'a str,
    #[serde(serialize_with = "word")]
    pub(crate) severity: Severity,
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: &'a str,
    pub(crate) pointer: &'a str,
    pub(crate) offset: usize,
    pub(crate) found: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) means: Option<&'a str>,
    pub(crate) advice: &'a str,
    #[serde(rename = "reviewed", skip_serializing_if = "Option::is_none")]
    pub(crate) is_reviewed: Option<bool>,
    /// The remark for a person.
    #[serde(skip)]
    pub(crate) words: String,
}

/// Writes the remarks on several servers as one list.
pub(crate) fn rows<S: Serializer>(all: &[Remarks], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().flat_map(Remarks::rows))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn word<S: Serializer>(severity: &Severity, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(severity.as_str())
}

impl Remarks {
    /// Returns the remarks for a person, as findings in the configuration.
    pub(crate) fn findings(&self) -> Vec<config::Finding> {
        let toolbox = self.toolbox.as_deref().unwrap_or_default();
        let path = format!("toolboxes.{toolbox}.mcpServers.{}", self.server.server);
        let finding = |remark: &Remark| {
            config::Finding::remark(
                path.clone(),
                words(remark),
                Some(remark.rule.advice.to_owned()),
            )
        };
        let mut findings: Vec<_> = self.server.shown.iter().map(finding).collect();
        if self.server.more > 0 {
            let message = format!("and {} more remarks on its definitions", self.server.more);
            findings.push(config::Finding::remark(path, message, None));
        }
        findings
    }

    /// Returns the remarks for those who read JSON.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.server.shown.iter().map(|remark| Row {
            toolbox: self.toolbox.as_deref(),
            server: &self.server.server,
            rule: remark.rule.id,
            severity: remark.rule.severity,
            kind: remark.place.kind.as_str(),
            name: &remark.place.name,
            pointer: &remark.place.pointer,
            offset: remark.place.offset,
            found: &remark.found,
            means: remark.means.as_deref(),
            advice: remark.rule.advice,
            is_reviewed: self.is_reviewed,
            words: words(remark),
        })
    }

    /// Returns `true` if it is about what nobody has reviewed of a server.
    pub(crate) fn is_about_news_of(&self, server: &str) -> bool {
        self.is_reviewed == Some(false) && self.server.server == server
    }

    /// Returns the number of remarks that are not shown.
    pub(crate) fn more(&self) -> usize {
        self.server.more
    }
}

/// Returns a remark for a person: its place, the rule, and what that has found.
pub(crate) fn words(remark: &Remark) -> String {
    let Remark { rule, place, found, means } = remark;
    let means = means.as_ref().map(|means| format!(", which {means}")).unwrap_or_default();
    format!("{place}: {} ({}): `{found}`{means}", rule.id, rule.severity.as_str())
}
