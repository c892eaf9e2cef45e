//! The `oauth` setting of an HTTP server: `false`, or parameters that discovery can't provide.

pub(crate) mod validation;

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value as Json, json};

use crate::sections::ranges;
use crate::sections::secret_ref::{TextOrSecretRef, read_text_or_ref};
use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean};
use crate::syntax::section::{ConfigSection, FromNode, SectionSpec, keys, section};
use mcp_workbench_settings::defaults;

/// The value of `oauth`.
pub enum RawOAuth {
    /// `false` disables sign-in; `true` has no effect.
    Switch(Located<bool>),
    Object(Box<RawOAuthObject>, SourceLocation),
}

keys! {
    /// Sign-in settings of a server over HTTP that it cannot announce itself. Most servers need
    /// none.
    #[schemars(rename = "OAuth")]
    pub struct RawOAuthObject {
        /// ID of a client that you registered yourself. By default, the workbench registers itself.
        #[schemars(extend("examples" = ["mcp-workbench"]))]
        "clientId" as pub client_id: Located<String>,

        /// Secret of that client.
        #[schemars(with = "Option<TextOrSecretRef>")]
        #[schemars(extend("examples" = ["${CLIENT_SECRET}"]))]
        "clientSecret" as pub client_secret: Located<String> => read_text_or_ref,

        /// HTTPS URL of a client ID metadata document, for authorization servers that accept one.
        /// Replaces `clientId`.
        #[schemars(extend("examples" = ["https://example.com/oauth/client.json"]))]
        "clientMetadataUrl" as pub client_metadata_url: Located<String>,

        /// Scopes to request: a list, or a string separated by spaces. Override the scopes that the
        /// server announces.
        #[schemars(with = "Option<ScopesShape>")]
        #[schemars(extend("examples" = [["read", "write"]]))]
        "scopes" | "scope" as pub scopes: Vec<Located<String>> => scopes,

        /// Port of the redirect URI `http://localhost:<port>/callback`, if that URI is registered.
        /// Any free port by default.
        "callbackPort" | "callback_port" as pub callback_port: Located<u64> [ranges::PORT],

        /// Redirect URI, if another one is registered. If it is not on this machine, you copy the
        /// URL from the browser.
        "redirectUri" as pub redirect_uri: Located<String>,

        /// URL of the authorization server's metadata (RFC 8414). Overrides the one that the server
        /// announces.
        "authServerMetadataUrl" as pub auth_server_metadata_url: Located<String>,

        /// Further origins where the authorization server has endpoints, such as
        /// `https://login.example.com`. By default, all endpoints must be on one origin, or on the
        /// issuer's.
        #[schemars(extend("examples" = [["https://login.example.com"]]))]
        "allowedOrigins" as pub allowed_origins: Vec<Located<String>>,

        /// Maximum requests that look for the authorization server, within 30 s.
        #[schemars(extend("default" = defaults::DISCOVERY_REQUESTS))]
        "maxDiscoveryRequests" as pub max_discovery_requests: Located<u64> [ranges::DISCOVERY_REQUESTS],

        /// Maximum scopes that the server or its authorization server can name in one list. Further
        /// ones are ignored. The list is also limited to 8 KiB.
        #[schemars(extend("default" = defaults::SCOPES))]
        "maxScopes" as pub max_scopes: Located<u64> [ranges::SCOPES],

        /// Resource indicator of the token (RFC 8707): `auto` (what the server announces, otherwise
        /// its URL), `off` for authorization servers that reject one, or a URL.
        #[schemars(extend("default" = "auto"))]
        "resource" as pub resource: Located<String>,

        /// How to get a token: in a browser (`authorization_code`), on another device
        /// (`device_code`), without a user (`client_credentials`), with a workload's token file
        /// (`jwt_bearer`), or through a company's identity provider (`enterprise`).
        #[schemars(extend("enum" = [
            "authorization_code", "device_code", "client_credentials", "jwt_bearer", "enterprise", null,
        ], "default" = "authorization_code"))]
        "grant" as pub grant: Located<String>,

        /// Private key of the client (PEM, PKCS#8), for `client_credentials`. Replaces
        /// `clientSecret`.
        #[schemars(with = "Option<TextOrSecretRef>")]
        "privateKey" as pub private_key: Located<String> => read_text_or_ref,

        /// Signature algorithm of `privateKey`.
        #[schemars(extend("enum" = ["ES256", "RS256", null], "default" = "ES256"))]
        "algorithm" as pub algorithm: Located<String>,

        /// Key ID (`kid`) of `privateKey`, if the authorization server requires one.
        "keyId" as pub key_id: Located<String>,

        /// File that contains the workload's token, for `jwt_bearer`. Read for each request.
        #[schemars(extend("examples" = ["/var/run/secrets/tokens/mcp"]))]
        "tokenFile" as pub token_file: Located<String>,

        /// The company's identity provider, for `enterprise`.
        "identityProvider" as pub identity_provider: RawIdentityProvider,

        /// Additional parameters of the authorization URL.
        #[schemars(extend("examples" = [{"access_type": "offline"}]))]
        "authorizationParameters" as pub authorization_parameters: LocatedMap<Located<String>>,

        /// Owner of a login: all agents together (`shared`), each agent (`agent`), or `auto`, which
        /// means `shared` over stdio and `agent` over HTTP.
        #[schemars(extend("enum" = ["auto", "shared", "agent", null], "default" = "auto"))]
        "account" as pub account: Located<String>,

        /// `required` rejects authorization servers that do not announce PKCE; `lax` accepts them.
        #[schemars(extend("enum" = ["required", "lax", null], "default" = "required"))]
        "pkce" as pub pkce: Located<String>,
    }
}

