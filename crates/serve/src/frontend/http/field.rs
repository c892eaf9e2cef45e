//! Single fields of a request's head.

use std::fmt::Display;

use hyper::HeaderMap;
use hyper::header::{AsHeaderName, HeaderName};

/// The revision that a request speaks.
pub(crate) static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The one value of a header, if it is there; an error when there are several, or it is no text.
pub(crate) fn one(
    headers: &HeaderMap,
    name: impl AsHeaderName + Display + Copy,
) -> Result<Option<&str>, String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str());
    match (value.transpose(), values.next()) {
        (Ok(value), None) => Ok(value.map(str::trim)),
        (Ok(_), Some(_)) => Err(format!("there is more than one {name} header")),
        (Err(_), _) => Err(format!("the {name} header has characters that no header may have")),
    }
}
