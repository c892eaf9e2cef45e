//! JSON-RPC errors, and the serialized writer of stdout.

use std::io::{Write, stdout};
use std::process::exit;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct Fault {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Fault {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    fn with(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    pub(crate) fn parse() -> Self {
        Self::new(-32700, "Parse error")
    }

    pub(crate) fn invalid_request(message: &str) -> Self {
        Self::new(-32600, message)
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        Self::new(-32601, format!("Method not found: {method}"))
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn internal(message: &str) -> Self {
        Self::new(-32603, message)
    }

    /// Revision 2026-07-28 changed the error code.
    pub(crate) fn no_resource(uri: &str, modern: bool) -> Self {
        let code = if modern { -32602 } else { -32002 };
        Self::new(code, "Resource not found").with(json!({ "uri": uri }))
    }

    pub(crate) fn missing_capability(capabilities: &Value) -> Self {
        Self::new(-32021, "The client has not declared a required capability")
            .with(json!({ "requiredCapabilities": capabilities }))
    }

    pub(crate) fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        Self::new(-32022, "Unsupported protocol version")
            .with(json!({ "supported": supported, "requested": requested }))
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}

pub(crate) type Answer = Result<Value, Fault>;

/// Stdout; the lock keeps messages whole.
#[derive(Default)]
pub(crate) struct Output(Mutex<()>);

impl Output {
    pub(crate) fn answer(&self, id: &Value, answer: Answer) {
        self.line(&match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(fault) => json!({ "jsonrpc": "2.0", "id": id, "error": fault.to_json() }),
        });
    }

    pub(crate) fn ask(&self, id: &str, method: &str, params: Option<&Value>) {
        let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        if let Some(params) = params {
            request["params"] = params.clone();
        }
        self.line(&request);
    }

    /// A null `params` is left out.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if !params.is_null() {
            message["params"] = params.clone();
        }
        self.line(&message);
    }

    /// Exits if stdout is closed.
    fn line(&self, message: &Value) {
        let _writing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = stdout().lock();
        if writeln!(out, "{message}").and_then(|()| out.flush()).is_err() {
            exit(0);
        }
    }
}
