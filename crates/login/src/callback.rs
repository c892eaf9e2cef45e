//! Parses and checks the authorization response (RFC 6749 §4.1.2, RFC 9207).

use sha2::{Digest, Sha256};
use url::Url;

use crate::target::LoginError;
use crate::token::sanitize_excerpt;

/// Maximum length of a callback URL, in bytes.
pub(crate) const LONGEST: usize = 16 * 1024;
/// The reason for rejecting a callback without a pending login.
pub(crate) const UNEXPECTED_CALLBACK: &str = "no pending sign-in matches this response";

/// An authorization response, not validated yet.
#[derive(Default)]
pub(crate) struct Callback {
    pub(crate) state: String,
    /// The last path segment of the URL.
    place: String,
    issuer: Option<String>,
    code: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

impl Callback {
    /// Parses a callback URL. `None` if it isn't an authorization response.
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
            // Parameters must not repeat (RFC 6749 §3.1).
            if field.replace(value.into_owned()).is_some() {
                return None;
            }
        }
        let is_one = callback.code.is_some() || callback.error.is_some();
        callback.state = state.filter(|_| is_one)?;
        last_segment(address).clone_into(&mut callback.place);
        Some(callback)
    }

    /// Returns `true` unless the redirect URI is the issuer's own and the response arrived at
    /// another one (RFC 9700 §4.4.2.2). A proxy can have removed the beginning of the path.
    pub(crate) fn is_at(&self, redirect_uri: Option<&Url>, issuer: &str) -> bool {
        let own = redirect_uri.map(last_segment).filter(|own| *own == issuer_segment(issuer));
        own.is_none_or(|own| own == self.place)
    }

    /// Returns the authorization code if the response comes from `issuer`. `sends_issuer`: the
    /// metadata announces the `iss` parameter, so it must be present.
    pub(crate) fn code(self, issuer: &str, sends_issuer: bool) -> Result<String, LoginError> {
        let again = "sign in again";
        // Check the issuer before trusting or showing any other parameter (RFC 9207 §2.4).
        match &self.issuer {
            Some(named) if named != issuer => {
                let reason = "the response came from another authorization server";
                return Err(LoginError::new(
                    reason,
                    "do not continue; inform the server's operator",
                ));
            }
            None if sends_issuer => {
                let reason = "the response does not name its authorization server (`iss`)";
                return Err(LoginError::new(
                    reason,
                    "do not continue; inform the server's operator",
                ));
            }
            Some(_) | None => {}
        }
        match (self.error.as_deref(), self.code) {
            (Some("access_denied"), _) => Err(LoginError::new("access denied", again)),
            (Some(error), _) => {
                let said = sanitize_excerpt(self.description.as_deref().unwrap_or_default());
                let colon = if said.is_empty() { "" } else { ": " };
                let reason = format!(
                    "the authorization server returned an error: {}{colon}{said}",
                    sanitize_excerpt(error)
                );
                Err(LoginError::new(reason, again))
            }
            (None, Some(code)) => Ok(code),
            (None, None) => Err(LoginError::new("the response has no authorization code", again)),
        }
    }
}

/// Returns the path segment that makes redirect URIs differ by issuer.
fn issuer_segment(issuer: &str) -> String {
    let digest = Sha256::digest(issuer);
    hex::encode(&digest[..8])
}

/// Appends the issuer's segment to a redirect URI.
pub(crate) fn with_issuer(mut redirect_uri: Url, issuer: &str) -> Url {
    if let Ok(mut path) = redirect_uri.path_segments_mut() {
        path.pop_if_empty().push(&issuer_segment(issuer));
    }
    redirect_uri
}

fn last_segment(address: &Url) -> &str {
    address.path().rsplit('/').next().unwrap_or_default()
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
    fn code_is_accepted_only_from_the_expected_issuer() {
        let of = "iss=https%3A%2F%2Fas.example.com";
        assert_eq!(code("state=s&code=c", false), Ok("c".to_owned()));
        assert_eq!(code(&format!("state=s&code=c&{of}"), true), Ok("c".to_owned()));
        let other = "the response came from another authorization server";
        for wrong in
            ["iss=https%3A%2F%2Fas.example.com%2F", "iss=https%3A%2F%2FAS.example.com", "iss="]
        {
            for sends in [true, false] {
                assert_eq!(code(&format!("state=s&code=c&{wrong}"), sends), Err(other.to_owned()));
            }
        }
        let unsaid = "the response does not name its authorization server (`iss`)";
        assert_eq!(code("state=s&code=c", true), Err(unsaid.to_owned()));
    }

    #[test]
    fn response_must_arrive_at_the_redirect_uri_of_its_issuer() {
        let plain = Url::parse("https://tools.example.com/work/oauth/callback").unwrap();
        let own = with_issuer(plain.clone(), ISSUER);
        assert_ne!(own, with_issuer(plain.clone(), "https://as.example.com/"));
        let callback = |address: &Url| {
            let mut address = address.clone();
            address.set_query(Some("state=s&code=c"));
            Callback::read(&address).unwrap()
        };
        let other = with_issuer(plain.clone(), "https://evil.example.com");
        let mut stripped = own.clone();
        stripped.set_path(own.path().strip_prefix("/work").unwrap());
        for (arrived, used, is_at) in [
            (&own, &own, true),
            (&stripped, &own, true),
            (&plain, &own, false),
            (&other, &own, false),
            // A client registered by hand has one redirect URI.
            (&plain, &plain, true),
            (&other, &plain, true),
        ] {
            assert_eq!(callback(arrived).is_at(Some(used), ISSUER), is_at, "{arrived} {used}");
        }
    }

    #[test]
    fn error_is_shown_only_from_the_expected_issuer() {
        let declined = Err("access denied".to_owned());
        assert_eq!(code("state=s&error=access_denied&error_description=x", false), declined);
        let said =
            "the authorization server returned an error: invalid_scope: no [31mscope".to_owned();
        let asked = "state=s&error=invalid_scope&error_description=no%0A%1b[31mscope";
        assert_eq!(code(asked, false), Err(said));
        let forged = format!("{asked}&iss=https%3A%2F%2Fevil.example.com");
        assert!(!code(&forged, false).unwrap_err().contains("scope"));
    }

    #[test]
    fn incomplete_or_repeated_parameters_are_rejected() {
        for query in ["", "state=s", "code=c", "state=s&code=c&code=d", "state=s&state=s&code=c"] {
            assert_eq!(code(query, false), Err("no callback".to_owned()), "{query}");
        }
    }
}
