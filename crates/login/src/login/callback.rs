//! Callbacks: what an authorization server sends a browser back with (RFC 6749 §4.1.2, RFC 9207).

use url::Url;

use crate::login::place::Failure;
use crate::login::token::plain;

/// The most characters of an address that is read.
pub(crate) const LONGEST: usize = 16 * 1024;
/// The reason that an answer is refused which nobody waits for, now or any more.
pub(crate) const STRANGER: &str = "this is not the answer to the sign-in that is waited for";

/// An answer, not yet believed.
#[derive(Default)]
pub(crate) struct Callback {
    pub(crate) state: String,
    issuer: Option<String>,
    code: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

impl Callback {
    /// Reads an address; `None` where it is none of a callback.
    pub(crate) fn read(address: &Url) -> Option<Self> {
        if address.as_str().len() > LONGEST {
            return None;
        }
        let mut callback = Self::default();
        let mut state = None;
        for (name, value) in address.query_pairs() {
            let field = match name.as_ref() {
                "state" => &mut state,
                "iss" => &mut callback.issuer,
                "code" => &mut callback.code,
                "error" => &mut callback.error,
                "error_description" => &mut callback.description,
                _ => continue,
            };
            // A parameter must not stand there twice (RFC 6749 §3.1).
            if field.replace(value.into_owned()).is_some() {
                return None;
            }
        }
        let is_one = callback.code.is_some() || callback.error.is_some();
        callback.state = state.filter(|_| is_one)?;
        Some(callback)
    }

    /// Returns the code, if it is from this issuer and none else, and somebody has agreed. `sends_issuer`: the issuer
    /// has said that it names itself.
    pub(crate) fn code(self, issuer: &str, sends_issuer: bool) -> Result<String, Failure> {
        let again = "sign in again";
        // Before anything else is believed, or shown (RFC 9207 §2.4).
        match &self.issuer {
            Some(named) if named != issuer => {
                let reason = "the answer came from another authorization server than was asked";
                return Err(Failure::new(reason, "do not go on; tell whoever runs the server"));
            }
            None if sends_issuer => {
                let reason = "the answer does not say which authorization server it is from";
                return Err(Failure::new(reason, "do not go on; tell whoever runs the server"));
            }
            Some(_) | None => {}
        }
        match (self.error.as_deref(), self.code) {
            (Some("access_denied"), _) => Err(Failure::new("you declined", again)),
            (Some(error), _) => {
                let said = plain(self.description.as_deref().unwrap_or_default());
                let colon = if said.is_empty() { "" } else { ": " };
                let reason =
                    format!("the authorization server refused: {}{colon}{said}", plain(error));
                Err(Failure::new(reason, again))
            }
            (None, Some(code)) => Ok(code),
            (None, None) => Err(Failure::new("the answer has no code", again)),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const ISSUER: &str = "https://as.example.com";

    fn code(query: &str, sends_issuer: bool) -> Result<String, String> {
        let url = Url::parse(&format!("http://127.0.0.1:1/callback?{query}")).unwrap();
        let callback = Callback::read(&url).ok_or("no callback")?;
        callback.code(ISSUER, sends_issuer).map_err(|failure| failure.reason)
    }

    #[test]
    fn a_code_is_taken_from_the_issuer_that_was_asked_alone() {
        let of = "iss=https%3A%2F%2Fas.example.com";
        assert_eq!(code("state=s&code=c", false), Ok("c".to_owned()));
        assert_eq!(code(&format!("state=s&code=c&{of}"), true), Ok("c".to_owned()));
        let other = "the answer came from another authorization server than was asked";
        for wrong in
            ["iss=https%3A%2F%2Fas.example.com%2F", "iss=https%3A%2F%2FAS.example.com", "iss="]
        {
            for sends in [true, false] {
                assert_eq!(code(&format!("state=s&code=c&{wrong}"), sends), Err(other.to_owned()));
            }
        }
        let unsaid = "the answer does not say which authorization server it is from";
        assert_eq!(code("state=s&code=c", true), Err(unsaid.to_owned()));
    }

    #[test]
    fn an_error_is_told_only_if_it_is_from_the_issuer() {
        let declined = Err("you declined".to_owned());
        assert_eq!(code("state=s&error=access_denied&error_description=x", false), declined);
        let said = "the authorization server refused: invalid_scope: no [31mscope".to_owned();
        let asked = "state=s&error=invalid_scope&error_description=no%0A%1b[31mscope";
        assert_eq!(code(asked, false), Err(said));
        let forged = format!("{asked}&iss=https%3A%2F%2Fevil.example.com");
        assert!(!code(&forged, false).unwrap_err().contains("scope"));
    }

    #[test]
    fn an_address_that_is_no_answer_is_no_callback() {
        for query in ["", "state=s", "code=c", "state=s&code=c&code=d", "state=s&state=s&code=c"] {
            assert_eq!(code(query, false), Err("no callback".to_owned()), "{query}");
        }
    }
}
