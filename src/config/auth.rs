//! Who may ask over HTTP (`auth`): the tokens of agents, an issuer of signed ones, and whether
//! those are served that have none.
//!
//! A token itself is never kept: what is checked is its SHA-256.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonwebtoken::{Algorithm, AlgorithmFamily};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sha2::{Digest, Sha256};
use url::{Host, Url};

use crate::config::check::bounded;
use crate::config::document::{Node, Spot};
use crate::config::env::EnvSource;
use crate::config::limits;
use crate::config::raw::{Entries, named_texts, object};
use crate::config::reader::{Fields, Located, Reader, listed};
use crate::name::AgentName;

/// Who may ask over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// The tokens that were given to agents.
    pub tokens: Vec<TokenConfig>,
    /// Whose signed tokens are taken besides.
    pub jwt: Option<JwtConfig>,
    /// What becomes of those that have no token.
    pub anonymous: Anonymous,
}

/// A token, as far as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenConfig {
    /// Whose it is.
    pub agent: AgentName,
    /// Its SHA-256.
    pub digest: [u8; 32],
    /// The environment variable that holds it, which is no business of servers.
    pub variable: Option<String>,
}

/// What becomes of those that have no token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// They are refused.
    #[default]
    Refused,
    /// They are served as agents without a name.
    Nameless,
    /// They are all served as this agent.
    Named(AgentName),
}

/// Whose signed tokens (JWT) are taken, and what they have to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// Who makes them, spelled as in the tokens.
    pub issuer: String,
    /// Whom they are for: one of these is us.
    pub audience: Vec<String>,
    /// The address of `/mcp` as clients know it; where it is not known, they are told what they
    /// called us.
    pub resource: Option<Url>,
    /// Where the issuer's keys are; found out from its metadata where it is not said.
    pub jwks_url: Option<Url>,
    /// The claim that says who the agent is.
    pub agent_claim: String,
    /// Which agent is meant by what that claim says; the agent itself where there is no such list.
    pub agents: Option<BTreeMap<String, AgentName>>,
    /// What every token has to be allowed.
    pub required_scopes: Vec<String>,
    /// How they may be signed.
    pub algorithms: Vec<Algorithm>,
    /// How far clocks may differ.
    pub leeway: Duration,
}

/// What may sign a token: whoever can check such a signature cannot make one.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// The fewest characters of a token that is taken from the environment: fewer can be guessed.
const FEWEST: usize = 16;

/// What to do about a token in the file.
const MAKE: &str = "`mcp-workbench token <agent>` makes a token and its entry, and with \
                    `--from-stdin` the entry of a token that you have";

/// What is kept of a token.
pub fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Whether a text can be a token: what can stand after `Bearer` (RFC 6750), and cannot be guessed.
pub fn is_token(text: &str) -> bool {
    text.len() >= FEWEST && is_bearer(text)
}

/// Whether a text can stand after `Bearer`.
pub fn is_bearer(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~+/=".contains(c))
}

/// Who may ask over HTTP.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub(super) struct RawAuth {
    /// The tokens that were given to agents; `mcp-workbench token <agent>` makes one.
    pub(super) tokens: Option<Vec<RawToken>>,

    /// The authorization server (OAuth 2.1) whose signed tokens are taken.
    pub(super) jwt: Option<RawJwt>,

    /// Whether those are served that have no token: `true` as agents without a name, a name as that
    /// agent.
    #[schemars(with = "Option<AnonymousShape>")]
    #[schemars(extend("default" = false))]
    pub(super) anonymous: Option<RawAnonymous>,
}

/// A token of an agent, which itself does not stand in the file.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Token")]
pub(super) struct RawToken {
    /// The agent that it is given to, as policy calls it.
    #[schemars(required, length(min = 1))]
    pub(super) agent: Option<Located<String>>,

    /// The SHA-256 of the token, as 64 hexadecimal digits.
    pub(super) sha256: Option<Located<String>>,

    /// The environment variable that holds the token.
    #[schemars(extend("examples" = ["CLAUDE_TOKEN"]))]
    pub(super) env: Option<Located<String>>,

    /// Whether the token itself stands there, which has been refused already.
    #[schemars(skip)]
    is_plain: bool,

    /// Where the object stands.
    #[schemars(skip)]
    spot: Spot,
}

/// The authorization server whose signed tokens are taken, and what they have to say.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Jwt")]
pub(super) struct RawJwt {
    /// Who makes the tokens: the address of the authorization server, spelled as in their `iss`.
    #[schemars(required)]
    #[schemars(extend("examples" = ["https://auth.example.com"]))]
    pub(super) issuer: Option<Located<String>>,

    /// What the tokens have to be for, by their `aud`; one of several in a list. `resource` by
    /// default.
    #[schemars(with = "Option<AudienceShape>")]
    #[schemars(extend("examples" = ["https://workbench.example.com/mcp"]))]
    pub(super) audience: Option<Vec<Located<String>>>,

