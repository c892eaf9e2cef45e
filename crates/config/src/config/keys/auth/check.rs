//! Checks `auth`: what is wrong in it, and the checked types made of the rest.

use std::str::FromStr;
use std::time::Duration;

use jsonwebtoken::{Algorithm, AlgorithmFamily};
use url::Url;

use crate::config::env::EnvSource;
use crate::config::keys::auth::raw::{RawAnonymous, RawAuth, RawJwt, RawToken};
use crate::config::keys::auth::{ALGORITHMS, FEWEST, MAKE, is_token, names_of_all};
use crate::config::keys::reference::Elsewhere;
use crate::config::syntax::checks::number;
use crate::config::syntax::document::Spot;
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};
use crate::config::syntax::section::Described;
use crate::name::AgentName;
use crate::settings::{
    Anonymous, AuthConfig, JwtConfig, PolicyConfig, TokenConfig, defaults, is_loopback,
    token_digest,
};

impl RawAuth {
    /// Warns of agents who have a token, or stand for those without one, and are refused because
    /// no rule knows them.
    pub(crate) fn note_strangers(&self, rules: &PolicyConfig, reader: &mut Reader<'_>) {
        let tokens = self.tokens.iter().flatten().filter_map(|token| token.value.agent.as_ref());
        let anonymous = match &self.anonymous {
            Some(RawAnonymous::Called(name)) => Some(name),
            Some(RawAnonymous::Are(_)) | None => None,
        };
        for agent in tokens.chain(anonymous) {
            let name = agent.value.trim();
            if name.is_empty() || rules.knows(&AgentName::new(name)) {
                continue;
            }
            let known: Vec<&str> = rules.agents.keys().map(AgentName::as_str).collect();
            let hint = did_you_mean(name, &known)
                .unwrap_or_else(|| "a `defaultPolicy` says what other agents may use".to_owned());
            let message = format!("refused: there is no agent `{name}` in `agentPolicies`");
            reader.warn(&agent.spot, message, Some(hint));
        }
    }

    pub(crate) fn checked(
        self,
        spot: &Spot,
        env: &dyn EnvSource,
        reader: &mut Reader<'_>,
    ) -> AuthConfig {
        let Self { tokens, operators, jwt, anonymous } = self;
        let nobody = tokens.as_ref().is_none_or(Vec::is_empty)
            && jwt.is_none()
            && !matches!(anonymous, Some(RawAnonymous::Are(true) | RawAnonymous::Called(_)));
        let is_wrong =
            Self::DESCRIPTION.keys.iter().any(|key| reader.has_error_under(spot, key.name));
        if nobody && !is_wrong {
            let hint = format!("{MAKE}; `\"anonymous\": true` serves whoever comes");
            reader.error(spot, "nobody could be served over HTTP", Some(hint));
        }
        let tokens = checked_tokens(tokens, &[], env, reader);
        let operators = checked_tokens(operators, &tokens, env, reader);
        AuthConfig {
            tokens,
            operators,
            jwt: jwt.and_then(|jwt| jwt.value.checked(&jwt.spot, reader)),
            anonymous: anonymous.map_or(Anonymous::Refused, |raw| raw.checked(reader)),
        }
    }
}

/// Checks the entries of tokens, of which each has one of its own, `others` included.
fn checked_tokens(
    tokens: Option<Vec<Located<RawToken>>>,
    others: &[TokenConfig],
    env: &dyn EnvSource,
    reader: &mut Reader<'_>,
) -> Vec<TokenConfig> {
    let mut checked: Vec<TokenConfig> = Vec::new();
    for Located { value: token, spot } in tokens.unwrap_or_default() {
        let Some(token) = token.checked(&spot, env, reader) else { continue };
        let twin = others.iter().chain(&checked).find(|other| other.digest == token.digest);
        if let Some(twin) = twin.filter(|_| token.digest != UNKNOWN) {
            let message = format!("this token is that of `{}`, further up", twin.agent);
            let hint = "give each entry a token of its own".to_owned();
            reader.error(&spot, message, Some(hint));
        }
        checked.push(token);
    }
    checked
}

impl RawAnonymous {
    fn checked(self, reader: &mut Reader<'_>) -> Anonymous {
        match self {
            Self::Are(false) => Anonymous::Refused,
            Self::Are(true) => Anonymous::Nameless,
            Self::Called(name) => agent(&name, reader).map_or(Anonymous::Refused, Anonymous::Named),
        }
    }
}

