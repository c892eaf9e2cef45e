//! The headers that a link shows its server, and the decision on a refusal.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use rmcp::transport::auth::WWWAuthenticateParams;
use tokio::time::timeout;

use crate::login::record::{Record, Token, union};
use crate::login::renewal::renew;
use crate::login::sign_in::{Login, REFUSED, Renewal, wants_more};
use crate::wire::remote::{Again, Challenge};

/// How long a renewal is waited for while the old token is good.
const PATIENCE: Duration = Duration::from_secs(5);

/// The headers that show the token, which is renewed first if it is about to end.
pub(crate) async fn headers(login: &Arc<Login>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if login.place.oauth.is_off {
        return headers;
    }
    let known = login.known().filter(|record| record.token.is_some());
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
        // It is still good for the while that an authorization server may take.
        let _ = timeout(PATIENCE, renew(login, Some(&token.value))).await;
    }
    let now = login.known();
    let token = now.as_ref().and_then(|record| record.token.as_ref());
    // The server says by itself what it wants in the place of one that has ended.
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

/// Decides on a refused exchange.
pub(crate) async fn refused(login: &Arc<Login>, challenge: Challenge) -> Again {
    let Challenge { status, schemes, shown, is_last } = challenge;
    let is_bearer = |scheme: &String| scheme.to_ascii_lowercase().contains("bearer");
    if login.place.oauth.is_off || !(schemes.is_empty() || schemes.iter().any(is_bearer)) {
        return Again::No;
    }
    let said = schemes.join(", ");
    let params = WWWAuthenticateParams::parse(&said, &login.place.url);
    let shown = shown.as_ref().and_then(|shown| shown.to_str().ok());
    let shown = shown.and_then(|shown| shown.strip_prefix("Bearer "));
    if status == StatusCode::FORBIDDEN {
        if !params.is_insufficient_scope() {
            return Again::No;
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
    // Another process may have signed in, or renewed the token.
    let record = login.reload().await;
    let token = record.as_ref().and_then(|record| record.token.as_ref());
    if token.is_some_and(|token| Some(token.value.as_str()) != shown && !token.is_ending()) {
        // What was refused twice was replaced meanwhile; whoever asks next has the new one.
        return if is_last { Again::No } else { Again::Once };
    }
    if !is_last && (login.is_machine() || can_renew(record.as_deref())) {
        // The server knows better than the clock whether it is good.
        match renew(login, token.map(|token| token.value.as_str())).await {
            Renewal::Fresh => return Again::Once,
            Renewal::Ended(why) => {
                note_refused(login, shown).await;
                login.want(&why, shown);
            }
            // The login may be as good as ever.
            Renewal::Trouble(why) => {
                tracing::warn!(server = login.place.server, why, "the token could not be renewed");
                return Again::No;
            }
        }
        return Again::SignIn;
    }
    let none = login.shared.why_none();
    let why = match (shown, is_last) {
        (None, _) => &none,
        (Some(_), false) => {
            note_refused(login, shown).await;
            REFUSED
        }
        (Some(_), true) => "the server does not take a token that is new",
    };
    login.want(why, shown);
    Again::SignIn
}

/// Notes in the record that the server refuses this token, if it is still the one that is kept: other processes
/// are to know as well. It is shown all the same, for the server may have been wrong.
async fn note_refused(login: &Login, shown: Option<&str>) {
    if login.is_machine() {
        return;
    }
    if let Some(_guard) = login.shared.lock(&login.key).await
        && let Some(current) = login.reload().await
        && let Some(token) = current.token.as_ref()
        && Some(token.value.as_str()) == shown
        && !token.is_refused
    {
        let mut changed = Record::clone(&current);
        changed.token = Some(Token { is_refused: true, ..token.clone() });
        login.keep(changed).await;
    }
}

fn can_renew(record: Option<&Record>) -> bool {
    record.is_some_and(|record| record.refresh_token.is_some())
}

/// Takes up that more is to be allowed: all that was, and what the server names. Who can give it is a person, but for
/// clients that ask by themselves.
async fn step_up(
    login: &Arc<Login>,
    scopes: Vec<String>,
    shown: Option<&str>,
    is_last: bool,
) -> Again {
    let Some(record) = login.reload().await else {
        login.want(&login.shared.why_none(), None);
        return Again::SignIn;
    };
    let token = record.token.as_ref().map(|token| token.value.as_str());
    if token != shown && token.is_some() && !is_last {
        // Somebody may have allowed it meanwhile.
        return Again::Once;
    }
    let wanted = union(&[&record.scopes, &record.wanted, &scopes]);
    if !login.steps_up(&wanted) {
        tracing::warn!(server = login.place.server, "the server wants the same again and again");
        return Again::No;
    }
    if let Some(_guard) = login.shared.lock(&login.key).await
        && let Some(current) = login.reload().await
        && current.wanted != wanted
    {
        let mut changed = Record::clone(&current);
        changed.wanted.clone_from(&wanted);
        login.keep(changed).await;
    }
    if login.is_machine() && !is_last {
        match renew(login, token).await {
            Renewal::Fresh => return Again::Once,
            Renewal::Ended(why) | Renewal::Trouble(why) => login.want(&why, None),
        }
    } else {
        login.want(&wants_more(&wanted), None);
    }
    Again::SignIn
}
