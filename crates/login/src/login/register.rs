//! Clients: who we are at an authorization server, registered by hand, by a document or by ourselves.

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::login::http::{Http, told};
use crate::login::place::{Failure, Place};
use crate::login::record::{Authority, Client, Kind, Method, Record};
use crate::login::token::plain;
use crate::settings::Grant;

/// Under which name we register.
const NAME: &str = "MCP Workbench";
const BY_HAND: &str = "register a client there by hand, and put `oauth.clientId` (and `oauth.clientSecret`) into \
                       the server's entry";

/// The client that the entry names, if it names one.
pub(crate) fn registered(
    place: &Place,
    authority: &Authority,
    redirect_uri: Option<&Url>,
) -> Option<Client> {
    let id = place.oauth.client_id.clone()?;
    let secret = place.oauth.client_secret.clone();
    let method = match (&place.oauth.grant, &secret) {
        (Grant::SignedClient { .. }, _) => Method::PrivateKeyJwt,
        (_, None) => Method::None,
        (_, Some(_)) => with_secret(authority),
    };
    Some(Client {
        id,
        secret,
        secret_expires: None,
        method,
        redirect_uri: redirect_uri.cloned(),
        kind: Kind::Registered,
        is_refused: false,
    })
}

/// The client that a login was begun with, as it is now.
///
/// # Errors
///
/// When the entry names another one, or the authorization server does not know it any more.
pub(crate) fn current(place: &Place, record: &Record) -> Result<Client, String> {
    let client = &record.client;
    if let Some(own) = registered(place, &record.authority, client.redirect_uri.as_ref()) {
        if own.id == client.id {
            return Ok(own);
        }
        return Err("the entry names another client than signed in".to_owned());
    }
    match client.kind {
        Kind::Registered => {
            Err("the entry does not name the client any more that signed in".to_owned())
        }
        _ if client.is_good() => Ok(client.clone()),
        _ => Err("the authorization server does not know us any more".to_owned()),
    }
}

/// How a client with a secret proves itself: with `Basic` where nothing else is said (RFC 8414 §2).
fn with_secret(authority: &Authority) -> Method {
    let mut known = authority.auth_methods.iter().flatten();
    // Servers of MCP's SDK for Python look for the client in the form alone.
    if known.any(|method| method == "client_secret_post") {
        Method::ClientSecretPost
    } else {
        Method::ClientSecretBasic
    }
}

/// Checks that a client which was registered by hand is not shown to another authorization server than before.
pub(crate) fn check_issuer(
    place: &Place,
    before: Option<&Record>,
    authority: &Authority,
) -> Result<(), Failure> {
    let Some(before) = before else { return Ok(()) };
    let is_same_client = before.client.kind == Kind::Registered
        && place.oauth.client_id.as_ref() == Some(&before.client.id);
    if !is_same_client || before.authority.issuer == authority.issuer {
        return Ok(());
    }
    let (old, new) = (plain(&before.authority.issuer), plain(&authority.issuer));
    let reason = format!(
        "it names another authorization server than before: {new}, and `oauth.clientId` is of {old}"
    );
    let hint = format!(
        "if that is right, sign out (`mcp-workbench auth logout {}`) and enter the client of {new}",
        place.server
    );
    Err(Failure::new(reason, hint))
}

/// The client for a login with this address to come back to: the first that can be had of the one in the entry,
/// the document in the entry, the one that was registered before, and one that is registered now.
pub(crate) async fn client(
    http: &Http,
    place: &Place,
    before: Option<&Record>,
    authority: &Authority,
    redirect_uri: Option<&Url>,
) -> Result<Client, Failure> {
    check_issuer(place, before, authority)?;
    if let Some(client) = registered(place, authority, redirect_uri) {
        return Ok(client);
    }
    if let Some(document) = &place.oauth.client_metadata_url
        && authority.takes_documents
    {
        return Ok(Client {
            id: document.to_string(),
            secret: None,
            secret_expires: None,
            method: Method::None,
            redirect_uri: redirect_uri.cloned(),
            kind: Kind::Document,
            is_refused: false,
        });
    }
    let known = before.filter(|before| {
        let (client, known) = (&before.client, &before.authority);
        client.kind == Kind::Dynamic
            && client.is_good()
            && client.redirect_uri.as_ref() == redirect_uri
            && known.issuer == authority.issuer
            && known.token_endpoint == authority.token_endpoint
    });
    match known {
        Some(known) => Ok(known.client.clone()),
        None => register(http, authority, redirect_uri, &place.oauth.grant).await,
    }
}

