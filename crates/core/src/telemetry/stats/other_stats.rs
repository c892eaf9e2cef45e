//! Statistics of denials, reads of resources and prompts, and logins.

use std::collections::BTreeMap;

use crate::telemetry::stats::audit_line::{ReadLine, RejectionLine, SignInLine, Text};
use crate::telemetry::stats::measures::{is_denial, is_failure};

/// A denial or exhausted quota, by cause and caller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RejectionStats {
    /// `true` for an exhausted quota, `false` for a denial.
    pub is_limit: bool,
    /// Reason of the denial, or the kind of quota, as the audit spells it.
    pub cause: String,
    /// Agent name or IP address; empty if neither was recorded.
    pub who: String,
}

/// Reads of the resources and prompts of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    pub toolbox: String,
    pub server: String,
    /// Number of resource reads.
    pub resources: u64,
    /// Number of prompt reads.
    pub prompts: u64,
    /// Number of failed reads of both kinds.
    pub failed: u64,
    pub result_bytes: u64,
}

/// Events of one login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginStats {
    pub server: String,
    /// Name of the agent that owns the login; empty if it belongs to this machine.
    pub account: String,
    /// Number of sign-ins.
    pub signed_in: u64,
    /// Number of token refreshes.
    pub renewed: u64,
    /// How often the server required a sign-in.
    pub required: u64,
    /// `true` if that was the last event.
    pub is_required: bool,
}

#[derive(Debug, Default)]
pub(super) struct OtherStats {
    /// By server and account.
    logins: BTreeMap<(String, String), LoginStats>,
    incidents: BTreeMap<RejectionStats, u64>,
    /// By toolbox and server.
    reads: BTreeMap<(String, String), ReadStats>,
}

impl OtherStats {
    pub(super) fn add_incident(&mut self, is_limit: bool, line: &RejectionLine<'_>) {
        let RejectionLine { agent, address, server, reason, quota, times } = line;
        let text =
            |text: Option<&Text<'_>>| text.map_or_else(String::new, |text| (**text).to_owned());
        let who = text([agent, address, server].into_iter().flatten().next());
        let cause = text(reason.as_ref().or(quota.as_ref()));
        let count = self.incidents.entry(RejectionStats { is_limit, cause, who }).or_default();
        *count = count.saturating_add(*times);
    }

    pub(super) fn add_read(&mut self, is_prompt: bool, line: &ReadLine<'_>) {
        let (toolbox, server, outcome) = (&*line.toolbox, &*line.server, line.outcome());
        let place = (toolbox.to_owned(), server.to_owned());
        let reads = self.reads.entry(place).or_insert_with(|| ReadStats {
            toolbox: toolbox.to_owned(),
            server: server.to_owned(),
            ..ReadStats::default()
        });
        *(if is_prompt { &mut reads.prompts } else { &mut reads.resources }) += 1;
        reads.failed += u64::from(is_denial(outcome) || is_failure(outcome));
        reads.result_bytes = reads.result_bytes.saturating_add(line.result_bytes);
    }

    pub(super) fn add_login(&mut self, line: &SignInLine<'_>) {
        let (server, account) = ((*line.server).to_owned(), (*line.account).to_owned());
        let outcome = &*line.outcome;
        let new = || LoginStats {
            server: server.clone(),
            account: account.clone(),
            ..LoginStats::default()
        };
        let login = self.logins.entry((server.clone(), account.clone())).or_insert_with(new);
        match outcome {
            "signed_in" => login.signed_in += 1,
            "renewed" => login.renewed += 1,
            "required" => login.required += 1,
            // A sign-out.
            _ => {}
        }
        login.is_required = outcome == "required";
    }

    /// Returns denials and reads by frequency, and logins by server and account.
    pub(super) fn finish(self) -> (Vec<(RejectionStats, u64)>, Vec<ReadStats>, Vec<LoginStats>) {
        let mut incidents: Vec<_> = self.incidents.into_iter().collect();
        incidents.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let mut reads: Vec<_> = self.reads.into_values().collect();
        reads.sort_by_key(|reads| std::cmp::Reverse(reads.resources + reads.prompts));
        (incidents, reads, self.logins.into_values().collect())
    }
}
