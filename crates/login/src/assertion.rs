//! Signed client assertions (RFC 7523 §2.2).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

use crate::record::unix_now;

/// In seconds.
const LIFETIME: u64 = 120;

/// The variable claims of an assertion.
pub(crate) struct Assertion<'a> {
    /// The `iss` and `sub` claims.
    pub(crate) client: &'a str,
    pub(crate) audience: &'a str,
    pub(crate) id: &'a str,
}

/// Signs an assertion with a private key as PEM (PKCS#8), using `ES256` or `RS256`. Error messages
/// don't reveal the key.
pub(crate) fn sign(
    assertion: &Assertion<'_>,
    key: &str,
    algorithm: &str,
    key_id: Option<&str>,
) -> Result<String, String> {
    let mut header = json!({ "alg": algorithm, "typ": "JWT" });
    if let Some(key_id) = key_id {
        header["kid"] = key_id.into();
    }
    let Assertion { client, audience, id } = assertion;
    let issued = unix_now();
    let claims = json!({
        "iss": client, "sub": client, "aud": audience, "jti": id, "iat": issued, "exp": issued + LIFETIME,
    });
    let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&header), encode(&claims));
    let signature = signature(text.as_bytes(), &der(key)?, algorithm)?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn signature(text: &[u8], key: &[u8], algorithm: &str) -> Result<Vec<u8>, String> {
    let random = SystemRandom::new();
    let unsigned = |_| "failed to sign the assertion".to_owned();
    let unfit = |error| format!("`oauth.privateKey` is not a key for {algorithm}: {error}");
    match algorithm {
        "ES256" => {
            let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let pair = EcdsaKeyPair::from_pkcs8(kind, key, &random).map_err(unfit)?;
            Ok(pair.sign(&random, text).map_err(unsigned)?.as_ref().to_vec())
        }
        "RS256" => {
            let pair = RsaKeyPair::from_pkcs8(key).map_err(unfit)?;
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(unsigned)?;
            Ok(signature)
        }
        other => Err(format!("`oauth.algorithm`: expected `ES256` or `RS256`, found `{other}`")),
    }
}

pub(crate) fn der(pem: &str) -> Result<Vec<u8>, String> {
    let wrong = || {
        "`oauth.privateKey` is not a private key in PEM (PKCS#8: `BEGIN PRIVATE KEY`)".to_owned()
    };
    let (_, rest) = pem.split_once("-----BEGIN PRIVATE KEY-----").ok_or_else(wrong)?;
    let (body, _) = rest.split_once("-----END PRIVATE KEY-----").ok_or_else(wrong)?;
    // Environment variables often contain line breaks as a literal `\n`.
    let body: String = body.replace("\\n", "").split_whitespace().collect();
    STANDARD.decode(body).map_err(|_| wrong())
}
