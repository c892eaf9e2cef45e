//! The `auth` setting of an HTTP server: the exchange of callers' tokens (RFC 8693).

use serde_json::Value as Json;
use url::Url;

use crate::sections::oauth::validation::{address, client_key, origin, resource, word};
use crate::sections::oauth::{ScopesShape, members, scopes};
use crate::sections::secret_ref::{TextOrSecretRef, read_text_or_ref};
use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::objects::read_closed_object;
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{ConfigSection, FromNode, SectionSpec, keys};
use mcp_workbench_settings::{GrantType, OAuthConfig, TokenExchange, is_loopback};

const EXCHANGES: [&str; 1] = ["caller"];

keys! {
    /// Exchanges the token of each caller for a token of this server (RFC 8693). Needs `auth.jwt`
    /// and `serve --http`.
    #[schemars(rename = "Exchange", deny_unknown_fields)]
    pub struct RawExchange in "`auth` of a server over HTTP" {
        /// Whose token is exchanged: the caller's JWT, as accepted by `auth.jwt`.
        #[schemars(required, extend("enum" = ["caller"]))]
        "exchange" as pub exchange: Located<String>,

        /// URL of the authorization server that exchanges the token, as in its metadata.
        #[schemars(required)]
        #[schemars(extend("examples" = ["https://auth.example.com"]))]
        "issuer" as pub issuer: Located<String>,

        /// ID of the workbench's client at that authorization server.
        #[schemars(required)]
        #[schemars(extend("examples" = ["mcp-workbench"]))]
        "clientId" as pub client_id: Located<String>,

        /// Secret of that client.
        #[schemars(with = "Option<TextOrSecretRef>")]
        #[schemars(extend("examples" = ["${CLIENT_SECRET}"]))]
        "clientSecret" as pub client_secret: Located<String> => read_text_or_ref,

        /// Private key of that client (PEM, PKCS#8). Replaces `clientSecret`.
        #[schemars(with = "Option<TextOrSecretRef>")]
        "privateKey" as pub private_key: Located<String> => read_text_or_ref,

        /// Signature algorithm of `privateKey`.
        #[schemars(extend("enum" = ["ES256", "RS256", null], "default" = "ES256"))]
        "algorithm" as pub algorithm: Located<String>,

        /// Key ID (`kid`) of `privateKey`, if the authorization server requires one.
        "keyId" as pub key_id: Located<String>,

        /// Scopes to request: a list, or a string separated by spaces. By default, the
        /// authorization server decides.
        #[schemars(with = "Option<ScopesShape>")]
        #[schemars(extend("examples" = [["read", "write"]]))]
        "scopes" | "scope" as pub scopes: Vec<Located<String>> => scopes,

        /// Logical name of the server at the authorization server (`audience`), if it needs one.
        "audience" as pub audience: Located<String>,

        /// Resource indicator of the token (RFC 8707): `auto` (the server's URL), `off` for
        /// authorization servers that reject one, or a URL.
        #[schemars(extend("default" = "auto"))]
        "resource" as pub resource: Located<String>,

        /// Further origins where the authorization server may have its token endpoint, such as
        /// `https://login.example.com`. By default, only the issuer's.
        #[schemars(extend("examples" = [["https://login.example.com"]]))]
        "allowedOrigins" as pub allowed_origins: Vec<Located<String>>,
    }
}

/// Other programs use `auth`, too. Their values are ignored with a warning.
impl FromNode for RawExchange {
    const SECTION: Option<&'static SectionSpec> = Some(Self::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        // Another program's object has other keys.
        if !["exchange", "issuer"].iter().any(|key| node.get(key).is_some()) {
            let hint = "`auth` of a server exchanges callers' tokens: `\"exchange\": \"caller\"`";
            reader.report_warning(&node.location, "unknown value; ignored", Some(hint.to_owned()));
            return None;
        }
        read_closed_object(node, reader, Self::read_keys)
    }
}

