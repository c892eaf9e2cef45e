use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};

use crate::auth::signature::{install, verifier};
use crate::auth::signer::Signer;

const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::EdDSA,
];

fn signed(algorithm: Algorithm, key: &EncodingKey, message: &[u8]) -> Vec<u8> {
    let signer = (DEFAULT_PROVIDER.signer_factory)(&algorithm, key).unwrap();
    signer.try_sign(message).unwrap()
}

fn public(signer: &Signer) -> DecodingKey {
    let jwk: Jwk = serde_json::from_value(signer.public()).unwrap();
    DecodingKey::from_jwk(&jwk).unwrap()
}

#[test]
fn verifies_signatures_of_another_library() {
    install();
    for algorithm in ALGORITHMS {
        let signer = Signer::new(algorithm, "key");
        let check = verifier(&algorithm, &public(&signer)).unwrap();
        let signature = signed(algorithm, signer.key(), b"message");
        assert!(check.verify(b"message", &signature).is_ok(), "{algorithm:?}");
        assert!(check.verify(b"massage", &signature).is_err(), "{algorithm:?}");
        for at in [0, signature.len() / 2, signature.len() - 1] {
            let mut bent = signature.clone();
            bent[at] ^= 1;
            assert!(check.verify(b"message", &bent).is_err(), "{algorithm:?} at {at}");
        }
        assert!(check.verify(b"message", &Vec::new()).is_err(), "{algorithm:?}");
    }
}

#[test]
fn rejects_mismatched_keys_and_shared_secrets() {
    install();
    let point = public(&Signer::new(Algorithm::ES256, "key"));
    for algorithm in [Algorithm::RS256, Algorithm::EdDSA, Algorithm::HS256] {
        assert!(verifier(&algorithm, &point).is_err(), "{algorithm:?}");
    }
    let secret = DecodingKey::from_secret(b"known to two");
    assert!(verifier(&Algorithm::HS256, &secret).is_err());
}
