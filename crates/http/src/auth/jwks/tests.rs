use jsonwebtoken::Algorithm;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::auth::tests::signing::Signer;

fn count(keys: &Value, id: Option<&str>, algorithm: Algorithm) -> usize {
    let text = json!({ "keys": keys }).to_string();
    KeySet::read(text.as_bytes()).map_or(0, |set| set.find(id, algorithm).count())
}

fn changed(mut key: Value, member: &str, value: Value) -> Value {
    key[member] = value;
    key
}

#[test]
fn finds_keys_by_id_and_algorithm() {
    let one = Signer::new(Algorithm::ES256, "one").public();
    let two = Signer::new(Algorithm::EdDSA, "two").public();
    let rsa = changed(Signer::new(Algorithm::RS256, "rsa").public(), "alg", Value::Null);
    let keys = json!([one, two, rsa, { "kty": "unknown" }, 1]);
    assert_eq!(count(&keys, Some("one"), Algorithm::ES256), 1);
    assert_eq!(count(&keys, Some("one"), Algorithm::EdDSA), 0);
    assert_eq!(count(&keys, None, Algorithm::EdDSA), 1);
    assert_eq!(count(&keys, Some("rsa"), Algorithm::PS384), 1);
    assert_eq!(count(&keys, Some("three"), Algorithm::ES256), 0);
}

#[test]
fn ignores_weak_keys_and_keys_of_other_uses() {
    let ec = || Signer::new(Algorithm::ES256, "k").public();
    let ed = || Signer::new(Algorithm::EdDSA, "k").public();
    let rsa = || Signer::new(Algorithm::RS256, "k").public();
    for (key, algorithm) in [
        (changed(ec(), "use", json!("enc")), Algorithm::ES256),
        (changed(ec(), "key_ops", json!(["sign"])), Algorithm::ES256),
        (changed(ec(), "crv", json!("P-384")), Algorithm::ES256),
        (changed(ec(), "x", json!("AAAA")), Algorithm::ES256),
        (changed(ec(), "alg", json!("ES384")), Algorithm::ES256),
        (changed(ed(), "x", json!("AAAA")), Algorithm::EdDSA),
        (changed(ed(), "crv", json!("P-256")), Algorithm::EdDSA),
        (changed(rsa(), "n", json!("A".repeat(170))), Algorithm::RS256),
        (changed(rsa(), "n", json!("_".repeat(170))), Algorithm::RS256),
        (changed(rsa(), "n", json!("_".repeat(4000))), Algorithm::RS256),
        (changed(rsa(), "e", json!("_".repeat(300))), Algorithm::RS256),
        (json!({ "kty": "oct", "k": "AAAA", "kid": "k" }), Algorithm::HS256),
    ] {
        assert_eq!(count(&json!([key]), None, algorithm), 0, "{key}");
    }
    assert!(KeySet::read(b"{}").is_err());
    assert!(KeySet::read(b"{\"keys\": []}").is_err());
    assert!(KeySet::read(b"nothing").is_err());
}
