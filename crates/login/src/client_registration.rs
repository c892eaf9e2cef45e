//! The OAuth client at an authorization server: preregistered, identified by a metadata document,
//! or dynamically registered (RFC 7591).

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::callback::with_issuer;
use crate::http::{AuthHttpClient, redacted_url};
use crate::record::{
    AuthorizationServer, ClientRegistration, LoginRecord, OAuthClient, TokenEndpointAuthMethod,
};
use crate::target::{LoginError, LoginTarget};
use crate::token::{sanitize_excerpt, seconds};
use mcp_workbench_settings::{GrantType, OAuthConfig};

/// The `client_name` of dynamic registrations.
const NAME: &str = "MCP Workbench";
const BY_HAND: &str = "register a client there manually and set `oauth.clientId` (and \
                       `oauth.clientSecret`) in the server's entry";

/// Returns the redirect URI of an issuer (RFC 9700 §4.4.2.2), or `plain` if that is what the user,
/// or an earlier version, registered.
pub(crate) fn redirect_uri_for(
    target: &LoginTarget,
    plain: Url,
    issuer: &str,
    before: Option<&LoginRecord>,
) -> Url {
    let OAuthConfig { client_id, client_metadata_url, redirect_uri, .. } = &target.oauth;
    let is_by_user = client_id.is_some() || client_metadata_url.is_some() || redirect_uri.is_some();
    let is_earlier = before.is_some_and(|before| {
        before.authority.issuer == issuer
            && before.client.is_good()
            && before.client.redirect_uri.as_ref() == Some(&plain)
    });
    if is_by_user || is_earlier { plain } else { with_issuer(plain, issuer) }
}

/// Returns the client from the configuration, if it names one.
pub(crate) fn configured_client(
    target: &LoginTarget,
    authority: &AuthorizationServer,
    redirect_uri: Option<&Url>,
) -> Option<OAuthClient> {
    let id = target.oauth.client_id.clone()?;
    let secret = target.oauth.client_secret.clone();
    let method = match (&target.oauth.grant, &secret) {
        (GrantType::PrivateKeyJwt { .. }, _) => TokenEndpointAuthMethod::PrivateKeyJwt,
        (GrantType::TokenExchange(exchange), _) if exchange.key.is_some() => {
            TokenEndpointAuthMethod::PrivateKeyJwt
        }
        (_, None) => TokenEndpointAuthMethod::None,
        (_, Some(_)) => with_secret(authority),
    };
    Some(OAuthClient {
        id,
        secret,
        secret_expires: None,
        method,
        redirect_uri: redirect_uri.cloned(),
        kind: ClientRegistration::Registered,
        is_refused: false,
    })
}

/// Returns the client of a stored login, with the secret from the configuration.
///
/// # Errors
///
/// Returns an error if the configuration names another client, or the authorization server no
/// longer recognizes it.
pub(crate) fn current_client(
    target: &LoginTarget,
    record: &LoginRecord,
) -> Result<OAuthClient, String> {
    let client = &record.client;
    if let Some(own) = configured_client(target, &record.authority, client.redirect_uri.as_ref()) {
        if own.id == client.id {
            return Ok(own);
        }
        return Err("the entry names another client than the login".to_owned());
    }
    match client.kind {
        ClientRegistration::Registered => {
            Err("the entry no longer names the client of the login".to_owned())
        }
        _ if client.is_good() => Ok(client.clone()),
        _ => Err("the authorization server no longer recognizes the client".to_owned()),
    }
}

/// Returns how a client with a secret authenticates. The default is `Basic` (RFC 8414 §2).
fn with_secret(authority: &AuthorizationServer) -> TokenEndpointAuthMethod {
    let mut known = authority.auth_methods.iter().flatten();
    // Servers built with the MCP SDK for Python read the client only from the form.
    if known.any(|method| method == "client_secret_post") {
        TokenEndpointAuthMethod::ClientSecretPost
    } else {
        TokenEndpointAuthMethod::ClientSecretBasic
    }
}

/// Checks that a preregistered client isn't sent to another authorization server than before.
pub(crate) fn check_issuer(
    target: &LoginTarget,
    before: Option<&LoginRecord>,
    authority: &AuthorizationServer,
) -> Result<(), LoginError> {
    let Some(before) = before else { return Ok(()) };
    let is_same_client = before.client.kind == ClientRegistration::Registered
        && target.oauth.client_id.as_ref() == Some(&before.client.id);
    if !is_same_client || before.authority.issuer == authority.issuer {
        return Ok(());
    }
    let (old, new) =
        (sanitize_excerpt(&before.authority.issuer), sanitize_excerpt(&authority.issuer));
    let reason = format!(
        "the server now names another authorization server: {new}, but `oauth.clientId` belongs to \
         {old}"
    );
    let hint = format!(
        "if this is intended, run `mcp-workbench auth logout {}` and configure a client of {new}",
        target.server
    );
    Err(LoginError::new(reason, hint))
}

