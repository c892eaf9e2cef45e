//! Built-in TLS: certificate rotation, invalid files, and clients that don't speak TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pretty_assertions::assert_eq;
use rcgen::KeyPair;
use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::support::http::HttpClient;
use crate::support::process::run_to_exit;
use crate::support::tls::{Ca, Pair, TlsConnection};
use crate::support::{DEADLINE, TestEnvironment, command, fake};

fn bench() -> TestEnvironment {
    let script = json!({ "tools": ["echo", "sleep"] });
    TestEnvironment::new()
        .server("box", "fake", fake(script))
        .set("toolMode", json!("proxy"))
        .set("autoReload", json!("all"))
}

fn der(pair: &Pair) -> Vec<u8> {
    CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap().to_vec()
}

fn shown(http: HttpClient, ca: &Ca) -> Vec<u8> {
    let mut connection = TlsConnection::connect(http, &ca.client(None));
    assert_eq!(connection.ask("GET /health", &[], "").expect("an answer").0, 200);
    connection.shown()
}

fn wait_shown(http: HttpClient, ca: &Ca, pair: &Pair) {
    let end = Instant::now() + DEADLINE;
    while shown(http, ca) != der(pair) {
        assert!(Instant::now() < end, "the old certificate is still in use");
        // The workbench re-reads the files a moment after they changed.
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn certificate_rotation_under_load_loses_no_call() {
    let ca = Ca::new("Test CA");
    let [first, second] = [ca.issue("one"), ca.issue("two")];
    let bench = bench().with_tls(&first, json!({}));
    let (program, http) = bench.http();
    assert_eq!(shown(http, &ca), der(&first));
    let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let work = |keeps: bool| {
        let client = ca.client(None);
        let mut kept = TlsConnection::connect(http, &client);
        let mut last = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let mut new = (!keeps).then(|| TlsConnection::connect(http, &client));
            let used = new.as_mut().unwrap_or(&mut kept);
            let arguments = json!({ "ms": 5 });
            let (status, answer) = used.call("sleep", arguments, &[]).expect("an answer");
            assert_eq!((status, &answer["result"]["isError"]), (200, &Value::Null), "{answer}");
            last = used.shown();
            calls.fetch_add(1, Ordering::Relaxed);
        }
        last
    };
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..8).map(|index| scope.spawn(move || work(index % 2 == 0))).collect();
        let more = |count: usize| {
            let until = calls.load(Ordering::Relaxed) + count;
            while calls.load(Ordering::Relaxed) < until {
                thread::yield_now();
            }
        };
        more(50);
        second.write(&bench);
        wait_shown(http, &ca, &second);
        more(100);
        stop.store(true, Ordering::Relaxed);
        for (index, worker) in workers.into_iter().enumerate() {
            let expected = if index % 2 == 0 { &first } else { &second };
            assert_eq!(worker.join().unwrap(), der(expected), "{index}");
        }
    });
    program.0.wait_stderr("TLS certificates loaded for new connections");
}

