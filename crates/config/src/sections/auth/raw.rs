//! The raw shape of the `auth` section.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::sections::auth::{MAKE_TOKEN_HINT, algorithm_names};
use crate::sections::ranges;
use crate::sections::secret_ref::{RawSecretRef, SecretRefOnly};
use crate::syntax::document::Node;
use crate::syntax::objects::{LocatedMap, read_closed_object};
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{
    ConfigSection, FromNode, OneOrMany, SectionSpec, keys, read_one_or_many, section,
};
use mcp_workbench_settings::defaults;

section! {
    /// Authentication over HTTP.
    #[schemars(inline)]
    pub(crate) struct RawAuth in "`auth`" {
        /// Tokens of agents. `mcp-workbench token <agent>` creates one.
        "tokens" as pub(crate) tokens: Vec<Located<RawToken>>,

        /// Tokens of operators, who may act on the dashboard. `mcp-workbench token --operator
        /// <name>` creates one.
        "operators" as pub(crate) operators: Vec<Located<RawToken>>,

        /// OAuth 2.1 authorization server whose JWTs are accepted.
        "jwt" as pub(crate) jwt: Located<RawJwt>,

        /// Accepts clients without a token: `true` as agents without a name, a name as that agent.
        #[schemars(with = "Option<AnonymousShape>")]
        #[schemars(extend("default" = false))]
        "anonymous" as pub(crate) anonymous: RawAnonymousPolicy,
    }
}

keys! {
    /// Token of an agent or an operator. The token itself must not be in the file.
    #[schemars(rename = "Token", deny_unknown_fields)]
    pub(crate) struct RawToken {
        /// Agent that the token identifies; in `operators`, the name of the operator.
        #[schemars(required, length(min = 1))]
        "agent" as pub(crate) agent: Located<String>,

        /// SHA-256 of the token, as 64 hexadecimal digits.
        "sha256" as pub(crate) sha256: Located<String>,

        /// Environment variable that holds the token.
        #[schemars(extend("examples" = ["CLAUDE_TOKEN"]))]
        "env" as pub(crate) env: Located<String>,

        /// Reference to the token: a file, a command or a keyring entry.
        #[schemars(with = "Option<RawSecretRef>")]
        "token" as pub(crate) token: SecretRefOnly,
    }
    beside {
        /// True if the token itself stands there, which has been refused already.
        has_plaintext: bool,
    }
}

section! {
    /// Authorization server whose JWTs are accepted, and the required claims.
    #[schemars(rename = "Jwt")]
    pub(crate) struct RawJwt in "`jwt` in `auth`" {
        /// URL of the authorization server, exactly as in the `iss` claim of its tokens.
        #[schemars(required)]
        #[schemars(extend("examples" = ["https://auth.example.com"]))]
        "issuer" as pub(crate) issuer: Located<String>,

        /// Accepted values of the `aud` claim: a string, or a list of which one must match.
        /// Default: `resource`.
        #[schemars(with = "Option<OneOrMany>")]
        #[schemars(extend("examples" = ["https://workbench.example.com/mcp"]))]
        "audience" as pub(crate) audience: Vec<Located<String>> => read_one_or_many,

        /// URL of `/mcp` as clients know it. Default: the first `audience` that is a URL, otherwise
        /// the URL that the client used.
        #[schemars(extend("examples" = ["https://workbench.example.com/mcp"]))]
        "resource" as pub(crate) resource: Located<String>,

        /// URL of the issuer's signing keys (JWKS). Default: from the issuer's metadata.
        #[schemars(extend("examples" = ["https://auth.example.com/jwks.json"]))]
        "jwksUrl" as pub(crate) jwks_url: Located<String>,

        /// Claim that identifies the agent.
        #[schemars(extend("default" = defaults::AGENT_CLAIM))]
        "agentClaim" as pub(crate) agent_claim: Located<String>,

        /// Agent names by the value of `agentClaim`; other values are rejected. Without it, the
        /// claim is the agent's name.
        "agents" as pub(crate) agents: LocatedMap<Located<String>>,

        /// Scopes that every token must have, in its `scope` or `scp` claim.
        #[schemars(extend("examples" = [["mcp:tools"]]))]
        "requiredScopes" as pub(crate) required_scopes: Vec<Located<String>>,

        /// Accepted signature algorithms. All of them by default.
        #[schemars(with = "Option<Vec<AlgorithmShape>>")]
        #[schemars(extend("examples" = [["ES256"]]))]
        "algorithms" as pub(crate) algorithms: Vec<Located<String>>,

        /// Allowed clock difference from the issuer, in milliseconds. Rounded down to whole
        /// seconds.
        #[schemars(extend("default" = defaults::LEEWAY_MS))]
        "leewayMs" as pub(crate) leeway_ms: Located<u64> [(0, ranges::MAX_LEEWAY_MS)],
    }
}

/// The value of `anonymous`: a boolean, or the agent that anonymous callers act as.
pub(crate) enum RawAnonymousPolicy {
    Allowed(bool),
    NamedAgent(Located<String>),
}

struct AnonymousShape;

struct AlgorithmShape;

impl FromNode for RawAnonymousPolicy {
    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        match node.value {
            Value::BooleanLit(literal) => Some(Self::Allowed(literal.value)),
            Value::StringLit(_) => reader.read_string(node).map(Self::NamedAgent),
            _ => {
                reader.report_type_mismatch(node, "`true`, `false` or an agent's name", None);
                None
            }
        }
    }
}

impl FromNode for RawToken {
    const SECTION: Option<&'static SectionSpec> = Some(Self::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        read_closed_object(node, reader, |fields, reader| {
            let is_plain = |key: &str, node: &Node<'_>| match key {
                "token" => node.value.as_object().is_none() && !node.is_null(),
                "value" | "secret" | "bearer" | "plain" => true,
                _ => false,
            };
            let plain = fields.take_entries_if(is_plain);
            for entry in &plain {
                reader.report_error(
                    &entry.key.location,
                    "the file must not contain the token itself: use its `sha256`, an `env`, or a \
                     reference such as `\"token\": {\"file\": \"…\"}`",
                    Some(MAKE_TOKEN_HINT.to_owned()),
                );
            }
            Self { has_plaintext: !plain.is_empty(), ..Self::read_keys(fields, reader) }
        })
    }
}

impl FromNode for Vec<Located<RawToken>> {
    const SECTION: Option<&'static SectionSpec> = <RawToken as FromNode>::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        if node.value.as_array().is_none() {
            reader.report_type_mismatch(node, "an array of objects", None);
            return Some(Self::new());
        }
        let tokens = node.elements();
        Some(tokens.iter().filter_map(|node| FromNode::from_node(node, reader)).collect())
    }
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
shape!(AlgorithmShape, json_schema!({ "type": "string", "enum": algorithm_names() }));
