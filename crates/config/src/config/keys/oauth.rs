//! Signing in at a server over HTTP (`oauth` of its entry): `false`, or what the server cannot say by itself.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value as Json, json};
use url::Url;

use crate::config::keys::numbers;
use crate::config::keys::reference::{TextOrReference, value};
use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::entries::Entries;
use crate::config::syntax::places::{Places, located_path};
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};
use crate::config::syntax::section::{Described, FromNode, Section, keys, section};
use crate::settings::{AccountOf, Grant, IdentityProvider, OAuth, Resource};

/// The ways to get a token.
const GRANTS: [&str; 5] =
    ["authorization_code", "device_code", "client_credentials", "jwt_bearer", "enterprise"];
const ALGORITHMS: [&str; 2] = ["ES256", "RS256"];
const ACCOUNTS: [&str; 3] = ["auto", "shared", "agent"];
const PKCE: [&str; 2] = ["required", "lax"];
/// The parameters that a login is made of, and the keys that change them.
const OURS: [(&str, &str); 8] = [
    ("response_type", ""),
    ("client_id", "clientId"),
    ("redirect_uri", "redirectUri"),
    ("state", ""),
    ("code_challenge", ""),
    ("code_challenge_method", ""),
    ("scope", "scopes"),
    ("resource", "resource"),
];
/// The beginning of a private key in PEM.
const PEM: &str = "-----BEGIN PRIVATE KEY-----";

/// How one signs in at a server: not at all, or an object.
pub enum RawOAuth {
    /// `false`; `true` says nothing.
    Switch(Located<bool>),
    /// What the server cannot say.
    Object(Box<RawOAuthObject>, Spot),
}

keys! {
    /// How one signs in at a server over HTTP, as far as the server cannot say it by itself. Most need nothing of this.
    #[schemars(rename = "OAuth")]
    pub struct RawOAuthObject {
        /// The client that was registered for you by hand, where clients cannot register themselves.
        #[schemars(extend("examples" = ["mcp-workbench"]))]
        "clientId" as pub client_id: Located<String>,

        /// The secret of that client.
        #[schemars(with = "Option<TextOrReference>")]
        #[schemars(extend("examples" = ["${CLIENT_SECRET}"]))]
        "clientSecret" as pub client_secret: Located<String> => value,

        /// The address of a document that says who the client is, in place of a `clientId`, where the authorization
        /// server reads such documents.
        #[schemars(extend("examples" = ["https://example.com/oauth/client.json"]))]
        "clientMetadataUrl" as pub client_metadata_url: Located<String>,

        /// What to ask for, in place of what the server names: a list, or a text with spaces between.
        #[schemars(with = "Option<ScopesShape>")]
        #[schemars(extend("examples" = [["read", "write"]]))]
        "scopes" | "scope" as pub scopes: Vec<Located<String>> => scopes,

        /// The port of this machine that the browser comes back to, where an address with it
        /// (`http://localhost:<port>/callback`) was registered. Any free one by default.
        "callbackPort" | "callback_port" as pub callback_port: Located<u64> [numbers::PORT],

        /// The address that the browser comes back to, where that was registered: of this machine, or any other that you
        /// copy out of the browser.
        "redirectUri" as pub redirect_uri: Located<String>,

        /// The address of the authorization server's metadata (RFC 8414), in place of what the server names.
        "authServerMetadataUrl" as pub auth_server_metadata_url: Located<String>,

        /// What a token is asked for (RFC 8707): `auto`, which is what the server names, or else its address; `off` for an
        /// authorization server that refuses to be told; or an address.
        #[schemars(extend("default" = "auto"))]
        "resource" as pub resource: Located<String>,

        /// The way to get a token: by a person in a browser (`authorization_code`) or on another device (`device_code`), by
        /// the client itself (`client_credentials`), for a workload by a token in a file (`jwt_bearer`), or by the token of
        /// a company's identity provider (`enterprise`).
        #[schemars(extend("enum" = [
            "authorization_code", "device_code", "client_credentials", "jwt_bearer", "enterprise", null,
        ], "default" = "authorization_code"))]
        "grant" as pub grant: Located<String>,

        /// The private key that the client signs with, in PEM (PKCS#8), in place of a `clientSecret`, for
        /// `client_credentials`.
        #[schemars(with = "Option<TextOrReference>")]
        "privateKey" as pub private_key: Located<String> => value,

        /// The algorithm of that key.
        #[schemars(extend("enum" = ["ES256", "RS256", null], "default" = "ES256"))]
        "algorithm" as pub algorithm: Located<String>,

        /// The name of that key (`kid`), where the authorization server wants it.
        "keyId" as pub key_id: Located<String>,

        /// The file that has the workload's token, for `jwt_bearer`. It is read for each request.
        #[schemars(extend("examples" = ["/var/run/secrets/tokens/mcp"]))]
        "tokenFile" as pub token_file: Located<String>,

        /// The identity provider of the company, for `enterprise`.
        "identityProvider" as pub identity_provider: RawIdentityProvider,

        /// Further parameters of the address that the browser opens, for authorization servers with words of their own.
        #[schemars(extend("examples" = [{"access_type": "offline"}]))]
        "authorizationParameters" as pub authorization_parameters: Entries<Located<String>>,

        /// Whose login it is: `shared`, one for all agents; `agent`, each agent's own; `auto`, over stdio the one, over
        /// HTTP the other.
        #[schemars(extend("enum" = ["auto", "shared", "agent", null], "default" = "auto"))]
        "account" as pub account: Located<String>,

        /// Whether an authorization server is used that does not say that it knows PKCE: not (`required`), or all the same
        /// (`lax`).
        #[schemars(extend("enum" = ["required", "lax", null], "default" = "required"))]
        "pkce" as pub pkce: Located<String>,
    }
}

