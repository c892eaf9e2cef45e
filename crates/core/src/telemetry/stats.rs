//! Statistics from audit files: calls, outcomes and latencies of each tool, and the size of the
//! definitions that clients passed to their models.
//!
//! Lines are parsed one by one; only names seen for the first time are copied.

mod audit_line;
mod measures;
mod models;
mod other_stats;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use foldhash::HashMap;
use memchr::{memchr, memchr_iter};

use crate::telemetry::outcome::CallOutcome;
use crate::telemetry::record::LOST;
use crate::telemetry::rotating_file::rotated_path;
use crate::telemetry::stats::audit_line::{CallLine, LineHead, LostLine, SessionLine};
use crate::telemetry::stats::measures::{is_denial, is_failure, micros, percentile};
use crate::telemetry::stats::models::Models;
use crate::telemetry::stats::other_stats::OtherStats;
use crate::telemetry::stats::timeline::Timeline;
use mcp_workbench_os::open_input;

pub use crate::telemetry::stats::models::ModelStats;
pub use crate::telemetry::stats::other_stats::{LoginStats, ReadStats, RejectionStats};
pub use crate::telemetry::stats::timeline::TimeBucket;

const OUTCOMES: usize = CallOutcome::ALL.len() + 1;
/// Upper bound on the number of rotated files.
const MAX_FILES: u32 = 1_000;

/// Accumulates audit lines; `finish` returns the summary.
#[derive(Debug, Default)]
pub struct StatsBuilder {
    /// Complete except for the members that `finish` adds.
    summary: AuditSummary,
    places: ToolPlaces,
    models: Models,
    course: Timeline,
    beside: OtherStats,
    agents: BTreeSet<String>,
    sessions: BTreeSet<String>,
    clients: BTreeMap<String, ClientStats>,
}

/// Finds tools by toolbox, server and name.
#[derive(Debug, Default)]
struct ToolPlaces {
    /// Index into the tools by toolbox, server and name, separated by NUL.
    places: HashMap<String, usize>,
    /// Buffer for the key of the last lookup.
    key: String,
}

/// The sessions of one client, and the size of the definitions that its models got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Name reported by the client; empty if unknown.
    pub name: String,
    /// Number of ended sessions.
    pub sessions: u64,
    /// `true` if the client has a tool search of its own, which hides tools from its models.
    pub has_tool_search: bool,
    /// Bytes of definitions that the models got.
    pub shown_bytes: u64,
    /// Bytes they would have got without the workbench, not counting results of the client's tool
    /// search.
    pub without_workbench_bytes: u64,
    /// Bytes saved, summed over the sessions that saved any.
    pub saved_bytes: u64,
}

#[derive(Debug)]
pub struct ToolStats {
    /// Empty if unknown.
    pub toolbox: String,
    /// Empty if unknown.
    pub server: String,
    /// Name in the toolbox, or the name used in the call if the tool doesn't exist.
    pub name: String,
    pub calls: u64,
    outcomes: [u64; OUTCOMES],
    /// Latencies of the calls that reached the server, in microseconds.
    times: Vec<u32>,
    pub argument_bytes: u64,
    pub result_bytes: u64,
}

/// Parses the timestamp of an audit line to milliseconds since the Unix epoch.
pub fn parse_unix_millis(time: &str) -> Option<u64> {
    let time = chrono::DateTime::parse_from_rfc3339(time).ok()?;
    u64::try_from(time.timestamp_millis()).ok()
}

/// Returns the existing files of an audit log, oldest first.
pub fn audit_files(audit: &Path) -> Vec<PathBuf> {
    let numbered = (1..=MAX_FILES).map(|number| rotated_path(audit, number));
    let mut files: Vec<_> = numbered.take_while(|path| path.exists()).collect();
    files.reverse();
    files.extend(audit.exists().then(|| audit.to_owned()));
    files
}

impl StatsBuilder {
    /// Reads audit files, skipping lines before `since`, a timestamp in the format of the lines.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read.
    pub fn read(files: &[PathBuf], since: Option<&str>) -> io::Result<Self> {
        Self::read_last(files, since, u64::MAX)
    }

