//! Secrets that the process learns after its start: tokens and client secrets of logins.

use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

use parking_lot::RwLock;

/// How many secrets of a login stay redacted, newest first.
const KEPT: usize = 24;
/// Longer texts can't be sent as a token, in bytes.
const MAX_LENGTH: usize = 64 * 1024;

/// By login. Redactors exist before the secrets, so the set belongs to the process.
static LEARNED: LazyLock<RwLock<HashMap<String, VecDeque<String>>>> =
    LazyLock::new(RwLock::default);

/// Redacts secrets from now on, in everything that any redactor handles.
pub fn learn_secrets(login: &str, secrets: &[String]) {
    let mut all = LEARNED.write();
    let kept = all.entry(login.to_owned()).or_default();
    for secret in secrets.iter().filter(|secret| is_plausible(secret)) {
        kept.retain(|known| known != secret);
        kept.push_front(secret.clone());
    }
    kept.truncate(KEPT);
}

/// Forgets the secrets of a login that has ended.
pub fn drop_secrets(login: &str) {
    LEARNED.write().remove(login);
}

/// Calls `each` with every learned secret.
pub(super) fn for_each(mut each: impl FnMut(&str)) {
    let all = LEARNED.read();
    all.values().flatten().for_each(|secret| each(secret));
}

/// Returns `false` for words and names. An authorization server chooses its tokens, and must not be
/// able to hide the name of a tool in records.
fn is_plausible(secret: &str) -> bool {
    let has_digit = secret.bytes().any(|byte| byte.is_ascii_digit());
    (secret.len() >= 40 || secret.len() >= 16 && has_digit)
        && secret.len() <= MAX_LENGTH
        && secret.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::telemetry::Redactor;

    // invariant: no-secrets-in-records
    #[test]
    fn learned_secrets_are_redacted_and_bounded_for_each_login() {
        let secrets = Redactor::from_environment([("TOKEN", "token-0001-of-the")]);
        let own = "token-0001-of-the-login".to_owned();
        assert_eq!(secrets.redact(&own), "***-login");
        learn_secrets("ann", std::slice::from_ref(&own));
        assert_eq!(secrets.redact(&own), "***");
        assert_eq!(secrets.redact_json_text(&format!("{{\"a\":\"{own}\"}}")), "{\"a\":\"***\"}");
        // Another login can't displace them.
        let many: Vec<_> = (0..2 * KEPT).map(|n| format!("another-token-{n:06}")).collect();
        learn_secrets("bob", &many);
        let is_hidden = |text: &str| Redactor::default().redact(text) == "***";
        assert!(is_hidden(&own));
        let hidden = many.iter().filter(|secret| is_hidden(secret)).count();
        assert_eq!(hidden, KEPT);
        assert!(is_hidden(&many[2 * KEPT - 1]) && !is_hidden(&many[0]));
        // A secret that is still in use stays.
        learn_secrets("bob", &many[KEPT..=KEPT]);
        learn_secrets("bob", &["one-more-token-1".to_owned()]);
        assert!(is_hidden(&many[KEPT]));
    }

    #[test]
    fn words_and_names_are_no_secrets() {
        for (secret, is_secret) in [
            ("delete_repository", false),
            ("access-token-1", false),
            ("a sentence of 16 or more bytes", false),
            ("mF_9.B5f-4.1JqM0", true),
            ("MTQ0NjJkZmQ5OTM2NDE1ZTZjNGZmZjI3", true),
            ("aWFtYXRva2Vud2l0aG91dGRpZ2l0c2FuZGxvbmdlbm91Z2g", true),
        ] {
            assert_eq!(is_plausible(secret), is_secret, "{secret}");
        }
        assert!(!is_plausible(&"1".repeat(MAX_LENGTH + 1)));
    }
}
