//! Exchanges the token of a caller for one of a server (RFC 8693).
//!
//! The server never gets the caller's own token, nor any token that this program would accept: it
//! could otherwise act as the caller here.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::assertion::{self, Assertion};
use crate::caller_tokens::CallerToken;
use crate::client_registration::configured_client;
use crate::discovery::{DiscoveryResult, discover_issuer};
use crate::login_state::LoginState;
use crate::non_interactive::TOKEN_EXCHANGE;
use crate::pkce;
use crate::record::{LoginRecord, Token, unix_now};
use crate::target::LoginError;
use crate::token::{self, Fields, TokenError, TokenResponse, sanitize_excerpt};

const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// Maximum length of an exchanged token, in bytes. Longer ones don't fit into a header.
const MAX_TOKEN: usize = 16 * 1024;

const ISSUES_OWN: &str = "configure the issuer to issue a token for the server only (`resource` and \
                          `audience` in `auth` of the server's entry)";

/// A failed exchange, and the issuer's `Retry-After`.
pub(crate) struct ExchangeError {
    pub(crate) failure: LoginError,
    pub(crate) after: Option<Duration>,
}

impl From<LoginError> for ExchangeError {
    fn from(failure: LoginError) -> Self {
        Self { failure, after: None }
    }
}

impl From<TokenError> for ExchangeError {
    fn from(refusal: TokenError) -> Self {
        let reason = format!("the issuer exchanged no token: {refusal}");
        let (hint, after) = match &refusal {
            TokenError::Transient { after, .. } => ("try again later", *after),
            TokenError::Rejected { code, .. } => (hint_for(code), None),
        };
        Self { failure: LoginError::new(reason, hint), after }
    }
}

/// Returns the hint for an error code of RFC 6749 §5.2, RFC 8693 §2.2.2 or RFC 8707 §2.
fn hint_for(code: &str) -> &'static str {
    match code {
        "invalid_grant" | "invalid_request" => {
            "the issuer does not accept this caller's token: check that it trusts the issuer in \
             `auth.jwt`, and that `auth` of the server's entry has what it requires"
        }
        "invalid_target" => "check `resource` and `audience` in `auth` of the server's entry",
        "invalid_scope" => "check `scopes` in `auth` of the server's entry",
        "invalid_client" => "check the client in `auth` of the server's entry",
        "unauthorized_client" | "unsupported_grant_type" | "access_denied" => {
            "allow the workbench's client to exchange this caller's token at the issuer"
        }
        _ => "check `auth` in the server's entry",
    }
}

/// Exchanges the caller's current token.
pub(crate) async fn obtain(login: &LoginState) -> Result<LoginRecord, ExchangeError> {
    let Some(subject) = login.shared.callers.get(login.account()) else {
        let reason = "the caller's token has expired";
        let failure = LoginError::new(reason, "send the next request with a new token");
        login.note_rejection(failure.clone());
        return Err(failure.into());
    };
    let exchanged = exchange(login, &subject).await;
    login.note_exchange(exchanged.as_ref().err().map(|failed| failed.failure.clone()));
    exchanged
}

