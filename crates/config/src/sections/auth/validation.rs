//! Validation of the `auth` section.

use std::str::FromStr;
use std::time::Duration;

use jsonwebtoken::{Algorithm, AlgorithmFamily};
use url::Url;

use crate::env::EnvSource;
use crate::sections::auth::raw::{RawAnonymousPolicy, RawAuth, RawJwt, RawToken};
use crate::sections::auth::{
    ALGORITHMS, MAKE_TOKEN_HINT, MIN_TOKEN_LENGTH, algorithm_names, is_valid_token,
};
use crate::sections::secret_ref::SecretRefOnly;
use crate::syntax::checks::duration_from_millis;
use crate::syntax::document::SourceLocation;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::syntax::section::ConfigSection;
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::{
    AnonymousPolicy, AuthConfig, JwtConfig, PolicyConfig, TokenConfig, defaults, is_loopback,
    token_digest,
};

impl RawAuth {
    /// Warns about agents in `tokens` and `anonymous` that no policy covers: their calls are
    /// refused.
    pub(crate) fn warn_unknown_agents(&self, rules: &PolicyConfig, reader: &mut ConfigReader<'_>) {
        let tokens = self.tokens.iter().flatten().filter_map(|token| token.value.agent.as_ref());
        let anonymous = match &self.anonymous {
            Some(RawAnonymousPolicy::NamedAgent(name)) => Some(name),
            Some(RawAnonymousPolicy::Allowed(_)) | None => None,
        };
        for agent in tokens.chain(anonymous) {
            let name = agent.value.trim();
            if name.is_empty() || rules.knows(&AgentName::new(name)) {
                continue;
            }
            let known: Vec<&str> = rules.agents.keys().map(AgentName::as_str).collect();
            let hint = did_you_mean(name, &known).unwrap_or_else(|| {
                "add the agent, or a `defaultPolicy` for all other agents".to_owned()
            });
            let message = format!("all calls are denied: no agent `{name}` in `agentPolicies`");
            reader.report_warning(&agent.location, message, Some(hint));
        }
    }

    pub(crate) fn checked(
        self,
        location: &SourceLocation,
        env: &dyn EnvSource,
        reader: &mut ConfigReader<'_>,
    ) -> AuthConfig {
        let Self { tokens, operators, jwt, anonymous } = self;
        let nobody = tokens.as_ref().is_none_or(Vec::is_empty)
            && jwt.is_none()
            && !matches!(
                anonymous,
                Some(RawAnonymousPolicy::Allowed(true) | RawAnonymousPolicy::NamedAgent(_))
            );
        let is_wrong = Self::SPEC.keys.iter().any(|key| reader.has_error_under(location, key.name));
        if nobody && !is_wrong {
            let hint =
                format!("{MAKE_TOKEN_HINT}; `\"anonymous\": true` accepts clients without one");
            reader.report_error(
                location,
                "no client can authenticate: there are no `tokens` and no `jwt`",
                Some(hint),
            );
        }
        let tokens = checked_tokens(tokens, &[], env, reader);
        let operators = checked_tokens(operators, &tokens, env, reader);
        AuthConfig {
            tokens,
            operators,
            jwt: jwt.and_then(|jwt| jwt.value.checked(&jwt.location, reader)),
            anonymous: anonymous.map_or(AnonymousPolicy::Refused, |raw| raw.checked(reader)),
        }
    }
}

/// Checks token entries; each token must be unique, in `others` too.
fn checked_tokens(
    tokens: Option<Vec<Located<RawToken>>>,
    others: &[TokenConfig],
    env: &dyn EnvSource,
    reader: &mut ConfigReader<'_>,
) -> Vec<TokenConfig> {
    let mut checked: Vec<TokenConfig> = Vec::new();
    for Located { value: token, location: spot } in tokens.unwrap_or_default() {
        let Some(token) = token.checked(&spot, env, reader) else { continue };
        let twin = others.iter().chain(&checked).find(|other| other.digest == token.digest);
        if let Some(twin) = twin.filter(|_| token.digest != UNRESOLVED_DIGEST) {
            let message = format!("`{}` already uses this token", twin.agent);
            let hint = "give each entry its own token".to_owned();
            reader.report_error(&spot, message, Some(hint));
        }
        checked.push(token);
    }
    checked
}

impl RawAnonymousPolicy {
    fn checked(self, reader: &mut ConfigReader<'_>) -> AnonymousPolicy {
        match self {
            Self::Allowed(false) => AnonymousPolicy::Refused,
            Self::Allowed(true) => AnonymousPolicy::Nameless,
            Self::NamedAgent(name) => {
                agent(&name, reader).map_or(AnonymousPolicy::Refused, AnonymousPolicy::Named)
            }
        }
    }
}

