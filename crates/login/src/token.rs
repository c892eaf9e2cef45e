//! Requests to the token endpoint (RFC 6749 §4 to §6).

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, StatusCode};
use serde::{Deserialize, Deserializer};
use url::{Url, form_urlencoded};

use crate::http::{AuthHttpClient, AuthHttpResponse, redacted_url};
use crate::record::{OAuthClient, TokenEndpointAuthMethod};
use crate::scopes;

/// The longest accepted lifetime.
const MAX_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;
/// Maximum length of quoted error messages, in bytes.
const EXCERPT: usize = 200;

/// A successful token response (RFC 6749 §5.1).
#[derive(Deserialize)]
pub(crate) struct TokenResponse {
    pub(crate) access_token: String,
    token_type: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    pub(crate) expires_in: Option<u64>,
    pub(crate) refresh_token: Option<String>,
    /// Not used, but secret (`OpenID` Connect Core §3.1.3.3).
    id_token: Option<String>,
    #[serde(default, deserialize_with = "scope_list")]
    scope: Option<Vec<String>>,
    /// The type of the issued token (RFC 8693 §2.2.1).
    pub(crate) issued_token_type: Option<String>,
}

impl TokenResponse {
    /// Returns `true` if the response says that the token is a bearer token.
    pub(crate) fn is_bearer(&self) -> bool {
        self.token_type.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"))
    }

    /// Returns all tokens of the response.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        let optional = [&self.refresh_token, &self.id_token].into_iter().flatten();
        [&self.access_token].into_iter().chain(optional).cloned()
    }

    /// Returns the first `most` granted scopes: the requested ones if the response names none
    /// (RFC 6749 §5.1).
    pub(crate) fn scopes(&self, asked: &[String], most: usize) -> Vec<String> {
        match &self.scope {
            Some(scopes) => {
                let mut scopes = scopes.clone();
                scopes::limit(&mut scopes, most);
                scopes
            }
            None => asked.to_vec(),
        }
    }
}

/// Deserializes a number of seconds. Accepts strings and fractions, because some servers send
/// `expires_in` as text. Negative numbers count as 0, and numbers above 100 years as that.
pub(crate) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    let seconds = value.and_then(|value| match value {
        serde_json::Value::String(text) => text.trim().parse::<f64>().ok(),
        other => other.as_f64(),
    });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "approximate time, and the cast saturates"
    )]
    let seconds = seconds.map(|seconds| seconds as u64);
    Ok(seconds.map(|seconds| seconds.min(MAX_SECONDS)))
}

/// Deserializes scopes. Accepts a list, because some servers send that instead of a text with
/// spaces. Anything else counts as missing.
fn scope_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    Ok(match Option::<serde_json::Value>::deserialize(deserializer)? {
        Some(serde_json::Value::String(text)) => Some(words(&text)),
        Some(serde_json::Value::Array(scopes)) => {
            Some(scopes.iter().filter_map(|scope| scope.as_str()).flat_map(words).collect())
        }
        _ => None,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// The authorization server rejected the request. A retry can't help.
    Rejected {
        /// The `error` code (RFC 6749 §5.2 or registered).
        code: String,
        /// The sanitized `error_description`.
        said: String,
    },
    /// The authorization server was unavailable. A retry can help.
    Transient {
        why: String,
        /// From `Retry-After`.
        after: Option<Duration>,
    },
}

impl TokenError {
    pub(crate) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Rejected { code, .. } if code == wanted)
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { code, said } if said.is_empty() => write!(f, "{code}"),
            Self::Rejected { code, said } => write!(f, "{code}: {said}"),
            Self::Transient { why, .. } => f.write_str(why),
        }
    }
}

pub(crate) type Fields<'a> = Vec<(&'a str, &'a str)>;

/// Fields that the authorization server may repeat in an error.
const SECRET_FIELDS: [&str; 7] = [
    "code",
    "code_verifier",
    "refresh_token",
    "device_code",
    "assertion",
    "subject_token",
    "token",
];

/// Requests a token. `assertion` is the signed assertion of a `private_key_jwt` client.
pub(crate) async fn request_token(
    http: &AuthHttpClient,
    endpoint: &Url,
    client: &OAuthClient,
    assertion: Option<&str>,
    fields: Fields<'_>,
) -> Result<TokenResponse, TokenError> {
    let answer = post(http, endpoint, client, assertion, fields).await?;
    let granted = serde_json::from_slice::<TokenResponse>(&answer.body).ok();
    let is_usable = |token: &str| !token.is_empty() && HeaderValue::try_from(token).is_ok();
    let granted = granted.filter(|granted| is_usable(&granted.access_token));
    let Some(granted) = granted else {
        let why = format!("{} returned no usable token", redacted_url(endpoint));
        return Err(TokenError::Transient { why, after: None });
    };
    // Token exchange uses `N_A` for tokens that aren't access tokens (RFC 8693 §2.2.1).
    let is_bearer = granted
        .token_type
        .as_deref()
        .is_none_or(|kind| kind.eq_ignore_ascii_case("bearer") || kind.eq_ignore_ascii_case("n_a"));
    if is_bearer {
        Ok(granted)
    } else {
        let said = "its tokens are not bearer tokens".to_owned();
        Err(TokenError::Rejected { code: "unsupported_token_type".to_owned(), said })
    }
}

