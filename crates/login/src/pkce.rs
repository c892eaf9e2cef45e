//! Random values and PKCE code challenges (RFC 7636).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Returns 256 random bits as 43 URL-safe characters.
pub(crate) fn unguessable() -> Result<String, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random numbers available: {error}"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns `true` if the text has the length of such a value.
pub(crate) fn may_be_unguessable(text: &str) -> bool {
    text.len() == 43
}

/// Returns the `S256` code challenge (RFC 7636 §4.2).
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn challenge_matches_the_rfc_example() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert_ne!(unguessable(), unguessable());
        assert_eq!(unguessable().unwrap().len(), 43);
    }
}