    /// The address of `/mcp` as clients know it. Where it is not said, the first `audience` that
    /// is an address, else what a client called us.
    #[schemars(extend("examples" = ["https://workbench.example.com/mcp"]))]
    pub(super) resource: Option<Located<String>>,

    /// Where the issuer's keys are. Found out from its metadata where it is not said.
    #[schemars(extend("examples" = ["https://auth.example.com/jwks.json"]))]
    pub(super) jwks_url: Option<Located<String>>,

    /// The claim that says who the agent is.
    #[schemars(extend("default" = limits::DEFAULT_AGENT_CLAIM))]
    pub(super) agent_claim: Option<Located<String>>,

    /// Which agent is meant by what that claim says; others are refused. Without it the claim is
    /// the agent's name.
    pub(super) agents: Option<Entries<Located<String>>>,

    /// What every token has to be allowed, by its `scope` or `scp`.
    #[schemars(extend("examples" = [["mcp:tools"]]))]
    pub(super) required_scopes: Option<Vec<Located<String>>>,

    /// How tokens may be signed. All that are safe, by default.
    #[schemars(with = "Option<Vec<AlgorithmShape>>")]
    #[schemars(extend("examples" = [["ES256"]]))]
    pub(super) algorithms: Option<Vec<Located<String>>>,

    /// How far our clock and that of the issuer may differ, in seconds.
    #[schemars(range(min = 0, max = limits::MAX_LEEWAY_SECONDS))]
    #[schemars(extend("default" = limits::DEFAULT_LEEWAY_SECONDS))]
    pub(super) leeway_seconds: Option<Located<u64>>,

    /// Where the object stands.
    #[schemars(skip)]
    spot: Spot,
}

/// What the file says of those that have no token.
pub(super) enum RawAnonymous {
    Are(bool),
    Called(Located<String>),
}

/// How `anonymous` may be written, for the schema.
struct AnonymousShape;

/// How `audience` may be written, for the schema.
struct AudienceShape;

/// Which `algorithms` there are, for the schema.
struct AlgorithmShape;

// === reading ===

impl RawAuth {
    pub(super) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            tokens: fields.take("tokens").map(|node| objects(&node, reader, RawToken::read)),
            jwt: fields.take("jwt").and_then(|node| object(&node, reader, RawJwt::read)),
            anonymous: fields.take("anonymous").and_then(|node| RawAnonymous::read(&node, reader)),
        }
    }
}

impl RawToken {
    pub(super) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        let is_plain = |key: &str| matches!(key, "token" | "value" | "secret" | "bearer" | "plain");
        let plain = fields.take_all(is_plain);
        for entry in &plain {
            reader.error(
                &entry.key.spot,
                "a token may not stand in the file; what does is its `sha256`, or an `env`",
                Some(MAKE.to_owned()),
            );
        }
        Self {
            agent: fields.take("agent").and_then(|node| reader.string(&node)),
            sha256: fields.take("sha256").and_then(|node| reader.string(&node)),
            env: fields.take("env").and_then(|node| reader.string(&node)),
            is_plain: !plain.is_empty(),
            spot: fields.spot().clone(),
        }
    }
}

impl RawJwt {
    pub(super) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            issuer: fields.take("issuer").and_then(|node| reader.string(&node)),
            audience: fields.take("audience").and_then(|node| one_or_more(&node, reader)),
            resource: fields.take("resource").and_then(|node| reader.string(&node)),
            jwks_url: fields.take("jwksUrl").and_then(|node| reader.string(&node)),
            agent_claim: fields.take("agentClaim").and_then(|node| reader.string(&node)),
            agents: fields.take("agents").map(|node| named_texts(&node, reader)),
            required_scopes: fields.take("requiredScopes").and_then(|node| reader.strings(&node)),
            algorithms: fields.take("algorithms").and_then(|node| reader.strings(&node)),
            leeway_seconds: fields.take("leewaySeconds").and_then(|node| reader.number(&node)),
            spot: fields.spot().clone(),
        }
    }
}

impl RawAnonymous {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            Value::BooleanLit(literal) => Some(Self::Are(literal.value)),
            Value::StringLit(_) => reader.string(node).map(Self::Called),
            _ => {
                reader.mismatch(node, "`true`, `false` or the name of an agent", None);
                None
            }
        }
    }
}

fn one_or_more(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Vec<Located<String>>> {
    match node.value {
        Value::Array(_) => reader.strings(node),
        _ => reader.string(node).map(|text| vec![text]),
    }
}

/// Reads an array of objects of ours.
fn objects<T>(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Fields<'_>, &mut Reader<'_>) -> T,
) -> Vec<T> {
    let Value::Array(array) = node.value else {
        reader.mismatch(node, "an array of objects", None);
        return Vec::new();
    };
    let elements = array.elements.iter().enumerate();
    let nodes =
        elements.map(|(index, value)| Node { spot: node.spot.index(index, value.start()), value });
    nodes.filter_map(|node| object(&node, reader, &read)).collect()
}

// === checking ===

