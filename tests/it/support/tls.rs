//! TLS in tests: a certificate authority, and a client that shows its connection.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, IsCa, Issuer,
    KeyPair, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::support::http::{HttpClient, tool};
use crate::support::{DEADLINE, TestEnvironment};

pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: Certificate,
}

/// A certificate and its private key, in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a CA");
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Issues a certificate for localhost, valid between January 1 of the two years.
    pub(crate) fn issue_for(&self, name: &str, years: [i32; 2]) -> Pair {
        let mut params = params(name);
        params.not_before = date_time_ymd(years[0], 1, 1);
        params.not_after = date_time_ymd(years[1], 1, 1);
        params.subject_alt_names = vec![
            SanType::DnsName("localhost".try_into().expect("a name")),
            SanType::IpAddress(Ipv4Addr::LOCALHOST.into()),
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { cert: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.issue_for(name, [2020, 2090])
    }

    /// A configuration of a client that trusts this CA and presents the certificate `own`.
    pub(crate) fn client(&self, own: Option<&Pair>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("a CA");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = config.with_root_certificates(roots);
        Arc::new(match own {
            None => config.with_no_client_auth(),
            Some(Pair { cert, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                config.with_client_auth_cert(chain, key).expect("a pair")
            }
        })
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Pair {
    /// Writes `tls.crt` and `tls.key` into the folder of the test.
    pub(crate) fn write(&self, bench: &TestEnvironment) {
        self.write_as(&bench.path("tls"));
    }

    /// Writes the certificate to `<path>.crt` and the key to `<path>.key`.
    pub(crate) fn write_as(&self, path: &Path) {
        let key = path.with_extension("key");
        fs::write(&key, &self.key).expect("a file");
        fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("permissions");
        fs::write(path.with_extension("crt"), &self.cert).expect("a file");
    }
}

impl TestEnvironment {
    pub(crate) fn with_tls(self, pair: &Pair, more: Value) -> Self {
        pair.write(&self);
        let mut tls =
            json!({ "cert": self.path_text("tls.crt"), "key": self.path_text("tls.key") });
        for (key, value) in more.as_object().into_iter().flatten() {
            tls[key] = value.clone();
        }
        self.set("http", json!({ "tls": tls }))
    }

    pub(crate) fn ca(&self, name: &str, ca: &Ca) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, ca.certificate.pem()).expect("a file");
        path
    }
}

pub(crate) struct TlsConnection {
    http: HttpClient,
    pub(crate) stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

impl TlsConnection {
    /// Connects. Handshake errors surface with the first request.
    pub(crate) fn connect(http: HttpClient, config: &Arc<ClientConfig>) -> Self {
        let name = ServerName::IpAddress(IpAddr::from(http.0.ip()));
        let client = ClientConnection::new(Arc::clone(config), name).expect("a client");
        let stream = TcpStream::connect(http.0).expect("the server listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        Self { http, stream: BufReader::new(StreamOwned::new(client, stream)) }
    }

    /// Returns status, head and body.
    pub(crate) fn ask(
        &mut self,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<(u16, String, String)> {
        let lines: String =
            headers.iter().map(|(name, value)| [name, ": ", value, "\r\n"].concat()).collect();
        let text = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\n{lines}Content-Length: {}\r\n\r\n{body}",
            self.http.0,
            body.len()
        );
        self.stream.get_mut().write_all(text.as_bytes())?;
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if line.trim_end().is_empty() {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(said) = lower.strip_prefix("content-length: ") {
                length = said.trim_end().parse().expect("a length");
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.expect("a status"), head, String::from_utf8(body).expect("text")))
    }

    /// Calls a tool of the fake server as a modern agent. Returns the status and the message.
    pub(crate) fn call(
        &mut self,
        name: &str,
        arguments: Value,
        headers: &[(&str, &str)],
    ) -> std::io::Result<(u16, Value)> {
        let mut params = tool(name, arguments);
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let message =
            json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        let usual = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "use_tool"),
        ];
        let headers: Vec<_> = usual.into_iter().chain(headers.iter().copied()).collect();
        let (status, _, body) = self.ask("POST /mcp", &headers, &message.to_string())?;
        Ok((status, serde_json::from_str(&body).unwrap_or_default()))
    }

    pub(crate) fn raw(&mut self, text: &str) -> String {
        self.stream.get_mut().write_all(text.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).expect("a complete response");
        answer
    }

    /// The certificate of the server, in DER.
    pub(crate) fn shown(&self) -> Vec<u8> {
        let shown = self.stream.get_ref().conn.peer_certificates();
        shown.and_then(<[_]>::first).expect("a certificate").to_vec()
    }

    /// Returns `true` if the server sent `close_notify` at the end.
    pub(crate) fn ends_well(mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_ok()
    }
}
