//! The check of how one signs in: words, addresses, and which keys belong to which way.

use url::Url;

use crate::config::keys::oauth::{RawIdentityProvider, RawOAuth, RawOAuthObject};
use crate::config::syntax::document::Spot;
use crate::config::syntax::entries::Entries;
use crate::config::syntax::places::{Places, located_path};
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};
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

impl RawOAuth {
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
