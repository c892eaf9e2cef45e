//! The behaviors of tool calls.

use std::collections::BTreeMap;
use std::process::exit;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::script::tool;
use crate::server::Server;
use crate::wire::{Answer, RpcError};

const ASK_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Act {
    /// Returns the arguments exactly as they were sent, as text and as `structuredContent`.
    Echo,
    /// Returns the whole `params` as text, `_meta` included.
    Request,
    /// Returns exactly the text `raw` as the result, byte for byte.
    Result {
        #[serde(default = "empty_result")]
        raw: String,
    },
    /// Answers after `ms` unless canceled; reports progress every `progress_every_ms`.
    Sleep {
        #[serde(default = "hundred")]
        ms: u64,
        progress_every_ms: Option<u64>,
    },
    /// Sends `count` progress notifications as fast as it can, then answers.
    Progress {
        #[serde(default = "hundred")]
        count: u64,
    },
    /// Prints `stderr` and exits with `code` instead of answering.
    Crash {
        #[serde(default)]
        stderr: Vec<String>,
        #[serde(default)]
        code: i32,
    },
    /// Writes a non-JSON line before the response: `line`, or `bytes` letters.
    Garbage {
        #[serde(default = "hundred")]
        bytes: u64,
        line: Option<String>,
    },
    /// Writes `bytes` arbitrary bytes and a newline before the response.
    Binary {
        #[serde(default = "hundred")]
        bytes: u64,
    },
    /// Answers, then writes `line`, or letters, to stdout and stderr as fast as it can.
    Flood { line: Option<String> },
    /// Answers twice.
    Twice,
    /// Sends a server request and responses with unknown and malformed IDs around the response.
    Ids,
    /// Writes the first half of the response and exits.
    Half,
    /// Sends `count` `list_changed` as fast as it can, then answers.
    Storm {
        #[serde(default = "hundred")]
        count: u64,
    },
    /// Blocks until `count` calls have arrived, then answers all of them.
    Gather {
        #[serde(default = "hundred")]
        count: u64,
    },
    /// Answers with a text of `bytes` letters.
    Huge {
        #[serde(default = "hundred")]
        bytes: u64,
    },
    /// Writes the response one byte at a time, `ms` apart, while holding the output lock.
    Trickle {
        #[serde(default = "one")]
        ms: u64,
    },
    Error {
        #[serde(flatten)]
        error: RpcError,
    },
    /// Answers with exactly the text `raw` as the JSON-RPC error.
    RawError {
        #[serde(default = "empty_error")]
        raw: String,
    },
    /// Answers with a result that has `isError`.
    ToolError {
        #[serde(default)]
        text: String,
    },
    /// Returns `{pid, grandchildren}`.
    Pid,
    /// Returns the environment as an object.
    Env,
    /// Returns the working directory as text.
    Cwd,
    /// Runs `command` in a shell and returns `stdout`, `stderr` and the exit `code`.
    Shell {
        #[serde(default)]
        command: String,
    },
    /// Returns the command line as the array `args`.
    Args,
    /// Adds or replaces `tools` (as in the script) and sends `list_changed`.
    Grow {
        #[serde(default)]
        tools: Vec<Value>,
    },
    /// Changes the results of these methods and sends `list_changed` for the lists in `changed`,
    /// such as `prompts`.
    Turn {
        answers: BTreeMap<String, Value>,
        #[serde(default)]
        changed: Vec<String>,
    },
    /// Removes `tools` by name and sends `list_changed`.
    Shrink {
        #[serde(default)]
        tools: Vec<String>,
    },
    /// Returns `{calls: {tool: n}, cancelled: [request ids], lists: n}`, this call included, and
    /// the `reasons` of cancellations if there are any.
    Count,
    /// Never answers.
    Never,
    /// Sends this notification, then answers.
    Notify {
        #[serde(default)]
        method: String,
        #[serde(default)]
        params: Value,
    },
    /// Sends a server request (legacy), cancels it immediately, and answers.
    Withdraw {
        #[serde(default = "ping")]
        method: String,
        #[serde(default)]
        params: Value,
    },
    /// Sends a server request and returns its `{result}` or `{error}`. A modern caller gets
    /// `input_required` and retries.
    Ask {
        #[serde(default = "ping")]
        method: String,
        #[serde(default)]
        params: Value,
    },
}

