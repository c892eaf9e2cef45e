//! Why an endpoint gave no answer that can be used, and what it says of it itself.
//!
//! What an endpoint writes is not trusted: of its words one line is kept, shortened, without the key.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderValue;
use serde_json::Value;

/// The most characters of what an endpoint says of a failure.
const MOST_CHARS: usize = 200;
/// The text in place of the key.
const REDACTED: &str = "***";
/// Whoever wants to be left alone for longer than a week is left alone for a week.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// Why an endpoint gave no answer that can be used. No text in it is a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It cannot be reached.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The connection ended before the answer did.
    #[error("the connection to it broke: {0}")]
    Cut(String),
    /// It did not answer in time.
    #[error("it did not answer in time")]
    TimedOut,
    /// It does not take the key (401, 403).
    #[error("it does not take the key (status {0})")]
    Unauthorized(u16),
    /// It does not know the model (404).
    #[error("it does not know the model `{0}`, or the address is wrong (status 404)")]
    UnknownModel(String),
    /// It wants to be paid (402).
    #[error("it wants to be paid (status 402)")]
    Unpaid,
    /// It was asked too often (429), and wants to be left alone for so long, if it says.
    #[error("it was asked too often (status 429)")]
    TooOften(Option<Duration>),
    /// It leads elsewhere, where nobody goes: the key is for it alone.
    #[error("it leads elsewhere (status {0}), which is not followed: `baseUrl` is probably wrong")]
    Redirected(u16),
    /// It answered with another status.
    #[error("it answered with status {0}")]
    Status(u16),
    /// It answered with a page for people.
    #[error("it answered with HTML, where JSON should be: `baseUrl` is probably wrong")]
    Html,
    /// Its answer is not what the API promises.
    #[error("its answer cannot be used: {0}")]
    Unusable(String),
    /// Its answer is too long.
    #[error("its answer is too long")]
    TooLong,
    /// One of the others, and what the endpoint says of it: one short line.
    #[error("{0}: {1}")]
    Explained(Box<Self>, String),
}

impl Failure {
    /// The failure without the endpoint's own words.
    pub fn plain(&self) -> &Self {
        match self {
            Self::Explained(plain, _) => plain.plain(),
            plain => plain,
        }
    }

    /// Adds the endpoint's own words to the failure, if there are any.
    pub(super) fn explained(self, words: Option<String>) -> Self {
        match words {
            Some(words) => Self::Explained(Box::new(self), words),
            None => self,
        }
    }

    /// The failure that an error status stands for.
    pub(super) fn of_status(status: u16, model: &str, wait: Option<Duration>) -> Self {
        match status {
            300..=399 => Self::Redirected(status),
            401 | 403 => Self::Unauthorized(status),
            402 => Self::Unpaid,
            404 => Self::UnknownModel(model.to_owned()),
            429 => Self::TooOften(wait),
            _ => Self::Status(status),
        }
    }

    /// Returns `true` if a request may succeed in a moment.
    pub(super) fn is_passing(&self) -> bool {
        match self.plain() {
            Self::Unreachable(_) | Self::Cut(_) | Self::TooOften(_) => true,
            Self::Status(status) => matches!(status, 502..=504),
            _ => false,
        }
    }
}

/// The message in the body of an error, in one of the ways that endpoints write it.
pub(super) fn words(body: &[u8], key: Option<&str>) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let value = value.get(0).unwrap_or(&value);
    let places = ["/error/message", "/error", "/message", "/detail"];
    let words = places.iter().find_map(|place| value.pointer(place)?.as_str())?;
    let words = one_line(words, key);
    (!words.is_empty()).then_some(words)
}

/// A text as one short line without what steers a terminal, and without the key.
fn one_line(text: &str, key: Option<&str>) -> String {
    let text: String = text.chars().map(|c| if is_invisible(c) { ' ' } else { c }).collect();
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        text = text.replace(key, REDACTED);
    }
    if let Some((end, _)) = text.char_indices().nth(MOST_CHARS - 1)
        && text[end..].chars().nth(1).is_some()
    {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns `true` for a character that is not simply seen.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// How long `Retry-After` asks for: seconds, or a date.
pub(super) fn wait(value: &HeaderValue, now: DateTime<Utc>) -> Option<Duration> {
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
        words(body.as_bytes(), Some("hunter2-hunter2"))
    }

    #[test]
    fn what_an_endpoint_says_is_found_wherever_it_says_it() {
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
    fn the_key_is_redacted_and_a_long_text_cut() {
        let body = r#"{"error": "the key hunter2-hunter2 is wrong"}"#;
        assert_eq!(said(body).unwrap(), "the key *** is wrong");
        let long = said(&format!(r#"{{"error": "{}"}}"#, "ä".repeat(201))).unwrap();
        assert_eq!(long, format!("{}…", "ä".repeat(199)));
        let enough = said(&format!(r#"{{"error": "{}"}}"#, "ä".repeat(200))).unwrap();
        assert_eq!(enough, "ä".repeat(200));
    }

    #[test]
    fn a_wait_is_said_in_seconds_or_as_a_date() {
        let now = DateTime::parse_from_rfc2822("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let wait = |text: &'static str| wait(&HeaderValue::from_static(text), now.to_utc());
        assert_eq!(wait(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(wait("99999999999999999999999"), Some(LONGEST));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:07 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("Thu, 06 Nov 2994 08:00:00 GMT"), Some(LONGEST));
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("-1"), None);
    }

    #[test]
    fn words_change_nothing_about_what_a_failure_is() {
        let failure = Failure::Status(503).explained(Some("busy".to_owned()));
        assert_eq!(failure.to_string(), "it answered with status 503: busy");
        assert!(failure.is_passing() && failure.plain() == &Failure::Status(503));
        assert!(!Failure::Status(500).is_passing() && !Failure::TimedOut.is_passing());
    }

    proptest! {
        #[test]
        fn words_are_one_short_line(text in ".*", body in "\\PC*") {
            let line = one_line(&text, None);
            prop_assert!(line.chars().count() <= MOST_CHARS && !line.chars().any(is_invisible));
            words(body.as_bytes(), None);
        }
    }
}
