//! The end of a login, of which the authorization server is told (RFC 7009).

use crate::login::place::{Failure, Told};
use crate::login::record::Record;
use crate::login::register;
use crate::login::sign_in::Login;
use crate::login::token;

/// Forgets the login. Returns whether there was one.
pub(crate) async fn sign_out(login: &Login) -> Result<bool, Failure> {
    // Whoever renews it just now would bring it back.
    let _guard = login.shared.lock(&login.key).await;
    let record = login.reload().await;
    let removed = login.shared.remove(&login.key).await?;
    login.adopt(None);
    login.want_nothing();
    if let Some(record) = &record {
        revoke(login, record).await;
    }
    if removed {
        login.shared.tell(Told::SignedOut(&login.place));
    }
    Ok(removed)
}

/// Tells the authorization server: of the token that renews first, which ends the others as a rule.
async fn revoke(login: &Login, record: &Record) {
    let Some(endpoint) = &record.authority.revocation_endpoint else { return };
    let refresh = record.refresh_token.as_deref().map(|token| (token, "refresh_token"));
    let access = record.token.as_ref().map(|token| (token.value.as_str(), "access_token"));
    for (token, kind) in refresh.into_iter().chain(access) {
        let fields = vec![("token", token), ("token_type_hint", kind)];
        let Ok(client) = register::current(&login.place, record) else { return };
        let told = token::post(login.http(), endpoint, &client, None, fields).await;
        if let Err(refusal) = told {
            let server = &login.place.server;
            tracing::warn!(server, %refusal, "the authorization server could not be told");
        }
    }
}
