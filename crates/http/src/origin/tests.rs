use hyper::Request;
use pretty_assertions::assert_eq;

use super::*;

fn taken(target: &str, headers: &[(&str, &str)], allowed: &HttpConfig) -> bool {
    let request = headers.iter().fold(Request::builder().uri(target), |request, (name, value)| {
        request.header(*name, *value)
    });
    super::is_taken(&request.body(()).unwrap().into_parts().0, allowed)
}

fn is_taken(target: &str, headers: &[(&str, &str)]) -> bool {
    taken(target, headers, &HttpConfig::default())
}

#[test]
fn hosts_of_this_machine() {
    for (host, expected) in [
        ("127.0.0.1:8000", true),
        ("127.0.0.1", true),
        ("localhost:8000", true),
        ("LOCALHOST", true),
        ("[::1]:8000", true),
        ("127.1.2.3:1", true),
        ("evil.example.com", false),
        ("localhost.evil.example.com", false),
        ("127.0.0.1.evil.example.com", false),
        ("127.0.0.10", true),
        ("127.0.0.1234", false),
        ("localhost1", false),
        ("localhost1:8000", false),
        ("10.0.0.1", false),
        ("0.0.0.0:8000", false),
        ("user@127.0.0.1", false),
        ("127.0.0.1@evil.example.com", false),
        ("127.0.0.1:1.evil.example.com", false),
        ("LOCALHOST:x", false),
        ("[::1]:1.evil.example.com", false),
        ("127.1.2.3:", true),
        ("", false),
    ] {
        assert_eq!(is_taken("/mcp", &[("host", host)]), expected, "{host}");
    }
    assert!(!is_taken("/mcp", &[]));
    assert!(!is_taken("/mcp", &[("host", "localhost"), ("host", "localhost")]));
    assert!(!is_taken("http://evil.example.com/mcp", &[("host", "localhost")]));
    assert!(is_taken("http://localhost/mcp", &[("host", "localhost")]));
}

#[test]
fn origins_of_this_machine() {
    for (origin, expected) in [
        ("http://localhost:3000", true),
        ("https://127.0.0.1", true),
        ("http://[::1]:9", true),
        ("http://evil.example.com", false),
        ("http://localhost.evil.example.com", false),
        ("http://localhost@evil.example.com", false),
        ("null", false),
        ("localhost", false),
        ("", false),
    ] {
        let headers = [("host", "localhost"), ("origin", origin)];
        assert_eq!(is_taken("/mcp", &headers), expected, "{origin}");
    }
}

#[test]
fn accepts_configured_hosts_and_origins() {
    let allowed = HttpConfig {
        allowed_hosts: ["work.example.com", "other.example.com:8443"]
            .map(|host| host.parse().unwrap())
            .into(),
        allowed_origins: vec!["https://app.example.com".to_owned()],
        ..HttpConfig::default()
    };
    let is_taken = |headers: &[(&str, &str)]| taken("/mcp", headers, &allowed);
    for (host, expected) in [
        ("work.example.com", true),
        ("WORK.example.com:8000", true),
        ("other.example.com:8443", true),
        ("other.example.com", false),
        ("a.work.example.com", false),
        ("work.example.com.evil.example.com", false),
        ("me@work.example.com", false),
        ("localhost", true),
    ] {
        assert_eq!(is_taken(&[("host", host)]), expected, "{host}");
    }
    for (origin, expected) in [
        ("https://app.example.com", true),
        ("http://app.example.com", false),
        ("https://app.example.com:8443", false),
        ("https://work.example.com", false),
        ("https://app.example.com.evil.example.com", false),
        ("null", false),
    ] {
        assert_eq!(is_taken(&[("host", "localhost"), ("origin", origin)]), expected, "{origin}");
    }
}