section! {
    /// The identity provider of a company: where a token of its own is exchanged for one that the server's authorization
    /// server takes (RFC 8693, ID-JAG).
    #[schemars(rename = "IdentityProvider")]
    pub struct RawIdentityProvider {
        /// The address of its token endpoint.
        #[schemars(required)]
        "tokenUrl" as pub token_url: Located<String>,

        /// The client there.
        #[schemars(required)]
        "clientId" as pub client_id: Located<String>,

        /// The secret of that client.
        #[schemars(with = "Option<TextOrReference>")]
        "clientSecret" as pub client_secret: Located<String> => value,

        /// The ID token of whoever signs in.
        #[schemars(required, with = "Option<TextOrReference>")]
        "idToken" as pub id_token: Located<String> => value,
    }
}

/// How `scopes` may be written, for the schema.
struct ScopesShape;

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

fn scopes(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Vec<Located<String>>> {
    if node.value.as_string_lit().is_none() {
        return reader.strings(node);
    }
    let Located { value, spot } = reader.string(node)?;
    let each = |scope: &str| Located { value: scope.to_owned(), spot: spot.clone() };
    Some(value.split_whitespace().map(each).collect())
}

/// Keys that nobody knows are not refused, for a block may have been pasted from any client.
impl FromNode for RawOAuth {
    const SECTION: Option<&'static Section> = Some(RawOAuthObject::DESCRIPTION);

    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if matches!(node.value, Value::BooleanLit(_)) {
            return reader.boolean(node).map(Self::Switch);
        }
        if node.value.as_object().is_none() {
            reader.mismatch(node, "`false` or an object", None);
            return None;
        }
        let mut fields = reader.fields(node)?;
        let object = RawOAuthObject::read(&mut fields, reader);
        let known = fields.known().to_vec();
        for entry in fields.take_all(|_| true) {
            let hint = did_you_mean(&entry.key.value, &known);
            reader.warn(&entry.key.spot, "unknown key, ignored", hint);
        }
        Some(Self::Object(Box::new(object), node.spot.clone()))
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
    /// Returns the values that may stand elsewhere: where below `oauth`, their keys, and their spots.
    pub fn secrets(&self) -> Vec<(&'static str, &'static str, &Spot)> {
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
        all.filter_map(|(place, key, text)| Some((place, key, &text?.spot))).collect()
    }

    /// Returns it as it is written.
    pub fn written(self) -> Json {
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
        let scopes = object.scopes.map(|all| all.into_iter().map(text).collect());
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

    /// Checks it. What is wrong is noted, without secrets.
    pub(crate) fn checked(self, places: &Places<'_>, reader: &mut Reader<'_>) -> OAuth {
        let (object, spot) = match self {
            Self::Switch(switch) => return OAuth { is_off: !switch.value, ..OAuth::default() },
            Self::Object(object, spot) => (*object, spot),
        };
        let grant = object.grant.as_ref();
        let grant = grant.and_then(|grant| word(grant, &GRANTS, reader)).unwrap_or(GRANTS[0]);
        object.check_belonging(grant, reader);
        let account = object.account.as_ref().and_then(|account| word(account, &ACCOUNTS, reader));
        let pkce = object.pkce.as_ref().and_then(|pkce| word(pkce, &PKCE, reader));
        let resource = object.resource.as_ref().map(|it| resource(it, reader)).unwrap_or_default();
        let client = (object.client_id.is_some(), object.client_secret.is_some());
        let grant = object.grant(grant, client, (&spot, places), reader);
        let RawOAuthObject {
            client_id,
            client_secret,
            client_metadata_url,
            scopes,
            callback_port,
            redirect_uri,
            auth_server_metadata_url,
            authorization_parameters,
            ..
        } = object;
        let parameters = authorization_parameters.map(|all| parameters(all, reader));
        let document = client_metadata_url.and_then(|it| {
            let url = address(&it, reader)?;
            if url.scheme() == "https" && url.path() != "/" {
                return Some(url);
            }
            let message = "expected an address with a path that begins with `https://`";
            reader.error(&it.spot, message, None);
            None
        });
        let port = callback_port.and_then(|port| u16::try_from(port.value).ok());
        OAuth {
            is_off: false,
            client_id: client_id.map(|id| id.value),
            client_secret: client_secret.map(|secret| secret.value),
            client_metadata_url: document,
            scopes: scopes.map(|all| all.into_iter().map(|scope| scope.value).collect()),
            callback_port: port,
            redirect_uri: redirect_uri.and_then(|it| address(&it, reader)),
            metadata_url: auth_server_metadata_url.and_then(|it| address(&it, reader)),
            resource,
            grant,
            account: match account {
                Some("shared") => AccountOf::Shared,
                Some("agent") => AccountOf::Agent,
                _ => AccountOf::Auto,
            },
            authorization_parameters: parameters.unwrap_or_default(),
            allows_no_pkce: pkce == Some("lax"),
        }
    }
}

impl RawOAuthObject {
    /// Notes keys that mean nothing together.
    fn check_belonging(&self, grant: &str, reader: &mut Reader<'_>) {
        let browser = &GRANTS[..1];
        let client = &GRANTS[2..3];
        let provider = self.identity_provider.as_ref().and_then(|it| it.token_url.as_ref());
        let belongings: [(&str, Option<&Spot>, &[&str]); 8] = [
            ("callbackPort", self.callback_port.as_ref().map(|it| &it.spot), browser),
            ("redirectUri", self.redirect_uri.as_ref().map(|it| &it.spot), browser),
            ("privateKey", self.private_key.as_ref().map(|it| &it.spot), client),
            ("algorithm", self.algorithm.as_ref().map(|it| &it.spot), client),
            ("keyId", self.key_id.as_ref().map(|it| &it.spot), client),
            ("tokenFile", self.token_file.as_ref().map(|it| &it.spot), &GRANTS[3..4]),
            ("identityProvider", provider.map(|it| &it.spot), &GRANTS[4..]),
            (
                "clientMetadataUrl",
                self.client_metadata_url.as_ref().map(|it| &it.spot),
                &GRANTS[..2],
            ),
        ];
        for (key, spot, grants) in belongings {
            if let Some(spot) = spot.filter(|_| !grants.contains(&grant)) {
                let message = format!("`{key}` means nothing where `grant` is `{grant}`");
                let hint = format!("remove it, or set `grant` to {}", listed(grants, "or"));
                reader.error(spot, message, Some(hint));
            }
        }
        let pairs = [
            ("clientId", "clientMetadataUrl", &self.client_id, &self.client_metadata_url),
            ("clientSecret", "privateKey", &self.client_secret, &self.private_key),
        ];
        for (one, other, first, second) in pairs {
            if let (Some(_), Some(second)) = (first, second) {
                let message = format!("expected `{one}` or `{other}`, found both");
                reader.error(&second.spot, message, Some("remove one of them".to_owned()));
            }
        }
        if let (Some(_), Some(uri)) = (&self.callback_port, &self.redirect_uri) {
            let message = "expected `callbackPort` or `redirectUri`, found both";
            reader.error(&uri.spot, message, Some("remove one of them".to_owned()));
        }
        if let (Some(secret), None) = (&self.client_secret, &self.client_id) {
            reader.error(&secret.spot, "expected a `clientId` with the `clientSecret`", None);
        }
    }

    /// The way to get a token, with what belongs to it.
    fn grant(
        &self,
        grant: &str,
        (has_id, has_secret): (bool, bool),
        (spot, places): (&Spot, &Places<'_>),
        reader: &mut Reader<'_>,
    ) -> Grant {
        let lacking = |key: &str| format!("expected a `{key}`, because `grant` is `{grant}`");
        if matches!(grant, "client_credentials" | "enterprise") && !has_id {
            reader.error(spot, lacking("clientId"), None);
        }
        match grant {
            "device_code" => Grant::Device,
            "client_credentials" => {
                let Some(key) = &self.private_key else {
                    if !has_secret && !reader.has_error_under(spot, "clientSecret") {
                        reader.error(spot, lacking("clientSecret` or a `privateKey"), None);
                    }
                    return Grant::Client;
                };
                if !reader.is_unasked(&key.spot) && !key.value.contains(PEM) {
                    let message = "expected a private key in PEM (PKCS#8)";
                    let hint =
                        format!("it begins with `{PEM}`; `openssl pkcs8 -topk8 -nocrypt` makes it");
                    reader.error(&key.spot, message, Some(hint));
                }
                let algorithm = self.algorithm.as_ref();
                let algorithm = algorithm.and_then(|it| word(it, &ALGORITHMS, reader));
                Grant::SignedClient {
                    key: key.value.clone(),
                    algorithm: algorithm.unwrap_or(ALGORITHMS[0]).to_owned(),
                    key_id: self.key_id.as_ref().map(|id| id.value.clone()),
                }
            }
            "jwt_bearer" => {
                let Some(file) = &self.token_file else {
                    reader.error(spot, lacking("tokenFile"), None);
                    return Grant::Browser;
                };
                Grant::Workload { token_file: located_path(&file.value, places) }
            }
            "enterprise" => {
                let provider = self.identity_provider.as_ref();
                let provider = provider.and_then(|provider| provider.checked(reader));
                let Some(provider) = provider else {
                    if !reader.has_error_under(spot, "identityProvider") {
                        let message = "expected an `identityProvider` with a `tokenUrl`, a `clientId` and \
                                       an `idToken`, because `grant` is `enterprise`";
                        reader.error(spot, message, None);
                    }
                    return Grant::Browser;
                };
                Grant::Enterprise(Box::new(provider))
            }
            _ => Grant::Browser,
        }
    }
}

impl RawIdentityProvider {
    /// `None`, with or without an error noted, if something is wrong with it.
    fn checked(&self, reader: &mut Reader<'_>) -> Option<IdentityProvider> {
        Some(IdentityProvider {
            token_endpoint: address(self.token_url.as_ref()?, reader)?,
            client_id: self.client_id.as_ref()?.value.clone(),
            client_secret: self.client_secret.as_ref().map(|secret| secret.value.clone()),
            id_token: self.id_token.as_ref()?.value.clone(),
        })
    }
}

/// One of the words that may stand there.
fn word(
    written: &Located<String>,
    known: &'static [&'static str],
    reader: &mut Reader<'_>,
) -> Option<&'static str> {
    let found = known.iter().find(|word| **word == written.value).copied();
    if found.is_none() {
        let message = format!("expected {}, found `{}`", listed(known, "or"), written.value);
        reader.error(&written.spot, message, did_you_mean(&written.value, known));
    }
    found
}

/// Further parameters, but for those that a login is made of.
fn parameters(written: Entries<Located<String>>, reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    for (name, value) in written.0 {
        if let Some((_, instead)) = OURS.iter().find(|(ours, _)| *ours == name.value) {
            let hint = (!instead.is_empty()).then(|| format!("set `{instead}`"));
            reader.error(&name.spot, "this is written by the workbench itself", hint);
            continue;
        }
        parameters.push((name.value, value.value));
    }
    parameters
}

/// An address, which may have a secret in it, so that it is not shown.
fn address(written: &Located<String>, reader: &mut Reader<'_>) -> Option<Url> {
    let url = Url::parse(written.value.trim()).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if url.is_none() {
        let message = "expected an address that begins with `https://` or `http://`";
        reader.error(&written.spot, message, None);
    }
    url
}

fn resource(written: &Located<String>, reader: &mut Reader<'_>) -> Resource {
    match written.value.as_str() {
        "auto" => Resource::Auto,
        "off" => Resource::Off,
        other => {
            // It is told as it is written.
            if Url::parse(other).is_ok_and(|url| url.fragment().is_none()) {
                return Resource::Named(other.to_owned());
            }
            let message = "expected `auto`, `off`, or an address without a fragment";
            reader.error(&written.spot, message, did_you_mean(other, &["auto", "off"]));
            Resource::Auto
        }
    }
}

/// An object of the members that there are.
fn members<const N: usize>(members: [(&str, Option<Json>); N]) -> Json {
    let members = members.into_iter();
    let members = members.filter_map(|(key, value)| Some((key.to_owned(), value?)));
    json!(members.collect::<serde_json::Map<_, _>>())
}
