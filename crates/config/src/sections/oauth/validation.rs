//! Validation of `oauth`: keywords, URLs, and the keys that each grant type uses.

use url::Url;

use crate::sections::oauth::{RawIdentityProvider, RawOAuth, RawOAuthObject};
use crate::syntax::checks::narrow_number;
use crate::syntax::document::SourceLocation;
use crate::syntax::objects::LocatedMap;
use crate::syntax::paths::{PathResolver, resolve_path};
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use mcp_workbench_settings::{
    AccountScope, ClientKey, GrantType, IdentityProvider, OAuthConfig, ResourceIndicator,
};

const GRANTS: [&str; 5] =
    ["authorization_code", "device_code", "client_credentials", "jwt_bearer", "enterprise"];
const ALGORITHMS: [&str; 2] = ["ES256", "RS256"];
const ACCOUNTS: [&str; 3] = ["auto", "shared", "agent"];
const PKCE: [&str; 2] = ["required", "lax"];
/// Authorization request parameters that the workbench sets, with the key that configures each.
const RESERVED_PARAMETERS: [(&str, &str); 8] = [
    ("response_type", ""),
    ("client_id", "clientId"),
    ("redirect_uri", "redirectUri"),
    ("state", ""),
    ("code_challenge", ""),
    ("code_challenge_method", ""),
    ("scope", "scopes"),
    ("resource", "resource"),
];
/// Header of a PKCS#8 private key in PEM.
const PEM: &str = "-----BEGIN PRIVATE KEY-----";

impl RawOAuth {
    /// Checks the settings. Errors never contain a secret.
    pub(crate) fn checked(
        self,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> OAuthConfig {
        let (object, location) = match self {
            Self::Switch(switch) => {
                return OAuthConfig { is_off: !switch.value, ..OAuthConfig::default() };
            }
            Self::Object(object, location) => (*object, location),
        };
        let grant = object.grant.as_ref();
        let grant = grant.and_then(|grant| word(grant, &GRANTS, reader)).unwrap_or(GRANTS[0]);
        object.check_key_combinations(grant, reader);
        let account = object.account.as_ref().and_then(|account| word(account, &ACCOUNTS, reader));
        let pkce = object.pkce.as_ref().and_then(|pkce| word(pkce, &PKCE, reader));
        let resource = object.resource.as_ref().map(|it| resource(it, reader)).unwrap_or_default();
        let client = (object.client_id.is_some(), object.client_secret.is_some());
        let grant = object.grant(grant, client, (&location, paths), reader);
        let RawOAuthObject {
            client_id,
            client_secret,
            client_metadata_url,
            scopes,
            callback_port,
            redirect_uri,
            auth_server_metadata_url,
            allowed_origins,
            max_discovery_requests,
            max_scopes,
            authorization_parameters,
            ..
        } = object;
        let parameters = authorization_parameters.map(|all| parameters(all, reader));
        let document = client_metadata_url.and_then(|it| {
            let url = address(&it, reader)?;
            if url.scheme() == "https" && url.path() != "/" {
                return Some(url);
            }
            let message = "expected a URL with a path that starts with `https://`";
            reader.report_error(&it.location, message, None);
            None
        });
        let origins = allowed_origins.into_iter().flatten();
        let origins = origins.filter_map(|written| origin(&written, reader)).collect();
        let port = callback_port.and_then(|port| u16::try_from(port.value).ok());
        OAuthConfig {
            is_off: false,
            client_id: client_id.map(|id| id.value),
            client_secret: client_secret.map(|secret| secret.value),
            client_metadata_url: document,
            scopes: scopes.map(|all| all.into_iter().map(|scope| scope.value).collect()),
            callback_port: port,
            redirect_uri: redirect_uri.and_then(|it| address(&it, reader)),
            metadata_url: auth_server_metadata_url.and_then(|it| address(&it, reader)),
            allowed_origins: origins,
            max_discovery_requests: narrow_number(max_discovery_requests),
            max_scopes: narrow_number(max_scopes),
            resource,
            grant,
            account: match account {
                Some("shared") => AccountScope::Shared,
                Some("agent") => AccountScope::Agent,
                _ => AccountScope::Auto,
            },
            authorization_parameters: parameters.unwrap_or_default(),
            allows_no_pkce: pkce == Some("lax"),
        }
    }
}

impl RawOAuthObject {
    /// Reports keys that don't apply to `grant`, and keys that exclude each other.
    fn check_key_combinations(&self, grant: &str, reader: &mut ConfigReader<'_>) {
        let browser = &GRANTS[..1];
        let client = &GRANTS[2..3];
        let provider = self.identity_provider.as_ref().and_then(|it| it.token_url.as_ref());
        let belongings: [(&str, Option<&SourceLocation>, &[&str]); 8] = [
            ("callbackPort", self.callback_port.as_ref().map(|it| &it.location), browser),
            ("redirectUri", self.redirect_uri.as_ref().map(|it| &it.location), browser),
            ("privateKey", self.private_key.as_ref().map(|it| &it.location), client),
            ("algorithm", self.algorithm.as_ref().map(|it| &it.location), client),
            ("keyId", self.key_id.as_ref().map(|it| &it.location), client),
            ("tokenFile", self.token_file.as_ref().map(|it| &it.location), &GRANTS[3..4]),
            ("identityProvider", provider.map(|it| &it.location), &GRANTS[4..]),
            (
                "clientMetadataUrl",
                self.client_metadata_url.as_ref().map(|it| &it.location),
                &GRANTS[..2],
            ),
        ];
        for (key, location, grants) in belongings {
            if let Some(location) = location.filter(|_| !grants.contains(&grant)) {
                let message = format!("`{key}` does not apply if `grant` is `{grant}`");
                let hint = format!("remove it, or set `grant` to {}", quoted_list(grants, "or"));
                reader.report_error(location, message, Some(hint));
            }
        }
        let pairs = [
            ("clientId", "clientMetadataUrl", &self.client_id, &self.client_metadata_url),
            ("clientSecret", "privateKey", &self.client_secret, &self.private_key),
        ];
        for (one, other, first, second) in pairs {
            if let (Some(_), Some(second)) = (first, second) {
                let message = format!("expected `{one}` or `{other}`, found both");
                reader.report_error(
                    &second.location,
                    message,
                    Some("remove one of them".to_owned()),
                );
            }
        }
        if let (Some(_), Some(uri)) = (&self.callback_port, &self.redirect_uri) {
            let message = "expected `callbackPort` or `redirectUri`, found both";
            reader.report_error(&uri.location, message, Some("remove one of them".to_owned()));
        }
        if let (Some(secret), None) = (&self.client_secret, &self.client_id) {
            reader.report_error(
                &secret.location,
                "expected a `clientId` with the `clientSecret`",
                None,
            );
        }
    }

