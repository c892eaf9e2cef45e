//! Errors of endpoints, with the message that an endpoint sent.
//!
//! Messages of endpoints are untrusted: they are reduced to one short line, without the API key.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderValue;
use serde_json::Value;

/// Maximum length of an endpoint's message, in characters.
const MAX_CHARS: usize = 200;
const REDACTED: &str = "***";
/// Upper bound for `Retry-After`.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// An endpoint gave no usable response. Contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The connection closed before the response was complete.
    #[error("connection lost: {0}")]
    Disconnected(String),
    #[error("request timed out")]
    TimedOut,
    #[error("API key rejected (HTTP status {0})")]
    Unauthorized(u16),
    /// The API key can't be sent, for example because it contains a line break.
    #[error("the API key is not a valid header value")]
    InvalidKey,
    #[error("unknown model `{0}` or wrong `baseUrl` (HTTP status 404)")]
    UnknownModel(String),
    #[error("payment required (HTTP status 402)")]
    PaymentRequired,
    /// Rate limited (429), with the value of `Retry-After`.
    #[error("rate limited (HTTP status 429)")]
    RateLimited(Option<Duration>),
    /// Redirects are not followed, so that no other server gets the API key.
    #[error("redirect not followed (HTTP status {0}): check `baseUrl`")]
    Redirected(u16),
    #[error("HTTP status {0}")]
    Status(u16),
    /// Usually a web page or a proxy's error page.
    #[error("received HTML instead of JSON: check `baseUrl`")]
    Html,
    #[error("invalid response: {0}")]
    Unusable(String),
    #[error("response too large")]
    AnswerTooLarge,
    /// Another error with the endpoint's message, one short line.
    #[error("{0}: {1}")]
    WithMessage(Box<Self>, String),
}

impl LlmError {
    /// Returns the error without the endpoint's message.
    pub fn plain(&self) -> &Self {
        match self {
            Self::WithMessage(plain, _) => plain.plain(),
            plain => plain,
        }
    }

    pub(super) fn explained(self, words: Option<String>) -> Self {
        match words {
            Some(words) => Self::WithMessage(Box::new(self), words),
            None => self,
        }
    }

    pub(super) fn of_status(status: u16, model: &str, wait: Option<Duration>) -> Self {
        match status {
            300..=399 => Self::Redirected(status),
            401 | 403 => Self::Unauthorized(status),
            402 => Self::PaymentRequired,
            404 => Self::UnknownModel(model.to_owned()),
            429 => Self::RateLimited(wait),
            _ => Self::Status(status),
        }
    }

    /// Returns `true` if a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self.plain() {
            Self::Unreachable(_) | Self::Disconnected(_) | Self::RateLimited(_) => true,
            Self::Status(status) => matches!(status, 502..=504),
            _ => false,
        }
    }
}

/// Extracts the message from the body of an error response, in the common formats.
pub(super) fn error_message(body: &[u8], key: Option<&str>) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let value = value.get(0).unwrap_or(&value);
    let places = ["/error/message", "/error", "/message", "/detail"];
    let words = places.iter().find_map(|place| value.pointer(place)?.as_str())?;
    let words = one_line(words, key);
    (!words.is_empty()).then_some(words)
}

/// Reduces a text to one short line without control characters and without the key.
fn one_line(text: &str, key: Option<&str>) -> String {
    let text: String = text.chars().map(|c| if is_invisible(c) { ' ' } else { c }).collect();
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        text = text.replace(key, REDACTED);
    }
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARS - 1)
        && text[end..].chars().nth(1).is_some()
    {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns `true` for control, zero-width and bidirectional formatting characters.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Parses `Retry-After`: seconds, or a date.
pub(super) fn retry_after(value: &HeaderValue, now: DateTime<Utc>) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse().map_or(LONGEST, Duration::from_secs).min(LONGEST));
    }
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    let left = date.with_timezone(&Utc).signed_duration_since(now);
    Some(left.to_std().unwrap_or_default().min(LONGEST))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{prop_assert, proptest};

    use super::*;

    fn said(body: &str) -> Option<String> {
        error_message(body.as_bytes(), Some("hunter2-hunter2"))
    }

    #[test]
    fn extracts_messages_from_common_error_formats() {
        for body in [
            r#"{"error": {"message": "no such model", "code": 404}}"#,
            r#"[{"error": {"message": "no such model"}}]"#,
            r#"{"error": "no such model"}"#,
            r#"{"message": "no such model", "type": "not_found_error"}"#,
            r#"{"detail": " no\r\n\u001b such\u2028model\u202e "}"#,
        ] {
            assert_eq!(said(body).as_deref(), Some("no such model"), "{body}");
        }
        for body in ["", "<html>", "[]", "7", r#"{"error": {"message": 7}}"#, r#"{"error": " "}"#] {
            assert_eq!(said(body), None, "{body}");
        }
    }

    #[test]
    fn redacts_the_key_and_truncates_long_messages() {
        let body = r#"{"error": "the key hunter2-hunter2 is wrong"}"#;
        assert_eq!(said(body).unwrap(), "the key *** is wrong");
        let long = said(&format!(r#"{{"error": "{}"}}"#, "ä".repeat(201))).unwrap();
        assert_eq!(long, format!("{}…", "ä".repeat(199)));
        let enough = said(&format!(r#"{{"error": "{}"}}"#, "ä".repeat(200))).unwrap();
        assert_eq!(enough, "ä".repeat(200));
    }

    #[test]
    fn parses_retry_after_seconds_and_dates() {
        let now = DateTime::parse_from_rfc2822("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let wait = |text: &'static str| retry_after(&HeaderValue::from_static(text), now.to_utc());
        assert_eq!(wait(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(wait("99999999999999999999999"), Some(LONGEST));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:07 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("Thu, 06 Nov 2994 08:00:00 GMT"), Some(LONGEST));
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("-1"), None);
    }

    #[test]
    fn a_message_does_not_change_the_kind_of_an_error() {
        let failure = LlmError::Status(503).explained(Some("busy".to_owned()));
        assert_eq!(failure.to_string(), "HTTP status 503: busy");
        assert!(failure.is_transient() && failure.plain() == &LlmError::Status(503));
        assert!(!LlmError::Status(500).is_transient() && !LlmError::TimedOut.is_transient());
    }

    proptest! {
        #[test]
        fn messages_are_one_short_line(text in ".*", body in "\\PC*") {
            let line = one_line(&text, None);
            prop_assert!(line.chars().count() <= MAX_CHARS && !line.chars().any(is_invisible));
            error_message(body.as_bytes(), None);
        }
    }
}
