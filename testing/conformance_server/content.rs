//! Content blocks and results of tool calls.

use serde_json::{Value, json};

pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

pub(crate) const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

pub(crate) fn text(text: impl Into<String>) -> Value {
    json!({ "type": "text", "text": text.into() })
}

pub(crate) fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

pub(crate) fn audio() -> Value {
    json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" })
}

pub(crate) fn embedded(uri: &str, mime_type: &str, text: &str) -> Value {
    let resource = json!({ "uri": uri, "mimeType": mime_type, "text": text });
    json!({ "type": "resource", "resource": resource })
}

pub(crate) fn result(content: &[Value]) -> Value {
    json!({ "content": content })
}

pub(crate) fn saying(words: impl Into<String>) -> Value {
    result(&[text(words)])
}

pub(crate) fn failure(words: impl Into<String>) -> Value {
    json!({ "content": [text(words)], "isError": true })
}