fn empty_result() -> String {
    r#"{"content":[]}"#.to_owned()
}

fn empty_error() -> String {
    r#"{"code":-32000,"message":"scripted error"}"#.to_owned()
}

fn hundred() -> u64 {
    100
}

fn one() -> u64 {
    1
}

fn ping() -> String {
    "ping".to_owned()
}

pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) params: Box<RawValue>,
    pub(crate) arguments: Box<RawValue>,
    pub(crate) modern: bool,
    pub(crate) token: Option<Value>,
    pub(crate) input_responses: Option<Value>,
    /// Receives a message when the client cancels the call.
    pub(crate) cancelled: Receiver<()>,
}

impl Call {
    /// Runs the behavior. `None` means that no response is sent.
    pub(crate) fn run(&self, act: Act, server: &Server) -> Option<Answer> {
        match act {
            Act::Echo => Some(Ok(self.echo())),
            Act::Request => self.text(self.params.get()),
            Act::Result { raw } => Some(Ok(raw)),
            Act::Sleep { ms, progress_every_ms } => self.sleep(ms, progress_every_ms, server),
            Act::Progress { count } => {
                for step in 1..=count {
                    self.progress(server, step, count);
                }
                self.text(&format!("{count} steps"))
            }
            Act::Crash { stderr, code } => {
                for line in stderr {
                    eprintln!("{line}");
                }
                exit(code)
            }
            Act::Garbage { bytes, line } => {
                server.output.line(&line.unwrap_or_else(|| letters(bytes)));
                self.text("after the garbage")
            }
            Act::Binary { bytes } => {
                server.output.bytes(&(0..=u8::MAX).cycle().take(size(bytes)).collect::<Vec<_>>());
                server.output.line("");
                self.text("after the bytes")
            }
            Act::Ids => self.ids(server),
            Act::Half => {
                let answer = self.text("half")?;
                server.output.half(&self.id, &answer);
                exit(0)
            }
            Act::Storm { count } => {
                for _ in 0..count {
                    server.change_tools(|_| {});
                }
                self.text("it is over")
            }
            Act::Gather { count } => {
                server.gather(count);
                self.text("all are here")
            }
            Act::RawError { raw } => {
                server
                    .output
                    .line(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{raw}}}"#, self.id));
                None
            }
            Act::Flood { line } => self.flood(line, server),
            Act::Twice => {
                let first = self.text("first")?;
                server.output.answer(&self.id, &first);
                self.text("second")
            }
            Act::Huge { bytes } => self.text(&letters(bytes)),
            Act::Trickle { ms } => {
                let answer = self.text("slow")?;
                server.output.trickle(&self.id, &answer, Duration::from_millis(ms));
                None
            }
            Act::Error { error } => Some(Err(error)),
            Act::ToolError { text } => self.value(json!({
                "content": [{ "type": "text", "text": text }],
                "isError": true,
            })),
            Act::Pid => self.structured(
                &json!({ "pid": std::process::id(), "grandchildren": server.grandchildren }),
            ),
            Act::Env => self.structured(&std::env::vars().collect()),
            Act::Cwd => self.text(&std::env::current_dir().unwrap().to_string_lossy()),
            Act::Shell { command } => self.structured(&shell(&command)),
            Act::Args => self.structured(&json!({ "args": std::env::args().collect::<Vec<_>>() })),
            Act::Grow { tools } => {
                server.grow(&tools.iter().map(tool).collect::<Vec<_>>());
                self.text("grown")
            }
            Act::Turn { answers, changed } => {
                server.turn(answers, &changed);
                self.text("turned")
            }
            Act::Shrink { tools } => {
                let gone = |entry: &Value| {
                    tools.iter().any(|name| entry["name"].as_str() == Some(name.as_str()))
                };
                server.change_tools(|list| list.retain(|entry| !gone(entry)));
                self.text("shrunk")
            }
            Act::Count => self.structured(&server.counts()),
            Act::Never => None,
            Act::Notify { method, params } => {
                server.output.notify(&method, &params);
                self.text("notified")
            }
            Act::Withdraw { method, params } => {
                server.ask_in_vain(&method, &params);
                self.text("never mind")
            }
            Act::Ask { method, params } => self.ask(&method, &params, server),
        }
    }

    fn echo(&self) -> String {
        let arguments = self.arguments.get();
        let text = Value::from(arguments);
        let era = if self.modern { r#","resultType":"complete""# } else { "" };
        format!(
            r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{arguments}{era}}}"#
        )
    }

    fn flood(&self, line: Option<String>, server: &Server) -> Option<Answer> {
        let line = line.unwrap_or_else(|| letters(1000));
        server.output.answer(&self.id, &self.text("as you wish")?);
        let errors = line.clone();
        thread::spawn(move || {
            loop {
                eprintln!("{errors}");
            }
        });
        loop {
            server.output.line(&line);
        }
    }

    fn ids(&self, server: &Server) -> Option<Answer> {
        let id = &self.id;
        let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        server.output.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        for other in ["0", "-1", "1.5", "null", "[]", "18446744073709551616", "\"x\""] {
            server.output.line(&answer(other));
        }
        server.output.line(&format!("[{}]", answer(id)));
        server.output.answer(id, &self.text("the answer")?);
        self.text("another answer")
    }

    fn sleep(&self, ms: u64, every: Option<u64>, server: &Server) -> Option<Answer> {
        let end = Instant::now() + Duration::from_millis(ms);
        let step = every.map_or(Duration::MAX, Duration::from_millis);
        let total = every.map_or(0, |every| ms / every.max(1));
        for step_number in 1.. {
            let left = end.saturating_duration_since(Instant::now());
            match self.cancelled.recv_timeout(left.min(step)) {
                Ok(()) => return None,
                Err(RecvTimeoutError::Disconnected) => thread::sleep(left.min(step)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if left <= step {
                break;
            }
            self.progress(server, step_number, total.max(step_number));
        }
        self.text(&format!("slept {ms} ms"))
    }

    fn progress(&self, server: &Server, progress: u64, total: u64) {
        if let Some(token) = &self.token {
            server.output.notify(
                "notifications/progress",
                &json!({
                    "progressToken": token,
                    "progress": progress,
                    "total": total,
                    "message": format!("step {progress}"),
                }),
            );
        }
    }

    fn ask(&self, method: &str, params: &Value, server: &Server) -> Option<Answer> {
        if self.modern {
            return match &self.input_responses {
                Some(responses) => self.structured(&json!({ "result": responses["ask"] })),
                None => Some(Ok(json!({
                    "resultType": "input_required",
                    "inputRequests": { "ask": { "method": method, "params": params } },
                    "requestState": "asked",
                })
                .to_string())),
            };
        }
        match server.ask(method, params).recv_timeout(ASK_TIMEOUT) {
            Ok(answer) => self.structured(&answer),
            Err(_) => Some(Err(RpcError::new(-32000, "the client did not answer"))),
        }
    }

    fn text(&self, text: &str) -> Option<Answer> {
        self.value(json!({ "content": [{ "type": "text", "text": text }] }))
    }

    fn structured(&self, value: &Value) -> Option<Answer> {
        self.value(json!({
            "content": [{ "type": "text", "text": value.to_string() }],
            "structuredContent": value,
        }))
    }

    #[expect(clippy::unnecessary_wraps, reason = "every behavior ends in an `Option<Answer>`")]
    fn value(&self, mut result: Value) -> Option<Answer> {
        if self.modern {
            result["resultType"] = "complete".into();
        }
        Some(Ok(result.to_string()))
    }
}

fn letters(bytes: u64) -> String {
    "x".repeat(size(bytes))
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a size that fits in memory")
}

fn shell(command: &str) -> Value {
    let output = std::process::Command::new("sh").args(["-c", command]).output();
    let output = output.expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    json!({
        "code": output.status.code(),
        "stdout": text(&output.stdout),
        "stderr": text(&output.stderr),
    })
}
