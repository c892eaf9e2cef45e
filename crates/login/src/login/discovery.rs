//! Discovery: which authorization server a server names, and what a token for it is to be asked for.
//!
//! The search itself (RFC 9728, RFC 8414, `OpenID` Connect, and where each revision of MCP says to look) is
//! `rmcp`'s, over requests of ours. What was found is checked here once more, for what `rmcp` lets pass.

use std::sync::Arc;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    OAuthClientConfig, OAuthHttpClient,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use crate::login::http::{Http, told};
use crate::login::place::{Failure, Place};
use crate::login::record::Authority;
use crate::login::token::plain;
use crate::settings::Resource;

/// The reason where nothing was found.
pub(crate) const UNSAID: &str = "it does not say how to sign in";
const NO_WAY: &str = "if it wants a token of yours, set `headers.Authorization` in its entry";
const NAME_IT: &str = "ask whoever runs the server, or name the authorization server yourself: \
                       `oauth.authServerMetadataUrl` in its entry";

/// How to sign in at a server.
pub(crate) struct Found {
    pub(crate) authority: Authority,
    /// The `resource` that the server names.
    pub(crate) resource: Option<String>,
    /// The scopes that it names.
    pub(crate) scopes: Vec<String>,
}

impl Found {
    /// The `resource` to ask a token for (RFC 8707 §2); `None`: none.
    pub(crate) fn resource_for(place: &Place, found: Option<&str>) -> Option<String> {
        match &place.oauth.resource {
            Resource::Off => None,
            Resource::Named(resource) => Some(resource.clone()),
            Resource::Auto => Some(found.map_or_else(|| canonical(&place.url), str::to_owned)),
        }
    }
}

/// The address of a server as a `resource`: without a fragment, and without the slash that stands for no path.
fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let text = url.to_string();
    if url.path() == "/" && url.query().is_none() {
        text.trim_end_matches('/').to_owned()
    } else {
        text
    }
}

/// Finds out how to sign in at a place. `challenge` is what its server said when it refused, if it did.
pub(crate) async fn discover(
    http: &Arc<Http>,
    place: &Place,
    challenge: Option<&str>,
) -> Result<Found, Failure> {
    let found = match &place.oauth.metadata_url {
        Some(url) => named(http, url, challenge, place).await?,
        None => searched(http, place, challenge).await?,
    };
    check(http, &found.authority).await?;
    Ok(found)
}

/// Reads the metadata that the entry names.
async fn named(
    http: &Http,
    url: &Url,
    challenge: Option<&str>,
    place: &Place,
) -> Result<Found, Failure> {
    let hint = "`oauth.authServerMetadataUrl` is to be the address of metadata of RFC 8414";
    let failed = |why: String| Failure::new(why, hint);
    http.check(url).await.map_err(failed)?;
    let answer = http.get(url).await.map_err(failed)?;
    if !answer.status.is_success() {
        return Err(failed(format!("{} answers with HTTP status {}", told(url), answer.status)));
    }
    let authority = serde_json::from_slice(&answer.body).ok().and_then(|raw| authority(raw, false));
    let authority = authority.ok_or_else(|| failed(format!("{} is no metadata", told(url))))?;
    let scopes = challenge.and_then(|challenge| {
        let params = rmcp::transport::auth::WWWAuthenticateParams::parse(challenge, &place.url);
        Some(params.scope?.split_whitespace().map(str::to_owned).collect())
    });
    Ok(Found { authority, resource: None, scopes: scopes.unwrap_or_default() })
}

async fn searched(
    http: &Arc<Http>,
    place: &Place,
    challenge: Option<&str>,
) -> Result<Found, Failure> {
    let client = Arc::clone(http) as Arc<dyn OAuthHttpClient>;
    let manager = AuthorizationManager::new_with_oauth_http_client(place.url.clone(), client).await;
    let mut manager = manager.map_err(|error| failed(place, &error))?;
    let resolved = manager.resolve_metadata_from_challenge(challenge).await;
    let resolved = resolved.map_err(|error| failed(place, &error))?;
    let is_guessed = resolved.source == AuthorizationMetadataSource::LegacyEndpointFallback;
    let mut metadata = resolved.metadata;
    if is_guessed {
        let says_where = challenge.is_some_and(|challenge| challenge.contains("resource_metadata"));
        if says_where || challenge.is_none() {
            return Err(Failure::new(UNSAID, NO_WAY));
        }
        metadata.issuer = Some(place.url.origin().ascii_serialization());
    }
    let names_resource = resolved.source == AuthorizationMetadataSource::ProtectedResourceMetadata;
    let raw = serde_json::to_value(&metadata).ok().and_then(|raw| serde_json::from_value(raw).ok());
    let authority = raw.and_then(|raw| authority(raw, is_guessed)).ok_or_else(|| {
        Failure::new("the metadata of its authorization server cannot be used", NAME_IT)
    })?;
    manager.set_metadata(metadata.clone());
    let scopes = manager.select_initial_scopes(&[]).await;
    let resource = if names_resource { resource(manager, metadata).await } else { None };
    Ok(Found { authority, resource, scopes })
}

