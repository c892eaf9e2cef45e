//! A fake endpoint on loopback, whose responses a test scripts.
#![allow(clippy::unwrap_used, reason = "test support, also for other crates")]

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::llm::Endpoint;
use mcp_workbench_settings::LlmConfig;

pub const KEY: &str = "hunter2-hunter2";

pub enum Reply {
    /// Writes this and closes the connection.
    Says(String),
    /// Writes the first text once, then repeats the second until the client disconnects.
    Endless(&'static str, &'static str),
    /// Writes this and then keeps the connection open.
    Hangs(&'static str),
}

pub fn http_response(status: u16, headers: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Says(format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}"))
}

/// Returns a chat completion with this text.
pub fn chat_answer(text: &str) -> Reply {
    chat_answer_ending(text, "stop")
}

/// Returns a chat completion with this text and finish reason.
pub fn chat_answer_ending(text: &str, why: &str) -> Reply {
    let choice = json!({"message": {"content": text}, "finish_reason": why});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 2});
    http_response(200, "", &json!({"choices": [choice], "usage": usage}).to_string())
}

/// A received request: the head in lower case, and the body.
pub type RecordedRequest = (String, Value);

pub struct FakeEndpoint {
    pub config: LlmConfig,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl FakeEndpoint {
    /// Starts listening. The script gets the number of earlier requests and the body.
    pub async fn start(script: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let config = LlmConfig {
            base_url: base_url.parse().unwrap(),
            model: "m-1".to_owned(),
            api_key: Some(KEY.to_owned()),
            timeout: Duration::from_secs(20),
            reasoning_effort: None,
        };
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, script) = (Arc::clone(&asked), Arc::new(script));
        TaskTracker::new().spawn(async move {
            loop {
                let stream = listener.accept().await.unwrap().0;
                let (kept, script) = (Arc::clone(&kept), Arc::clone(&script));
                TaskTracker::new().spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(asked) = request(&mut stream).await else { return };
                    let reply = {
                        let mut kept = kept.lock();
                        kept.push(asked.clone());
                        script(kept.len() - 1, &asked.1)
                    };
                    reply.write(stream.into_inner()).await;
                });
            }
        });
        Self { config, asked }
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(&self.config).unwrap()
    }

    pub fn asked(&self) -> Vec<RecordedRequest> {
        self.asked.lock().clone()
    }

    pub fn bodies(&self) -> Vec<Value> {
        self.asked().into_iter().map(|(_, body)| body).collect()
    }
}

impl Reply {
    /// Write errors are ignored: a test may make the client disconnect.
    async fn write(self, mut stream: TcpStream) {
        match self {
            Self::Says(text) => drop(stream.write_all(text.as_bytes()).await),
            Self::Endless(head, piece) => {
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(piece.as_bytes()).await.is_ok() {}
            }
            Self::Hangs(head) => {
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        }
    }
}

async fn request(stream: &mut BufReader<TcpStream>) -> Option<RecordedRequest> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        head.push_str(&line.to_ascii_lowercase());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, serde_json::from_slice(&body).unwrap()))
}
