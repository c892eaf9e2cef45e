//! The lifecycle of remote servers: restarts, lost sessions, slow responses, proxies and private
//! CAs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::real_http_server::{Kind, Proxy, RealHttpServer};
use crate::support::{Agent, DEADLINE, TestEnvironment, command, fake};

fn bench(url: &str) -> TestEnvironment {
    TestEnvironment::new().server("web", "far", json!({ "url": url }))
}

fn opened(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    agent.open("web").ok();
    agent
}

fn echo(agent: &Agent, message: &str) -> String {
    agent.call("web__far__echo", json!({ "message": message })).text()
}

fn ps(bench: &TestEnvironment, state: &str) -> Value {
    let end = Instant::now() + DEADLINE;
    loop {
        let output = bench.run(["ps", "--json"]);
        let all: Value = serde_json::from_str(&output.stdout).expect("JSON");
        let server = &all[0]["servers"][0];
        if server["state"] == state {
            return server.clone();
        }
        assert!(Instant::now() < end, "{all:#}");
    }
}

#[test]
fn remote_restart_delays_calls_without_losing_any() {
    for kind in [Kind::Everything, Kind::Python2] {
        let mut server = RealHttpServer::start(kind);
        let agent = opened(&bench(&server.url("/mcp")));
        assert_eq!(echo(&agent, "one"), "Echo: one", "{kind:?}");
        server.kill();
        // The call starts while the server is down and completes after the restart.
        let call = agent.send_call("web__far__echo", json!({ "message": "two" }));
        server = RealHttpServer::start_at(kind, server.address.port());
        let answer = agent.wait(&call);
        assert_eq!(answer.text(), "Echo: two", "{kind:?}");
        server.restart();
        assert_eq!(echo(&agent, "three"), "Echo: three", "{kind:?}");
    }
}

const ENDED_WITH_ITS_SESSION: &str = "server `far`: connection lost during the call\nThe call may \
                                      or may not have had effects. The next call restarts the \
                                      server.";

fn lost(agent: &Agent, kind: Kind) -> String {
    let answer = agent.call("web__far__echo", json!({ "message": "two" }));
    let text = answer.text();
    assert!(answer.is_tool_error() && text.starts_with("server `far`"), "{kind:?}: {text}");
    text
}

fn tells(kind: Kind, text: &str, words: &[&str]) {
    assert!(words.iter().any(|word| text.contains(word)), "{kind:?}: {text}");
    assert!(text.contains("What to do: "), "{kind:?}: {text}");
}

#[test]
fn stopped_server_is_reported_and_recovers() {
    for (kind, path) in
        [(Kind::Everything, "/mcp"), (Kind::Python2, "/mcp"), (Kind::EverythingSse, "/sse")]
    {
        let mut server = RealHttpServer::start(kind);
        let bench = bench(&server.url(path));
        let (program, http) = bench.http();
        let agent = Agent::over_http((program, http)).relisting_on_change();
        agent.initialize();
        agent.open("web").ok();
        assert_eq!(echo(&agent, "one"), "Echo: one", "{kind:?}");
        ps(&bench, "running");
        server.kill();
        let begun = Instant::now();
        let text = lost(&agent, kind);
        assert!(begun.elapsed() < Duration::from_secs(10), "{kind:?}: {:?}", begun.elapsed());
        // The last connection may accept the call and break before the response. Over HTTP+SSE the
        // end of the stream may be noticed first, which ends the session with the call in flight.
        if kind != Kind::EverythingSse || text != ENDED_WITH_ITS_SESSION {
            tells(kind, &text, &["unreachable", "interrupted", "connection lost"]);
            ps(&bench, "failed");
        }
        let text = lost(&agent, kind);
        tells(kind, &text, &["check that the server is running"]);
        let shown = ps(&bench, "failed");
        let reason = shown["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("unreachable"), "{kind:?}: {shown:#}");
        assert_eq!(http.send("GET", "/ready", &[], "").status, 200, "{kind:?}");
        server = RealHttpServer::start_at(kind, server.address.port());
        assert_eq!(echo(&agent, "three"), "Echo: three", "{kind:?}");
        ps(&bench, "running");
        drop(server);
    }
}

#[test]
fn loss_of_an_idle_server_is_noticed() {
    for kind in [Kind::Everything, Kind::Python2] {
        let mut server = RealHttpServer::start(kind);
        let bench = bench(&server.url("/mcp"));
        let agent = opened(&bench);
        assert_eq!(echo(&agent, "one"), "Echo: one");
        server.kill();
        let reason = ps(&bench, "failed")["reason"].clone();
        assert!(reason.as_str().unwrap().contains("unreachable"), "{kind:?}: {reason}");
    }
}

#[test]
fn toolbox_opens_within_the_slowest_startup_timeout() {
    // These servers accept connections and never respond.
    let silent: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let far = RealHttpServer::start(Kind::Everything);
    let mut bench = bench(&far.url("/mcp")).server("web", "quick", fake(json!({"tools": ["add"]})));
    for (number, server) in silent.iter().enumerate() {
        let url = format!("http://{}/mcp", server.local_addr().unwrap());
        let entry = json!({ "url": url, "startupTimeoutMs": 2000 });
        bench = bench.server("web", &format!("slow{number}"), entry);
    }
    let agent = bench.agent().relisting_on_change();
    agent.initialize();
    let begun = Instant::now();
    let told = agent.open("web").text();
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(5), "{took:?}: {told}");
    assert!(told.contains("slow2") && told.contains("within 2000 ms"), "{told}");
    assert_eq!(echo(&agent, "quick enough"), "Echo: quick enough");
    let begun = Instant::now();
    agent.call("web__quick__add", json!({ "a": 1, "b": 2 })).ok();
    assert!(begun.elapsed() < Duration::from_secs(1), "a call waited for another server");
}

#[test]
fn proxy_from_the_environment_is_used() {
    let server = RealHttpServer::start(Kind::Everything);
    let proxy = Proxy::before(server.address);
    let at = format!("http://{}", proxy.address);
    let call = ["call", "web", "far", "echo", r#"{"message": "x"}"#];
    // Only the proxy resolves this name.
    let output = bench("http://far.test/mcp").env("HTTP_PROXY", &at).run(call);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "Echo: x\n"), "{output}");
    assert!(
        proxy.heads()[0].starts_with("post http://far.test/mcp http/1.1"),
        "{:?}",
        proxy.heads()
    );
    let heads = proxy.heads().len();
    let around = bench("http://far.test/mcp").env("HTTP_PROXY", &at).env("NO_PROXY", ".test");
    let output = around.run(call);
    assert!(output.stderr.contains("unreachable"), "{output}");
    assert_eq!(proxy.heads().len(), heads);
    // Loopback addresses bypass the proxy.
    let output = bench(&server.url("/mcp")).env("HTTP_PROXY", &at).run(call);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(proxy.heads().len(), heads);
}

