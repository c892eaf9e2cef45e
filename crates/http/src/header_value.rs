//! Reads headers with a single value.

use std::fmt::Display;

use hyper::HeaderMap;
use hyper::header::{AsHeaderName, HeaderName};

pub(crate) static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Returns the value of a header, if present. Repeated and non-ASCII headers are errors.
pub(crate) fn single_value(
    headers: &HeaderMap,
    name: impl AsHeaderName + Display + Copy,
) -> Result<Option<&str>, String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str());
    match (value.transpose(), values.next()) {
        (Ok(value), None) => Ok(value.map(str::trim)),
        (Ok(_), Some(_)) => Err(format!("more than one {name} header")),
        (Err(_), _) => Err(format!("the {name} header has invalid characters")),
    }
}
