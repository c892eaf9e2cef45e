//! The token endpoint: requests for tokens and what is answered (RFC 6749 §4 to §6).

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, StatusCode};
use serde::{Deserialize, Deserializer};
use url::{Url, form_urlencoded};

use crate::login::http::{Answer, Http, told};
use crate::login::record::{Client, Method};

/// The most characters of what an authorization server says of an error.
const EXCERPT: usize = 200;

/// An answer with a token.
#[derive(Deserialize)]
pub(crate) struct Granted {
    pub(crate) access_token: String,
    token_type: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    pub(crate) expires_in: Option<u64>,
    pub(crate) refresh_token: Option<String>,
    scope: Option<String>,
    /// The kind of token that was issued (RFC 8693 §2.2.1).
    pub(crate) issued_token_type: Option<String>,
}

impl Granted {
    /// The scopes that were granted: those that were asked for, where nothing is said (RFC 6749 §5.1).
    pub(crate) fn scopes(&self, asked: &[String]) -> Vec<String> {
        match &self.scope {
            Some(scopes) => scopes.split_whitespace().map(str::to_owned).collect(),
            None => asked.to_vec(),
        }
    }
}

/// Some say a number as text.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| match value {
        serde_json::Value::String(text) => text.trim().parse().ok(),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time, about"
        )]
        other => other.as_u64().or_else(|| other.as_f64().map(|seconds| seconds.max(0.0) as u64)),
    }))
}

/// A request that was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The authorization server has refused it, and would again.
    Final {
        /// The `error` of RFC 6749 §5.2, or another registered one.
        code: String,
        /// Its own words about it.
        said: String,
    },
    /// It was not reached, or could not decide: another time it may be granted.
    ForNow {
        /// The reason.
        why: String,
        /// When to try again, where it says so.
        after: Option<Duration>,
    },
}

impl Refusal {
    /// Returns `true` if it was refused for this reason.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Final { code, .. } if code == wanted)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Final { code, said } if said.is_empty() => write!(f, "{code}"),
            Self::Final { code, said } => write!(f, "{code}: {said}"),
            Self::ForNow { why, .. } => f.write_str(why),
        }
    }
}

/// The fields of a request.
pub(crate) type Fields<'a> = Vec<(&'a str, &'a str)>;

/// Asks for a token, proving who asks. `assertion` is for clients that sign.
pub(crate) async fn ask(
    http: &Http,
    endpoint: &Url,
    client: &Client,
    assertion: Option<&str>,
    fields: Fields<'_>,
) -> Result<Granted, Refusal> {
    let answer = post(http, endpoint, client, assertion, fields).await?;
    let granted = serde_json::from_slice::<Granted>(&answer.body).ok();
    let granted = granted.filter(|granted| !granted.access_token.is_empty());
    let Some(granted) = granted else {
        let why = format!("{} answers with no token", told(endpoint));
        return Err(Refusal::ForNow { why, after: None });
    };
    // `N_A` is what an exchange says of what is no token to be shown (RFC 8693 §2.2.1).
    let is_bearer = granted
        .token_type
        .as_deref()
        .is_none_or(|kind| kind.eq_ignore_ascii_case("bearer") || kind.eq_ignore_ascii_case("n_a"));
    if is_bearer {
        Ok(granted)
    } else {
        let said = "its tokens are not of the kind that is shown as it is (`Bearer`)".to_owned();
        Err(Refusal::Final { code: "unsupported_token_type".to_owned(), said })
    }
}

/// Posts a form, proving who asks; the answer is a success.
pub(crate) async fn post(
    http: &Http,
    endpoint: &Url,
    client: &Client,
    assertion: Option<&str>,
    fields: Fields<'_>,
) -> Result<Answer, Refusal> {
    let for_now = |why| Refusal::ForNow { why, after: None };
    http.check(endpoint).await.map_err(for_now)?;
    let request = request(endpoint, client, assertion, fields);
    let answer = http.send(request.map_err(|error| for_now(error.to_string()))?).await;
    let answer = answer.map_err(for_now)?;
    // Some refuse with a status of success.
    let is_granted = answer.status.is_success() && error_of(&answer).is_none();
    if is_granted { Ok(answer) } else { Err(refusal(endpoint, &answer)) }
}

fn request(
    endpoint: &Url,
    client: &Client,
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
        (Method::PrivateKeyJwt, Some(assertion)) => {
            let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            form.append_pair("client_id", &client.id);
            form.append_pair("client_assertion_type", kind);
            form.append_pair("client_assertion", assertion);
        }
        (Method::ClientSecretBasic, _) => {
            // Both are escaped first (RFC 6749 §2.3.1).
            let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect();
            let (id, secret): (String, String) = (escaped(&client.id), escaped(secret));
            let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
            let mut basic = HeaderValue::try_from(basic)?;
            basic.set_sensitive(true);
            request = request.header(AUTHORIZATION, basic);
        }
        (Method::ClientSecretPost, _) => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
        }
        // An assertion alone may say who asks.
        (Method::None | Method::PrivateKeyJwt, _) if client.id.is_empty() => {}
        (Method::None | Method::PrivateKeyJwt, _) => {
            form.append_pair("client_id", &client.id);
        }
    }
    request.body(form.finish().into_bytes())
}

/// An answer that says what is wrong (RFC 6749 §5.2).
#[derive(Deserialize)]
struct Error {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

fn error_of(answer: &Answer) -> Option<Error> {
    serde_json::from_slice(&answer.body).ok()
}

fn refusal(endpoint: &Url, answer: &Answer) -> Refusal {
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
            let said = plain(error_description.as_deref().unwrap_or_default());
            Refusal::Final { code: plain(&error), said }
        }
        _ => {
            let after = answer.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok());
            let after = after.and_then(|after| after.parse().ok()).map(Duration::from_secs);
            let why = format!("{} answers with HTTP status {status}", told(endpoint));
            Refusal::ForNow { why, after }
        }
    }
}

/// The beginning of what somebody else says, on one line and without what commands a terminal.
pub(crate) fn plain(said: &str) -> String {
    let mut said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    said.retain(|character| !character.is_control());
    said.truncate(said.floor_char_boundary(EXCERPT));
    said
}
