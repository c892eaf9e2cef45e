//! Keys, tokens and configurations for the tests of `auth`.

use std::collections::BTreeMap;
use std::path::Path;

use jsonwebtoken::Header;
use serde_json::{Value, json};

pub(crate) use crate::auth::signer::Signer;
use mcp_workbench_config::parse;
use mcp_workbench_settings::JwtConfig;

pub(crate) const ISSUER: &str = "https://auth.example.com";
pub(crate) const AUDIENCE: &str = "https://workbench.example.com/mcp";

impl Signer {
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&self.header(), claims)
    }

    pub(crate) fn token_with(&self, header: &Header, claims: &Value) -> String {
        let good = json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "claude" });
        self.sign(header, &with(good, claims))
    }
}

pub(crate) fn config(more: &Value) -> JwtConfig {
    let jwt = with(json!({ "issuer": ISSUER, "audience": AUDIENCE }), more);
    let text = json!({ "mcpServers": { "a": { "command": "a" } }, "auth": { "jwt": jwt } });
    let env = BTreeMap::new();
    let loaded = parse(&text.to_string(), Path::new("w.json"), Path::new("/"), &env);
    loaded.unwrap().config.auth.unwrap().jwt.unwrap()
}

fn with(mut object: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}
