//! An endpoint of a language model that says what the test wants, and keeps what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A request to a scripted endpoint.
#[derive(Clone, Debug)]
pub(crate) struct AskedLlm {
    /// The path, such as `/v1/chat/completions`.
    pub(crate) path: String,
    /// The header `Authorization`; empty if there was none.
    pub(crate) authorization: String,
    /// The body.
    pub(crate) body: Value,
}

impl AskedLlm {
    /// The words of all messages, one after the other.
    pub(crate) fn words(&self) -> String {
        let messages = self.body["messages"].as_array().cloned().unwrap_or_default();
        let words = messages.iter().filter_map(|message| message["content"].as_str());
        words.collect::<Vec<_>>().join("\n")
    }
}

/// An answer of a scripted endpoint.
#[derive(Clone, Debug)]
pub(crate) enum LlmAnswer {
    /// These words, in the form of the API.
    Says(String),
    /// This body with this status and these headers, each a line.
    Status(u16, Vec<String>, String),
    /// Headers, and then this for as long as somebody reads.
    Endless(&'static str),
    /// Nothing, with the connection held open until the other side closes it.
    Nothing,
}

impl LlmAnswer {
    /// This JSON as words.
    pub(crate) fn says(value: &Value) -> Self {
        Self::Says(value.to_string())
    }
}

type Script = dyn Fn(&AskedLlm) -> LlmAnswer + Send + Sync;

/// How long a test waits for what is to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A scripted endpoint on a port of its own, for as long as the test runs.
pub(crate) struct Llm {
    base_url: String,
    log: Arc<Log>,
}

/// Its history, for those who wait for something in it.
#[derive(Default)]
struct Log {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    asked: Vec<AskedLlm>,
    /// How many have gone that were answered nothing.
    hung_up: usize,
}

impl Llm {
    /// Begins to listen.
    pub(crate) fn start(script: impl Fn(&AskedLlm) -> LlmAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let log = Arc::new(Log::default());
        let (script, kept): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, kept) = (Arc::clone(&script), Arc::clone(&kept));
                // What fails is the end of a connection, which the other side may want.
                thread::spawn(move || drop(serve(stream, &*script, &kept)));
            }
        });
        Self { base_url, log }
    }

    /// The address by which a configuration names it.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<AskedLlm> {
        self.log.seen.lock().expect("no panic").asked.clone()
    }

    /// Waits until it has been asked so often.
    pub(crate) fn wait_asked(&self, count: usize) {
        self.wait("it is asked", |seen| seen.asked.len() >= count);
    }

    /// How many have gone that were answered nothing.
    pub(crate) fn hung_up(&self) -> usize {
        self.log.seen.lock().expect("no panic").hung_up
    }

    /// Waits until so many have.
    pub(crate) fn wait_hung_up(&self, count: usize) {
        self.wait("nobody waits any more", |seen| seen.hung_up >= count);
    }

    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        let seen = self.log.seen.lock().expect("no panic");
        let waiting = self.log.changed.wait_timeout_while(seen, PATIENCE, |seen| !is_so(seen));
        assert!(!waiting.expect("no panic").1.timed_out(), "never came: {what}");
    }
}

impl Log {
    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().expect("no panic"));
        self.changed.notify_all();
    }
}

fn serve(stream: TcpStream, script: &Script, log: &Log) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut length, mut authorization) = (0, String::new());
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().unwrap_or_default();
            } else if name.eq_ignore_ascii_case("authorization") {
                value.clone_into(&mut authorization);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let asked = AskedLlm { path, authorization, body };
        log.note(|seen| seen.asked.push(asked.clone()));
        let said = script(&asked);
        let is_nothing = matches!(said, LlmAnswer::Nothing);
        let done = answer(&mut stream, said);
        if is_nothing {
            log.note(|seen| seen.hung_up += 1);
        }
        done?;
    }
}

fn answer(stream: &mut TcpStream, answer: LlmAnswer) -> std::io::Result<()> {
    match answer {
        LlmAnswer::Says(words) => {
            let body = json!({
                "id": "1",
                "object": "chat.completion",
                "choices": [{
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": words},
                }],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
            });
            let headers = vec!["Content-Type: application/json".to_owned()];
            write(stream, 200, &headers, &body.to_string())
        }
        LlmAnswer::Status(status, headers, body) => write(stream, status, &headers, &body),
        LlmAnswer::Endless(part) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
            loop {
                stream.write_all(part.as_bytes())?;
            }
        }
        LlmAnswer::Nothing => stream.read_to_end(&mut Vec::new()).map(drop),
    }
}

fn write(
    stream: &mut TcpStream,
    status: u16,
    headers: &[String],
    body: &str,
) -> std::io::Result<()> {
    let headers: String = headers.iter().flat_map(|header| [header.as_str(), "\r\n"]).collect();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
