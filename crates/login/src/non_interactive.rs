//! Non-interactive grants: client credentials, workload identity and the company's identity
//! provider.

use std::sync::Arc;

use crate::assertion::{self, Assertion};
use crate::client_registration::{check_issuer, configured_client};
use crate::discovery::{DiscoveryResult, discover};
use crate::login_state::LoginState;
use crate::pkce;
use crate::record::{
    AuthorizationServer, ClientRegistration, LoginRecord, OAuthClient, Token,
    TokenEndpointAuthMethod, union,
};
use crate::token::{self, Fields, TokenError, TokenResponse};
use mcp_workbench_settings::{GrantType, IdentityProvider};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
pub(crate) const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// In bytes.
const LONGEST_FILE: u64 = 64 * 1024;

pub(crate) struct ObtainTokenError {
    pub(crate) why: String,
    /// `true` if a retry can't help: the configuration has to change, or the user has to act.
    pub(crate) is_final: bool,
}

impl ObtainTokenError {
    fn for_ever(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_final: true }
    }
}

impl From<TokenError> for ObtainTokenError {
    fn from(refusal: TokenError) -> Self {
        let is_final = matches!(refusal, TokenError::Rejected { .. });
        Self { why: format!("no token was issued: {refusal}"), is_final }
    }
}

/// Obtains a token with the configured grant, and returns its record.
pub(crate) async fn obtain(
    login: &Arc<LoginState>,
    before: Option<&LoginRecord>,
) -> Result<LoginRecord, ObtainTokenError> {
    let target = &login.target;
    let found = discover(login, login.challenge().as_deref()).await;
    let found =
        found.map_err(|failure| ObtainTokenError { why: failure.reason, is_final: false })?;
    let DiscoveryResult { authority, resource, scopes } = found;
    check_issuer(target, before, &authority)
        .map_err(|failure| ObtainTokenError::for_ever(failure.reason))?;
    let client = configured_client(target, &authority, None).unwrap_or_else(anonymous);
    let wanted = before.map(|before| before.missing_scopes.as_slice()).unwrap_or_default();
    let asked = union(&[wanted, target.oauth.scopes.as_ref().unwrap_or(&scopes)]);
    let resource_asked = DiscoveryResult::resource_for(target, resource.as_deref());
    let granted = ask(login, &authority, &client, &asked, resource_asked.as_deref()).await?;
    login.learn(granted.secrets());
    let who = (target.server.as_str(), &target.url, target.account.as_deref());
    let mut record = LoginRecord::new(who, authority, resource, client);
    record.scopes = granted.scopes(&asked, target.oauth.max_scopes());
    record.epoch = before.map(|before| before.epoch).unwrap_or_default();
    record.token = Some(Token::new(granted.access_token, granted.expires_in));
    Ok(record)
}

/// A client without an ID. The assertion identifies the caller.
fn anonymous() -> OAuthClient {
    OAuthClient {
        id: String::new(),
        secret: None,
        secret_expires: None,
        method: TokenEndpointAuthMethod::None,
        redirect_uri: None,
        kind: ClientRegistration::Registered,
        is_refused: false,
    }
}

async fn ask(
    login: &LoginState,
    authority: &AuthorizationServer,
    client: &OAuthClient,
    scopes: &[String],
    resource: Option<&str>,
) -> Result<TokenResponse, ObtainTokenError> {
    let scope = scopes.join(" ");
    let mut fields: Fields<'_> = Vec::new();
    fields.extend(resource.map(|resource| ("resource", resource)));
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    let (http, endpoint) = (login.http(), &authority.token_endpoint);
    let granted = match &login.target.oauth.grant {
        GrantType::AuthorizationCode | GrantType::DeviceCode | GrantType::TokenExchange(_) => {
            return Err(ObtainTokenError::for_ever("interactive sign-in required"));
        }
        GrantType::ClientCredentials => {
            fields.insert(0, ("grant_type", "client_credentials"));
            token::request_token(http, endpoint, client, None, fields).await
        }
        GrantType::PrivateKeyJwt { key, algorithm, key_id } => {
            let assertion = Assertion {
                client: &client.id,
                audience: &authority.issuer,
                id: &pkce::unguessable().map_err(ObtainTokenError::for_ever)?,
            };
            let signed = assertion::sign(&assertion, key, algorithm, key_id.as_deref());
            let signed = signed.map_err(ObtainTokenError::for_ever)?;
            fields.insert(0, ("grant_type", "client_credentials"));
            token::request_token(http, endpoint, client, Some(&signed), fields).await
        }
        GrantType::WorkloadJwt { token_file } => {
            let assertion = read(token_file).await?;
            login.learn([assertion.clone()]);
            fields.splice(0..0, [("grant_type", JWT_BEARER), ("assertion", assertion.as_str())]);
            token::request_token(http, endpoint, client, None, fields).await
        }
        GrantType::IdentityAssertion(provider) => {
            let assertion = exchange(login, provider, authority, resource, &scope).await?;
            // The assertion already contains the resource and the scopes.
            let fields = vec![("grant_type", JWT_BEARER), ("assertion", assertion.as_str())];
            token::request_token(http, endpoint, client, None, fields).await
        }
    };
    Ok(granted?)
}

/// Reads the token of a workload, which another program rotates.
async fn read(file: &std::path::Path) -> Result<String, ObtainTokenError> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let bytes = mcp_workbench_os::read_input(&path, LONGEST_FILE)?;
        String::from_utf8(bytes).map_err(std::io::Error::other)
    });
    let read = read.await.map_err(std::io::Error::other).and_then(|read| read);
    let text = read.map_err(|error| ObtainTokenError {
        why: format!("failed to read the token in `{}`: {error}", file.display()),
        is_final: false,
    })?;
    Ok(text.trim().to_owned())
}

/// Exchanges the company's ID token for an assertion to the authorization server (RFC 8693,
/// ID-JAG).
async fn exchange(
    login: &LoginState,
    provider: &IdentityProvider,
    authority: &AuthorizationServer,
    resource: Option<&str>,
    scope: &str,
) -> Result<String, ObtainTokenError> {
    let IdentityProvider { token_endpoint, client_id, client_secret, id_token } = provider;
    let client = OAuthClient {
        id: client_id.clone(),
        secret: client_secret.clone(),
        method: if client_secret.is_some() {
            TokenEndpointAuthMethod::ClientSecretPost
        } else {
            TokenEndpointAuthMethod::None
        },
        ..anonymous()
    };
    let mut fields = vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", authority.issuer.as_str()),
        ("subject_token", id_token.as_str()),
        ("subject_token_type", ID_TOKEN),
    ];
    fields.extend(resource.map(|resource| ("resource", resource)));
    if !scope.is_empty() {
        fields.push(("scope", scope));
    }
    // The provider comes from the configuration, so its own URL determines the address policy.
    let http = crate::http::AuthHttpClient::new(token_endpoint);
    let granted = token::request_token(&http, token_endpoint, &client, None, fields)
        .await
        .map_err(|refusal| {
            let ObtainTokenError { why, is_final } = refusal.into();
            ObtainTokenError {
                why: format!("identity provider of {}: {why}", login.target.server),
                is_final,
            }
        })?;
    match granted.issued_token_type.as_deref() {
        Some(ID_JAG) | None => {
            login.learn([granted.access_token.clone()]);
            Ok(granted.access_token)
        }
        Some(_) => {
            Err(ObtainTokenError::for_ever("the identity provider issued an unexpected token type"))
        }
    }
}
