//! The first part of an attempt to sign in: the record that it is to fill, and addresses for a person.

use url::Url;

use crate::login::record::{Authority, Client, Record};
use crate::login::sign_in::Login;

/// The record of the login that begins. A client that has just registered is kept at once, so that it need not do so
/// again; the login that there is stays as it is.
pub(crate) async fn kept(
    login: &Login,
    authority: Authority,
    resource: Option<String>,
    client: Client,
    before: Option<&Record>,
) -> Record {
    let place = &login.place;
    let who = (place.server.as_str(), &place.url, place.account.as_deref());
    let record = Record::new(who, authority, resource, client);
    let has_login = before.is_some_and(|before| before.token.is_some());
    if !has_login && let Some(_guard) = login.shared.lock(&login.key).await {
        let wanted = before.map(|before| before.wanted.clone()).unwrap_or_default();
        let mut first = record.clone();
        first.wanted = wanted;
        login.keep(first).await;
    }
    record
}

/// The address of a page, as an authorization server names it.
pub(crate) fn page(address: &str) -> Option<Url> {
    Url::parse(address).ok().filter(|url| matches!(url.scheme(), "https" | "http"))
}