    fn grant(
        &self,
        grant: &str,
        (has_id, has_secret): (bool, bool),
        (location, paths): (&SourceLocation, &PathResolver<'_>),
        reader: &mut ConfigReader<'_>,
    ) -> GrantType {
        let lacking = |key: &str| format!("expected a `{key}`, because `grant` is `{grant}`");
        if matches!(grant, "client_credentials" | "enterprise") && !has_id {
            reader.report_error(location, lacking("clientId"), None);
        }
        match grant {
            "device_code" => GrantType::DeviceCode,
            "client_credentials" => {
                let Some(key) = &self.private_key else {
                    if !has_secret && !reader.has_error_under(location, "clientSecret") {
                        reader.report_error(
                            location,
                            lacking("clientSecret` or a `privateKey"),
                            None,
                        );
                    }
                    return GrantType::ClientCredentials;
                };
                let (algorithm, key_id) = (self.algorithm.as_ref(), self.key_id.as_ref());
                let key = client_key(key, algorithm, key_id, reader);
                GrantType::PrivateKeyJwt {
                    key: key.pem,
                    algorithm: key.algorithm,
                    key_id: key.key_id,
                }
            }
            "jwt_bearer" => {
                let Some(file) = &self.token_file else {
                    reader.report_error(location, lacking("tokenFile"), None);
                    return GrantType::AuthorizationCode;
                };
                GrantType::WorkloadJwt { token_file: resolve_path(&file.value, paths) }
            }
            "enterprise" => {
                let provider = self.identity_provider.as_ref();
                let provider = provider.and_then(|provider| provider.checked(reader));
                let Some(provider) = provider else {
                    if !reader.has_error_under(location, "identityProvider") {
                        let message = "expected an `identityProvider` with `tokenUrl`, `clientId` and \
                                       `idToken`, because `grant` is `enterprise`";
                        reader.report_error(location, message, None);
                    }
                    return GrantType::AuthorizationCode;
                };
                GrantType::IdentityAssertion(Box::new(provider))
            }
            _ => GrantType::AuthorizationCode,
        }
    }
}

impl RawIdentityProvider {
    /// Returns `None` if a setting is missing or invalid, even if no error was reported for it.
    fn checked(&self, reader: &mut ConfigReader<'_>) -> Option<IdentityProvider> {
        Some(IdentityProvider {
            token_endpoint: address(self.token_url.as_ref()?, reader)?,
            client_id: self.client_id.as_ref()?.value.clone(),
            client_secret: self.client_secret.as_ref().map(|secret| secret.value.clone()),
            id_token: self.id_token.as_ref()?.value.clone(),
        })
    }
}

/// Checks the private key of a client, and its algorithm.
pub(crate) fn client_key(
    key: &Located<String>,
    algorithm: Option<&Located<String>>,
    key_id: Option<&Located<String>>,
    reader: &mut ConfigReader<'_>,
) -> ClientKey {
    if !reader.is_unresolved(&key.location) && !key.value.contains(PEM) {
        let message = "expected a private key in PEM (PKCS#8)";
        let hint = format!("a PKCS#8 key starts with `{PEM}`: use `openssl pkcs8 -topk8 -nocrypt`");
        reader.report_error(&key.location, message, Some(hint));
    }
    let algorithm = algorithm.and_then(|it| word(it, &ALGORITHMS, reader));
    ClientKey {
        pem: key.value.clone(),
        algorithm: algorithm.unwrap_or(ALGORITHMS[0]).to_owned(),
        key_id: key_id.map(|id| id.value.clone()),
    }
}

pub(crate) fn word(
    written: &Located<String>,
    known: &'static [&'static str],
    reader: &mut ConfigReader<'_>,
) -> Option<&'static str> {
    let found = known.iter().find(|word| **word == written.value).copied();
    if found.is_none() {
        let message = format!("expected {}, found `{}`", quoted_list(known, "or"), written.value);
        reader.report_error(&written.location, message, did_you_mean(&written.value, known));
    }
    found
}

