//! Records: everything that is kept of one login, so that nothing has to be found out again to use and renew it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use url::Url;

/// The version that is written. One of another version is as good as none.
const VERSION: u32 = 1;
/// A token is renewed at most this long before it expires.
const LONGEST_BUFFER: u64 = 30;

/// All that is kept of one login.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Record {
    version: u32,
    /// The entry of the server.
    pub(crate) server: String,
    /// The address of the server.
    pub(crate) url: Url,
    /// The agent whose login it is; none: one for all.
    pub(crate) account: Option<String>,
    /// Where tokens come from.
    pub(crate) authority: Authority,
    /// The `resource` that the server names (RFC 9728 §2).
    pub(crate) resource: Option<String>,
    /// Who asks for tokens.
    pub(crate) client: Client,
    /// The scopes that were granted.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    /// The scopes to ask for at the next sign-in, because the server wants them for something.
    #[serde(default)]
    pub(crate) wanted: Vec<String>,
    /// Changes whenever somebody signs in.
    #[serde(default)]
    pub(crate) login: u64,
    /// The token; none before the first login, or after the last one has ended.
    pub(crate) token: Option<Token>,
    /// The token that renews the other.
    pub(crate) refresh_token: Option<String>,
}

/// A token that is shown to the server.
#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Token {
    /// As it is shown.
    pub(crate) value: String,
    /// When it was got, and until when it is good, in seconds since 1970.
    pub(crate) since: u64,
    pub(crate) expires: Option<u64>,
    /// `true` once the server has refused it, and nothing but a person could help.
    #[serde(default)]
    pub(crate) is_refused: bool,
}

/// An authorization server, as its metadata says (RFC 8414 §2).
#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Authority {
    /// Its name, as it spells it; for one without metadata, the origin of the server.
    pub(crate) issuer: String,
    /// Where a person agrees.
    pub(crate) authorization_endpoint: Option<Url>,
    /// Where tokens are asked for.
    pub(crate) token_endpoint: Url,
    /// Where clients register themselves.
    pub(crate) registration_endpoint: Option<Url>,
    /// Where tokens are given back.
    pub(crate) revocation_endpoint: Option<Url>,
    /// Where a login on another device begins.
    pub(crate) device_authorization_endpoint: Option<Url>,
    /// How clients may prove themselves at the token endpoint.
    pub(crate) auth_methods: Option<Vec<String>>,
    /// The kinds of PKCE that it knows.
    pub(crate) challenge_methods: Option<Vec<String>>,
    /// The scopes that it knows.
    pub(crate) scopes: Option<Vec<String>>,
    /// `true` if it names itself when it sends a browser back (RFC 9207).
    pub(crate) sends_issuer: bool,
    /// `true` if a client may be called by the address of a document.
    pub(crate) takes_documents: bool,
    /// `true` if it has published nothing, so that its endpoints were guessed (MCP 2025-03-26).
    pub(crate) is_guessed: bool,
}

/// Who asks for tokens.
#[derive(Clone, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    /// Until when the secret is good, in seconds since 1970.
    pub(crate) secret_expires: Option<u64>,
    /// How it proves itself.
    pub(crate) method: Method,
    /// Where it may have browsers sent back to.
    pub(crate) redirect_uri: Option<Url>,
    /// How it has come to be known.
    pub(crate) kind: Kind,
    /// `true` once the authorization server does not know it any more.
    #[serde(default)]
    pub(crate) is_refused: bool,
}

/// How a client proves itself at the token endpoint (RFC 8414 §2).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// How a client has come to be known to the authorization server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// By hand; the entry names it.
    Registered,
    /// By a document that the entry names.
    Document,
    /// By itself.
    Dynamic,
}

impl Record {
    /// A record without a token.
    pub(crate) fn new(
        (server, url, account): (&str, &Url, Option<&str>),
        authority: Authority,
        resource: Option<String>,
        client: Client,
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
            wanted: Vec::new(),
            login: 0,
            token: None,
            refresh_token: None,
        }
    }

    /// Returns `true` for one of the version that is written.
    pub(crate) fn is_known(&self) -> bool {
        self.version == VERSION
    }

    /// Reads a record; `None` where it is none of this version.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(text).ok().filter(Self::is_known)
    }

    /// The text that is kept.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut kept = self.clone();
        if kept.client.kind == Kind::Registered {
            // The entry has it, and may have another one tomorrow.
            kept.client.secret = None;
        }
        serde_json::to_vec_pretty(&kept)
    }

    /// Everything in it that nobody else may see.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &String> {
        let token = self.token.as_ref().map(|token| &token.value);
        token.into_iter().chain(&self.refresh_token).chain(&self.client.secret)
    }
}

impl Token {
    /// A token that was got now and is good for so many seconds.
    pub(crate) fn new(value: String, seconds: Option<u64>) -> Self {
        let since = now();
        let expires = seconds.map(|seconds| since.saturating_add(seconds));
        Self { value, since, expires, is_refused: false }
    }

    /// Returns `true` if it is to be renewed: 30 s before its end, or for a shorter one in the last quarter.
    pub(crate) fn is_ending(&self) -> bool {
        self.end().is_some_and(|end| {
            let lifetime = end.saturating_sub(self.since);
            now() + LONGEST_BUFFER.min(lifetime / 4) >= end
        })
    }

    /// Returns `true` if it is good no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.end().is_some_and(|end| now() >= end)
    }

    /// Until when it is good.
    pub(crate) fn expires(&self) -> Option<SystemTime> {
        self.end().and_then(|end| UNIX_EPOCH.checked_add(Duration::from_secs(end)))
    }

    /// When it ends. One that is said to last no time at all would never be good, and each use would cost another:
    /// its server knows when it ends, and nobody else.
    fn end(&self) -> Option<u64> {
        self.expires.filter(|expires| *expires > self.since)
    }
}

impl Client {
    /// Returns `true` if it can be used for another login.
    pub(crate) fn is_good(&self) -> bool {
        !self.is_refused && self.secret_expires.is_none_or(|expires| now() < expires)
    }
}

/// All scopes, each once, in the order in which they were first named.
pub(crate) fn union(all: &[&[String]]) -> Vec<String> {
    let mut union: Vec<String> = Vec::new();
    for scope in all.iter().copied().flatten() {
        if !union.contains(scope) {
            union.push(scope.clone());
        }
    }
    union
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Secrets are left out.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("server", &self.server)
            .field("account", &self.account)
            .field("issuer", &self.authority.issuer)
            .field("scopes", &self.scopes)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}
