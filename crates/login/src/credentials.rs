//! The `Authorization` header of requests to the server, and the handling of its 401 and 403
//! responses.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use rmcp::transport::auth::WWWAuthenticateParams;
use tokio::time::timeout;

use crate::login_state::{LoginState, REFUSED, RenewalOutcome, missing_scopes_reason};
use crate::record::{LoginRecord, Token, union};
use crate::renewal::renew;
use crate::scopes;
use crate::target::{LoginError, LoginLimit};
use crate::token::sanitize_excerpt;
use mcp_workbench_wire::http_client::{Challenge, RetryDecision};

/// How long a request waits for a renewal while its token is still valid.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Backoff after the server has rejected a newly exchanged token.
const REJECTED_PAUSE: Duration = Duration::from_secs(5);

/// Returns the `Authorization` header, after renewing a token that is about to expire.
pub(crate) async fn headers(login: &Arc<LoginState>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if login.target.oauth.is_off {
        return headers;
    }
    if login.is_exchange() && login.cached_record().is_none() {
        renew(login, None).await;
    }
    let known = login.cached_record().filter(|record| record.token.is_some());
    let record = match known {
        Some(record) => Some(record),
        None => login.reload().await,
    };
    let Some(token) = record.as_ref().and_then(|record| record.token.as_ref()) else {
        return headers;
    };
    if token.has_ended() {
        renew(login, Some(&token.value)).await;
    } else if token.is_ending() {
        // The old token is still valid, so don't wait long for a slow authorization server.
        let _ = timeout(TIMEOUT, renew(login, Some(&token.value))).await;
    }
    let now = login.cached_record();
    let token = now.as_ref().and_then(|record| record.token.as_ref());
    // Send no expired token: the server's challenge says what is needed.
    if let Some(token) = token.filter(|token| !token.has_ended())
        && let Some(bearer) = bearer(&token.value)
    {
        headers.insert(AUTHORIZATION, bearer);
    }
    headers
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Decides how to proceed after a rejected request.
pub(crate) async fn handle_challenge(
    login: &Arc<LoginState>,
    challenge: Challenge,
) -> RetryDecision {
    if login.is_exchange() {
        return handle_exchange_challenge(login, challenge).await;
    }
    let Challenge { status, www_authenticate: schemes, authorization: shown, is_last } = challenge;
    let is_bearer = |scheme: &String| scheme.to_ascii_lowercase().contains("bearer");
    if login.target.oauth.is_off || !(schemes.is_empty() || schemes.iter().any(is_bearer)) {
        return RetryDecision::GiveUp;
    }
    let said = schemes.join(", ");
    let params = WWWAuthenticateParams::parse(&said, &login.target.url);
    let shown = shown.as_ref().and_then(|shown| shown.to_str().ok());
    let shown = shown.and_then(|shown| shown.strip_prefix("Bearer "));
    if status == StatusCode::FORBIDDEN {
        if !params.is_insufficient_scope() {
            return RetryDecision::GiveUp;
        }
        let scopes: Vec<String> = params
            .scope
            .iter()
            .flat_map(|scope| scope.split_whitespace())
            .map(str::to_owned)
            .collect();
        login.hear(said);
        return step_up(login, scopes, shown, is_last).await;
    }
    login.hear(said);
    // Another process can have signed in or renewed the token.
    let record = login.reload().await;
    let token = record.as_ref().and_then(|record| record.token.as_ref());
    if token.is_some_and(|token| Some(token.value.as_str()) != shown && !token.is_ending()) {
        // The newer token came too late for the second try, but the next request uses it.
        return if is_last { RetryDecision::GiveUp } else { RetryDecision::Retry };
    }
    if !is_last && (login.is_non_interactive() || can_renew(record.as_deref())) {
        // Renew even if the token hasn't expired by the local clock: the server has rejected it.
        match renew(login, token.map(|token| token.value.as_str())).await {
            RenewalOutcome::Fresh => return RetryDecision::Retry,
            RenewalOutcome::SignInRequired(why) => {
                note_refused(login, shown).await;
                login.require_sign_in(&why, shown);
            }
            // The login can still be valid.
            RenewalOutcome::Transient(why) => {
                tracing::warn!(server = login.target.server, why, "token refresh failed");
                return RetryDecision::GiveUp;
            }
        }
        return RetryDecision::AwaitSignIn;
    }
    let none = login.shared.missing_reason();
    let why = match (shown, is_last) {
        (None, _) => &none,
        (Some(_), false) => {
            note_refused(login, shown).await;
            REFUSED
        }
        (Some(_), true) => "the server rejected a newly issued token",
    };
    login.require_sign_in(why, shown);
    RetryDecision::AwaitSignIn
}

/// Marks the stored token as rejected, unless it has been replaced, so that other processes know.
/// The token is still sent, because the server can be wrong.
async fn note_refused(login: &LoginState, shown: Option<&str>) {
    if login.is_non_interactive() {
        return;
    }
    if let Some(_guard) = login.shared.lock(&login.key).await
        && let Some(current) = login.reload().await
        && let Some(token) = current.token.as_ref()
        && Some(token.value.as_str()) == shown
        && !token.is_refused
    {
        let mut changed = LoginRecord::clone(&current);
        changed.token = Some(Token { is_refused: true, ..token.clone() });
        login.save(changed).await;
    }
}

fn can_renew(record: Option<&LoginRecord>) -> bool {
    record.is_some_and(|record| record.refresh_token.is_some())
}

/// Step-up authorization (`insufficient_scope`): records the union of granted and demanded scopes,
/// then renews (non-interactive grants) or requires a sign-in.
async fn step_up(
    login: &Arc<LoginState>,
    scopes: Vec<String>,
    shown: Option<&str>,
    is_last: bool,
) -> RetryDecision {
    let Some(record) = login.reload().await else {
        login.require_sign_in(&login.shared.missing_reason(), None);
        return RetryDecision::AwaitSignIn;
    };
    let token = record.token.as_ref().map(|token| token.value.as_str());
    if token != shown && token.is_some() && !is_last {
        // The scopes can have been granted in the meantime.
        return RetryDecision::Retry;
    }
    let mut missing = union(&[&record.missing_scopes, &scopes]);
    missing.retain(|scope| !record.scopes.contains(scope));
    if scopes::limit(&mut missing, login.target.oauth.max_scopes()) {
        login.report_limit(LoginLimit::Scopes, "the server demands too many scopes");
    }
    let wanted = union(&[&record.scopes, &missing]);
    if !login.count_step_up(&wanted) {
        login.report_limit(LoginLimit::Scopes, "the server demands scopes again and again");
        return RetryDecision::GiveUp;
    }
    if let Some(_guard) = login.shared.lock(&login.key).await
        && let Some(current) = login.reload().await
        && current.missing_scopes != wanted
    {
        let mut changed = LoginRecord::clone(&current);
        changed.missing_scopes.clone_from(&wanted);
        login.save(changed).await;
    }
    if login.is_non_interactive() && !is_last {
        match renew(login, token).await {
            RenewalOutcome::Fresh => return RetryDecision::Retry,
            RenewalOutcome::SignInRequired(why) | RenewalOutcome::Transient(why) => {
                login.require_sign_in(&why, None);
            }
        }
    } else {
        login.require_sign_in(&missing_scopes_reason(&wanted), None);
    }
    RetryDecision::AwaitSignIn
}

/// Decides how to proceed after the server has rejected the exchanged token. There is no sign-in,
/// so the alternative to another exchange is an error.
async fn handle_exchange_challenge(login: &Arc<LoginState>, challenge: Challenge) -> RetryDecision {
    let Challenge { status, www_authenticate: said, authorization: shown, is_last } = challenge;
    if status == StatusCode::FORBIDDEN {
        let said = sanitize_excerpt(&said.join(", "));
        let colon = if said.is_empty() { "" } else { ": " };
        let reason = format!("the server denies access with the exchanged token{colon}{said}");
        let hint =
            "this caller may lack the permission, or `scopes` in `auth` of the server's entry";
        login.note_rejection(LoginError::new(reason, hint));
        return RetryDecision::GiveUp;
    }
    let shown = shown.as_ref().and_then(|shown| shown.to_str().ok());
    let shown = shown.and_then(|shown| shown.strip_prefix("Bearer "));
    if !is_last {
        return match renew(login, shown).await {
            RenewalOutcome::Fresh => RetryDecision::Retry,
            RenewalOutcome::SignInRequired(_) | RenewalOutcome::Transient(_) => {
                RetryDecision::GiveUp
            }
        };
    }
    let reason = "the server rejected a newly exchanged token";
    let hint = "check that the server accepts tokens of `issuer`, and `resource` and `audience` in \
                `auth` of its entry";
    login.note_exchange(Some(LoginError::new(reason, hint)));
    // Each further call would otherwise lead to another exchange.
    login.finish_renewal(&RenewalOutcome::Transient(reason.to_owned()), REJECTED_PAUSE);
    RetryDecision::GiveUp
}
