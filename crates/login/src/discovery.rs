//! Discovers the authorization server of a server, and the resource and scopes to request.
//!
//! The lookups (RFC 9728, RFC 8414, `OpenID` Connect Discovery and the fallbacks of older MCP
//! revisions) are done by `rmcp` through `DiscoveryHttpClient`. The endpoints found are then checked
//! against the address policy, and must belong to one party.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    OAuthClientConfig, OAuthHttpClient,
};
use tokio::time::timeout;
use url::{Origin, Url};

use crate::http::{AuthHttpClient, DiscoveryHttpClient, redacted_url};
use crate::login_state::LoginState;
use crate::metadata::authority;
use crate::record::AuthorizationServer;
use crate::scopes;
use crate::target::{LoginError, LoginLimit, LoginTarget};
use crate::token::sanitize_excerpt;
use mcp_workbench_settings::{GrantType, ResourceIndicator};

/// Time limit of one discovery, with all its requests.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Issuers with an endpoint on another origin of the same operator.
const KNOWN_ORIGINS: [(&str, &str); 3] = [
    ("https://accounts.google.com", "https://oauth2.googleapis.com"),
    ("https://api.figma.com", "https://www.figma.com"),
    ("https://cf.mcp.atlassian.com", "https://mcp.atlassian.com"),
];

/// The reason for a failure without any metadata.
pub(crate) const NO_METADATA: &str = "the server has no OAuth metadata";
const NO_WAY: &str = "if it requires a token of yours, set `headers.Authorization` in its entry";
const NAME_IT: &str =
    "ask the server's operator, or set `oauth.authServerMetadataUrl` in its entry";

pub(crate) struct DiscoveryResult {
    pub(crate) authority: AuthorizationServer,
    /// The `resource` of the protected resource metadata.
    pub(crate) resource: Option<String>,
    /// The scopes that the server advertises.
    pub(crate) scopes: Vec<String>,
}

impl DiscoveryResult {
    /// Returns the `resource` parameter to send (RFC 8707 §2).
    pub(crate) fn resource_for(target: &LoginTarget, found: Option<&str>) -> Option<String> {
        match &target.oauth.resource {
            ResourceIndicator::Off => None,
            ResourceIndicator::Named(resource) => Some(resource.clone()),
            ResourceIndicator::Auto => {
                Some(found.map_or_else(|| canonical(&target.url), str::to_owned))
            }
        }
    }
}

/// Normalizes a server URL for `resource`: no fragment, and no `/` for an empty path.
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

/// Discovers how to sign in at a target. `challenge`: the `WWW-Authenticate` of its server, if any.
pub(crate) async fn discover(
    login: &LoginState,
    challenge: Option<&str>,
) -> Result<DiscoveryResult, LoginError> {
    let (http, target) = (login.http(), &login.target);
    let most = target.oauth.max_discovery_requests();
    let client = Arc::new(DiscoveryHttpClient::new(http, most));
    let found = async {
        match &target.oauth.metadata_url {
            Some(url) => fetch_configured_metadata(http, url, challenge, target).await,
            None => discover_metadata(&client, target, challenge).await,
        }
    };
    let found = timeout(TIMEOUT, found).await.unwrap_or_else(|_| {
        let reason = format!("OAuth discovery took longer than {} s", TIMEOUT.as_secs());
        Err(LoginError::new(reason, "try again later"))
    });
    if client.has_reached_limit() {
        let reason = format!(
            "OAuth discovery failed: the server led to more than {most} requests \
             (oauth.maxDiscoveryRequests)"
        );
        login.report_limit(LoginLimit::DiscoveryRequests, &reason);
        return Err(LoginError::new(reason, NAME_IT));
    }
    let mut found = found?;
    drop_unused(target, &mut found.authority);
    check(http, &found.authority).await?;
    check_origins(target, &found.authority)?;
    if scopes::limit(&mut found.scopes, target.oauth.max_scopes()) {
        login.report_limit(LoginLimit::Scopes, "the server announces too many scopes");
    }
    Ok(found)
}

