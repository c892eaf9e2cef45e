//! Asking a workbench for something: to find it out, or to do it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::desk::view::{Unused, View};

/// Something that is asked of a workbench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "ask", rename_all = "camelCase", rename_all_fields = "camelCase", try_from = "Asked")]
pub enum Ask {
    /// All that is seen of it now.
    View,
    /// Something to be done with a toolbox or a server.
    Act {
        /// The deed.
        act: Act,
        /// The toolbox.
        toolbox: String,
        /// The server; `None`: every one of the toolbox.
        server: Option<String>,
    },
    /// The tools that fit a few words, as an agent would be answered.
    Search {
        /// The words.
        query: String,
    },
    /// The tools of a server, with their definitions.
    Tools {
        /// The toolbox.
        toolbox: String,
        /// The server.
        server: String,
    },
    /// A call of a tool, which is let through as one of an agent is.
    Call {
        /// The toolbox.
        toolbox: String,
        /// The server.
        server: String,
        /// The tool, as its server calls it.
        tool: String,
        /// Its arguments, a JSON object; `None`: it has none.
        arguments: Option<Box<RawValue>>,
        /// `true` if the user has agreed to the question that such a call was answered with before.
        is_confirmed: bool,
    },
    /// A page on which whoever sits at the desk signs in at a server.
    SignIn {
        /// The toolbox.
        toolbox: String,
        /// The server.
        server: String,
    },
    /// The tools that nobody has used.
    Unused,
    /// The configuration with what was found in it.
    Findings,
}

/// The members that any of them has: arguments stay as they are written, which they would not in an
/// enumeration that is read by its tag.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Asked {
    ask: String,
    act: Option<Act>,
    toolbox: Option<String>,
    server: Option<String>,
    query: Option<String>,
    tool: Option<String>,
    arguments: Option<Box<RawValue>>,
    is_confirmed: Option<bool>,
}

impl TryFrom<Asked> for Ask {
    type Error = String;

    fn try_from(asked: Asked) -> Result<Self, String> {
        let Asked { ask, act, toolbox, server, query, tool, arguments, is_confirmed } = asked;
        let text = |name: &str, text: Option<String>| {
            text.ok_or_else(|| format!("`{ask}` needs `{name}`, a text"))
        };
        Ok(match &*ask {
            "view" => Self::View,
            "act" => Self::Act {
                act: act.ok_or("`act` needs `act`: open, stop, restart, mute or unmute")?,
                toolbox: text("toolbox", toolbox)?,
                server,
            },
            "search" => Self::Search { query: text("query", query)? },
            "tools" => {
                Self::Tools { toolbox: text("toolbox", toolbox)?, server: text("server", server)? }
            }
            "call" => Self::Call {
                toolbox: text("toolbox", toolbox)?,
                server: text("server", server)?,
                tool: text("tool", tool)?,
                arguments,
                is_confirmed: is_confirmed.unwrap_or_default(),
            },
            "signIn" => {
                Self::SignIn { toolbox: text("toolbox", toolbox)?, server: text("server", server)? }
            }
            "unused" => Self::Unused,
            "findings" => Self::Findings,
            _ => {
                return Err("`ask` is none of view, act, search, tools, call, signIn, unused and \
                            findings"
                    .to_owned());
            }
        })
    }
}

/// Something to be done with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    /// To start it.
    Open,
    /// To end it; it starts again when it is wanted.
    Stop,
    /// To end it and start it.
    Restart,
    /// To end it, and not to start it until it is unmuted.
    Mute,
    /// To let it start again.
    Unmute,
}

/// An answer.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "answer", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    /// All that is seen.
    View(Box<View>),
    /// It was done.
    Done,
    /// The tools that were found, the best first.
    Hits {
        /// The tools.
        hits: Vec<Hit>,
    },
    /// The tools of a server.
    Tools {
        /// The tools, by name.
        tools: Vec<ToolDefinition>,
    },
    /// The answer of the server, as it came.
    Called {
        /// The result, if the server gave one.
        result: Option<Box<RawValue>>,
        /// The error of the protocol, if that is what it answered.
        error: Option<Box<RawValue>>,
        /// How long it took, in milliseconds.
        ms: f64,
    },
    /// The call is to be made again with `isConfirmed` if the user agrees.
    Confirm {
        /// The question.
        question: String,
    },
    /// A page to be opened in a browser on this machine; once somebody has agreed on it, the server starts.
    Open {
        /// Its address, which begins with `http://` or `https://`.
        address: String,
        /// A code to type there, where one is needed.
        code: Option<String>,
    },
    /// The tools that nobody has used.
    Unused(Unused),
    /// The configuration with what was found in it.
    Findings {
        /// The file, as it was named.
        file: String,
        /// Its text, with secrets left out; `None`: there is no one file, or it cannot be read.
        text: Option<String>,
        /// The remarks.
        findings: Vec<Finding>,
    },
    /// It was not done, or cannot be found out.
    Refused(Refused),
}

/// A tool that was found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hit {
    /// The toolbox.
    pub toolbox: String,
    /// The server.
    pub server: String,
    /// The tool, as its server calls it.
    pub tool: String,
    /// The first line of its description, without control characters.
    pub description: String,
    /// How well it fits, from 0 to 1.
    pub score: f64,
    /// `true` if it is likelier than not what was wanted.
    pub is_good: bool,
    /// The words of the query that led to it, and others that count as the same.
    pub words: Vec<String>,
}

/// A tool with its definition.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// Its name, as its server calls it.
    pub name: String,
    /// Its description, whole, as its server wrote it.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Box<RawValue>,
    /// `true` if it counts as dangerous.
    pub is_dangerous: bool,
    /// Tokens of its definition.
    pub tokens: u64,
}

/// Something that was found in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finding {
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// The key, such as `toolboxes.dev`.
    pub path: String,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The remark.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Refused {
    /// The kind.
    pub why: Failure,
    /// In a sentence, with what to do.
    pub message: String,
}

/// Kinds of reasons why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Failure {
    /// The request cannot be understood.
    Malformed,
    /// There is no such toolbox, server or tool, or it may not be known of.
    Unknown,
    /// Whoever asks may look, and not do this.
    NotAllowed,
    /// It was tried, and failed.
    Failed,
}
