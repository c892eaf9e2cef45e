//! The raw shape of the `auth` section.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::sections::auth::{MAKE_TOKEN_HINT, algorithm_names};
use crate::config::sections::ranges;
use crate::config::sections::secret_ref::{RawSecretRef, SecretRefOnly};
use crate::config::syntax::document::Node;
use crate::config::syntax::objects::{LocatedMap, read_closed_object};
use crate::config::syntax::reader::{ConfigReader, Located};
use crate::config::syntax::section::{
    ConfigSection, FromNode, OneOrMany, SectionSpec, keys, read_one_or_many, section,
};
use crate::settings::defaults;

section! {
    /// Who may ask over HTTP.
    #[schemars(inline)]
    pub(crate) struct RawAuth in "`auth`" {
        /// The tokens that were given to agents; `mcp-workbench token <agent>` makes one.
        "tokens" as pub(crate) tokens: Vec<Located<RawToken>>,

        /// The tokens of those who run the workbench, with which its page lets them act;
        /// `mcp-workbench token --operator <name>` makes one.
        "operators" as pub(crate) operators: Vec<Located<RawToken>>,

        /// The authorization server (OAuth 2.1) whose signed tokens are taken.
        "jwt" as pub(crate) jwt: Located<RawJwt>,

        /// Serves those that have no token, too: with `true` as agents without a name, with a name as
        /// that agent.
        #[schemars(with = "Option<AnonymousShape>")]
        #[schemars(extend("default" = false))]
        "anonymous" as pub(crate) anonymous: RawAnonymousPolicy,
    }
}

keys! {
    /// A token of an agent, which itself does not stand in the file.
    #[schemars(rename = "Token", deny_unknown_fields)]
    pub(crate) struct RawToken {
        /// The agent that it is given to, as policy calls it; or who may act with it.
        #[schemars(required, length(min = 1))]
        "agent" as pub(crate) agent: Located<String>,

        /// The SHA-256 of the token, as 64 hexadecimal digits.
        "sha256" as pub(crate) sha256: Located<String>,

        /// The environment variable that holds the token.
        #[schemars(extend("examples" = ["CLAUDE_TOKEN"]))]
        "env" as pub(crate) env: Located<String>,

        /// Where the token itself stands: in a file, in what a command prints, in the keyring.
        #[schemars(with = "Option<RawSecretRef>")]
        "token" as pub(crate) token: SecretRefOnly,
    }
    beside {
        /// True if the token itself stands there, which has been refused already.
        has_plaintext: bool,
    }
}

section! {
    /// The authorization server whose signed tokens are taken, and what they have to say.
    #[schemars(rename = "Jwt")]
    pub(crate) struct RawJwt in "`jwt` in `auth`" {
        /// Who makes the tokens: the address of the authorization server, spelled as in their
        /// `iss`.
        #[schemars(required)]
        #[schemars(extend("examples" = ["https://auth.example.com"]))]
        "issuer" as pub(crate) issuer: Located<String>,

        /// The audience that tokens have to be for, by their `aud`; one of several in a list. `resource`
        /// by default.
        #[schemars(with = "Option<OneOrMany>")]
        #[schemars(extend("examples" = ["https://workbench.example.com/mcp"]))]
        "audience" as pub(crate) audience: Vec<Located<String>> => read_one_or_many,

        /// The address of `/mcp` as clients know it. Where it is not said, the first `audience`
        /// that is an address, else what a client called us.
        #[schemars(extend("examples" = ["https://workbench.example.com/mcp"]))]
        "resource" as pub(crate) resource: Located<String>,

        /// Where the issuer's keys are. Found out from its metadata where it is not said.
        #[schemars(extend("examples" = ["https://auth.example.com/jwks.json"]))]
        "jwksUrl" as pub(crate) jwks_url: Located<String>,

        /// The claim that says who the agent is.
        #[schemars(extend("default" = defaults::AGENT_CLAIM))]
        "agentClaim" as pub(crate) agent_claim: Located<String>,

        /// Which agent is meant by what that claim says; others are refused. Without it the claim
        /// is the agent's name.
        "agents" as pub(crate) agents: LocatedMap<Located<String>>,

        /// The scopes that every token has to have, by its `scope` or `scp`.
        #[schemars(extend("examples" = [["mcp:tools"]]))]
        "requiredScopes" as pub(crate) required_scopes: Vec<Located<String>>,

        /// How tokens may be signed. All that are safe, by default.
        #[schemars(with = "Option<Vec<AlgorithmShape>>")]
        #[schemars(extend("examples" = [["ES256"]]))]
        "algorithms" as pub(crate) algorithms: Vec<Located<String>>,

        /// How far our clock and that of the issuer may differ, in seconds.
        #[schemars(extend("default" = defaults::LEEWAY_SECONDS))]
        "leewaySeconds" as pub(crate) leeway_seconds: Located<u64> [(0, ranges::MAX_LEEWAY_SECONDS)],
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
                reader.report_type_mismatch(node, "`true`, `false` or the name of an agent", None);
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
                    "a token may not stand in the file; what does is its `sha256`, an `env`, or where it \
                     is, as in `\"token\": {\"file\": \"…\"}`",
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