impl RawAuth {
    pub(super) fn checked(
        self,
        spot: &Spot,
        env: &dyn EnvSource,
        reader: &mut Reader<'_>,
    ) -> AuthConfig {
        let Self { tokens, jwt, anonymous } = self;
        let nobody = tokens.as_ref().is_none_or(Vec::is_empty)
            && jwt.is_none()
            && !matches!(anonymous, Some(RawAnonymous::Are(true) | RawAnonymous::Called(_)));
        let is_wrong =
            ["tokens", "jwt", "anonymous"].iter().any(|key| reader.has_error_under(spot, key));
        if nobody && !is_wrong {
            let hint = format!("{MAKE}; `\"anonymous\": true` serves whoever comes");
            reader.error(spot, "nobody could be served over HTTP", Some(hint));
        }
        let mut checked: Vec<TokenConfig> = Vec::new();
        for token in tokens.unwrap_or_default() {
            let spot = token.spot.clone();
            let Some(token) = token.checked(env, reader) else { continue };
            if let Some(twin) = checked.iter().find(|other| other.digest == token.digest) {
                let message = format!("this token is that of `{}`, further up", twin.agent);
                let hint = "give each entry a token of its own".to_owned();
                reader.error(&spot, message, Some(hint));
            }
            checked.push(token);
        }
        AuthConfig {
            tokens: checked,
            jwt: jwt.and_then(|jwt| jwt.checked(reader)),
            anonymous: anonymous.map_or(Anonymous::Refused, |raw| raw.checked(reader)),
        }
    }
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
    fn checked(self, env: &dyn EnvSource, reader: &mut Reader<'_>) -> Option<TokenConfig> {
        let Self { agent: name, sha256, env: variable, is_plain, spot } = self;
        if name.is_none() && !reader.has_error_under(&spot, "agent") {
            let hint = "write whose token it is, as in `\"agent\": \"claude\"`".to_owned();
            reader.error(&spot, "expected an `agent`", Some(hint));
        }
        let agent = name.and_then(|name| agent(&name, reader));
        let digest = match (&sha256, &variable) {
            (Some(sha256), None) => digest_of(sha256, reader),
            (None, Some(variable)) => digest_in(variable, env, reader),
            (Some(_), Some(variable)) => {
                reader.error(&variable.spot, "expected a `sha256` or an `env`, not both", None);
                None
            }
            (None, None) => {
                let is_known = is_plain
                    || ["sha256", "env"].iter().any(|key| reader.has_error_under(&spot, key));
                if !is_known {
                    let message = "expected a `sha256` or an `env`";
                    reader.error(&spot, message, Some(MAKE.to_owned()));
                }
                None
            }
        };
        let variable = variable.map(|variable| variable.value);
        Some(TokenConfig { agent: agent?, digest: digest?, variable })
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

fn agent(name: &Located<String>, reader: &mut Reader<'_>) -> Option<AgentName> {
    let trimmed = name.value.trim();
    if trimmed.is_empty() || trimmed.chars().any(char::is_control) {
        reader.error(&name.spot, "expected the name of an agent", None);
        return None;
    }
    Some(AgentName::new(trimmed))
}

impl RawJwt {
    fn checked(self, reader: &mut Reader<'_>) -> Option<JwtConfig> {
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
            spot,
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
            if is_missing && !reader.has_error_under(&spot, key) {
                reader.error(&spot, format!("expected `{key}`: {what}"), None);
            }
        }
        if let Some(issuer) = &issuer {
            address(issuer, Security::Ours, reader);
        }
        let resource = resource.or_else(|| audience.iter().find_map(|text| web_address(text)));
        let leeway = bounded(leeway_seconds, 0..=limits::MAX_LEEWAY_SECONDS, reader);
        let agents = agents.map(|agents| {
            let agents = agents.0.into_iter();
            agents.filter_map(|(claim, name)| Some((claim.value, agent(&name, reader)?))).collect()
        });
        let claim = agent_claim.and_then(|text| not_empty(text, "the name of a claim", reader));
        Some(JwtConfig {
            resource,
            jwks_url: jwks_url.and_then(|text| address(&text, Security::Ours, reader)),
            agent_claim: claim.unwrap_or_else(|| limits::DEFAULT_AGENT_CLAIM.to_owned()),
            agents,
            required_scopes: check_scopes(required_scopes.unwrap_or_default(), reader),
            algorithms: algorithms
                .map_or(ALGORITHMS.into(), |all| check_algorithms(all, &spot, reader)),
            leeway: Duration::from_secs(leeway.unwrap_or(limits::DEFAULT_LEEWAY_SECONDS)),
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

/// What an address has to be.
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

/// Whether an address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
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

fn names_of_all() -> [String; 9] {
    ALGORITHMS.map(|algorithm| format!("{algorithm:?}"))
}

// === schema ===

macro_rules! shape {
    ($shape:ident, $schema:expr) => {
        impl JsonSchema for $shape {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($shape).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

shape!(AnonymousShape, json_schema!({ "type": ["boolean", "string"] }));
shape!(AudienceShape, json_schema!({ "type": ["string", "array"], "items": { "type": "string" } }));
shape!(AlgorithmShape, json_schema!({ "type": "string", "enum": names_of_all() }));