/// Returns the client for a login with this redirect URI. In order of preference: the configured
/// client, the metadata document, the previous registration, a new registration.
pub(crate) async fn client(
    http: &AuthHttpClient,
    target: &LoginTarget,
    before: Option<&LoginRecord>,
    authority: &AuthorizationServer,
    redirect_uri: Option<&Url>,
) -> Result<OAuthClient, LoginError> {
    check_issuer(target, before, authority)?;
    if let Some(client) = configured_client(target, authority, redirect_uri) {
        return Ok(client);
    }
    if let Some(document) = &target.oauth.client_metadata_url
        && authority.takes_documents
    {
        return Ok(OAuthClient {
            id: document.to_string(),
            secret: None,
            secret_expires: None,
            method: TokenEndpointAuthMethod::None,
            redirect_uri: redirect_uri.cloned(),
            kind: ClientRegistration::Document,
            is_refused: false,
        });
    }
    let known = before.filter(|before| {
        let (client, known) = (&before.client, &before.authority);
        client.kind == ClientRegistration::Dynamic
            && client.is_good()
            && client.redirect_uri.as_ref() == redirect_uri
            && known.issuer == authority.issuer
            && known.token_endpoint == authority.token_endpoint
    });
    match known {
        Some(known) => Ok(known.client.clone()),
        None => register(http, authority, redirect_uri, &target.oauth.grant).await,
    }
}

/// Registers a client (RFC 7591). Names no scopes: some servers reject scopes that they don't know,
/// and later all scopes that weren't registered.
async fn register(
    http: &AuthHttpClient,
    authority: &AuthorizationServer,
    redirect_uri: Option<&Url>,
    grant: &GrantType,
) -> Result<OAuthClient, LoginError> {
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
        client_secret: Option<String>,
        #[serde(default, deserialize_with = "seconds")]
        client_secret_expires_at: Option<u64>,
        token_endpoint_auth_method: Option<String>,
    }

    let Some(endpoint) = &authority.registration_endpoint else {
        let issuer = sanitize_excerpt(&authority.issuer);
        return Err(LoginError::new(
            format!("{issuer} does not support dynamic client registration"),
            BY_HAND,
        ));
    };
    let failed = |why: String| {
        let reason = if authority.is_guessed {
            format!("the server has no OAuth metadata, and its default endpoints failed ({why})")
        } else {
            format!("client registration failed: {why}")
        };
        LoginError::new(reason, BY_HAND)
    };
    http.check(endpoint).await.map_err(failed)?;
    // The response type `code` needs a redirect URI, which a device login lacks.
    let (first, answers) = match grant {
        GrantType::DeviceCode => ("urn:ietf:params:oauth:grant-type:device_code", &[][..]),
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
        let said = sanitize_excerpt(&String::from_utf8_lossy(&answer.body));
        return Err(failed(format!(
            "{} returned HTTP status {}: {said}",
            redacted_url(endpoint),
            answer.status
        )));
    }
    let registered: Registered = serde_json::from_slice(&answer.body)
        .map_err(|_| failed(format!("{} returned no client", redacted_url(endpoint))))?;
    // Some servers send an empty secret instead of none.
    let secret = registered.client_secret.filter(|secret| !secret.is_empty());
    let method = match (registered.token_endpoint_auth_method.as_deref(), &secret) {
        (_, None) | (Some("none"), _) => TokenEndpointAuthMethod::None,
        (Some("client_secret_post"), _) => TokenEndpointAuthMethod::ClientSecretPost,
        (Some("client_secret_basic"), _) => TokenEndpointAuthMethod::ClientSecretBasic,
        _ => with_secret(authority),
    };
    Ok(OAuthClient {
        id: registered.client_id,
        secret,
        secret_expires: registered.client_secret_expires_at.filter(|expires| *expires > 0),
        method,
        redirect_uri: redirect_uri.cloned(),
        kind: ClientRegistration::Dynamic,
        is_refused: false,
    })
}

/// Returns the authentication method to register: `none` if supported, because a native app can't
/// keep a secret (RFC 8252 §8.5).
fn wanted_method(authority: &AuthorizationServer) -> &'static str {
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

    fn authority(methods: Option<&[&str]>) -> AuthorizationServer {
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
    fn client_secret_post_is_preferred_if_supported() {
        let (post, basic) = ("client_secret_post", "client_secret_basic");
        for (known, wanted, method) in [
            (None, "none", TokenEndpointAuthMethod::ClientSecretBasic),
            (Some(&[basic, "none"][..]), "none", TokenEndpointAuthMethod::ClientSecretBasic),
            (Some(&[basic, post]), post, TokenEndpointAuthMethod::ClientSecretPost),
            (Some(&[basic]), basic, TokenEndpointAuthMethod::ClientSecretBasic),
        ] {
            let authority = authority(known);
            assert_eq!(wanted_method(&authority), wanted, "{known:?}");
            assert_eq!(with_secret(&authority), method, "{known:?}");
        }
    }
}
