//! TLS termination: the server certificate, the CAs for client certificates, and reloading both at
//! runtime.
//!
//! All files are read together and built into one `ServerConfig` for new connections; open
//! connections keep theirs. If a file is invalid, the current certificates stay in use. A client
//! certificate identifies its agent ([`auth`](crate::auth)) as long as it is valid
//! and its CA is in the file.

use parking_lot::Mutex;
pub(crate) mod acceptor;
pub(crate) mod certificate;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use ring::digest::{Context, SHA256};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::tls::certificate::Certificate;
use mcp_workbench_core::telemetry::CertificateExpiry;
use mcp_workbench_settings::TlsConfig;

/// In bytes, per file.
const MAX_BYTES: u64 = 1024 * 1024;
/// ALPN protocol id (RFC 7301).
const PROTOCOL: &[u8] = b"http/1.1";

/// The certificates in use, replaced at each reload.
#[derive(Debug)]
pub struct TlsCertificates {
    used: Mutex<Arc<LoadedCertificates>>,
    /// Last time the log mentioned a client without TLS, to limit repeated warnings.
    pub(crate) said: Mutex<Option<Instant>>,
}

#[derive(Debug)]
pub(crate) struct LoadedCertificates {
    /// SHA-256 of all certificates and the key, to detect changes.
    digest: Vec<u8>,
    pub(crate) config: Arc<ServerConfig>,
    dates: CertificateExpiry,
    trusted: BTreeSet<Vec<u8>>,
    /// Cancelled when a reload removes one of the client CAs.
    pub(crate) distrusted: CancellationToken,
}

impl TlsCertificates {
    /// Reads the files and builds the TLS configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read or parsed, certificate and key don't match, the
    /// certificate isn't valid at this time, or other users can read the key.
    pub fn load(files: &TlsConfig) -> Result<Self, TlsError> {
        let used = Mutex::new(Arc::new(read(files)?));
        Ok(Self { used, said: Mutex::default() })
    }

    /// Reads the files again. Returns `true` if they have changed and are now in use.
    ///
    /// # Errors
    ///
    /// As for [`Self::load`]; the current certificates stay in use.
    pub fn reload(&self, files: &TlsConfig) -> Result<bool, TlsError> {
        let mut next = read(files)?;
        let mut used = self.used.lock();
        if used.digest == next.digest {
            return Ok(false);
        }
        if used.trusted.is_subset(&next.trusted) {
            next.distrusted = used.distrusted.clone();
        } else {
            used.distrusted.cancel();
        }
        *used = Arc::new(next);
        Ok(true)
    }

    /// Returns when the certificates expire.
    pub fn dates(&self) -> CertificateExpiry {
        self.used().dates
    }

    pub(crate) fn used(&self) -> Arc<LoadedCertificates> {
        Arc::clone(&self.used.lock())
    }
}

/// The reason why the TLS files can't be used.
#[derive(Debug)]
pub struct TlsError {
    message: String,
    hint: &'static str,
}

impl TlsError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for TlsError {}

fn tls_error<T>(message: String, hint: &'static str) -> Result<T, TlsError> {
    Err(TlsError { message, hint })
}

fn read(files: &TlsConfig) -> Result<LoadedCertificates, TlsError> {
    let provider = Arc::new(default_provider());
    let (chain, leaf) = shown(&files.cert)?;
    let key = key(&files.key)?;
    let mut digest = Context::new(&SHA256);
    for der in &chain {
        digest.update(der);
    }
    digest.update(key.secret_der());
    let pair = match CertifiedKey::from_der(chain, key, &provider) {
        Ok(pair) => pair,
        Err(error) => {
            let (cert, key) = (files.cert.display(), files.key.display());
            let hint = "put the certificate of this key first in its file";
            return tls_error(
                format!("`{key}` does not match the certificate `{cert}`: {error}"),
                hint,
            );
        }
    };
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12]);
    let unusable = |error: &dyn fmt::Display| TlsError {
        message: format!("failed to set up TLS: {error}"),
        hint: "create new certificates with a common key type, such as ECDSA P-256 or RSA 2048",
    };
    let config = config.map_err(|error| unusable(&error))?;
    let (mut trusted, mut client_ca) = (BTreeSet::new(), None);
    let config = match &files.client_ca {
        None => config.with_no_client_auth(),
        Some(file) => {
            let (roots, until) = authorities(file, &mut trusted)?;
            client_ca = Some(until);
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build();
            config.with_client_cert_verifier(verifier.map_err(|error| unusable(&error))?)
        }
    };
    for der in &trusted {
        digest.update(der);
    }
    let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(LoadedCertificates {
        digest: digest.finish().as_ref().to_vec(),
        config: Arc::new(config),
        dates: CertificateExpiry { cert: leaf.not_after, client_ca },
        trusted,
        distrusted: CancellationToken::new(),
    })
}

