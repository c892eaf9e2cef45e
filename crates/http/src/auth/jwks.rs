//! Parses the key set of an issuer (JWKS, RFC 7517) and keeps the keys that can verify signatures.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

const MAX_KEYS: usize = 100;
/// In bytes: 2,048 bits.
const MIN_MODULUS: usize = 256;
/// In bytes: 4,096 bits. Bounds the cost of a verification.
const MAX_MODULUS: usize = 512;
/// In bytes.
const MAX_EXPONENT: usize = 4;

const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<VerificationKey>);

#[derive(Debug)]
struct VerificationKey {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    public: DecodingKey,
}

impl KeySet {
    /// Parses a key set. Unknown and weak keys are skipped; an error means that none is left.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }

        let set: Set = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let keys: Vec<VerificationKey> =
            set.keys.into_iter().filter_map(key).take(MAX_KEYS).collect();
        if keys.is_empty() {
            return Err("no usable key".to_owned());
        }
        Ok(Self(keys))
    }

    /// Returns the keys for `algorithm`. With an `id`, only those with that `kid`.
    pub(crate) fn find<'a>(
        &'a self,
        id: Option<&'a str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'a DecodingKey> {
        let is_it = move |key: &&VerificationKey| {
            key.algorithms.contains(&algorithm) && id.is_none_or(|id| key.id.as_deref() == Some(id))
        };
        self.0.iter().filter(is_it).map(|key| &key.public)
    }
}

fn key(value: Value) -> Option<VerificationKey> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let Jwk { common, algorithm } = &jwk;
    let is_for_signing = common
        .public_key_use
        .as_ref()
        .is_none_or(|u| *u == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
    if !is_for_signing {
        return None;
    }
    let mut algorithms: Vec<Algorithm> = match algorithm {
        AlgorithmParameters::RSA(rsa) => {
            let (modulus, exponent) = (number(&rsa.n)?, number(&rsa.e)?);
            let is_safe = (MIN_MODULUS..=MAX_MODULUS).contains(&modulus.len())
                && exponent.len() <= MAX_EXPONENT;
            if is_safe { RSA.to_vec() } else { Vec::new() }
        }
        AlgorithmParameters::EllipticCurve(point) => {
            let lengths = (bytes(&point.x)?.len(), bytes(&point.y)?.len());
            match (&point.curve, lengths) {
                (EllipticCurve::P256, (32, 32)) => vec![Algorithm::ES256],
                (EllipticCurve::P384, (48, 48)) => vec![Algorithm::ES384],
                _ => Vec::new(),
            }
        }
        AlgorithmParameters::OctetKeyPair(point) => {
            let is_whole = bytes(&point.x)?.len() == 32;
            let is_known = point.curve == EllipticCurve::Ed25519 && is_whole;
            if is_known { vec![Algorithm::EdDSA] } else { Vec::new() }
        }
        // Symmetric keys and unknown key types.
        _ => Vec::new(),
    };
    if let Some(only) = common.key_algorithm {
        algorithms.retain(|algorithm| KeyAlgorithm::from(*algorithm) == only);
    }
    if algorithms.is_empty() {
        return None;
    }
    let public = DecodingKey::from_jwk(&jwk).ok()?;
    Some(VerificationKey { id: jwk.common.key_id, algorithms, public })
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = bytes(text)?;
    Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

#[cfg(test)]
mod tests;
