//! Statistics from an audit: how often each tool was called, how that went and how long it took,
//! and which definitions clients showed their models.
//!
//! Lines are read one after the other, with nothing copied of them but names that are new.

mod beside;
mod course;
mod models;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use foldhash::HashMap;
use memchr::memchr_iter;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

use crate::observe::Ending;
use crate::observe::file::aside;
use crate::observe::record::{DENIED, LOST};
use crate::observe::stats::beside::{Beside, Read};
use crate::observe::stats::course::Course;
use crate::observe::stats::models::{Models, Request};

pub use crate::observe::stats::beside::{Incident, LoginUse, Reads};
pub use crate::observe::stats::course::Span;
pub use crate::observe::stats::models::Model;

/// The outcomes that a line may have beside those of calls that end here.
const OTHERS: [&str; 2] = [DENIED, LOST];
/// How many outcomes there are.
const OUTCOMES: usize = Ending::ALL.len() + OTHERS.len();
/// More files are never put aside.
const MAX_FILES: u32 = 1_000;

/// Everything that an audit says.
#[derive(Debug, Default)]
pub struct Stats {
    tools: Vec<Tool>,
    /// Where a tool stands among those, by its toolbox, server and name.
    places: HashMap<String, usize>,
    models: Models,
    course: Course,
    beside: Beside,
    agents: BTreeSet<String>,
    sessions: BTreeSet<String>,
    from: String,
    to: String,
    clients: BTreeMap<String, Client>,
    /// Sessions of which an older version did not write what their clients would have shown.
    unclear_sessions: u64,
    lost: u64,
    unreadable: u64,
    /// The last key that was looked for.
    key: String,
}

/// The sessions of one client's program, with what their models were shown of definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The name that it gives itself; empty if it gives none.
    pub name: String,
    /// How many sessions ended.
    pub sessions: u64,
    /// `true` if the program hides tools behind a search of its own.
    pub has_tool_search: bool,
    /// How many bytes its models were shown.
    pub given_bytes: u64,
    /// How many bytes it would have shown them without us, before any search of its own.
    pub without_bytes: u64,
    /// How many bytes fewer those were, of sessions where they were fewer.
    pub saved_bytes: u64,
}

/// The statistics of one tool.
#[derive(Debug)]
pub struct Tool {
    /// The toolbox; empty if nobody knows it.
    pub toolbox: String,
    /// The server; empty if nobody knows it.
    pub server: String,
    /// The name that the toolbox shows it under, or that was called in vain.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    outcomes: [u64; OUTCOMES],
    /// How long calls took that reached the server, in microseconds.
    times: Vec<u32>,
    /// The bytes of arguments.
    pub argument_bytes: u64,
    /// The bytes of results.
    pub result_bytes: u64,
}

/// The members of a line that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    time: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    agent: Option<Text<'a>>,
    #[serde(borrow, default)]
    session: Option<Text<'a>>,
    #[serde(borrow, default)]
    toolbox: Option<Text<'a>>,
    #[serde(borrow, default)]
    server: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool: Option<Text<'a>>,
    #[serde(borrow, default)]
    outcome: Option<Text<'a>>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow, default)]
    account: Option<Text<'a>>,
    #[serde(default)]
    ms: Option<f64>,
    #[serde(default)]
    argument_bytes: u64,
    #[serde(default)]
    result_bytes: u64,
    #[serde(borrow, default)]
    client: Option<Text<'a>>,
    #[serde(default)]
    tool_search: bool,
    #[serde(default)]
    without_bytes: Option<u64>,
    #[serde(default)]
    given_bytes: u64,
    #[serde(default)]
    tokens_read: u64,
    #[serde(default)]
    tokens_written: u64,
    #[serde(default)]
    records: u64,
    /// Why somebody was not let in.
    #[serde(borrow, default)]
    why: Option<Text<'a>>,
    /// The kind of thing of which somebody wanted more.
    #[serde(borrow, default)]
    what: Option<Text<'a>>,
    #[serde(borrow, default)]
    address: Option<Text<'a>>,
    #[serde(default)]
    times: u64,
}

/// A text, empty where there is none.
fn said<'t>(text: Option<&'t Text<'_>>) -> &'t str {
    text.map_or("", |text| &text.0)
}

/// A text that is borrowed from the line where it can be.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;

        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: serde::de::Error>(
                self,
                text: &'de str,
            ) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Text<'de>, E> {
                Err(E::custom("no text"))
            }
        }

        deserializer.deserialize_str(Borrowing).map_err(D::Error::custom)
    }
}

/// A time as lines write it, in milliseconds since 1970.
pub fn millis(time: &str) -> Option<u64> {
    let time = chrono::DateTime::parse_from_rfc3339(time).ok()?;
    u64::try_from(time.timestamp_millis()).ok()
}