impl RawToken {
    fn checked(
        self,
        location: &SourceLocation,
        env: &dyn EnvSource,
        reader: &mut ConfigReader<'_>,
    ) -> Option<TokenConfig> {
        let Self { agent: name, sha256, env: variable, token, has_plaintext: is_plain } = self;
        if name.is_none() && !reader.has_error_under(location, "agent") {
            let hint =
                "write which agent the token identifies, as in `\"agent\": \"claude\"`".to_owned();
            reader.report_error(location, "expected an `agent`", Some(hint));
        }
        let agent = name.and_then(|name| agent(&name, reader));
        let token = token.map(|SecretRefOnly(token)| token);
        let digest = match (&sha256, &variable, &token) {
            (Some(sha256), None, None) => parse_digest(sha256, reader),
            (None, Some(variable), None) => digest_from_env(variable, env, reader),
            (None, None, Some(token)) => digest_from_reference(token, reader),
            (None, None, None) => {
                let mut keys = Self::SPEC.keys.iter().filter(|key| key.name != "agent");
                let is_known =
                    is_plain || keys.any(|key| reader.has_error_under(location, key.name));
                if !is_known {
                    let message = "expected one of `sha256`, `env` and `token`";
                    reader.report_error(location, message, Some(MAKE_TOKEN_HINT.to_owned()));
                }
                None
            }
            _ => {
                let more = [&token, &variable].into_iter().flatten().next();
                let location = more.map_or(location, |more| &more.location);
                reader.report_error(
                    location,
                    "expected one of `sha256`, `env` and `token`, found several",
                    None,
                );
                None
            }
        };
        let variable = variable.map(|variable| variable.value);
        let referred = token.and_then(|token| reader.reference_at(&token.location).cloned());
        Some(TokenConfig { agent: agent?, digest: digest?, variable, referred })
    }
}

/// Parses a hex digest. The text may be a token pasted by mistake, so errors don't repeat it.
fn parse_digest(text: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let parsed = hex::decode_to_slice(text.value.trim(), &mut digest);
    if parsed.is_err() {
        let message = "expected the SHA-256 of a token: 64 hexadecimal digits";
        reader.report_error(&text.location, message, Some(MAKE_TOKEN_HINT.to_owned()));
    }
    parsed.ok().map(|()| digest)
}

fn digest_from_env(
    variable: &Located<String>,
    env: &dyn EnvSource,
    reader: &mut ConfigReader<'_>,
) -> Option<[u8; 32]> {
    let Located { value: name, location: spot } = variable;
    let Some(token) = env.get(name) else {
        let message = format!("environment variable `{name}` is not set");
        let hint = format!("set it before starting the workbench; {MAKE_TOKEN_HINT}");
        reader.report_error(spot, message, Some(hint));
        return None;
    };
    let token = token.trim();
    if !is_valid_token(token) {
        let message = format!(
            "environment variable `{name}` holds no valid token: expected at least \
             {MIN_TOKEN_LENGTH} letters, digits or `-._~+/=`"
        );
        reader.report_error(spot, message, Some(MAKE_TOKEN_HINT.to_owned()));
        return None;
    }
    Some(token_digest(token))
}

/// Stands in for the digest of an unresolved token. It matches no token.
const UNRESOLVED_DIGEST: [u8; 32] = [0; 32];

/// Hashes the token behind a resolved reference. Errors don't repeat it.
fn digest_from_reference(
    token: &Located<String>,
    reader: &mut ConfigReader<'_>,
) -> Option<[u8; 32]> {
    if reader.is_unresolved(&token.location) {
        return Some(UNRESOLVED_DIGEST);
    }
    let text = token.value.trim();
    if !is_valid_token(text) {
        let message = format!(
            "invalid token: expected at least {MIN_TOKEN_LENGTH} letters, digits or `-._~+/=`"
        );
        reader.report_error(&token.location, message, Some(MAKE_TOKEN_HINT.to_owned()));
        return None;
    }
    Some(token_digest(text))
}

