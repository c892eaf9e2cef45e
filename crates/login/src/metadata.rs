//! Parses the metadata of authorization servers.

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use crate::http::MAX_URL;
use crate::record::AuthorizationServer;

/// Parses metadata (RFC 8414 §2). `None` if a required field is missing or invalid.
pub(crate) fn authority(raw: Map<String, Value>, is_guessed: bool) -> Option<AuthorizationServer> {
    #[derive(Deserialize)]
    struct Metadata {
        issuer: String,
        authorization_endpoint: Option<String>,
        token_endpoint: Url,
        registration_endpoint: Option<Url>,
        revocation_endpoint: Option<Url>,
        device_authorization_endpoint: Option<Url>,
        token_endpoint_auth_methods_supported: Option<Vec<String>>,
        code_challenge_methods_supported: Option<Vec<String>>,
        scopes_supported: Option<Vec<String>>,
        #[serde(default)]
        authorization_response_iss_parameter_supported: bool,
        #[serde(default)]
        client_id_metadata_document_supported: bool,
    }

    let metadata: Metadata = serde_json::from_value(Value::Object(raw)).ok()?;
    if metadata.issuer.len() > MAX_URL {
        return None;
    }
    let authorize = metadata.authorization_endpoint.filter(|url| !url.is_empty());
    Some(AuthorizationServer {
        issuer: metadata.issuer,
        authorization_endpoint: authorize.and_then(|url| Url::parse(&url).ok()),
        token_endpoint: metadata.token_endpoint,
        registration_endpoint: metadata.registration_endpoint,
        revocation_endpoint: metadata.revocation_endpoint,
        device_authorization_endpoint: metadata.device_authorization_endpoint,
        auth_methods: metadata.token_endpoint_auth_methods_supported,
        challenge_methods: metadata.code_challenge_methods_supported,
        scopes: metadata.scopes_supported,
        sends_issuer: metadata.authorization_response_iss_parameter_supported,
        takes_documents: metadata.client_id_metadata_document_supported,
        is_guessed,
    })
}
