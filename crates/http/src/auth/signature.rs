//! Verifies JWS signatures (RFC 7515, RFC 7518 §3) with `ring`, which TLS uses already. The crypto
//! backends of `jsonwebtoken` would add many crates.

use std::sync::LazyLock;

#[cfg(not(test))]
use jsonwebtoken::crypto::KeyUtils;
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// Installs the signature verifier of `jsonwebtoken` for the whole process. Idempotent.
pub(crate) fn install() {
    static PROVIDER: LazyLock<CryptoProvider> = LazyLock::new(provider);
    // Fails if it is already installed.
    _ = PROVIDER.install_default();
}

#[cfg(not(test))]
fn provider() -> CryptoProvider {
    CryptoProvider {
        signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
        verifier_factory: verifier,
        key_utils: KeyUtils::new_unimplemented(),
    }
}

#[cfg(test)]
fn provider() -> CryptoProvider {
    CryptoProvider {
        verifier_factory: verifier,
        ..jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.clone()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that `CryptoProvider` requires"
)]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let check = match algorithm {
        Algorithm::RS256 => Check::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Check::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Check::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Check::Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Check::Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Check::Rsa(&RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Check::Point(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Check::Point(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Check::Point(&ED25519),
        // This includes HMAC: its verification key can also forge tokens.
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    };
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(SignatureVerifier { algorithm: *algorithm, check, key: key.clone() }))
}

struct SignatureVerifier {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKey,
}

enum Check {
    Rsa(&'static RsaParameters),
    Point(&'static dyn VerificationAlgorithm),
}

impl JwtVerifier for SignatureVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for SignatureVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match (&self.check, self.key.kind()) {
            (Check::Rsa(kind), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(kind, message, signature)
            }
            (Check::Rsa(kind), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*kind, key).verify(message, signature)
            }
            (Check::Point(kind), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(*kind, point).verify(message, signature)
            }
            (Check::Point(_), DecodingKeyKind::RsaModulusExponent { .. }) => {
                return Err(signature::Error::new());
            }
        };
        checked.map_err(|_| signature::Error::new())
    }
}

#[cfg(test)]
mod tests;
