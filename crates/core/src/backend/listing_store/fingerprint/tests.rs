use std::path::PathBuf;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use pretty_assertions::assert_eq;
use url::Url;

use super::*;
use crate::backend::{Account, HttpEndpoint};
use mcp_workbench_settings::{HttpTransport, StdioLaunch};
use mcp_workbench_wire::http_client::StaticHeaders;

const KEY: StoreKey = StoreKey([7; StoreKey::LENGTH]);

fn stdio(change: impl FnOnce(&mut StdioLaunch)) -> ServerTransport {
    let mut launch = StdioLaunch {
        command: "server".to_owned(),
        args: vec!["--token".to_owned(), "s3cret".to_owned()],
        env: [("TOKEN".to_owned(), "s3cret".to_owned())].into(),
        cwd: PathBuf::from("/work"),
        inherit_env: false,
        secret_refs: [].into(),
        withheld: [].into(),
        has_own_folder: false,
        sandbox: None,
        starts_directly: true,
    };
    change(&mut launch);
    ServerTransport::Stdio(launch)
}

type Headers = Vec<(HeaderName, HeaderValue)>;

fn http(change: impl FnOnce(&mut Url, &mut Headers)) -> ServerTransport {
    http_of("hub", change)
}

fn http_of(server: &str, change: impl FnOnce(&mut Url, &mut Headers)) -> ServerTransport {
    let header = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    let mut url = "https://me:s3cret@example.org/mcp?key=s3cret".parse().unwrap();
    let mut headers = vec![header("x-a", "1"), header("authorization", "Bearer s3cret")];
    change(&mut url, &mut headers);
    let account = Account::from_headers(server, &headers);
    let credentials = StaticHeaders::new(headers.into_iter().collect());
    ServerTransport::Http(HttpEndpoint {
        url,
        transport: HttpTransport::Auto,
        account,
        credentials: Arc::new(credentials),
        login: None,
    })
}

fn print(reach: &ServerTransport) -> Fingerprint {
    Fingerprint::new(&KEY, reach, Protocol::Auto)
}

#[test]
fn fingerprint_is_stable_across_releases() {
    assert_eq!(print(&stdio(|_| {})).as_str(), "acabcedaf7ecc81b73931995415fd46b");
    assert_eq!(print(&http(|_, _| {})).as_str(), "688aa0672c11ad098a31f518cf229b1d");
}

#[test]
fn every_launch_parameter_changes_the_fingerprint() {
    let all = [
        print(&stdio(|_| {})),
        print(&stdio(|launch| launch.command.push('x'))),
        print(&stdio(|launch| launch.args.push("x".to_owned()))),
        // The same characters, split differently.
        print(&stdio(|launch| launch.args = vec!["--tokens".to_owned(), "3cret".to_owned()])),
        print(&stdio(|launch| launch.args = vec!["--tokens3cret".to_owned()])),
        print(&stdio(|launch| launch.env = [("TOKEN".to_owned(), "other".to_owned())].into())),
        print(&stdio(|launch| launch.env = [("TOKENs".to_owned(), "3cret".to_owned())].into())),
        print(&stdio(|launch| launch.cwd.push("x"))),
        print(&stdio(|launch| launch.inherit_env = true)),
        print(&http(|_, _| {})),
        print(&http(|url, _| url.set_query(None))),
        print(&http(|url, _| url.set_password(None).unwrap())),
        print(&http(|_, headers| headers.truncate(1))),
        print(&http(|_, headers| headers.clear())),
        print(&http_of("private", |_, _| {})),
        Fingerprint::new(&KEY, &stdio(|_| {}), Protocol::Modern),
        Fingerprint::new(&StoreKey([8; StoreKey::LENGTH]), &stdio(|_| {}), Protocol::Auto),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn the_order_of_headers_does_not_change_it() {
    assert_eq!(print(&http(|_, headers| headers.reverse())), print(&http(|_, _| {})));
}

#[test]
fn a_renewed_token_does_not_change_it() {
    let renewed = HeaderValue::from_static("Bearer other");
    assert_eq!(print(&http(|_, headers| headers[1].1 = renewed)), print(&http(|_, _| {})));
}

#[test]
fn server_name_is_ignored_without_credentials() {
    let open = |server| print(&http_of(server, |_, headers| headers.clear()));
    assert_eq!(open("hub"), open("other"));
}

#[test]
fn fingerprint_round_trips_through_text() {
    let fingerprint = print(&stdio(|_| {}));
    assert_eq!(Fingerprint::parse(fingerprint.as_str()), Some(fingerprint.clone()));
    let upper = fingerprint.as_str().to_uppercase();
    for other in ["", "key", &upper, &fingerprint.as_str()[1..], "../../../../etc/passwd0000000000"]
    {
        assert_eq!(Fingerprint::parse(other), None, "{other}");
    }
}

#[test]
fn a_key_is_not_printed() {
    assert_eq!(format!("{KEY:?}"), "Key");
}