/// The files of an audit that are there, oldest first.
pub fn files(audit: &Path) -> Vec<PathBuf> {
    let numbered = (1..=MAX_FILES).map(|number| aside(audit, number));
    let mut files: Vec<_> = numbered.take_while(|path| path.exists()).collect();
    files.reverse();
    files.extend(audit.exists().then(|| audit.to_owned()));
    files
}

impl Stats {
    /// Summarises all files of an audit, as far as lines are not older than `since`, a time as lines
    /// write it.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub fn read(files: &[PathBuf], since: Option<&str>) -> io::Result<Self> {
        let mut stats = Self::default();
        for file in files {
            let text = std::fs::read(file)?;
            stats.summarise(&text, since);
        }
        Ok(stats)
    }

    /// Adds lines.
    pub fn summarise(&mut self, text: &[u8], since: Option<&str>) {
        let mut begin = 0;
        for end in memchr_iter(b'\n', text).chain([text.len()]) {
            let line = text.get(begin..end).unwrap_or_default();
            begin = end + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<Line<'_>>(line) {
                Ok(line) if since.is_none_or(|since| *line.time.0 >= *since) => self.add(&line),
                Ok(_) => {}
                Err(_) => self.unreadable += 1,
            }
        }
    }

    fn add(&mut self, line: &Line<'_>) {
        let time = &*line.time.0;
        if self.from.is_empty() || *time < *self.from {
            time.clone_into(&mut self.from);
        }
        if *time > *self.to {
            time.clone_into(&mut self.to);
        }
        match &*line.kind.0 {
            "call" => self.add_call(line),
            "session" => self.add_session(line),
            "llm" => {
                let [model, outcome] = [&line.model, &line.outcome]
                    .map(|text| text.as_ref().map_or("", |text| &*text.0));
                self.models.add(&Request {
                    model,
                    outcome,
                    ms: line.ms,
                    tokens: [line.tokens_read, line.tokens_written],
                });
            }
            "lost" => self.lost += line.records,
            "sign_in" => {
                let [server, account] =
                    [&line.server, &line.account].map(|text| said(text.as_ref()));
                self.beside.add_login(server, account, said(line.outcome.as_ref()));
            }
            kind @ ("denied" | "limit") => {
                let who = line.agent.as_ref().or(line.address.as_ref());
                let cause = line.why.as_ref().or(line.what.as_ref());
                let [who, cause] = [who, cause].map(|text| said(text).to_owned());
                let incident = Incident { is_limit: kind == "limit", cause, who };
                self.beside.add_incident(incident, line.times);
            }
            kind @ ("resource" | "prompt") => self.beside.add_read(&Read {
                is_prompt: kind == "prompt",
                toolbox: said(line.toolbox.as_ref()),
                server: said(line.server.as_ref()),
                outcome: said(line.outcome.as_ref()),
                result_bytes: line.result_bytes,
            }),
            // A later version may write more.
            _ => {}
        }
    }

    fn add_session(&mut self, line: &Line<'_>) {
        let Some(without) = line.without_bytes else {
            self.unclear_sessions += 1;
            return;
        };
        let name = line.client.as_ref().map_or("", |client| &*client.0);
        // Two versions of a program may differ in whether they have a search.
        let key = format!("{name}\0{}", line.tool_search);
        let client = self.clients.entry(key).or_insert_with(|| Client {
            name: name.to_owned(),
            has_tool_search: line.tool_search,
            ..Client::default()
        });
        client.sessions += 1;
        client.given_bytes = client.given_bytes.saturating_add(line.given_bytes);
        client.without_bytes = client.without_bytes.saturating_add(without);
        let saved = without.saturating_sub(line.given_bytes);
        client.saved_bytes = client.saved_bytes.saturating_add(saved);
    }

    fn add_call(&mut self, line: &Line<'_>) {
        note(&mut self.agents, line.agent.as_ref());
        note(&mut self.sessions, line.session.as_ref());
        let [toolbox, server, name] = [&line.toolbox, &line.server, &line.tool]
            .map(|text| text.as_ref().map_or("", |text| &*text.0));
        self.key.clear();
        for part in [toolbox, "\0", server, "\0", name] {
            self.key.push_str(part);
        }
        let place = if let Some(place) = self.places.get(&self.key) {
            *place
        } else {
            self.places.insert(self.key.clone(), self.tools.len());
            self.tools.push(Tool::new(toolbox, server, name));
            self.tools.len() - 1
        };
        let Some(tool) = self.tools.get_mut(place) else { return };
        tool.calls += 1;
        tool.argument_bytes += line.argument_bytes;
        tool.result_bytes += line.result_bytes;
        let outcome = line.outcome.as_ref().map_or("", |outcome| &*outcome.0);
        self.course.add(&line.time.0, is_failure(outcome));
        let mut words = Ending::ALL.iter().map(|ending| ending.as_str()).chain(OTHERS);
        if let Some(outcome) = words.position(|word| word == outcome)
            && let Some(count) = tool.outcomes.get_mut(outcome)
        {
            *count += 1;
        }
        if let (Some(ms), false) = (line.ms, is_refusal(outcome)) {
            tool.times.push(micros(ms));
        }
    }

    /// Everything as it is to be told, each tool with its times in order.
    pub fn finish(mut self) -> Summary {
        for tool in &mut self.tools {
            tool.times.sort_unstable();
        }
        self.tools
            .sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.identity().cmp(&b.identity())));
        let (incidents, reads, logins) = self.beside.finish();
        Summary {
            incidents,
            reads,
            logins,
            agents: self.agents.into_iter().collect(),
            sessions: self.sessions.len(),
            from: self.from,
            to: self.to,
            clients: self.clients.into_values().collect(),
            unclear_sessions: self.unclear_sessions,
            lost: self.lost,
            unreadable: self.unreadable,
            tools: self.tools,
            models: self.models.finish(),
            course: self.course.finish(),
        }
    }
}