impl RawToken {
    fn checked(
        self,
        spot: &Spot,
        env: &dyn EnvSource,
        reader: &mut Reader<'_>,
    ) -> Option<TokenConfig> {
        let Self { agent: name, sha256, env: variable, token, is_plain } = self;
        if name.is_none() && !reader.has_error_under(spot, "agent") {
            let hint = "write whose token it is, as in `\"agent\": \"claude\"`".to_owned();
            reader.error(spot, "expected an `agent`", Some(hint));
        }
        let agent = name.and_then(|name| agent(&name, reader));
        let token = token.map(|Elsewhere(token)| token);
        let digest = match (&sha256, &variable, &token) {
            (Some(sha256), None, None) => digest_of(sha256, reader),
            (None, Some(variable), None) => digest_in(variable, env, reader),
            (None, None, Some(token)) => digest_at(token, reader),
            (None, None, None) => {
                let mut keys = Self::DESCRIPTION.keys.iter().filter(|key| key.name != "agent");
                let is_known = is_plain || keys.any(|key| reader.has_error_under(spot, key.name));
                if !is_known {
                    let message = "expected a `sha256`, an `env` or a `token`";
                    reader.error(spot, message, Some(MAKE.to_owned()));
                }
                None
            }
            _ => {
                let more = [&token, &variable].into_iter().flatten().next();
                let spot = more.map_or(spot, |more| &more.spot);
                reader.error(spot, "expected a `sha256`, an `env` or a `token`, not several", None);
                None
            }
        };
        let variable = variable.map(|variable| variable.value);
        let referred = token.and_then(|token| reader.reference(&token.spot).cloned());
        Some(TokenConfig { agent: agent?, digest: digest?, variable, referred })
    }
}

/// Reads the hash of a token. What stands there instead may be a token, and is not repeated.
fn digest_of(text: &Located<String>, reader: &mut Reader<'_>) -> Option<[u8; 32]> {
    let digest = from_hex(text.value.trim());
    if digest.is_none() {
        let message = "expected the SHA-256 of a token: 64 hexadecimal digits";
        reader.error(&text.spot, message, Some(MAKE.to_owned()));
    }
    digest
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let bytes: Vec<u8> = digits
        .filter(|digits| digits.len() == 64)?
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    bytes.try_into().ok()
}

/// The hash of the token that a variable holds.
fn digest_in(
    variable: &Located<String>,
    env: &dyn EnvSource,
    reader: &mut Reader<'_>,
) -> Option<[u8; 32]> {
    let Located { value: name, spot } = variable;
    let Some(token) = env.get(name) else {
        let message = format!("environment variable `{name}` is not set");
        let hint = format!("run `export {name}=token` before the start; {MAKE}");
        reader.error(spot, message, Some(hint));
        return None;
    };
    let token = token.trim();
    if !is_token(token) {
        let message = format!(
            "what `{name}` holds is no token: at least {FEWEST} letters, digits and `-._~+/=`"
        );
        reader.error(spot, message, Some(MAKE.to_owned()));
        return None;
    }
    Some(token_digest(token))
}

/// The digest in place of that of a token which was not asked for: no token has it.
const UNKNOWN: [u8; 32] = [0; 32];

/// The hash of the token that a reference leads to. No message has it.
fn digest_at(token: &Located<String>, reader: &mut Reader<'_>) -> Option<[u8; 32]> {
    if reader.is_unasked(&token.spot) {
        return Some(UNKNOWN);
    }
    let text = token.value.trim();
    if !is_token(text) {
        let message = format!(
            "what stands there is no token: at least {FEWEST} letters, digits and `-._~+/=`"
        );
        reader.error(&token.spot, message, Some(MAKE.to_owned()));
        return None;
    }
    Some(token_digest(text))
}

fn agent(name: &Located<String>, reader: &mut Reader<'_>) -> Option<AgentName> {
    let trimmed = name.value.trim();
    if trimmed.is_empty() || trimmed.chars().any(char::is_control) {
        reader.error(&name.spot, "expected the name of an agent", None);
        return None;
    }
    Some(AgentName::new(trimmed))
}

