//! Sign-out and token revocation (RFC 7009).

use crate::client_registration;
use crate::login_state::LoginState;
use crate::record::LoginRecord;
use crate::target::{LoginError, LoginEvent};
use crate::token;

/// Deletes the login and revokes its tokens. Returns whether there was a login.
pub(crate) async fn sign_out(login: &LoginState) -> Result<bool, LoginError> {
    // A renewal in flight would store the login again.
    let _guard = login.shared.lock(&login.key).await;
    let record = login.reload().await;
    let removed = login.shared.remove(&login.key).await?;
    login.adopt(None);
    login.clear_sign_in_required();
    if let Some(record) = &record {
        revoke(login, record).await;
    }
    if removed {
        login.shared.tell(LoginEvent::SignedOut(&login.target));
    }
    Ok(removed)
}

/// Revokes the refresh token first, which usually invalidates the access token, too.
async fn revoke(login: &LoginState, record: &LoginRecord) {
    let Some(endpoint) = &record.authority.revocation_endpoint else { return };
    let refresh = record.refresh_token.as_deref().map(|token| (token, "refresh_token"));
    let access = record.token.as_ref().map(|token| (token.value.as_str(), "access_token"));
    for (token, kind) in refresh.into_iter().chain(access) {
        let fields = vec![("token", token), ("token_type_hint", kind)];
        let Ok(client) = client_registration::current_client(&login.target, record) else { return };
        let told = token::post(login.http(), endpoint, &client, None, fields).await;
        if let Err(refusal) = told {
            let server = &login.target.server;
            tracing::warn!(server, %refusal, "token revocation failed");
        }
    }
}
