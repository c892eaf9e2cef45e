//! The keys of `auth`, and how they are read.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::keys::auth::{MAKE, names_of_all};
use crate::config::keys::limits;
use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::entries::{Entries, named_texts, object};
use crate::config::syntax::reader::{Fields, Located, Reader};

/// Who may ask over HTTP.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
pub(crate) struct RawAuth {
    /// The tokens that were given to agents; `mcp-workbench token <agent>` makes one.
    pub(crate) tokens: Option<Vec<RawToken>>,

    /// The authorization server (OAuth 2.1) whose signed tokens are taken.
    pub(crate) jwt: Option<RawJwt>,

    /// Whether those are served that have no token: `true` as agents without a name, a name as that
    /// agent.
    #[schemars(with = "Option<AnonymousShape>")]
    #[schemars(extend("default" = false))]
    pub(crate) anonymous: Option<RawAnonymous>,
}

/// A token of an agent, which itself does not stand in the file.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Token")]
pub(crate) struct RawToken {
    /// The agent that it is given to, as policy calls it.
    #[schemars(required, length(min = 1))]
    pub(crate) agent: Option<Located<String>>,

    /// The SHA-256 of the token, as 64 hexadecimal digits.
    pub(crate) sha256: Option<Located<String>>,

    /// The environment variable that holds the token.
    #[schemars(extend("examples" = ["CLAUDE_TOKEN"]))]
    pub(crate) env: Option<Located<String>>,

    /// Whether the token itself stands there, which has been refused already.
    #[schemars(skip)]
    pub(crate) is_plain: bool,

    /// Where the object stands.
    #[schemars(skip)]
    pub(crate) spot: Spot,
}

/// The authorization server whose signed tokens are taken, and what they have to say.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, rename = "Jwt")]
pub(crate) struct RawJwt {
    /// Who makes the tokens: the address of the authorization server, spelled as in their `iss`.
    #[schemars(required)]
    #[schemars(extend("examples" = ["https://auth.example.com"]))]
    pub(crate) issuer: Option<Located<String>>,

    /// What the tokens have to be for, by their `aud`; one of several in a list. `resource` by
    /// default.
    #[schemars(with = "Option<AudienceShape>")]
    #[schemars(extend("examples" = ["https://workbench.example.com/mcp"]))]
    pub(crate) audience: Option<Vec<Located<String>>>,

    /// The address of `/mcp` as clients know it. Where it is not said, the first `audience` that
    /// is an address, else what a client called us.
    #[schemars(extend("examples" = ["https://workbench.example.com/mcp"]))]
    pub(crate) resource: Option<Located<String>>,

    /// Where the issuer's keys are. Found out from its metadata where it is not said.
    #[schemars(extend("examples" = ["https://auth.example.com/jwks.json"]))]
    pub(crate) jwks_url: Option<Located<String>>,

    /// The claim that says who the agent is.
    #[schemars(extend("default" = limits::DEFAULT_AGENT_CLAIM))]
    pub(crate) agent_claim: Option<Located<String>>,

    /// Which agent is meant by what that claim says; others are refused. Without it the claim is
    /// the agent's name.
    pub(crate) agents: Option<Entries<Located<String>>>,

    /// What every token has to be allowed, by its `scope` or `scp`.
    #[schemars(extend("examples" = [["mcp:tools"]]))]
    pub(crate) required_scopes: Option<Vec<Located<String>>>,

    /// How tokens may be signed. All that are safe, by default.
    #[schemars(with = "Option<Vec<AlgorithmShape>>")]
    #[schemars(extend("examples" = [["ES256"]]))]
    pub(crate) algorithms: Option<Vec<Located<String>>>,

    /// How far our clock and that of the issuer may differ, in seconds.
    #[schemars(range(min = 0, max = limits::MAX_LEEWAY_SECONDS))]
    #[schemars(extend("default" = limits::DEFAULT_LEEWAY_SECONDS))]
    pub(crate) leeway_seconds: Option<Located<u64>>,

    /// Where the object stands.
    #[schemars(skip)]
    pub(crate) spot: Spot,
}

/// What the file says of those that have no token.
pub(crate) enum RawAnonymous {
    Are(bool),
    Called(Located<String>),
}

/// How `anonymous` may be written, for the schema.
struct AnonymousShape;

/// How `audience` may be written, for the schema.
struct AudienceShape;

/// Which `algorithms` there are, for the schema.
struct AlgorithmShape;

impl RawAuth {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
        Self {
            tokens: fields.take("tokens").map(|node| objects(&node, reader, RawToken::read)),
            jwt: fields.take("jwt").and_then(|node| object(&node, reader, RawJwt::read)),
            anonymous: fields.take("anonymous").and_then(|node| RawAnonymous::read(&node, reader)),
        }
    }
}

impl RawToken {
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
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
    pub(crate) fn read(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Self {
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