fn agent(name: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<AgentName> {
    let trimmed = name.value.trim();
    if trimmed.is_empty() || trimmed.chars().any(char::is_control) {
        reader.report_error(&name.location, "expected an agent's name", None);
        return None;
    }
    Some(AgentName::new(trimmed))
}

impl RawJwt {
    fn checked(
        self,
        location: &SourceLocation,
        reader: &mut ConfigReader<'_>,
    ) -> Option<JwtConfig> {
        let Self {
            issuer,
            audience,
            resource,
            jwks_url,
            agent_claim,
            agents,
            required_scopes,
            algorithms,
            leeway_ms,
        } = self;
        let resource = resource.and_then(|text| parse_url(&text, UrlUse::Advertised, reader));
        let mut audience: Vec<String> = audience
            .unwrap_or_default()
            .into_iter()
            .filter_map(|text| not_empty(text, "an audience", reader))
            .collect();
        if audience.is_empty() {
            audience.extend(resource.as_ref().map(|url| url.as_str().to_owned()));
        }
        let expected = [
            ("issuer", issuer.is_none(), "the URL of the authorization server"),
            ("audience", audience.is_empty(), "the `aud` claim of tokens for this server"),
        ];
        for (key, is_missing, what) in expected {
            if is_missing && !reader.has_error_under(location, key) {
                reader.report_error(location, format!("expected `{key}`: {what}"), None);
            }
        }
        if let Some(issuer) = &issuer {
            parse_url(issuer, UrlUse::Fetched, reader);
        }
        let resource = resource.or_else(|| audience.iter().find_map(|text| parse_http_url(text)));
        let agents = agents.map(|agents| {
            let agents = agents.0.into_iter();
            agents.filter_map(|(claim, name)| Some((claim.value, agent(&name, reader)?))).collect()
        });
        let claim = agent_claim.and_then(|text| not_empty(text, "a claim's name", reader));
        Some(JwtConfig {
            resource,
            jwks_url: jwks_url.and_then(|text| parse_url(&text, UrlUse::Fetched, reader)),
            agent_claim: claim.unwrap_or_else(|| defaults::AGENT_CLAIM.to_owned()),
            agents,
            required_scopes: check_scopes(required_scopes.unwrap_or_default(), reader),
            algorithms: algorithms
                .map_or(ALGORITHMS.into(), |all| check_algorithms(all, location, reader)),
            leeway: duration_from_millis(leeway_ms)
                .unwrap_or(Duration::from_millis(defaults::LEEWAY_MS)),
            issuer: issuer?.value,
            audience,
        })
    }
}

fn not_empty(text: Located<String>, what: &str, reader: &mut ConfigReader<'_>) -> Option<String> {
    if text.value.trim().is_empty() {
        reader.report_error(&text.location, format!("expected {what}"), None);
        return None;
    }
    Some(text.value)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlUse {
    /// The workbench fetches signing keys from this URL, so it must be HTTPS or loopback.
    Fetched,
    /// Clients reach the workbench under this URL.
    Advertised,
}

fn parse_url(
    text: &Located<String>,
    security: UrlUse,
    reader: &mut ConfigReader<'_>,
) -> Option<Url> {
    let Some(url) = parse_http_url(&text.value) else {
        let message = "expected a URL that starts with `https://`, without `?` and `#`";
        reader.report_error(&text.location, message, None);
        return None;
    };
    if security == UrlUse::Fetched && url.scheme() == "http" && !is_loopback(&url) {
        let message =
            "expected `https://`: over plain HTTP, an attacker could replace the signing keys";
        let hint = "`http://` is allowed only for an issuer on this machine (127.0.0.1, localhost)";
        reader.report_error(&text.location, message, Some(hint.to_owned()));
        return None;
    }
    Some(url)
}

fn parse_http_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_plain = url.query().is_none() && url.fragment().is_none();
    let is_nobody = url.username().is_empty() && url.password().is_none();
    (is_web && is_plain && is_nobody).then_some(url)
}

fn check_scopes(scopes: Vec<Located<String>>, reader: &mut ConfigReader<'_>) -> Vec<String> {
    // RFC 6749 §3.3. Scopes are also quoted in the `WWW-Authenticate` header.
    let is_scope = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
    };
    let mut checked = Vec::with_capacity(scopes.len());
    for Located { value, location } in scopes {
        if is_scope(&value) {
            checked.push(value);
        } else {
            let message = "expected a scope: one word, without quotes or backslashes";
            reader.report_error(&location, message, None);
        }
    }
    checked
}

fn check_algorithms(
    names: Vec<Located<String>>,
    spot: &SourceLocation,
    reader: &mut ConfigReader<'_>,
) -> Vec<Algorithm> {
    let mut checked = Vec::with_capacity(names.len());
    let is_empty = names.is_empty();
    for Located { value, location: spot } in names {
        let algorithm = Algorithm::from_str(&value).ok();
        match algorithm {
            Some(algorithm) if ALGORITHMS.contains(&algorithm) => checked.push(algorithm),
            other => {
                let is_shared = other.is_some_and(|a| a.family() == AlgorithmFamily::Hmac);
                let message = if is_shared || value.eq_ignore_ascii_case("none") {
                    format!(
                        "`{value}` is insecure: anyone who can verify such tokens can forge them"
                    )
                } else {
                    format!("unsupported algorithm `{value}`")
                };
                reader.report_error(
                    &spot,
                    message,
                    Some(format!("expected {}", quoted_list(&algorithm_names(), "or"))),
                );
            }
        }
    }
    if is_empty {
        reader.report_error(
            &spot.child_key("algorithms", spot.offset),
            "expected at least one algorithm",
            None,
        );
    }
    checked
}