/// Registers a client (RFC 7591). No scopes are named: some refuse those that they do not know, and later any that
/// were not named.
async fn register(
    http: &Http,
    authority: &Authority,
    redirect_uri: Option<&Url>,
    grant: &Grant,
) -> Result<Client, Failure> {
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
        client_secret: Option<String>,
        client_secret_expires_at: Option<u64>,
        token_endpoint_auth_method: Option<String>,
    }

    let Some(endpoint) = &authority.registration_endpoint else {
        let issuer = plain(&authority.issuer);
        return Err(Failure::new(
            format!("{issuer} takes no client that registers itself"),
            BY_HAND,
        ));
    };
    let failed = |why: String| {
        let reason = if authority.is_guessed {
            format!("it does not say how to sign in, and at the old places nobody answers ({why})")
        } else {
            format!("no client could be registered: {why}")
        };
        Failure::new(reason, BY_HAND)
    };
    http.check(endpoint).await.map_err(failed)?;
    // A client that can be sent codes has to say where to, which one on another device does not know.
    let (first, answers) = match grant {
        Grant::Device => ("urn:ietf:params:oauth:grant-type:device_code", &[][..]),
        _ => ("authorization_code", &["code"][..]),
    };
    let is_here = redirect_uri.is_none_or(|uri| uri.scheme() != "https");
    let mut body = json!({
        "client_name": NAME,
        "grant_types": [first, "refresh_token"],
        "response_types": answers,
        "token_endpoint_auth_method": wanted_method(authority),
        "application_type": if is_here { "native" } else { "web" },
    });
    if let Some(uri) = redirect_uri {
        body["redirect_uris"] = json!([uri]);
    }
    let request = Request::post(endpoint.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("mcp-workbench/", env!("CARGO_PKG_VERSION")))
        .body(body.to_string().into_bytes())
        .map_err(|error| failed(error.to_string()))?;
    let answer = http.send(request).await.map_err(failed)?;
    if !answer.status.is_success() {
        let said = plain(&String::from_utf8_lossy(&answer.body));
        return Err(failed(format!("{} answers {}: {said}", told(endpoint), answer.status)));
    }
    let registered: Registered = serde_json::from_slice(&answer.body)
        .map_err(|_| failed(format!("{} answers with no client", told(endpoint))))?;
    // Some write an empty secret for none.
    let secret = registered.client_secret.filter(|secret| !secret.is_empty());
    let method = match (registered.token_endpoint_auth_method.as_deref(), &secret) {
        (_, None) | (Some("none"), _) => Method::None,
        (Some("client_secret_post"), _) => Method::ClientSecretPost,
        (Some("client_secret_basic"), _) => Method::ClientSecretBasic,
        _ => with_secret(authority),
    };
    Ok(Client {
        id: registered.client_id,
        secret,
        secret_expires: registered.client_secret_expires_at.filter(|expires| *expires > 0),
        method,
        redirect_uri: redirect_uri.cloned(),
        kind: Kind::Dynamic,
        is_refused: false,
    })
}

/// How the new client is to prove itself: not at all where that is allowed, for nobody can keep a secret on a
/// machine of somebody else (RFC 8252 §8.5).
fn wanted_method(authority: &Authority) -> &'static str {
    let Some(known) = &authority.auth_methods else { return "none" };
    let known_ones = ["none", "client_secret_post", "client_secret_basic"];
    let first = known_ones.into_iter().find(|method| known.iter().any(|one| one == method));
    first.unwrap_or("none")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn authority(methods: Option<&[&str]>) -> Authority {
        let authority = json!({
            "issuer": "https://as.example.com",
            "token_endpoint": "https://as.example.com/token",
            "auth_methods": methods,
            "sends_issuer": false,
            "takes_documents": false,
            "is_guessed": false,
        });
        serde_json::from_value(authority).unwrap()
    }

    #[test]
    fn a_secret_is_shown_in_the_form_where_that_is_known() {
        let (post, basic) = ("client_secret_post", "client_secret_basic");
        for (known, wanted, method) in [
            (None, "none", Method::ClientSecretBasic),
            (Some(&[basic, "none"][..]), "none", Method::ClientSecretBasic),
            (Some(&[basic, post]), post, Method::ClientSecretPost),
            (Some(&[basic]), basic, Method::ClientSecretBasic),
        ] {
            let authority = authority(known);
            assert_eq!(wanted_method(&authority), wanted, "{known:?}");
            assert_eq!(with_secret(&authority), method, "{known:?}");
        }
    }
}