/// A TLS terminator with a certificate of its own CA.
struct Tls {
    child: Child,
    address: SocketAddr,
    /// The CA certificate (PEM).
    authority: String,
}

/// Forwards TLS connections to the port in its first argument.
const TLS: &str = "const [, port, cert, key] = process.argv;\
    const server = require('node:tls').createServer({ cert, key }, (near) => {\
      const far = require('node:net').connect(Number(port), '127.0.0.1');\
      for (const end of [near, far]) end.on('error', () => {});\
      near.pipe(far).pipe(near);\
    });\
    server.listen(0, '127.0.0.1', () => console.log(server.address().port));";

impl Tls {
    fn before(server: SocketAddr) -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = rcgen::Issuer::new(params, key);
        let names = vec!["far.test".to_owned(), "localhost".to_owned()];
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        let mut node = command("node");
        node.args(["-e", TLS, "--", &server.port().to_string()]);
        node.args([certificate, key.serialize_pem()]);
        let mut child = node.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().expect("a port");
        Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)), authority }
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn private_ca_from_the_environment_is_trusted() {
    let server = RealHttpServer::start(Kind::Everything);
    let tls = Tls::before(server.address);
    let url = format!("https://localhost:{}/mcp", tls.address.port());
    let call = ["call", "web", "far", "echo", r#"{"message": "x"}"#];
    let folder = |bench: &TestEnvironment| {
        std::fs::create_dir(bench.path("certs")).unwrap();
        bench.write("certs/authority.pem", &tls.authority);
        (bench.path_text("certs/authority.pem"), bench.path_text("certs"))
    };
    let plain = bench(&url);
    folder(&plain);
    let output = plain.run(call);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("certificate"), "{output}");
    assert!(output.stderr.contains("SSL_CERT_FILE"), "says what to do: {output}");
    let bench = bench(&url);
    let (file, certs) = folder(&bench);
    let bench = bench.env("SSL_CERT_FILE", &file);
    let output = bench.run(call);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "Echo: x\n"), "{output}");
    // OpenSSL finds a CA in a folder by its subject hash.
    let hashed = command("openssl")
        .args(["x509", "-hash", "-noout", "-in", &file])
        .output()
        .map(|output| String::from_utf8(output.stdout).unwrap());
    if let Ok(hash) = hashed {
        std::fs::copy(&file, format!("{certs}/{}.0", hash.trim())).unwrap();
        let output = self::bench(&url).env("SSL_CERT_DIR", &certs).run(call);
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), "Echo: x\n"), "{output}");
    }
    // Through a proxy the connection is a tunnel, and TLS verifies the server's name.
    let proxy = Proxy::before(tls.address);
    let through = self::bench("https://far.test/mcp")
        .env("SSL_CERT_FILE", &file)
        .env("HTTPS_PROXY", &format!("http://{}", proxy.address));
    let output = through.run(call);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "Echo: x\n"), "{output}");
    assert!(proxy.heads()[0].starts_with("connect far.test:443 http/1.1"), "{:?}", proxy.heads());
}

#[test]
fn cross_origin_redirect_is_reported_and_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let there = elsewhere.local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(&stream);
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(said) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = said.trim().parse().unwrap();
                }
                line.clear();
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            let head = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{there}/mcp\r\n\
                 content-length: 0\r\nconnection: close\r\n\r\n"
            );
            let _ = (&stream).write_all(head.as_bytes());
        }
    });
    let output = bench(&url).run(["call", "web", "far", "x"]);
    let said = output.to_string();
    assert!(said.contains(&format!("redirects to http://{there}/mcp")), "{said}");
    assert!(said.contains("`url`"), "{said}");
    assert!(elsewhere.accept().is_err(), "the client followed the redirect");
}
