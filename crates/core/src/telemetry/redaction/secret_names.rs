//! Rules for names of secret variables, and the minimum length of a secret.

/// Minimum length of a secret, in bytes. Redacting shorter values would garble ordinary text.
pub(super) const MIN_SECRET: usize = 6;

/// Returns `true` if a variable of this name probably holds a secret.
pub fn is_secret_variable(name: &str) -> bool {
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
