//! Starts interactive logins: discovery, and the authorization URL for the browser.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT, WWW_AUTHENTICATE};
use http::{Request, StatusCode};

use crate::attempt::new_record;
use crate::attempt_record::AttemptRecord;
use crate::client_registration::{check_issuer, client, redirect_uri_for};
use crate::device;
use crate::discovery::{DiscoveryResult, discover};
use crate::listener::LoopbackListener;
use crate::login_state::{LoginState, bounded_challenge};
use crate::pending::{LoginAttempt, PendingLogin};
use crate::pkce;
use crate::record::{AuthorizationServer, LoginRecord, union};
use crate::target::{LoginError, LoginTarget, RedirectTarget};
use mcp_workbench_settings::GrantType;

/// Provokes a 401 from a server that requires a login. Harmless if the server responds instead.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

pub(crate) async fn begin(
    login: &Arc<LoginState>,
    back: RedirectTarget,
) -> Result<PendingLogin, LoginError> {
    let target = &login.target;
    if target.oauth.is_off {
        let hint = "remove `\"oauth\": false` from its entry";
        return Err(LoginError::new("sign-in is disabled for this server", hint));
    }
    if login.is_non_interactive() {
        let hint = "nothing to do: the workbench obtains a token when the server requires one";
        return Err(LoginError::new(
            "this server has no interactive sign-in (`oauth.grant`)",
            hint,
        ));
    }
    let challenge = match login.challenge() {
        Some(challenge) => Some(challenge),
        None => probe(login).await?,
    };
    let found = discover(login, challenge.as_deref()).await.map_err(|failure| {
        let wants_none = challenge.is_none() && target.oauth.metadata_url.is_none();
        if wants_none && failure.reason == crate::discovery::NO_METADATA {
            let reason = "the server does not require sign-in";
            let error = LoginError::new(reason, "use it without signing in");
            LoginError { is_not_required: true, ..error }
        } else {
            failure
        }
    })?;
    let before = login.reload().await;
    check_issuer(target, before.as_deref(), &found.authority)?;
    let asked = scopes(target, &found, before.as_deref());
    if matches!(target.oauth.grant, GrantType::DeviceCode) {
        return device::begin(login, found, asked, before.as_deref()).await;
    }
    begin_authorization_code(login, found, asked, before.as_deref(), back).await
}

/// Returns the scopes to request: the configured or else the advertised ones. After a step-up
/// challenge, the union with the granted and missing scopes.
fn scopes(
    target: &LoginTarget,
    found: &DiscoveryResult,
    before: Option<&LoginRecord>,
) -> Vec<String> {
    let mut asked = target.oauth.scopes.clone().unwrap_or_else(|| found.scopes.clone());
    if let Some(before) = before.filter(|before| !before.missing_scopes.is_empty()) {
        asked = union(&[&before.scopes, &before.missing_scopes, &asked]);
    }
    asked
}

/// Sends an unauthenticated request and returns the challenge. `None` if it is accepted.
async fn probe(login: &LoginState) -> Result<Option<String>, LoginError> {
    let url = &login.target.url;
    let request = Request::post(url.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header(USER_AGENT, concat!("mcp-workbench/", env!("CARGO_PKG_VERSION")))
        .body(PING.as_bytes().to_vec());
    let failed = |why: String| LoginError::new(why, "check that the server is running");
    let request = request.map_err(|error| failed(error.to_string()))?;
    let answer = login.http().head(request).await.map_err(failed)?;
    if !matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Ok(None);
    }
    let schemes = answer.headers.get_all(WWW_AUTHENTICATE).iter();
    let schemes: Vec<&str> = schemes.filter_map(|scheme| scheme.to_str().ok()).collect();
    Ok(Some(bounded_challenge(schemes.join(", "))))
}

/// Checks that the authorization server supports PKCE with `S256`.
fn check_pkce(target: &LoginTarget, authority: &AuthorizationServer) -> Result<(), LoginError> {
    match &authority.challenge_methods {
        Some(known) if known.iter().any(|method| method == "S256") => Ok(()),
        // Endpoints are guessed only for MCP 2025-03-26, which requires PKCE of every server.
        None if authority.is_guessed || target.oauth.allows_no_pkce => Ok(()),
        None => Err(LoginError::new(
            "its authorization server does not announce PKCE, which protects authorization codes \
             from theft",
            "if you trust it anyway, set `oauth.pkce` to `lax` in the server's entry",
        )),
        Some(_) => Err(LoginError::new(
            "its authorization server does not support PKCE with `S256`, which protects \
             authorization codes from theft",
            "ask its operator",
        )),
    }
}

/// Starts an authorization code login with PKCE (RFC 6749 §4.1, RFC 7636).
async fn begin_authorization_code(
    login: &Arc<LoginState>,
    found: DiscoveryResult,
    asked: Vec<String>,
    before: Option<&LoginRecord>,
    back: RedirectTarget,
) -> Result<PendingLogin, LoginError> {
    let target = &login.target;
    let DiscoveryResult { authority, resource, .. } = found;
    check_pkce(target, &authority)?;
    let Some(endpoint) = authority.authorization_endpoint.clone() else {
        let reason = "its authorization server has no authorization endpoint";
        return Err(LoginError::new(reason, "choose another `oauth.grant`"));
    };
    let (listener, redirect_uri) = match back {
        RedirectTarget::External(address) => {
            (None, redirect_uri_for(target, address, &authority.issuer, before))
        }
        RedirectTarget::Listener => {
            let listener = LoopbackListener::open(target, &authority.issuer, before).await?;
            let own = listener.as_ref().map(|listener| listener.redirect_uri().clone());
            let named = own.or_else(|| target.oauth.redirect_uri.clone());
            let hint = "check `oauth.redirectUri`";
            let named =
                named.ok_or_else(|| LoginError::new("no redirect URI is available", hint))?;
            (listener, named)
        }
    };
    let client = client(login.http(), target, before, &authority, Some(&redirect_uri)).await?;
    let again = |why: String| LoginError::new(why, "try again");
    let state = pkce::unguessable().map_err(again)?;
    let verifier = pkce::unguessable().map_err(again)?;
    let mut address = endpoint;
    let resource_asked = DiscoveryResult::resource_for(target, resource.as_deref());
    {
        let mut query = address.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", redirect_uri.as_str())
            .append_pair("state", &state)
            .append_pair("code_challenge", &pkce::challenge(&verifier))
            .append_pair("code_challenge_method", "S256");
        if !asked.is_empty() {
            query.append_pair("scope", &asked.join(" "));
        }
        // Some servers issue refresh tokens only with `prompt=consent` (`OpenID` Connect Core §11).
        let own = &target.oauth.authorization_parameters;
        if asked.iter().any(|scope| scope == "offline_access")
            && !own.iter().any(|(name, _)| name == "prompt")
        {
            query.append_pair("prompt", "consent");
        }
        if let Some(resource) = &resource_asked {
            query.append_pair("resource", resource);
        }
        query.extend_pairs(own);
    }
    let record = new_record(login, authority, resource, client, before).await;
    let before = before.map(|before| before.epoch).unwrap_or_default();
    let attempt = AttemptRecord::new((state, verifier), asked, resource_asked, record, before);
    let waiting = LoginAttempt::new(login, attempt);
    waiting.watch_others();
    if let Some(listener) = listener {
        listener.serve(&waiting);
    }
    Ok(PendingLogin::new(waiting, address, None))
}
