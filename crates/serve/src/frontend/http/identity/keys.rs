//! The public keys of an issuer (JWKS, RFC 7517): those that can be used, and for what.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The most keys that are kept of an issuer.
const MAX_KEYS: usize = 100;
/// The fewest bytes of an RSA modulus: 2,048 bits.
const MIN_MODULUS: usize = 256;
/// The most: checking takes longer with each.
const MAX_MODULUS: usize = 512;
/// The most bytes of an RSA exponent.
const MAX_EXPONENT: usize = 4;

const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The keys of an issuer.
#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    public: DecodingKey,
}

impl KeySet {
    /// Reads a set of keys; one that is not understood, or not safe, costs itself.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }

        let set: Set = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let keys: Vec<Key> = set.keys.into_iter().filter_map(key).take(MAX_KEYS).collect();
        if keys.is_empty() {
            return Err("there is no key that can be used".to_owned());
        }
        Ok(Self(keys))
    }

    /// The keys that may have signed a token that says this of itself.
    pub(crate) fn find<'a>(
        &'a self,
        id: Option<&'a str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'a DecodingKey> {
        let is_it = move |key: &&Key| {
            key.algorithms.contains(&algorithm) && id.is_none_or(|id| key.id.as_deref() == Some(id))
        };
        self.0.iter().filter(is_it).map(|key| &key.public)
    }
}

fn key(value: Value) -> Option<Key> {
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
        // A key that is shared, or of a kind that nobody here knows.
        _ => Vec::new(),
    };
    if let Some(only) = common.key_algorithm {
        algorithms.retain(|algorithm| KeyAlgorithm::from(*algorithm) == only);
    }
    if algorithms.is_empty() {
        return None;
    }
    let public = DecodingKey::from_jwk(&jwk).ok()?;
    Some(Key { id: jwk.common.key_id, algorithms, public })
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// The bytes of a number, without zeros in front.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = bytes(text)?;
    Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

#[cfg(test)]
mod tests;