async fn exchange(login: &LoginState, subject: &CallerToken) -> Result<LoginRecord, ExchangeError> {
    let target = &login.target;
    let Some(exchange) = target.oauth.exchange() else {
        return Err(LoginError::new("this server gets no exchanged tokens", "").into());
    };
    let authority = discover_issuer(login, &exchange.issuer).await?;
    let Some(client) = configured_client(target, &authority, None) else {
        return Err(LoginError::new("no `clientId` is configured", hint_for("")).into());
    };
    let resource = DiscoveryResult::resource_for(target, None);
    let asked = target.oauth.scopes.clone().unwrap_or_default();
    let scope = asked.join(" ");
    let mut fields: Fields<'_> = vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("subject_token", &subject.value),
        ("subject_token_type", ACCESS_TOKEN),
        ("requested_token_type", ACCESS_TOKEN),
    ];
    fields.extend(resource.as_deref().map(|resource| ("resource", resource)));
    fields.extend(exchange.audience.as_deref().map(|audience| ("audience", audience)));
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    let signed = exchange.key.as_ref().map(|key| {
        let id = pkce::unguessable()?;
        let assertion = Assertion { client: &client.id, audience: &authority.issuer, id: &id };
        assertion::sign(&assertion, &key.pem, &key.algorithm, key.key_id.as_deref())
    });
    let signed = signed.transpose().map_err(|why| LoginError::new(why, hint_for("")))?;
    let (http, endpoint) = (login.http(), &authority.token_endpoint);
    let granted = token::request_token(http, endpoint, &client, signed.as_deref(), fields).await?;
    login.learn(granted.secrets());
    check(&granted, subject)?;
    let who = (target.server.as_str(), &target.url, target.account.as_deref());
    // The token must not outlive the caller's own.
    let left = subject.expires.saturating_sub(unix_now()).max(1);
    let seconds = granted.expires_in.filter(|seconds| *seconds > 0);
    let seconds = seconds.map_or(left, |seconds| seconds.min(left));
    let scopes = granted.scopes(&asked, target.oauth.max_scopes());
    let mut record = LoginRecord::new(who, authority, None, client);
    record.scopes = scopes;
    record.token = Some(Token::new(granted.access_token, Some(seconds)));
    Ok(record)
}

/// Checks that the response has a bearer token (RFC 8693 §2.2.1) that is useless here.
fn check(granted: &TokenResponse, subject: &CallerToken) -> Result<(), LoginError> {
    let kind = granted.issued_token_type.as_deref();
    if let Some(kind) = kind.filter(|kind| ![ACCESS_TOKEN, JWT].contains(kind)) {
        let reason = format!("the issuer issued no access token but `{}`", sanitize_excerpt(kind));
        return Err(LoginError::new(reason, ISSUES_OWN));
    }
    if !granted.is_bearer() {
        let reason = "the issuer issued no bearer token (`token_type`)";
        return Err(LoginError::new(reason, ISSUES_OWN));
    }
    let issued = granted.access_token.as_str();
    if issued.len() > MAX_TOKEN {
        let reason = format!("the issuer issued a token of more than {} KiB", MAX_TOKEN / 1024);
        return Err(LoginError::new(reason, "let the issuer put fewer claims into it"));
    }
    if is_same(issued, &subject.value) {
        let reason = "the issuer returned the caller's own token, which no server may get";
        return Err(LoginError::new(reason, ISSUES_OWN));
    }
    if has_audience(issued, &subject.own_audience) {
        let reason = "the issuer issued a token that is valid for the workbench itself (`aud`), \
                      which no server may get";
        return Err(LoginError::new(reason, ISSUES_OWN));
    }
    Ok(())
}

/// Returns `true` if both tokens are the same, regardless of their signatures.
fn is_same(issued: &str, subject: &str) -> bool {
    let claims = |token: &str| token.split('.').nth(1).map(str::to_owned);
    issued == subject || claims(subject).is_some_and(|own| claims(issued) == Some(own))
}

/// Returns `true` if the token is a JWT for one of these audiences, or for a single toolbox of one.
fn has_audience(token: &str, own: &[String]) -> bool {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    #[derive(Deserialize)]
    struct Claims {
        aud: Audience,
    }

    let claims = token.split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
    let claims = claims.and_then(|claims| serde_json::from_slice::<Claims>(&claims).ok());
    let audience = match claims.map(|claims| claims.aud) {
        Some(Audience::One(audience)) => vec![audience],
        Some(Audience::Many(audience)) => audience,
        None => Vec::new(),
    };
    let is_own = |audience: &String| {
        own.iter().any(|own| {
            let rest = audience.strip_prefix(own.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    audience.iter().any(is_own)
}
