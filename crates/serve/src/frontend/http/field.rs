//! Single fields of a request's head.

use hyper::HeaderMap;

/// The revision that a request speaks.
pub(crate) const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// The one value of a header, if it is there; an error when there are several, or it is no text.
pub(crate) fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str());
    match (value.transpose(), values.next()) {
        (Ok(value), None) => Ok(value.map(str::trim)),
        (Ok(_), Some(_)) => Err(format!("there is more than one {name} header")),
        (Err(_), _) => Err(format!("the {name} header has characters that no header may have")),
    }
}