section! {
    /// A company's identity provider. It exchanges a user's ID token for one that the server's
    /// authorization server accepts (RFC 8693, ID-JAG).
    #[schemars(rename = "IdentityProvider")]
    pub struct RawIdentityProvider {
        /// URL of the token endpoint.
        #[schemars(required)]
        "tokenUrl" as pub token_url: Located<String>,

        /// ID of the client at the identity provider.
        #[schemars(required)]
        "clientId" as pub client_id: Located<String>,

        /// Secret of that client.
        #[schemars(with = "Option<TextOrSecretRef>")]
        "clientSecret" as pub client_secret: Located<String> => read_text_or_ref,

        /// ID token of the user who signs in.
        #[schemars(required, with = "Option<TextOrSecretRef>")]
        "idToken" as pub id_token: Located<String> => read_text_or_ref,
    }
}

pub(crate) struct ScopesShape;

impl JsonSchema for ScopesShape {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scopes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}

pub(crate) fn scopes(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<Vec<Located<String>>> {
    if node.value.as_string_lit().is_none() {
        return reader.read_strings(node);
    }
    let Located { value, location: spot } = reader.read_string(node)?;
    let each = |scope: &str| Located { value: scope.to_owned(), location: spot.clone() };
    Some(value.split_whitespace().map(each).collect())
}

/// Unknown keys only cause a warning, because the entry may be copied from any client.
impl FromNode for RawOAuth {
    const SECTION: Option<&'static SectionSpec> = Some(RawOAuthObject::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        if matches!(node.value, Value::BooleanLit(_)) {
            return reader.read_bool(node).map(Self::Switch);
        }
        if node.value.as_object().is_none() {
            reader.report_type_mismatch(node, "`false` or an object", None);
            return None;
        }
        let mut fields = reader.read_fields(node)?;
        let object = RawOAuthObject::read_keys(&mut fields, reader);
        let known = fields.known().to_vec();
        for entry in fields.take_keys_if(|_| true) {
            let hint = did_you_mean(&entry.key.value, &known);
            reader.report_warning(&entry.key.location, "unknown key; ignored", hint);
        }
        Some(Self::Object(Box::new(object), node.location.clone()))
    }
}

impl JsonSchema for RawOAuth {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OAuthSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RawOAuthObject>();
        json_schema!({ "anyOf": [{ "type": "boolean" }, object] })
    }
}

impl RawOAuth {
    /// Returns the settings that can be secret references, as (JSON pointer below `oauth`, key,
    /// location).
    pub fn secret_fields(&self) -> Vec<(&'static str, &'static str, &SourceLocation)> {
        let Self::Object(object, _) = self else { return Vec::new() };
        let provider = object.identity_provider.as_ref();
        let all = [
            ("", "clientSecret", object.client_secret.as_ref()),
            ("", "privateKey", object.private_key.as_ref()),
            (
                "/identityProvider",
                "clientSecret",
                provider.and_then(|it| it.client_secret.as_ref()),
            ),
            ("/identityProvider", "idToken", provider.and_then(|it| it.id_token.as_ref())),
        ];
        let all = all.into_iter();
        all.filter_map(|(place, key, text)| Some((place, key, &text?.location))).collect()
    }

    /// Converts the setting to JSON, with the values as read.
    pub fn into_json(self) -> Json {
        let object = match self {
            Self::Switch(switch) => return switch.value.into(),
            Self::Object(object, _) => *object,
        };
        let text = |text: Located<String>| Json::from(text.value);
        let provider = object.identity_provider.map(|provider| {
            members([
                ("tokenUrl", provider.token_url.map(text)),
                ("clientId", provider.client_id.map(text)),
                ("clientSecret", provider.client_secret.map(text)),
                ("idToken", provider.id_token.map(text)),
            ])
        });
        let list = |all: Vec<Located<String>>| all.into_iter().map(text).collect();
        let scopes = object.scopes.map(list);
        let origins = object.allowed_origins.map(list);
        let parameters = object.authorization_parameters.map(|all| {
            let all = all.0.into_iter();
            all.map(|(name, value)| (name.value, Json::from(value.value))).collect()
        });
        members([
            ("clientId", object.client_id.map(text)),
            ("clientSecret", object.client_secret.map(text)),
            ("clientMetadataUrl", object.client_metadata_url.map(text)),
            ("scopes", scopes),
            ("callbackPort", object.callback_port.map(|port| port.value.into())),
            ("redirectUri", object.redirect_uri.map(text)),
            ("authServerMetadataUrl", object.auth_server_metadata_url.map(text)),
            ("allowedOrigins", origins),
            ("maxDiscoveryRequests", object.max_discovery_requests.map(|it| it.value.into())),
            ("maxScopes", object.max_scopes.map(|it| it.value.into())),
            ("resource", object.resource.map(text)),
            ("grant", object.grant.map(text)),
            ("privateKey", object.private_key.map(text)),
            ("algorithm", object.algorithm.map(text)),
            ("keyId", object.key_id.map(text)),
            ("tokenFile", object.token_file.map(text)),
            ("identityProvider", provider),
            ("authorizationParameters", parameters),
            ("account", object.account.map(text)),
            ("pkce", object.pkce.map(text)),
        ])
    }
}

pub(crate) fn members<const N: usize>(members: [(&str, Option<Json>); N]) -> Json {
    let members = members.into_iter();
    let members = members.filter_map(|(key, value)| Some((key.to_owned(), value?)));
    json!(members.collect::<serde_json::Map<_, _>>())
}
