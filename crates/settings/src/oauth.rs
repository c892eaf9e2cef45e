//! OAuth settings of a server (`oauth` of its entry).

use std::fmt;

use url::Url;

use crate::defaults;

/// OAuth settings of a server over HTTP. Everything left out is discovered, so most servers need
/// none of them.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct OAuthConfig {
    /// `true` if sign-in is disabled for this server.
    pub is_off: bool,
    /// A client registered by hand at the authorization server (RFC 6749 §2.2).
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// URL of the client metadata document, which serves as the client ID.
    pub client_metadata_url: Option<Url>,
    /// Scopes to request. Overrides the scopes that the server advertises.
    pub scopes: Option<Vec<String>>,
    /// Port of the loopback redirect listener. `None`: any free port.
    pub callback_port: Option<u16>,
    /// Redirect URI. Overrides the loopback address.
    pub redirect_uri: Option<Url>,
    /// Metadata URL of the authorization server. Overrides discovery.
    pub metadata_url: Option<Url>,
    /// Origins besides the issuer's where the authorization server may have endpoints.
    pub allowed_origins: Vec<String>,
    /// Maximum requests of one discovery. `None`: `defaults::DISCOVERY_REQUESTS`.
    pub max_discovery_requests: Option<usize>,
    /// Maximum scopes that a server or authorization server may name in one list. `None`:
    /// `defaults::SCOPES`.
    pub max_scopes: Option<usize>,
    pub resource: ResourceIndicator,
    pub grant: GrantType,
    pub account: AccountScope,
    /// Extra query parameters of the authorization request.
    pub authorization_parameters: Vec<(String, String)>,
    /// `true` to accept an authorization server that doesn't advertise PKCE.
    pub allows_no_pkce: bool,
}

impl OAuthConfig {
    /// Returns the maximum number of requests of one discovery.
    pub fn max_discovery_requests(&self) -> usize {
        self.max_discovery_requests.unwrap_or(defaults::DISCOVERY_REQUESTS)
    }

    /// Returns the exchange of the callers' tokens, if the server gets such tokens.
    pub fn exchange(&self) -> Option<&TokenExchange> {
        match &self.grant {
            GrantType::TokenExchange(exchange) => Some(exchange),
            _ => None,
        }
    }

    /// Returns the maximum number of scopes in one list of a server or authorization server.
    pub fn max_scopes(&self) -> usize {
        self.max_scopes.unwrap_or(defaults::SCOPES)
    }
}

/// The `resource` parameter of authorization and token requests (RFC 8707 §2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResourceIndicator {
    /// The resource that the server advertises, or else the server's URL.
    #[default]
    Auto,
    /// Send no `resource`, for authorization servers that reject it.
    Off,
    Named(String),
}

/// The OAuth grant that yields the tokens.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum GrantType {
    /// The user signs in with a browser (RFC 6749 §4.1).
    #[default]
    AuthorizationCode,
    /// The user signs in on another device (RFC 8628).
    DeviceCode,
    /// The client authenticates with its secret (RFC 6749 §4.4).
    ClientCredentials,
    /// The client authenticates with a signed JWT (RFC 7523 §2.2).
    PrivateKeyJwt {
        /// Private key as PEM (PKCS#8). Secret.
        key: String,
        /// `ES256` or `RS256`.
        algorithm: String,
        /// The `kid` of the JWT header.
        key_id: Option<String>,
    },
    /// A workload identity token as the JWT bearer grant (RFC 7523 §2.1). The file is read again
    /// for each token request, because another program rotates it.
    WorkloadJwt { token_file: std::path::PathBuf },
    /// A token of the company's identity provider, exchanged for an assertion to the authorization
    /// server (ID-JAG).
    IdentityAssertion(Box<IdentityProvider>),
    /// The verified token of the caller, exchanged for one of the server (RFC 8693).
    TokenExchange(Box<TokenExchange>),
}

/// The exchange of `GrantType::TokenExchange` (`auth` of a server's entry).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TokenExchange {
    /// The authorization server that issues the tokens for the server.
    pub issuer: Url,
    /// The `audience` parameter, if any.
    pub audience: Option<String>,
    /// Authenticates the client instead of a secret (RFC 7523 §2.2).
    pub key: Option<ClientKey>,
}

/// A private key of an OAuth client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientKey {
    /// As PEM (PKCS#8). Secret.
    pub pem: String,
    /// `ES256` or `RS256`.
    pub algorithm: String,
    /// The `kid` of the JWT header.
    pub key_id: Option<String>,
}

/// The identity provider of `GrantType::IdentityAssertion`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdentityProvider {
    /// The token exchange endpoint (RFC 8693).
    pub token_endpoint: Url,
    pub client_id: String,
    pub client_secret: Option<String>,
    /// The ID token of the signed-in user. Secret.
    pub id_token: String,
}

/// Which agents share a sign-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AccountScope {
    /// Over stdio all agents of the OS user share one. Over HTTP each agent has its own.
    #[default]
    Auto,
    Shared,
    Agent,
}

/// Omits secrets.
impl fmt::Debug for OAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthConfig")
            .field("is_off", &self.is_off)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}