    /// Reads the lines within the last `most` bytes of audit files, like [`Self::read`].
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read.
    pub fn read_last(files: &[PathBuf], since: Option<&str>, most: u64) -> io::Result<Self> {
        let mut parts = Vec::new();
        let mut left = most;
        for file in files.iter().rev() {
            let length = open_input(file)?.metadata()?.len().min(left);
            left -= length;
            if length > 0 {
                parts.push((file, length));
            }
        }
        let mut stats = Self::default();
        for (file, length) in parts.into_iter().rev() {
            let mut file = open_input(file)?;
            let begin = file.metadata()?.len().saturating_sub(length);
            // The byte before the part shows whether a line begins with it.
            file.seek(SeekFrom::Start(begin.saturating_sub(1)))?;
            let mut text = Vec::new();
            file.take(length.saturating_add(1)).read_to_end(&mut text)?;
            let cut = if begin == 0 { None } else { memchr(b'\n', &text) };
            let whole = cut.map_or(0, |end| end + 1);
            let is_within_one_line = begin > 0 && cut.is_none();
            let lines = if is_within_one_line { &[] } else { &text[whole..] };
            stats.summarise(lines, since);
        }
        Ok(stats)
    }

    /// Adds lines of an audit file. Malformed lines are counted.
    pub fn summarise(&mut self, text: &[u8], since: Option<&str>) {
        let mut begin = 0;
        for end in memchr_iter(b'\n', text).chain([text.len()]) {
            let line = text.get(begin..end).unwrap_or_default();
            begin = end + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            if self.add(line, since).is_err() {
                self.summary.unreadable += 1;
            }
        }
    }

    fn add(&mut self, line: &[u8], since: Option<&str>) -> serde_json::Result<()> {
        let LineHead { time, kind } = serde_json::from_slice(line)?;
        if since.is_some_and(|since| *time < *since) {
            return Ok(());
        }
        match &*kind {
            "call" => self.add_call(&time, &serde_json::from_slice(line)?),
            "session" => self.add_session(&serde_json::from_slice(line)?),
            "llm" => self.models.add(&serde_json::from_slice(line)?),
            "lost" => {
                let LostLine { records } = serde_json::from_slice(line)?;
                self.summary.lost = self.summary.lost.saturating_add(records);
            }
            "sign_in" => self.beside.add_login(&serde_json::from_slice(line)?),
            "denied" => self.beside.add_incident(false, &serde_json::from_slice(line)?),
            "limit" => self.beside.add_incident(true, &serde_json::from_slice(line)?),
            "resource" => self.beside.add_read(false, &serde_json::from_slice(line)?),
            "prompt" => self.beside.add_read(true, &serde_json::from_slice(line)?),
            // Written by a newer version.
            _ => {}
        }
        let AuditSummary { from, to, .. } = &mut self.summary;
        if from.is_empty() || *time < **from {
            (*time).clone_into(from);
        }
        if *time > **to {
            (*time).clone_into(to);
        }
        Ok(())
    }

    fn add_session(&mut self, line: &SessionLine<'_>) {
        let Some(without) = line.without_workbench_bytes else {
            self.summary.unclear_sessions += 1;
            return;
        };
        let name = &*line.client;
        // Versions of a client can differ in whether they have a tool search.
        let key = format!("{name}\0{}", line.has_tool_search);
        let client = self.clients.entry(key).or_insert_with(|| ClientStats {
            name: name.to_owned(),
            has_tool_search: line.has_tool_search,
            ..ClientStats::default()
        });
        client.sessions += 1;
        client.shown_bytes = client.shown_bytes.saturating_add(line.shown_bytes);
        client.without_workbench_bytes = client.without_workbench_bytes.saturating_add(without);
        let saved = without.saturating_sub(line.shown_bytes);
        client.saved_bytes = client.saved_bytes.saturating_add(saved);
    }

    fn add_call(&mut self, time: &str, line: &CallLine<'_>) {
        note(&mut self.agents, line.agent.as_deref());
        note(&mut self.sessions, line.session.as_deref());
        let tool = self.places.find(&mut self.summary.tools, line);
        tool.calls += 1;
        tool.argument_bytes = tool.argument_bytes.saturating_add(line.argument_bytes);
        tool.result_bytes = tool.result_bytes.saturating_add(line.result_bytes);
        let outcome = line.outcome();
        self.course.add(time, is_failure(outcome));
        if let Some(outcome) = outcome_words().position(|word| word == outcome)
            && let Some(count) = tool.outcomes.get_mut(outcome)
        {
            *count += 1;
        }
        if let (Some(ms), false) = (line.ms, is_denial(outcome)) {
            tool.times.push(micros(ms));
        }
    }

    /// Sorts the tools and their latencies, and returns the summary.
    pub fn finish(mut self) -> AuditSummary {
        let mut tools = std::mem::take(&mut self.summary.tools);
        for tool in &mut tools {
            tool.times.sort_unstable();
        }
        tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.identity().cmp(&b.identity())));
        let (incidents, reads, logins) = self.beside.finish();
        AuditSummary {
            incidents,
            reads,
            logins,
            agents: self.agents.into_iter().collect(),
            sessions: self.sessions.len(),
            clients: self.clients.into_values().collect(),
            tools,
            models: self.models.finish(),
            course: self.course.finish(),
            ..self.summary
        }
    }
}

