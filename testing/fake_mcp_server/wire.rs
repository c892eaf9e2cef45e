//! Reads and writes JSON-RPC messages, keeping the raw bytes.

use std::io::{Write, stdout};
use std::process::exit;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// An incoming message. IDs, parameters and results stay raw to preserve their bytes.
#[derive(Deserialize)]
pub(crate) struct Message {
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) method: Option<String>,
    pub(crate) params: Option<Box<RawValue>>,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) error: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl Default for RpcError {
    fn default() -> Self {
        Self::new(-32000, "scripted error")
    }
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// A response: the exact text of a result, or an error.
pub(crate) type Answer = Result<String, RpcError>;

fn line(id: &str, answer: &Answer) -> String {
    match answer {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(error) => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, json!(error)),
    }
}

/// Stdout; the lock keeps writes whole.
#[derive(Default)]
pub(crate) struct Output(Mutex<()>);

impl Output {
    pub(crate) fn answer(&self, id: &str, answer: &Answer) {
        self.line(&line(id, answer));
    }

    pub(crate) fn trickle(&self, id: &str, answer: &Answer, pause: Duration) {
        let _turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in line(id, answer).bytes().chain([b'\n']) {
            let mut out = stdout().lock();
            if out.write_all(&[byte]).and_then(|()| out.flush()).is_err() {
                exit(0);
            }
            // The scripted pause between bytes.
            sleep(pause);
        }
    }

    pub(crate) fn half(&self, id: &str, answer: &Answer) {
        let line = line(id, answer);
        self.bytes(&line.as_bytes()[..line.len() / 2]);
    }

    pub(crate) fn notify(&self, method: &str, params: &Value) {
        let message = if params.is_null() {
            json!({ "jsonrpc": "2.0", "method": method })
        } else {
            json!({ "jsonrpc": "2.0", "method": method, "params": params })
        };
        self.line(&message.to_string());
    }

    pub(crate) fn line(&self, line: &str) {
        self.bytes(format!("{line}\n").as_bytes());
    }

    /// Writes bytes as they are. Exits if stdout is closed.
    pub(crate) fn bytes(&self, line: &[u8]) {
        let _writing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = stdout().lock();
        if out.write_all(line).and_then(|()| out.flush()).is_err() {
            exit(0);
        }
    }
}
