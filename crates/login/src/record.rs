//! Login records: everything needed to use and renew a token without another discovery.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use url::Url;

/// Records of any other version are ignored.
const VERSION: u32 = 1;
/// The end of the year 9999, in seconds since the Unix epoch. Later times can't be printed.
const MAX_TIME: u64 = 253_402_300_799;
/// Tokens are renewed at most this many seconds before expiry.
const LONGEST_BUFFER: u64 = 30;

#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct LoginRecord {
    version: u32,
    pub(crate) server: String,
    pub(crate) url: Url,
    /// The agent with its own login, or `None` for the shared one.
    pub(crate) account: Option<String>,
    pub(crate) authority: AuthorizationServer,
    /// The `resource` of the protected resource metadata (RFC 9728 §2).
    pub(crate) resource: Option<String>,
    pub(crate) client: OAuthClient,
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    /// Scopes to request at the next sign-in, because the server demanded them.
    #[serde(default)]
    #[serde(rename = "wanted")]
    pub(crate) missing_scopes: Vec<String>,
    /// Random, and new with every sign-in.
    #[serde(default)]
    #[serde(rename = "login")]
    pub(crate) epoch: u64,
    /// `None` before the first sign-in.
    pub(crate) token: Option<Token>,
    pub(crate) refresh_token: Option<String>,
}

/// An access token.
#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Token {
    pub(crate) value: String,
    /// Time of issue and expiry, in seconds since the Unix epoch.
    pub(crate) since: u64,
    pub(crate) expires: Option<u64>,
    /// `true` once the server has rejected it and it can't be renewed.
    #[serde(default)]
    pub(crate) is_refused: bool,
}

/// The metadata of an authorization server (RFC 8414 §2).
#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct AuthorizationServer {
    /// Verbatim, for comparison. Without metadata, the origin of the server.
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<Url>,
    pub(crate) token_endpoint: Url,
    pub(crate) registration_endpoint: Option<Url>,
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) device_authorization_endpoint: Option<Url>,
    pub(crate) auth_methods: Option<Vec<String>>,
    /// The supported PKCE methods.
    pub(crate) challenge_methods: Option<Vec<String>>,
    pub(crate) scopes: Option<Vec<String>>,
    /// `true` if authorization responses contain `iss` (RFC 9207).
    pub(crate) sends_issuer: bool,
    /// `true` if client IDs can be URLs of metadata documents.
    pub(crate) takes_documents: bool,
    /// `true` if the endpoints are defaults for lack of metadata (MCP 2025-03-26).
    pub(crate) is_guessed: bool,
}

#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct OAuthClient {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    /// Expiry of the secret, in seconds since the Unix epoch.
    pub(crate) secret_expires: Option<u64>,
    pub(crate) method: TokenEndpointAuthMethod,
    pub(crate) redirect_uri: Option<Url>,
    pub(crate) kind: ClientRegistration,
    /// `true` once the authorization server no longer recognizes the client.
    #[serde(default)]
    pub(crate) is_refused: bool,
}

/// How a client authenticates at the token endpoint (RFC 8414 §2).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenEndpointAuthMethod {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// How a client was registered.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientRegistration {
    /// By hand, and named in the configuration.
    Registered,
    /// Through a client ID metadata document.
    Document,
    /// Dynamically (RFC 7591).
    Dynamic,
}

impl LoginRecord {
    pub(crate) fn new(
        (server, url, account): (&str, &Url, Option<&str>),
        authority: AuthorizationServer,
        resource: Option<String>,
        client: OAuthClient,
    ) -> Self {
        Self {
            version: VERSION,
            server: server.to_owned(),
            url: url.clone(),
            account: account.map(str::to_owned),
            authority,
            resource,
            client,
            scopes: Vec::new(),
            missing_scopes: Vec::new(),
            epoch: 0,
            token: None,
            refresh_token: None,
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.version == VERSION
    }

    /// Deserializes a record. `None` if it is invalid or of another version.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(text).ok().filter(Self::is_known)
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut kept = self.clone();
        if kept.client.kind == ClientRegistration::Registered {
            // The secret comes from the configuration, which can change.
            kept.client.secret = None;
        }
        serde_json::to_vec_pretty(&kept)
    }

    pub(crate) fn secrets(&self) -> impl Iterator<Item = &String> {
        let token = self.token.as_ref().map(|token| &token.value);
        token.into_iter().chain(&self.refresh_token).chain(&self.client.secret)
    }
}

impl Token {
    pub(crate) fn new(value: String, seconds: Option<u64>) -> Self {
        let since = unix_now();
        let expires = seconds.map(|seconds| since.saturating_add(seconds));
        Self { value, since, expires, is_refused: false }
    }

    /// Returns `true` if the token is due for renewal: in the last quarter of its lifetime, but at
    /// most 30 s before expiry.
    pub(crate) fn is_ending(&self) -> bool {
        self.end().is_some_and(|end| {
            let lifetime = end.saturating_sub(self.since);
            unix_now().saturating_add(LONGEST_BUFFER.min(lifetime / 4)) >= end
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end().is_some_and(|end| unix_now() >= end)
    }

    pub(crate) fn expires(&self) -> Option<SystemTime> {
        self.end().and_then(|end| UNIX_EPOCH.checked_add(Duration::from_secs(end.min(MAX_TIME))))
    }

    /// `expires_in: 0` is treated as unknown. Otherwise the token would be expired on arrival and
    /// every request would renew it.
    fn end(&self) -> Option<u64> {
        self.expires.filter(|expires| *expires > self.since)
    }
}

impl AuthorizationServer {
    /// Returns all endpoints with their names for error messages.
    pub(crate) fn endpoints(&self) -> Vec<(&'static str, &Url)> {
        let all = [
            ("authorization endpoint", self.authorization_endpoint.as_ref()),
            ("token endpoint", Some(&self.token_endpoint)),
            ("registration endpoint", self.registration_endpoint.as_ref()),
            ("revocation endpoint", self.revocation_endpoint.as_ref()),
            ("device endpoint", self.device_authorization_endpoint.as_ref()),
        ];
        all.into_iter().filter_map(|(name, url)| Some((name, url?))).collect()
    }
}

impl OAuthClient {
    /// Returns `true` if the client can be used for another login.
    pub(crate) fn is_good(&self) -> bool {
        !self.is_refused && self.secret_expires.is_none_or(|expires| unix_now() < expires)
    }
}

/// Returns all scopes without duplicates, in order of first occurrence.
pub(crate) fn union(all: &[&[String]]) -> Vec<String> {
    let mut union: Vec<String> = Vec::new();
    for scope in all.iter().copied().flatten() {
        if !union.contains(scope) {
            union.push(scope.clone());
        }
    }
    union
}

pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Omits secrets.
impl fmt::Debug for LoginRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRecord")
            .field("server", &self.server)
            .field("account", &self.account)
            .field("issuer", &self.authority.issuer)
            .field("scopes", &self.scopes)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}
