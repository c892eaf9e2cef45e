//! Statistics of what is beside calls: who was turned away, what was read of servers, and logins at them.

use std::collections::BTreeMap;

use crate::observe::stats::{is_failure, is_refusal};

/// Somebody who did not get what it wanted, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incident {
    /// `true` if it wanted to hold more than it may; else it was not let in.
    pub is_limit: bool,
    /// The word for why it was not let in, or for what it wanted more of.
    pub cause: String,
    /// The agent's name or the address; empty where neither is written.
    pub who: String,
}

/// How often the resources and prompts of one server were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// The toolbox.
    pub toolbox: String,
    /// The server.
    pub server: String,
    /// How often a resource was read.
    pub resources: u64,
    /// How often a prompt was.
    pub prompts: u64,
    /// How many of both failed.
    pub failed: u64,
    /// The bytes of the answers.
    pub result_bytes: u64,
}

/// The counts of what happened to one login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginUse {
    /// The server.
    pub server: String,
    /// The agent whose own it is; empty for this machine's.
    pub account: String,
    /// How often somebody signed in.
    pub signed_in: u64,
    /// How often its token was renewed.
    pub renewed: u64,
    /// How often the server wanted a sign-in.
    pub wanted: u64,
    /// `true` if that was the last that was heard of it.
    pub is_wanted: bool,
}

/// The counts of all of them.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// By server and account.
    logins: BTreeMap<(String, String), LoginUse>,
    incidents: BTreeMap<Incident, u64>,
    /// By toolbox and server.
    reads: BTreeMap<(String, String), Reads>,
}

/// A line that tells of something that was read.
pub(super) struct Read<'a> {
    pub(super) is_prompt: bool,
    pub(super) toolbox: &'a str,
    pub(super) server: &'a str,
    pub(super) outcome: &'a str,
    pub(super) result_bytes: u64,
}

impl Beside {
    pub(super) fn add_incident(&mut self, incident: Incident, times: u64) {
        let count = self.incidents.entry(incident).or_default();
        *count = count.saturating_add(times);
    }

    pub(super) fn add_read(&mut self, read: &Read<'_>) {
        let Read { is_prompt, toolbox, server, outcome, result_bytes } = *read;
        let place = (toolbox.to_owned(), server.to_owned());
        let reads = self.reads.entry(place).or_insert_with(|| Reads {
            toolbox: toolbox.to_owned(),
            server: server.to_owned(),
            ..Reads::default()
        });
        *(if is_prompt { &mut reads.prompts } else { &mut reads.resources }) += 1;
        reads.failed += u64::from(is_refusal(outcome) || is_failure(outcome));
        reads.result_bytes = reads.result_bytes.saturating_add(result_bytes);
    }

    pub(super) fn add_login(&mut self, server: &str, account: &str, outcome: &str) {
        let (server, account) = (server.to_owned(), account.to_owned());
        let new =
            || LoginUse { server: server.clone(), account: account.clone(), ..LoginUse::default() };
        let login = self.logins.entry((server.clone(), account.clone())).or_insert_with(new);
        match outcome {
            "signed_in" => login.signed_in += 1,
            "renewed" => login.renewed += 1,
            "wanted" => login.wanted += 1,
            // Somebody has signed out.
            _ => {}
        }
        login.is_wanted = outcome == "wanted";
    }

    /// All of them: logins by server and account, the others by how frequent they are.
    pub(super) fn finish(self) -> (Vec<(Incident, u64)>, Vec<Reads>, Vec<LoginUse>) {
        let mut incidents: Vec<_> = self.incidents.into_iter().collect();
        incidents.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let mut reads: Vec<_> = self.reads.into_values().collect();
        reads.sort_by_key(|reads| std::cmp::Reverse(reads.resources + reads.prompts));
        (incidents, reads, self.logins.into_values().collect())
    }
}