#[test]
fn kubernetes_symlink_swaps_and_sighup_reload_certificates() {
    let ca = Ca::new("Test CA");
    let pairs = [ca.issue("one"), ca.issue("two"), ca.issue("three")];
    let bench = bench();
    for (index, pair) in pairs.iter().enumerate() {
        let folder = bench.path(&format!("v{index}"));
        fs::create_dir(&folder).unwrap();
        pair.write_as(&folder.join("tls"));
    }
    symlink("v0", bench.path("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), bench.path(name)).unwrap();
    }
    // Paths are relative to the configuration file.
    let bench = bench.set("http", json!({ "tls": { "cert": "tls.crt", "key": "tls.key" } }));
    let (program, http) = bench.http();
    program.0.close_stdin();
    assert_eq!(shown(http, &ca), der(&pairs[0]));
    for (index, pair) in pairs.iter().enumerate().skip(1) {
        symlink(format!("v{index}"), bench.path("..new")).unwrap();
        fs::rename(bench.path("..new"), bench.path("..data")).unwrap();
        wait_shown(http, &ca, pair);
    }
    // SIGHUP re-reads the files, whether or not a change was detected.
    program.0.signal(Signal::HUP);
    let log = program.0.wait_stderr("the configuration has not changed");
    assert!(!log.contains("not reloaded"), "{log}");
    assert_eq!(shown(http, &ca), der(&pairs[2]));
}

fn bad(ca: &Ca) -> Vec<(&'static str, Pair, &'static str)> {
    let good = ca.issue("good");
    let other = KeyPair::generate().unwrap().serialize_pem();
    let pair = |cert: &str, key: &str| Pair { cert: cert.to_owned(), key: key.to_owned() };
    vec![
        ("expired", ca.issue_for("old", [2020, 2021]), " expired "),
        ("early", ca.issue_for("new", [2080, 2090]), "is not valid yet"),
        ("mismatched", pair(&good.cert, &other), "does not match the certificate"),
        ("no certificate", pair("hello", &good.key), "no valid certificate in"),
        ("no key", pair(&good.cert, "hello"), "no readable private key in"),
        ("swapped", pair(&good.key, &good.cert), "no valid certificate in"),
        ("cut", pair(&good.cert[..good.cert.len() / 2], &good.key), "no valid certificate in"),
    ]
}

#[test]
fn invalid_pair_fails_startup_with_one_error() {
    let ca = Ca::new("Test CA");
    for (what, pair, said) in bad(&ca) {
        let bench = bench().with_tls(&pair, json!({}));
        bench.write_config();
        let refused = bench.run(["serve", "--http", "127.0.0.1:0"]);
        assert_eq!(refused.code, Some(2), "{what}: {refused}");
        let errors = refused.stderr.matches("error: ").count();
        assert!(errors == 1 && refused.stderr.contains(said), "{what}: {refused}");
        assert!(!refused.stderr.contains("PRIVATE KEY-----\n"), "{refused}");
    }
    let bench = bench().with_tls(&ca.issue("good"), json!({ "clientCa": "none.crt" }));
    bench.write_config();
    let refused = bench.run(["serve", "--http", "127.0.0.1:0"]);
    assert!(refused.stderr.contains("failed to read") && refused.code == Some(2), "{refused}");
}

#[test]
fn invalid_pair_is_not_applied_while_serving() {
    let ca = Ca::new("Test CA");
    let good = ca.issue("good");
    let bench = bench().with_tls(&good, json!({}));
    let (program, http) = bench.http();
    for (what, pair, said) in bad(&ca) {
        pair.write(&bench);
        program.0.wait_stderr(said);
        assert_eq!(shown(http, &ca), der(&good), "{what}");
    }
    program.0.wait_stderr("TLS certificates not reloaded");
    let next = ca.issue("next");
    next.write(&bench);
    wait_shown(http, &ca, &next);
}

#[test]
fn key_readable_by_others_is_rejected() {
    let ca = Ca::new("Test CA");
    let bench = bench().with_tls(&ca.issue("good"), json!({}));
    bench.write_config();
    // The folder of the test hides the key from others, so open it as well.
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(bench.dir(), 0o755);
    mode(&bench.path("tls.key"), 0o644);
    let refused = bench.run(["serve", "--http", "127.0.0.1:0"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("other users can read the private key"), "{refused}");
    assert!(refused.stderr.contains("chmod 600"), "{refused}");
    mode(&bench.path("tls.key"), 0o600);
    let (_program, http) = bench.http();
    shown(http, &ca);
}

#[test]
fn command_line_files_override_the_configuration() {
    let ca = Ca::new("Test CA");
    let own = ca.issue("own");
    let bench = bench().with_tls(&ca.issue("of the file"), json!({}));
    own.write_as(&bench.path("own"));
    let [cert, key] = [bench.path_text("own.crt"), bench.path_text("own.key")];
    let (_program, http) = bench.http_with(["--tls-cert", &cert, "--tls-key", &key]);
    assert_eq!(shown(http, &ca), der(&own));
}

#[test]
fn reload_can_change_files_but_not_disable_tls() {
    let ca = Ca::new("Test CA");
    let [one, two] = [ca.issue("one"), ca.issue("two")];
    let bench = bench().with_tls(&one, json!({}));
    let (program, http) = bench.http();
    two.write_as(&bench.path("two"));
    let files = json!({ "tls": { "cert": "two.crt", "key": "two.key" } });
    let bench = bench.set("http", files);
    bench.write_config();
    program.0.wait_stderr("configuration reloaded: TLS files");
    wait_shown(http, &ca, &two);
    bench.set("http", json!({})).write_config();
    program.0.wait_stderr("turning TLS on or off takes effect after a restart");
    assert_eq!(shown(http, &ca), der(&two));
}

#[test]
fn incomplete_tls_handshakes_do_not_block_clients_and_are_closed() {
    const HALF: usize = 1000;
    let ca = Ca::new("Test CA");
    let bench = bench().with_tls(&ca.issue("one"), json!({}));
    let mut http = bench_http(&bench);
    http["headTimeoutMs"] = json!(2000);
    http["maxConnections"] = json!(200);
    let bench = bench.set("http", http);
    let (_program, http) = bench.http();
    // Half of the clients send a TLS record that never completes, the others nothing.
    let half: Vec<TcpStream> = (0..HALF)
        .map(|index| {
            let mut stream = TcpStream::connect(http.0).expect("the server listens");
            if index % 2 == 0 {
                stream.write_all(&[22, 3, 1, 2, 0, 1]).expect("the server reads");
            }
            stream
        })
        .collect();
    let began = Instant::now();
    let mut connection = TlsConnection::connect(http, &ca.client(None));
    let (status, _) = connection.call("echo", json!({ "text": "x" }), &[]).expect("an answer");
    assert_eq!(status, 200);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    for mut stream in half {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut rest = Vec::new();
        // The connection ends with a TLS alert or is just closed.
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

fn bench_http(bench: &TestEnvironment) -> Value {
    json!({ "tls": { "cert": bench.path_text("tls.crt"), "key": bench.path_text("tls.key") } })
}

#[test]
fn answers_plain_http_on_a_tls_port_with_400() {
    let ca = Ca::new("Test CA");
    let (program, http) = bench().with_tls(&ca.issue("one"), json!({})).http();
    let began = Instant::now();
    for _ in 0..3 {
        let refused = http.modern("tools/list", json!({}), &[]);
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains("https://"));
    }
    assert!(began.elapsed() < Duration::from_secs(2));
    let log = program.0.wait_stderr("rejected a connection without TLS");
    assert_eq!(log.matches("connection without TLS").count(), 1);
    shown(http, &ca);
}

#[test]
fn health_stays_plain_and_metrics_report_certificate_expiry() {
    let ca = Ca::new("Test CA");
    let bench = bench().with_tls(&ca.issue_for("one", [2020, 2090]), json!({}));
    let mut http = bench_http(&bench);
    http["healthListen"] = json!("127.0.0.1:0");
    let (program, http) = bench.set("http", http).http();
    let log = program.0.wait_stderr("/metrics at http://");
    let (_, plain) = log.split_once("/metrics at http://").expect("a listener");
    let plain = HttpClient(plain.split_whitespace().next().unwrap().parse().unwrap());
    assert_eq!(plain.send("GET", "/health", &[], "").status, 200);
    let figures = plain.send("GET", "/metrics", &[], "").text();
    let line = figures.lines().find(|line| line.contains("tls_certificate_expiry_seconds{"));
    let (name, seconds) = line.expect("a figure").rsplit_once(' ').unwrap();
    assert_eq!(name, r#"mcp_workbench_tls_certificate_expiry_seconds{file="cert"}"#);
    let years = seconds.parse::<u64>().unwrap() / (365 * 86400);
    assert!((20..70).contains(&years), "{years}");
    assert!(log.contains(&format!("serving MCP at https://{}/mcp", http.0)), "{log}");
    let mut connection = TlsConnection::connect(http, &ca.client(None));
    let (_, _, secured) = connection.ask("GET /metrics", &[], "").unwrap();
    assert!(secured.contains("tls_certificate_expiry_seconds{"), "{secured}");
}

#[test]
fn shutdown_sends_close_notify() {
    let ca = Ca::new("Test CA");
    let (program, http) = bench().with_tls(&ca.issue("one"), json!({})).http();
    program.0.close_stdin();
    let mut connection = TlsConnection::connect(http, &ca.client(None));
    assert_eq!(connection.ask("GET /health", &[], "").unwrap().0, 200);
    program.0.signal(Signal::TERM);
    assert!(connection.ends_well(), "the connection was cut");
    assert_eq!(program.0.wait_exit(Duration::from_secs(5)).code(), Some(0));
}

#[test]
fn old_tls_versions_are_rejected() {
    let ca = Ca::new("Test CA");
    let bench = bench().with_tls(&ca.issue("one"), json!({}));
    let file = bench.ca("ca.crt", &ca);
    let (_program, http) = bench.http();
    let speak = |version: &str| {
        let mut openssl = command("openssl");
        let address = http.0.to_string();
        openssl.args(["s_client", "-connect", &address, "-alpn", "h2,http/1.1", version]);
        // At the default security level OpenSSL doesn't offer the old versions.
        openssl.args(["-cipher", "DEFAULT:@SECLEVEL=0", "-CAfile"]).arg(&file);
        run_to_exit(openssl, "Q\n")
    };
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let spoken = speak(version);
        assert!(spoken.stdout.contains(name), "{spoken}");
        assert!(spoken.stdout.contains("ALPN protocol: http/1.1"), "{spoken}");
        assert!(spoken.stdout.contains("Verify return code: 0 (ok)"), "{spoken}");
    }
    for version in ["-tls1", "-tls1_1"] {
        let spoken = speak(version);
        assert!(spoken.stderr.contains("SSL alert number"), "{spoken}");
        assert!(spoken.stdout.contains("Cipher is (NONE)"), "{spoken}");
        assert_ne!(spoken.code, Some(0), "{spoken}");
    }
}
