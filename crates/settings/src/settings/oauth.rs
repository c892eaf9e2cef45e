//! Signing in at a server over HTTP (`oauth` of its entry).

use std::fmt;

use url::Url;

/// How one signs in at a server over HTTP, as far as the file says. The server itself says the rest, so
/// that most entries need nothing of this.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct OAuth {
    /// `true` if nobody signs in there.
    pub is_off: bool,
    /// The client that was registered by hand at the authorization server (RFC 6749 §2.2).
    pub client_id: Option<String>,
    /// The secret that proves that client.
    pub client_secret: Option<String>,
    /// The address of a document that says who the client is.
    pub client_metadata_url: Option<Url>,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Option<Vec<String>>,
    /// The port of this machine that the browser is sent back to; `None`: any.
    pub callback_port: Option<u16>,
    /// The address that the browser is sent back to, in place of one of this machine.
    pub redirect_uri: Option<Url>,
    /// The address of the authorization server's metadata, in place of what the server names.
    pub metadata_url: Option<Url>,
    /// The resource that the token is for (RFC 8707).
    pub resource: Resource,
    /// Which way a token is got.
    pub grant: Grant,
    /// The owner of the sign-in.
    pub account: AccountOf,
    /// Further parameters of the address that the browser opens.
    pub authorization_parameters: Vec<(String, String)>,
    /// `true` if an authorization server is taken that does not say that it knows PKCE.
    pub allows_no_pkce: bool,
}

/// The `resource` of requests for tokens (RFC 8707 §2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The one that the server names, else its address.
    #[default]
    Auto,
    /// None, for authorization servers that refuse it.
    Off,
    /// This one.
    Named(String),
}

/// A way to get a token.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Grant {
    /// A person agrees in a browser (RFC 6749 §4.1).
    #[default]
    Browser,
    /// A person agrees in a browser of any other device (RFC 8628).
    Device,
    /// The client by itself, with its secret (RFC 6749 §4.4).
    Client,
    /// The client by itself, with an assertion that it signs (RFC 7523 §2.2).
    SignedClient {
        /// The private key, in PEM (PKCS#8); secret.
        key: String,
        /// The algorithm: `ES256` or `RS256`.
        algorithm: String,
        /// The `kid` of its header.
        key_id: Option<String>,
    },
    /// The identity of the workload, in a token that stands in a file (RFC 7523 §2.1); the file is read
    /// anew for each request.
    Workload {
        /// The file.
        token_file: std::path::PathBuf,
    },
    /// A token of the company's identity provider, exchanged for an assertion to this server's
    /// authorization server (ID-JAG).
    Enterprise(Box<IdentityProvider>),
}

/// The identity provider of a company.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdentityProvider {
    /// Where it exchanges tokens (RFC 8693).
    pub token_endpoint: Url,
    /// The client at the provider.
    pub client_id: String,
    /// The secret that proves that client.
    pub client_secret: Option<String>,
    /// The token of who signs in; secret.
    pub id_token: String,
}

/// The owner of a sign-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AccountOf {
    /// Over stdio one for all agents of the machine's user, over HTTP each agent's own.
    #[default]
    Auto,
    /// One for all.
    Shared,
    /// Each agent's own.
    Agent,
}

/// Secrets are left out.
impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("is_off", &self.is_off)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}
