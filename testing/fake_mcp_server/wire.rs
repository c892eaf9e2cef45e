//! The bytes: requests as they were read, answers as they are written.

use std::io::{Write, stdout};
use std::process::exit;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// One incoming line; what matters for fidelity stays raw text.
#[derive(Deserialize)]
pub(crate) struct Message {
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) method: Option<String>,
    pub(crate) params: Option<Box<RawValue>>,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) error: Option<Box<RawValue>>,
}

/// A JSON-RPC error object.
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

/// What answers a request: the exact text of a result, or an error.
pub(crate) type Answer = Result<String, RpcError>;

/// Our stdout, one line at a time.
#[derive(Default)]
pub(crate) struct Output(Mutex<()>);

impl Output {
    pub(crate) fn answer(&self, id: &str, answer: &Answer) {
        match answer {
            Ok(result) => self.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)),
            Err(error) => {
                self.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, json!(error)));
            }
        }
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

    /// Writes a line with its end; when nobody reads any more there is nothing left to do.
    pub(crate) fn bytes(&self, line: &[u8]) {
        let _writing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = stdout().lock();
        if out.write_all(line).and_then(|()| out.flush()).is_err() {
            exit(0);
        }
    }
}