/// The resource that was found, which a manager tells in the addresses it makes alone.
async fn resource(
    mut manager: AuthorizationManager,
    mut metadata: AuthorizationMetadata,
) -> Option<String> {
    // Nobody goes there; PKCE is checked elsewhere.
    "https://localhost/".clone_into(&mut metadata.authorization_endpoint);
    metadata.response_types_supported = None;
    metadata.code_challenge_methods_supported = None;
    manager.set_metadata(metadata);
    manager.configure_client(OAuthClientConfig::new("-", "http://127.0.0.1/")).ok()?;
    let address = Url::parse(&manager.get_authorization_url(&[]).await.ok()?).ok()?;
    let resource = address.query_pairs().find(|(name, _)| name == "resource");
    resource.map(|(_, resource)| resource.into_owned()).filter(|resource| !resource.is_empty())
}

/// Reads metadata (RFC 8414 §2) as far as it is of use; `None` where something is missing or no address.
fn authority(raw: Map<String, Value>, is_guessed: bool) -> Option<Authority> {
    #[derive(Deserialize)]
    struct Metadata {
        issuer: String,
        authorization_endpoint: Option<String>,
        token_endpoint: Url,
        registration_endpoint: Option<Url>,
        revocation_endpoint: Option<Url>,
        device_authorization_endpoint: Option<Url>,
        token_endpoint_auth_methods_supported: Option<Vec<String>>,
        code_challenge_methods_supported: Option<Vec<String>>,
        scopes_supported: Option<Vec<String>>,
        #[serde(default)]
        authorization_response_iss_parameter_supported: bool,
        #[serde(default)]
        client_id_metadata_document_supported: bool,
    }

    let metadata: Metadata = serde_json::from_value(Value::Object(raw)).ok()?;
    let authorize = metadata.authorization_endpoint.filter(|url| !url.is_empty());
    Some(Authority {
        issuer: metadata.issuer,
        authorization_endpoint: authorize.and_then(|url| Url::parse(&url).ok()),
        token_endpoint: metadata.token_endpoint,
        registration_endpoint: metadata.registration_endpoint,
        revocation_endpoint: metadata.revocation_endpoint,
        device_authorization_endpoint: metadata.device_authorization_endpoint,
        auth_methods: metadata.token_endpoint_auth_methods_supported,
        challenge_methods: metadata.code_challenge_methods_supported,
        scopes: metadata.scopes_supported,
        sends_issuer: metadata.authorization_response_iss_parameter_supported,
        takes_documents: metadata.client_id_metadata_document_supported,
        is_guessed,
    })
}

/// Checks that each endpoint is encrypted and may be named by the server.
async fn check(http: &Http, authority: &Authority) -> Result<(), Failure> {
    let Authority {
        authorization_endpoint,
        token_endpoint,
        registration_endpoint,
        revocation_endpoint,
        device_authorization_endpoint,
        ..
    } = authority;
    let others = [
        authorization_endpoint,
        registration_endpoint,
        revocation_endpoint,
        device_authorization_endpoint,
    ];
    for endpoint in others.into_iter().flatten().chain([token_endpoint]) {
        http.check(endpoint).await.map_err(|why| {
            Failure::new(format!("its authorization server is not to be trusted: {why}"), NAME_IT)
        })?;
    }
    Ok(())
}

/// An error of the search, without the parts of it that are somebody's text.
fn failed(place: &Place, error: &AuthError) -> Failure {
    let reason = match error {
        AuthError::DiscoveryRequestFailed { url, source } => {
            format!("{}: {}", told(url), plain(&source.to_string()))
        }
        // The query of the server's address may be a key.
        error => plain(&error.to_string().replace(place.url.as_str(), &told(&place.url))),
    };
    Failure::new(format!("how to sign in could not be found out: {reason}"), NAME_IT)
}