/// The statistics of a whole audit.
#[derive(Debug)]
pub struct Summary {
    /// Every tool that was called, the most used first.
    pub tools: Vec<Tool>,
    /// Every language model that was asked, the most used first.
    pub models: Vec<Model>,
    /// The calls of each hour or day that had any, in order.
    pub course: Vec<Span>,
    /// Everybody who did not get what it wanted, with how often, the most frequent first.
    pub incidents: Vec<(Incident, u64)>,
    /// The servers of which something was read, the most read first.
    pub reads: Vec<Reads>,
    /// The logins of which something was heard.
    pub logins: Vec<LoginUse>,
    /// The agents that have names.
    pub agents: Vec<String>,
    /// How many sessions called something.
    pub sessions: usize,
    /// The time of the first line; empty if there is none.
    pub from: String,
    /// The time of the last one.
    pub to: String,
    /// The clients whose sessions ended, by name.
    pub clients: Vec<Client>,
    /// How many sessions say nothing of what their clients would have shown without us.
    pub unclear_sessions: u64,
    /// How many records were lost.
    pub lost: u64,
    /// How many lines could not be read.
    pub unreadable: u64,
}

impl Summary {
    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.tools.iter().map(|tool| tool.calls).sum()
    }

    /// How many bytes of definitions models were not shown that they would have been without us.
    pub fn saved_bytes(&self) -> u64 {
        self.clients.iter().fold(0, |sum, client| sum.saturating_add(client.saved_bytes))
    }

    /// The tool of this identity, if it was called.
    pub fn tool(&self, toolbox: &str, server: &str, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.identity() == (toolbox, server, name))
    }
}

impl Tool {
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

    /// The outcomes of its calls, each with their number.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let words = Ending::ALL.into_iter().map(Ending::as_str).chain(OTHERS);
        words.zip(self.outcomes).filter(|(_, count)| *count > 0)
    }

    /// How many calls were not let through, or meant nothing to the agent.
    pub fn refused(&self) -> u64 {
        self.outcomes().filter(|(word, _)| is_refusal(word)).map(|(_, count)| count).sum()
    }

    /// How many calls failed on their way, or at the tool.
    pub fn failed(&self) -> u64 {
        self.outcomes().filter(|(word, _)| is_failure(word)).map(|(_, count)| count).sum()
    }

    /// The time that so many of a hundred calls did not pass, in milliseconds, of those that were
    /// made.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        percentile(&self.times, percent)
    }
}

/// The time that so many of a hundred did not pass, of times in microseconds and in order.
fn percentile(times: &[u32], percent: usize) -> Option<f64> {
    let last = times.len().checked_sub(1)?;
    let at = (times.len() * percent).div_ceil(100).saturating_sub(1).min(last);
    times.get(at).map(|micros| f64::from(*micros) / 1000.0)
}

fn is_refusal(outcome: &str) -> bool {
    matches!(outcome, "unknown" | "denied" | "refused")
}

fn is_failure(outcome: &str) -> bool {
    !is_refusal(outcome)
        && !matches!(outcome, "ok" | "input_required" | "cancelled" | "shutting_down")
}

fn note(known: &mut BTreeSet<String>, name: Option<&Text<'_>>) {
    if let Some(name) = name
        && !known.contains(&*name.0)
    {
        known.insert(name.0.clone().into_owned());
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and nothing takes an hour or a negative time"
)]
fn micros(ms: f64) -> u32 {
    (ms * 1000.0).round() as u32
}

#[cfg(test)]
mod tests;
