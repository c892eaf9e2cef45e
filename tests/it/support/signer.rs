//! Signing keys and tokens for tests. Unit tests of the crates include this file, too.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::{Value, json};

/// PKCS #8 prefix of a private Ed25519 key.
const ED25519: [u8; 16] = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];
/// PKCS #8 prefix of a private P-256 key.
const P256: [u8; 35] = [
    48, 65, 2, 1, 0, 48, 19, 6, 7, 42, 134, 72, 206, 61, 2, 1, 6, 8, 42, 134, 72, 206, 61, 3, 1, 7,
    4, 39, 48, 37, 2, 1, 1, 4, 32,
];
/// Stored, because generating an RSA key is slow.
const RSA: &str = include_str!("../../keys/rsa-2048.der.base64");

pub(crate) struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    id: &'static str,
}

impl Signer {
    /// Generates a key, except for RSA.
    pub(crate) fn new(algorithm: Algorithm, id: &'static str) -> Self {
        let made = |prefix: &[u8]| {
            let mut secret = [0; 32];
            getrandom::fill(&mut secret).unwrap();
            [prefix, &secret].concat()
        };
        let key = match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_der(&made(&P256)),
            Algorithm::EdDSA => EncodingKey::from_ed_der(&made(&ED25519)),
            _ => EncodingKey::from_rsa_der(&STANDARD.decode(RSA.replace('\n', "")).unwrap()),
        };
        Self { key, algorithm, id }
    }

    pub(crate) fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.id.to_owned());
        serde_json::to_value(jwk).unwrap()
    }

    #[allow(dead_code, reason = "the integration tests sign whole tokens")]
    pub(crate) fn key(&self) -> &EncodingKey {
        &self.key
    }

    pub(crate) fn header(&self) -> Header {
        Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) }
    }

    /// Signs a token with these claims. `exp` defaults to ten minutes from now, and `null` removes
    /// a claim.
    pub(crate) fn sign(&self, header: &Header, claims: &Value) -> String {
        let mut all = json!({ "exp": get_current_timestamp() + 600 });
        for (claim, value) in claims.as_object().unwrap() {
            all[claim] = value.clone();
        }
        all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        encode(header, &all, &self.key).unwrap()
    }
}
