//! Helpers shared by the interactive grants.

use url::Url;

use crate::http::MAX_URL;
use crate::login_state::LoginState;
use crate::record::{AuthorizationServer, LoginRecord, OAuthClient};

/// Returns the record for a new login. Before the first sign-in it is also stored now, so that the
/// next attempt reuses the client just registered.
pub(crate) async fn new_record(
    login: &LoginState,
    authority: AuthorizationServer,
    resource: Option<String>,
    client: OAuthClient,
    before: Option<&LoginRecord>,
) -> LoginRecord {
    let target = &login.target;
    let who = (target.server.as_str(), &target.url, target.account.as_deref());
    let record = LoginRecord::new(who, authority, resource, client);
    login.learn(record.secrets().cloned());
    let has_login = before.is_some_and(|before| before.token.is_some());
    if !has_login && let Some(_guard) = login.shared.lock(&login.key).await {
        let wanted = before.map(|before| before.missing_scopes.clone()).unwrap_or_default();
        let mut first = record.clone();
        first.missing_scopes = wanted;
        login.save(first).await;
    }
    record
}

/// Parses an HTTP or HTTPS URL from an authorization server.
pub(crate) fn page(address: &str) -> Option<Url> {
    let address = Some(address).filter(|address| address.len() <= MAX_URL)?;
    Url::parse(address).ok().filter(|url| matches!(url.scheme(), "https" | "http"))
}
