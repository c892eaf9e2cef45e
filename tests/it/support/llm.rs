//! A scripted endpoint of a language model that records its requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(crate) struct RecordedLlmRequest {
    /// The path, such as `/v1/chat/completions`.
    pub(crate) path: String,
    /// The `Authorization` header, empty if missing.
    pub(crate) authorization: String,
    pub(crate) body: Value,
}

impl RecordedLlmRequest {
    /// The contents of all messages, one per line.
    pub(crate) fn words(&self) -> String {
        let messages = self.body["messages"].as_array().cloned().unwrap_or_default();
        let words = messages.iter().filter_map(|message| message["content"].as_str());
        words.collect::<Vec<_>>().join("\n")
    }
}

#[derive(Clone, Debug)]
pub(crate) enum LlmResponse {
    /// This text, in the response format of the API.
    Says(String),
    /// Status, header lines and body.
    Status(u16, Vec<String>, String),
    /// Response headers, then this text until the client disconnects.
    Endless(&'static str),
    /// No response. The connection stays open until the client closes it.
    Nothing,
}

impl LlmResponse {
    pub(crate) fn says(value: &Value) -> Self {
        Self::Says(value.to_string())
    }
}

type Script = dyn Fn(&RecordedLlmRequest) -> LlmResponse + Send + Sync;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A scripted endpoint on its own port, until the test process exits.
pub(crate) struct FakeLlm {
    base_url: String,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    request: Vec<RecordedLlmRequest>,
    /// Number of clients that disconnected from [`LlmResponse::Nothing`].
    hung_up: usize,
}

impl FakeLlm {
    pub(crate) fn start(
        script: impl Fn(&RecordedLlmRequest) -> LlmResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let log = Arc::new(Log::default());
        let (script, kept): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, kept) = (Arc::clone(&script), Arc::clone(&kept));
                // An error means that the client has disconnected.
                thread::spawn(move || drop(serve(stream, &*script, &kept)));
            }
        });
        Self { base_url, log }
    }

    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn asked(&self) -> Vec<RecordedLlmRequest> {
        self.log.seen.lock().expect("no panic").request.clone()
    }

    pub(crate) fn wait_asked(&self, count: usize) {
        self.wait("a request", |seen| seen.request.len() >= count);
    }

    pub(crate) fn hung_up(&self) -> usize {
        self.log.seen.lock().expect("no panic").hung_up
    }

    pub(crate) fn wait_hung_up(&self, count: usize) {
        self.wait("a closed connection", |seen| seen.hung_up >= count);
    }

    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        let seen = self.log.seen.lock().expect("no panic");
        let waiting = self.log.changed.wait_timeout_while(seen, TIMEOUT, |seen| !is_so(seen));
        assert!(!waiting.expect("no panic").1.timed_out(), "timed out waiting for {what}");
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
        let request = RecordedLlmRequest { path, authorization, body };
        log.note(|seen| seen.request.push(request.clone()));
        let said = script(&request);
        let is_nothing = matches!(said, LlmResponse::Nothing);
        let done = answer(&mut stream, said);
        if is_nothing {
            log.note(|seen| seen.hung_up += 1);
        }
        done?;
    }
}

fn answer(stream: &mut TcpStream, answer: LlmResponse) -> std::io::Result<()> {
    match answer {
        LlmResponse::Says(words) => {
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
        LlmResponse::Status(status, headers, body) => write(stream, status, &headers, &body),
        LlmResponse::Endless(part) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
            loop {
                stream.write_all(part.as_bytes())?;
            }
        }
        LlmResponse::Nothing => stream.read_to_end(&mut Vec::new()).map(drop),
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
