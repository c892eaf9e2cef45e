//! Bearer tokens of requests: `Authorization: Bearer <token>` (RFC 6750 §2.1). The other methods of
//! the RFC aren't supported.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use mcp_workbench_settings::is_bearer;

/// In bytes; a longer token is malformed.
const MAX_TOKEN: usize = 16 * 1024;

#[derive(PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum PresentedToken {
    Absent,
    Token(String),
    Other,
    /// A header that isn't `Bearer <token>`, or more than one header.
    Malformed,
}

/// Reads the token and removes all `Authorization` headers, so that they can't be forwarded or
/// logged.
pub(crate) fn take_bearer_token(headers: &mut HeaderMap) -> PresentedToken {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let presented = match (all.next(), all.next()) {
        (None, _) => PresentedToken::Absent,
        (Some(value), None) => value.to_str().map_or(PresentedToken::Malformed, read),
        (Some(_), Some(_)) => PresentedToken::Malformed,
    };
    headers.remove(AUTHORIZATION);
    presented
}

fn read(value: &str) -> PresentedToken {
    let value = value.trim();
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return PresentedToken::Other;
    }
    let token = token.trim();
    if token.len() > MAX_TOKEN || !is_bearer(token) {
        return PresentedToken::Malformed;
    }
    PresentedToken::Token(token.to_owned())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn presented(values: &[&str]) -> PresentedToken {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        let presented = take_bearer_token(&mut headers);
        assert!(headers.is_empty());
        presented
    }

    #[test]
    fn accepts_exactly_one_bearer_token() {
        let token = PresentedToken::Token("aB1-._~+/==".to_owned());
        for value in ["Bearer aB1-._~+/==", "bearer aB1-._~+/==", "BEARER   aB1-._~+/== "] {
            assert_eq!(presented(&[value]), token);
        }
        assert_eq!(presented(&[]), PresentedToken::Absent);
        for value in ["Basic YTpi", "aB1", "", "Bearer2 x"] {
            assert_eq!(presented(&[value]), PresentedToken::Other, "{value}");
        }
        for value in ["Bearer", "Bearer ", "Bearer a b", "Bearer \"a\"", "Bearer a,b"] {
            assert_eq!(presented(&[value]), PresentedToken::Malformed, "{value}");
        }
        assert_eq!(presented(&["Bearer a", "Bearer a"]), PresentedToken::Malformed);
        assert_eq!(
            presented(&[&format!("Bearer {}", "a".repeat(20_000))]),
            PresentedToken::Malformed
        );
    }
}