impl RawJwt {
    fn checked(self, spot: &Spot, reader: &mut Reader<'_>) -> Option<JwtConfig> {
        let Self {
            issuer,
            audience,
            resource,
            jwks_url,
            agent_claim,
            agents,
            required_scopes,
            algorithms,
            leeway_seconds,
        } = self;
        let resource = resource.and_then(|text| address(&text, Security::OfOthers, reader));
        let mut audience: Vec<String> = audience
            .unwrap_or_default()
            .into_iter()
            .filter_map(|text| not_empty(text, "whom tokens are for", reader))
            .collect();
        if audience.is_empty() {
            audience.extend(resource.as_ref().map(|url| url.as_str().to_owned()));
        }
        let expected = [
            ("issuer", issuer.is_none(), "the address of the authorization server"),
            ("audience", audience.is_empty(), "the address of this server, as tokens name it"),
        ];
        for (key, is_missing, what) in expected {
            if is_missing && !reader.has_error_under(spot, key) {
                reader.error(spot, format!("expected `{key}`: {what}"), None);
            }
        }
        if let Some(issuer) = &issuer {
            address(issuer, Security::Ours, reader);
        }
        let resource = resource.or_else(|| audience.iter().find_map(|text| web_address(text)));
        let agents = agents.map(|agents| {
            let agents = agents.0.into_iter();
            agents.filter_map(|(claim, name)| Some((claim.value, agent(&name, reader)?))).collect()
        });
        let claim = agent_claim.and_then(|text| not_empty(text, "the name of a claim", reader));
        Some(JwtConfig {
            resource,
            jwks_url: jwks_url.and_then(|text| address(&text, Security::Ours, reader)),
            agent_claim: claim.unwrap_or_else(|| defaults::AGENT_CLAIM.to_owned()),
            agents,
            required_scopes: check_scopes(required_scopes.unwrap_or_default(), reader),
            algorithms: algorithms
                .map_or(ALGORITHMS.into(), |all| check_algorithms(all, spot, reader)),
            leeway: Duration::from_secs(number(leeway_seconds).unwrap_or(defaults::LEEWAY_SECONDS)),
            issuer: issuer?.value,
            audience,
        })
    }
}

fn not_empty(text: Located<String>, what: &str, reader: &mut Reader<'_>) -> Option<String> {
    if text.value.trim().is_empty() {
        reader.error(&text.spot, format!("expected {what}"), None);
        return None;
    }
    Some(text.value)
}

/// The security that an address needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Security {
    /// We ask there for keys, so nobody may come between.
    Ours,
    /// It is how others call us.
    OfOthers,
}

fn address(text: &Located<String>, security: Security, reader: &mut Reader<'_>) -> Option<Url> {
    let Some(url) = web_address(&text.value) else {
        let message = "expected an address that begins with `https://`, without `?` and `#`";
        reader.error(&text.spot, message, None);
        return None;
    };
    if security == Security::Ours && url.scheme() == "http" && !is_loopback(&url) {
        let message = "over plain HTTP anybody between could sign tokens: expected `https://`";
        let hint = "`http://` is for an issuer on this machine alone (127.0.0.1, localhost)";
        reader.error(&text.spot, message, Some(hint.to_owned()));
        return None;
    }
    Some(url)
}

/// The address that a text is, if it is one that can be called.
fn web_address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_plain = url.query().is_none() && url.fragment().is_none();
    let is_nobody = url.username().is_empty() && url.password().is_none();
    (is_web && is_plain && is_nobody).then_some(url)
}

fn check_scopes(scopes: Vec<Located<String>>, reader: &mut Reader<'_>) -> Vec<String> {
    // RFC 6749: what a scope may be made of; it also stands between quotes in a header.
    let is_scope = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
    };
    let mut checked = Vec::with_capacity(scopes.len());
    for Located { value, spot } in scopes {
        if is_scope(&value) {
            checked.push(value);
        } else {
            let message = "expected a scope: one word, without quotes and backslashes";
            reader.error(&spot, message, None);
        }
    }
    checked
}

fn check_algorithms(
    names: Vec<Located<String>>,
    spot: &Spot,
    reader: &mut Reader<'_>,
) -> Vec<Algorithm> {
    let mut checked = Vec::with_capacity(names.len());
    let is_empty = names.is_empty();
    for Located { value, spot } in names {
        let algorithm = Algorithm::from_str(&value).ok();
        match algorithm {
            Some(algorithm) if ALGORITHMS.contains(&algorithm) => checked.push(algorithm),
            other => {
                let is_shared = other.is_some_and(|a| a.family() == AlgorithmFamily::Hmac);
                let message = if is_shared || value.eq_ignore_ascii_case("none") {
                    format!("`{value}` is not safe: whoever can check such a token can make one")
                } else {
                    format!("`{value}` is no algorithm that is known here")
                };
                reader.error(
                    &spot,
                    message,
                    Some(format!("expected {}", listed(&names_of_all(), "or"))),
                );
            }
        }
    }
    if is_empty {
        reader.error(&spot.key("algorithms", spot.offset), "expected at least one", None);
    }
    checked
}
