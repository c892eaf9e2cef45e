//! The token that a request shows: `Authorization: Bearer <token>` (RFC 6750), and nothing else.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use crate::settings::is_bearer;

/// The longest token that is looked at.
const MAX_TOKEN: usize = 16 * 1024;

/// The token that a request shows.
#[derive(PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Presented {
    /// No header.
    Nothing,
    /// A token, which may be anybody's.
    Token(String),
    /// Something of another scheme.
    Other,
    /// Something that is no token, or more than one token.
    Malformed,
}

/// Takes what a request shows out of it.
pub(crate) fn take(headers: &mut HeaderMap) -> Presented {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let presented = match (all.next(), all.next()) {
        (None, _) => Presented::Nothing,
        (Some(value), None) => value.to_str().map_or(Presented::Malformed, read),
        (Some(_), Some(_)) => Presented::Malformed,
    };
    headers.remove(AUTHORIZATION);
    presented
}

fn read(value: &str) -> Presented {
    let value = value.trim();
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Presented::Other;
    }
    let token = token.trim();
    if token.len() > MAX_TOKEN || !is_bearer(token) {
        return Presented::Malformed;
    }
    Presented::Token(token.to_owned())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn presented(values: &[&str]) -> Presented {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        let presented = take(&mut headers);
        assert!(headers.is_empty());
        presented
    }

    #[test]
    fn one_header_with_one_token_will_do() {
        let token = Presented::Token("aB1-._~+/==".to_owned());
        for value in ["Bearer aB1-._~+/==", "bearer aB1-._~+/==", "BEARER   aB1-._~+/== "] {
            assert_eq!(presented(&[value]), token);
        }
        assert_eq!(presented(&[]), Presented::Nothing);
        for value in ["Basic YTpi", "aB1", "", "Bearer2 x"] {
            assert_eq!(presented(&[value]), Presented::Other, "{value}");
        }
        for value in ["Bearer", "Bearer ", "Bearer a b", "Bearer \"a\"", "Bearer a,b"] {
            assert_eq!(presented(&[value]), Presented::Malformed, "{value}");
        }
        assert_eq!(presented(&["Bearer a", "Bearer a"]), Presented::Malformed);
        assert_eq!(presented(&[&format!("Bearer {}", "a".repeat(20_000))]), Presented::Malformed);
    }
}