fn shown(file: &Path) -> Result<(Vec<CertificateDer<'static>>, Certificate), TlsError> {
    let chain = certificates(file)?;
    let shown = file.display();
    let Some(leaf) = chain.first().and_then(|der| Certificate::read(der)) else {
        let hint = "expected PEM: the certificate, followed by its intermediate CAs";
        return tls_error(format!("no valid certificate in `{shown}`"), hint);
    };
    let now = now();
    if now >= leaf.not_after {
        let days = (now - leaf.not_after) / 86400;
        let message = format!("the certificate in `{shown}` expired {days} days ago");
        return tls_error(message, "renew the certificate");
    }
    if now < leaf.not_before {
        let message = format!("the certificate in `{shown}` is not valid yet");
        return tls_error(message, "check the clock of this machine");
    }
    Ok((chain, leaf))
}

/// Reads the client CAs that are valid at this time. Returns when the first of them expires.
fn authorities(
    file: &Path,
    trusted: &mut BTreeSet<Vec<u8>>,
) -> Result<(RootCertStore, u64), TlsError> {
    let (shown, now) = (file.display(), now());
    let (mut roots, mut until) = (RootCertStore::empty(), u64::MAX);
    for der in certificates(file)? {
        let known = Certificate::read(&der);
        let Some(ca) = known.filter(|_| roots.add(der.clone()).is_ok()) else {
            let hint = "every certificate in this file must be a CA certificate";
            return tls_error(format!("unusable certificate in `{shown}`"), hint);
        };
        if (ca.not_before..ca.not_after).contains(&now) {
            until = until.min(ca.not_after);
            trusted.insert(der.to_vec());
        } else {
            tracing::warn!("ignored a CA in `{shown}` that has expired or is not valid yet");
        }
    }
    let mut roots = RootCertStore::empty();
    for der in trusted.iter() {
        // Can't fail: `add` accepted it above.
        let _ = roots.add(der.clone().into());
    }
    if roots.is_empty() {
        let hint = "renew the CA, or remove `clientCa` to stop asking clients for certificates";
        return tls_error(format!("every CA in `{shown}` has expired or is not valid yet"), hint);
    }
    Ok((roots, until))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = text(file)?;
    let read: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(&text).collect();
    match read {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => tls_error(
            format!("no valid certificate in `{}`", file.display()),
            "expected PEM: `-----BEGIN CERTIFICATE-----`",
        ),
    }
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let shown = file.display();
    if mcp_workbench_os::is_private_key_exposed(file) {
        let hint = "restrict it to its owner (`chmod 600`), or to a group if root owns it (`chmod \
                    640`)";
        return tls_error(format!("other users can read the private key `{shown}`"), hint);
    }
    let text = text(file)?;
    PrivateKeyDer::from_pem_slice(&text).or_else(|_| {
        let hint = "expected PEM: `-----BEGIN PRIVATE KEY-----`; to decrypt a key, run `openssl \
                    pkey -in <file>`";
        tls_error(format!("no readable private key in `{shown}`"), hint)
    })
}

fn text(file: &Path) -> Result<Vec<u8>, TlsError> {
    match mcp_workbench_os::read_input(file, MAX_BYTES) {
        Ok(bytes) => Ok(bytes),
        Err(error) => tls_error(
            format!("failed to read `{}`: {error}", file.display()),
            "check the file paths in `http.tls`, or of `--tls-cert` and `--tls-key`",
        ),
    }
}

fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}