/// Drops endpoints that the grant and the client don't need.
fn drop_unused(target: &LoginTarget, authority: &mut AuthorizationServer) {
    let oauth = &target.oauth;
    if !matches!(oauth.grant, GrantType::AuthorizationCode) {
        authority.authorization_endpoint = None;
    }
    if !matches!(oauth.grant, GrantType::DeviceCode) {
        authority.device_authorization_endpoint = None;
    }
    if oauth.client_id.is_some() {
        authority.registration_endpoint = None;
    }
}

/// Checks that all endpoints belong to the party that the user signs in at. Otherwise the code that
/// one authorization server issues could be sent to another one (mix-up, RFC 9700 §4.4).
fn check_origins(target: &LoginTarget, authority: &AuthorizationServer) -> Result<(), LoginError> {
    let endpoints = authority.endpoints();
    let origins: HashSet<Origin> = endpoints.iter().map(|(_, url)| url.origin()).collect();
    // The user chose the document, or a single party has all endpoints.
    let is_single = origins.len() == 1 && target.oauth.exchange().is_none();
    if target.oauth.metadata_url.is_some() || is_single {
        return Ok(());
    }
    let issuer = Url::parse(&authority.issuer).ok().map(|url| url.origin());
    let is_allowed = |origin: &Origin| {
        let text = origin.ascii_serialization();
        let issuer_text = issuer.as_ref().map(Origin::ascii_serialization).unwrap_or_default();
        issuer.as_ref() == Some(origin)
            || target.oauth.allowed_origins.contains(&text)
            || KNOWN_ORIGINS.contains(&(issuer_text.as_str(), text.as_str()))
    };
    match endpoints.into_iter().find(|(_, url)| !is_allowed(&url.origin())) {
        None => Ok(()),
        Some((name, url)) => {
            let origin = url.origin().ascii_serialization();
            let reason = format!(
                "its authorization server cannot be trusted: the {name} is at {origin}, but the \
                 issuer is {}",
                sanitize_excerpt(&authority.issuer)
            );
            let section = if target.oauth.exchange().is_some() { "auth" } else { "oauth" };
            let hint = format!(
                "if both belong to the same operator, add \"{origin}\" to \
                 `{section}.allowedOrigins` in the server's entry"
            );
            Err(LoginError::new(reason, hint))
        }
    }
}

/// Returns the authorization server of an exchange, whose issuer the configuration names.
pub(crate) async fn discover_issuer(
    login: &LoginState,
    issuer: &Url,
) -> Result<AuthorizationServer, LoginError> {
    let mut authority = login.shared.issuers.get(issuer).metadata().await?;
    drop_unused(&login.target, &mut authority);
    check(login.http(), &authority).await?;
    check_origins(&login.target, &authority)?;
    Ok(authority)
}

/// Reads the metadata at `oauth.authServerMetadataUrl`.
async fn fetch_configured_metadata(
    http: &AuthHttpClient,
    url: &Url,
    challenge: Option<&str>,
    target: &LoginTarget,
) -> Result<DiscoveryResult, LoginError> {
    let hint =
        "`oauth.authServerMetadataUrl` must be the URL of authorization server metadata (RFC 8414)";
    let failed = |why: String| LoginError::new(why, hint);
    http.check(url).await.map_err(failed)?;
    let answer = http.get(url).await.map_err(failed)?;
    if !answer.status.is_success() {
        return Err(failed(format!(
            "{} returned HTTP status {}",
            redacted_url(url),
            answer.status
        )));
    }
    let authority = serde_json::from_slice(&answer.body).ok().and_then(|raw| authority(raw, false));
    let authority =
        authority.ok_or_else(|| failed(format!("{} is not valid metadata", redacted_url(url))))?;
    let scopes = challenge.and_then(|challenge| {
        let params = rmcp::transport::auth::WWWAuthenticateParams::parse(challenge, &target.url);
        Some(params.scope?.split_whitespace().map(str::to_owned).collect())
    });
    Ok(DiscoveryResult { authority, resource: None, scopes: scopes.unwrap_or_default() })
}