/// Returns the additional parameters, and reports those that the workbench sets itself.
fn parameters(
    written: LocatedMap<Located<String>>,
    reader: &mut ConfigReader<'_>,
) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    for (name, value) in written.0 {
        if let Some((_, instead)) = RESERVED_PARAMETERS.iter().find(|(ours, _)| *ours == name.value)
        {
            let hint = (!instead.is_empty()).then(|| format!("set `{instead}`"));
            reader.report_error(&name.location, "the workbench sets this parameter itself", hint);
            continue;
        }
        parameters.push((name.value, value.value));
    }
    parameters
}

/// Parses an HTTP URL. Errors don't repeat it, as it may contain a secret.
pub(crate) fn address(written: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<Url> {
    let url = Url::parse(written.value.trim()).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if url.is_none() {
        let message = "expected a URL that starts with `https://` or `http://`";
        reader.report_error(&written.location, message, None);
    }
    url
}

/// Parses an origin, in its normal form.
pub(crate) fn origin(written: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<String> {
    let url = address(written, reader)?;
    if url.path() == "/" && url.query().is_none() && url.fragment().is_none() {
        return Some(url.origin().ascii_serialization());
    }
    let message = "expected an origin without a path, such as `https://login.example.com`";
    reader.report_error(&written.location, message, None);
    None
}

pub(crate) fn resource(
    written: &Located<String>,
    reader: &mut ConfigReader<'_>,
) -> ResourceIndicator {
    match written.value.as_str() {
        "auto" => ResourceIndicator::Auto,
        "off" => ResourceIndicator::Off,
        other => {
            // Kept unparsed: the authorization server must receive the identifier exactly as
            // written.
            if Url::parse(other).is_ok_and(|url| url.fragment().is_none()) {
                return ResourceIndicator::Named(other.to_owned());
            }
            let message = "expected `auto`, `off`, or a URL without a fragment";
            reader.report_error(&written.location, message, did_you_mean(other, &["auto", "off"]));
            ResourceIndicator::Auto
        }
    }
}
