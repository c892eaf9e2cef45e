//! Names that say that a value is secret, and how long one is at least.

/// A shorter value is no secret, and would redact half of every line.
pub(super) const MIN_SECRET: usize = 6;

/// Returns `true` if a variable of this name is likely to hold a secret.
pub fn is_secret(name: &str) -> bool {
    const MARKS: [&str; 9] = [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "CREDENTIAL",
        "AUTHORIZATION",
        "COOKIE",
    ];
    let name = name.to_ascii_uppercase();
    MARKS.iter().any(|mark| name.contains(mark))
        || name
            .split('_')
            .any(|word| matches!(word, "PASS" | "PWD" | "PAT" | "AUTH" | "BEARER") && name != "PWD")
}