impl ToolPlaces {
    /// Returns the tool of a line, which is added if it is new.
    fn find<'a>(
        &mut self,
        tools: &'a mut Vec<ToolStats>,
        line: &CallLine<'_>,
    ) -> &'a mut ToolStats {
        let [toolbox, server, name] = [&*line.toolbox, &line.server, &line.tool];
        self.key.clear();
        for part in [toolbox, "\0", server, "\0", name] {
            self.key.push_str(part);
        }
        let index = self.places.get(&self.key).copied().unwrap_or_else(|| {
            self.places.insert(self.key.clone(), tools.len());
            tools.push(ToolStats::new(toolbox, server, name));
            tools.len() - 1
        });
        &mut tools[index]
    }
}

#[derive(Debug, Default)]
pub struct AuditSummary {
    /// Called tools, most calls first.
    pub tools: Vec<ToolStats>,
    /// Language models, most requests first.
    pub models: Vec<ModelStats>,
    /// Calls per hour or day, in chronological order, without empty ones.
    pub course: Vec<TimeBucket>,
    /// Denials and exhausted quotas with their counts, most frequent first.
    pub incidents: Vec<(RejectionStats, u64)>,
    /// Reads of resources and prompts per server, most reads first.
    pub reads: Vec<ReadStats>,
    pub logins: Vec<LoginStats>,
    /// Names of the agents that made calls.
    pub agents: Vec<String>,
    /// Number of sessions with calls.
    pub sessions: usize,
    /// Timestamp of the first line; empty for an empty log.
    pub from: String,
    /// Timestamp of the last line.
    pub to: String,
    /// Clients with ended sessions, by name.
    pub clients: Vec<ClientStats>,
    /// Sessions from versions that did not record `withoutWorkbenchBytes`.
    pub unclear_sessions: u64,
    /// Number of records that the audit lost.
    pub lost: u64,
    /// Number of malformed lines.
    pub unreadable: u64,
}

impl AuditSummary {
    /// Returns the total number of calls.
    pub fn calls(&self) -> u64 {
        self.tools.iter().map(|tool| tool.calls).sum()
    }

    /// Returns the bytes of definitions that models did not get thanks to the workbench.
    pub fn saved_bytes(&self) -> u64 {
        self.clients.iter().fold(0, |sum, client| sum.saturating_add(client.saved_bytes))
    }

    /// Returns the tools that were called without being denied or unknown.
    pub fn used_tools(&self) -> impl Iterator<Item = &ToolStats> {
        self.tools.iter().filter(|tool| tool.calls > tool.denied())
    }

    /// Returns the statistics of a tool, if it was called.
    pub fn tool(&self, toolbox: &str, server: &str, name: &str) -> Option<&ToolStats> {
        self.tools.iter().find(|tool| tool.identity() == (toolbox, server, name))
    }
}

impl ToolStats {
    fn new(toolbox: &str, server: &str, name: &str) -> Self {
        Self {
            toolbox: toolbox.to_owned(),
            server: server.to_owned(),
            name: name.to_owned(),
            calls: 0,
            outcomes: [0; OUTCOMES],
            times: Vec::new(),
            argument_bytes: 0,
            result_bytes: 0,
        }
    }

    fn identity(&self) -> (&str, &str, &str) {
        (&self.toolbox, &self.server, &self.name)
    }

    /// Returns the outcomes that occurred, with their counts.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        outcome_words().zip(self.outcomes).filter(|(_, count)| *count > 0)
    }

    /// Returns the number of calls that were denied or named an unknown tool.
    pub fn denied(&self) -> u64 {
        self.outcomes().filter(|(word, _)| is_denial(word)).map(|(_, count)| count).sum()
    }

    /// Returns the number of calls that failed in transit, at the server or in the tool.
    pub fn failed(&self) -> u64 {
        self.outcomes().filter(|(word, _)| is_failure(word)).map(|(_, count)| count).sum()
    }

    /// Returns a percentile of the latency, in milliseconds, of the calls that reached the server.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        percentile(&self.times, percent)
    }
}

/// Returns the outcomes in audit lines, in the order of `ToolStats::outcomes`.
fn outcome_words() -> impl Iterator<Item = &'static str> {
    CallOutcome::ALL.into_iter().map(CallOutcome::as_str).chain([LOST])
}

fn note(known: &mut BTreeSet<String>, name: Option<&str>) {
    if let Some(name) = name
        && !known.contains(name)
    {
        known.insert(name.to_owned());
    }
}

#[cfg(test)]
mod tests;