/// Posts a form with the client's authentication. Any unsuccessful response is an error.
pub(crate) async fn post(
    http: &AuthHttpClient,
    endpoint: &Url,
    client: &OAuthClient,
    assertion: Option<&str>,
    fields: Fields<'_>,
) -> Result<AuthHttpResponse, TokenError> {
    let for_now = |why| TokenError::Transient { why, after: None };
    http.check(endpoint).await.map_err(for_now)?;
    let secrets = fields.iter().filter(|(field, _)| SECRET_FIELDS.contains(field));
    let secrets = secrets.map(|(_, value)| *value).chain(assertion).chain(client.secret.as_deref());
    let secrets: Vec<String> = secrets.map(str::to_owned).collect();
    let request = request(endpoint, client, assertion, fields);
    let answer = http.send(request.map_err(|error| for_now(error.to_string()))?).await;
    let answer = answer.map_err(for_now)?;
    // Some servers report errors with a success status.
    let is_granted = answer.status.is_success() && error_of(&answer).is_none();
    if is_granted { Ok(answer) } else { Err(refusal(endpoint, &answer, &secrets)) }
}

fn request(
    endpoint: &Url,
    client: &OAuthClient,
    assertion: Option<&str>,
    fields: Fields<'_>,
) -> http::Result<Request<Vec<u8>>> {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields);
    let mut request = Request::post(endpoint.as_str())
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("mcp-workbench/", env!("CARGO_PKG_VERSION")));
    let secret = client.secret.as_deref().unwrap_or_default();
    match (client.method, assertion) {
        (TokenEndpointAuthMethod::PrivateKeyJwt, Some(assertion)) => {
            let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            form.append_pair("client_id", &client.id);
            form.append_pair("client_assertion_type", kind);
            form.append_pair("client_assertion", assertion);
        }
        (TokenEndpointAuthMethod::ClientSecretBasic, _) => {
            // ID and secret are form-encoded first (RFC 6749 §2.3.1).
            let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect();
            let (id, secret): (String, String) = (escaped(&client.id), escaped(secret));
            let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
            let mut basic = HeaderValue::try_from(basic)?;
            basic.set_sensitive(true);
            request = request.header(AUTHORIZATION, basic);
        }
        (TokenEndpointAuthMethod::ClientSecretPost, _) => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
        }
        // An assertion grant can identify the client without an ID.
        (TokenEndpointAuthMethod::None | TokenEndpointAuthMethod::PrivateKeyJwt, _)
            if client.id.is_empty() => {}
        (TokenEndpointAuthMethod::None | TokenEndpointAuthMethod::PrivateKeyJwt, _) => {
            form.append_pair("client_id", &client.id);
        }
    }
    request.body(form.finish().into_bytes())
}

/// An error response (RFC 6749 §5.2).
#[derive(Deserialize)]
struct Error {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

fn error_of(answer: &AuthHttpResponse) -> Option<Error> {
    serde_json::from_slice(&answer.body).ok()
}

fn refusal(endpoint: &Url, answer: &AuthHttpResponse, secrets: &[String]) -> TokenError {
    let status = answer.status;
    let error = error_of(answer);
    let is_for_now = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    match error {
        Some(Error { error, error_description })
            if !is_for_now
                && !status.is_redirection()
                && !matches!(error.as_str(), "temporarily_unavailable" | "server_error") =>
        {
            let excerpt = |said: &str| sanitize_excerpt(&redacted(said, secrets));
            let said = excerpt(error_description.as_deref().unwrap_or_default());
            TokenError::Rejected { code: excerpt(&error), said }
        }
        _ => {
            let after = answer.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok());
            let after = after.and_then(|after| after.parse().ok()).map(Duration::from_secs);
            let body = String::from_utf8_lossy(&answer.body);
            // A page for browsers says nothing in its beginning.
            let is_page = body.trim_start().starts_with('<');
            let said = if is_page { "" } else { &body };
            let said = sanitize_excerpt(&redacted(said, secrets));
            let colon = if said.is_empty() { "" } else { ": " };
            let why =
                format!("{} returned HTTP status {status}{colon}{said}", redacted_url(endpoint));
            TokenError::Transient { why, after }
        }
    }
}

fn redacted(said: &str, secrets: &[String]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    secrets.fold(said.to_owned(), |said, secret| said.replace(secret.as_str(), "***"))
}

/// Returns the first 200 bytes of untrusted text on one line, without control characters.
pub(crate) fn sanitize_excerpt(said: &str) -> String {
    let mut said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    said.retain(|character| !character.is_control());
    said.truncate(said.floor_char_boundary(EXCERPT));
    said
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn scope_can_be_a_list() {
        let asked = ["asked".to_owned()];
        for (scope, expected) in [
            (r#""a b""#, vec!["a", "b"]),
            (r#"["a","b"]"#, vec!["a", "b"]),
            (r#"["a b",7]"#, vec!["a", "b"]),
            (r"[]", vec![]),
            ("null", vec!["asked"]),
            ("{}", vec!["asked"]),
        ] {
            let text = format!(r#"{{"access_token":"t","scope":{scope}}}"#);
            let response: TokenResponse = serde_json::from_str(&text).unwrap();
            assert_eq!(response.scopes(&asked, 9), expected, "{scope}");
        }
        let response: TokenResponse = serde_json::from_str(r#"{"access_token":"t"}"#).unwrap();
        assert_eq!(response.scopes(&asked, 9), asked);
    }
}