impl RawExchange {
    /// Returns the settings that can be secret references, as (key, location).
    pub fn secret_fields(&self) -> Vec<(&'static str, &SourceLocation)> {
        let all = [("clientSecret", &self.client_secret), ("privateKey", &self.private_key)];
        all.into_iter().filter_map(|(key, text)| Some((key, &text.as_ref()?.location))).collect()
    }

    /// Checks the settings. Errors never contain a secret.
    pub(crate) fn checked(
        self,
        location: &SourceLocation,
        reader: &mut ConfigReader<'_>,
    ) -> OAuthConfig {
        let by_default = OAuthConfig::default();
        let written = [
            ("exchange", self.exchange.is_some()),
            ("issuer", self.issuer.is_some()),
            ("clientId", self.client_id.is_some()),
        ];
        for (key, _) in written.into_iter().filter(|(_, is_written)| !is_written) {
            if !reader.has_error_under(location, key) {
                let hint =
                    (key == "exchange").then(|| "write `\"exchange\": \"caller\"`".to_owned());
                reader.report_error(location, format!("expected `{key}`"), hint);
            }
        }
        if let Some(exchange) = &self.exchange {
            word(exchange, &EXCHANGES, reader);
        }
        if let (Some(_), Some(key)) = (&self.client_secret, &self.private_key) {
            let message = "expected `clientSecret` or `privateKey`, found both";
            reader.report_error(&key.location, message, Some("remove one of them".to_owned()));
        }
        let (algorithm, key_id) = (self.algorithm.as_ref(), self.key_id.as_ref());
        let key = self.private_key.as_ref();
        let key = key.map(|key| client_key(key, algorithm, key_id, reader));
        let issuer = self.issuer.and_then(|issuer| checked_issuer(&issuer, reader));
        let origins = self.allowed_origins.into_iter().flatten();
        let origins = origins.filter_map(|written| origin(&written, reader)).collect();
        let resource = self.resource.map(|it| resource(&it, reader)).unwrap_or_default();
        // Without an issuer an error was reported, and the entry is unusable.
        let Some(issuer) = issuer else { return by_default };
        let audience = self.audience.map(|audience| audience.value);
        OAuthConfig {
            client_id: self.client_id.map(|id| id.value),
            client_secret: self.client_secret.map(|secret| secret.value),
            scopes: self.scopes.map(|all| all.into_iter().map(|scope| scope.value).collect()),
            allowed_origins: origins,
            resource,
            grant: GrantType::TokenExchange(Box::new(TokenExchange { issuer, audience, key })),
            ..by_default
        }
    }

    /// Converts the setting to JSON, with the values as read.
    pub fn into_json(self) -> Json {
        let text = |text: Located<String>| Json::from(text.value);
        let list = |all: Vec<Located<String>>| all.into_iter().map(text).collect();
        members([
            ("exchange", self.exchange.map(text)),
            ("issuer", self.issuer.map(text)),
            ("clientId", self.client_id.map(text)),
            ("clientSecret", self.client_secret.map(text)),
            ("privateKey", self.private_key.map(text)),
            ("algorithm", self.algorithm.map(text)),
            ("keyId", self.key_id.map(text)),
            ("scopes", self.scopes.map(list)),
            ("audience", self.audience.map(text)),
            ("resource", self.resource.map(text)),
            ("allowedOrigins", self.allowed_origins.map(list)),
        ])
    }
}

/// Parses an issuer. Callers' tokens are sent there, so it must use TLS or be on this machine.
fn checked_issuer(written: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<Url> {
    let url = address(written, reader)?;
    if url.scheme() != "https" && !is_loopback(&url) {
        let message = "expected `https://`: callers' tokens are sent to this URL";
        let hint = "`http://` is allowed only for an issuer on this machine (127.0.0.1, localhost)";
        reader.report_error(&written.location, message, Some(hint.to_owned()));
        return None;
    }
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !is_plain || url.password().is_some() {
        let message = "expected a URL without user information, `?` and `#`";
        reader.report_error(&written.location, message, None);
        return None;
    }
    Some(url)
}