async fn discover_metadata(
    client: &Arc<DiscoveryHttpClient>,
    target: &LoginTarget,
    challenge: Option<&str>,
) -> Result<DiscoveryResult, LoginError> {
    let client = Arc::clone(client) as Arc<dyn OAuthHttpClient>;
    let manager =
        AuthorizationManager::new_with_oauth_http_client(target.url.clone(), client).await;
    let mut manager = manager.map_err(|error| failed(target, &error))?;
    let resolved = manager.resolve_metadata_from_challenge(challenge).await;
    let resolved = resolved.map_err(|error| failed(target, &error))?;
    let is_guessed = resolved.source == AuthorizationMetadataSource::LegacyEndpointFallback;
    let mut metadata = resolved.metadata;
    if is_guessed {
        let says_where = challenge.is_some_and(|challenge| challenge.contains("resource_metadata"));
        if says_where || challenge.is_none() {
            return Err(LoginError::new(NO_METADATA, NO_WAY));
        }
        metadata.issuer = Some(target.url.origin().ascii_serialization());
    }
    let names_resource = resolved.source == AuthorizationMetadataSource::ProtectedResourceMetadata;
    let raw = serde_json::to_value(&metadata).ok().and_then(|raw| serde_json::from_value(raw).ok());
    let authority = raw
        .and_then(|raw| authority(raw, is_guessed))
        .ok_or_else(|| LoginError::new("its authorization server has invalid metadata", NAME_IT))?;
    manager.set_metadata(metadata.clone());
    let scopes = manager.select_initial_scopes(&[]).await;
    let resource = if names_resource { resource(manager, metadata).await } else { None };
    Ok(DiscoveryResult { authority, resource, scopes })
}

/// Returns the resource that `rmcp` found. A manager reveals it only in an authorization URL.
async fn resource(
    mut manager: AuthorizationManager,
    mut metadata: AuthorizationMetadata,
) -> Option<String> {
    // A dummy: the URL is only parsed. PKCE is checked in `begin`.
    "https://localhost/".clone_into(&mut metadata.authorization_endpoint);
    metadata.response_types_supported = None;
    metadata.code_challenge_methods_supported = None;
    manager.set_metadata(metadata);
    manager.configure_client(OAuthClientConfig::new("-", "http://127.0.0.1/")).ok()?;
    let address = Url::parse(&manager.get_authorization_url(&[]).await.ok()?).ok()?;
    let resource = address.query_pairs().find(|(name, _)| name == "resource");
    resource.map(|(_, resource)| resource.into_owned()).filter(|resource| !resource.is_empty())
}

/// Checks that every endpoint uses TLS (or is on loopback) and is allowed by the address policy.
async fn check(http: &AuthHttpClient, authority: &AuthorizationServer) -> Result<(), LoginError> {
    for (_, endpoint) in authority.endpoints() {
        http.check(endpoint).await.map_err(|why| {
            LoginError::new(format!("its authorization server cannot be trusted: {why}"), NAME_IT)
        })?;
    }
    Ok(())
}

/// Converts a discovery error, without control characters and secrets in URLs.
fn failed(target: &LoginTarget, error: &AuthError) -> LoginError {
    let reason = match error {
        AuthError::DiscoveryRequestFailed { url, source } => {
            format!("{}: {}", redacted_url(url), sanitize_excerpt(&source.to_string()))
        }
        // The query of the server's URL can contain a key.
        error => sanitize_excerpt(
            &error.to_string().replace(target.url.as_str(), &redacted_url(&target.url)),
        ),
    };
    LoginError::new(format!("OAuth discovery failed: {reason}"), NAME_IT)
}
