//! Logins at a real authorization server.

mod authority;

use std::path::Path;
use std::sync::Mutex as StdMutex;

use pretty_assertions::assert_eq;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde_json::json;

use super::*;
use authority::Authority;

/// What a process has: its logins, and what was told of them.
struct Process {
    logins: Arc<Logins>,
    told: Arc<StdMutex<Vec<String>>>,
}

impl Process {
    fn new(folder: &Path) -> Self {
        let (tasks, told) = (TaskTracker::new(), Arc::<StdMutex<Vec<String>>>::default());
        let heard = Arc::clone(&told);
        let keep = Keep::Folder(folder.to_owned());
        let logins = Logins::new(keep, tasks, move |told| {
            heard.lock().unwrap().push(match told {
                Told::SignedIn(_) => "signed in".to_owned(),
                Told::Renewed(_) => "renewed".to_owned(),
                Told::Wanted(_, why) => format!("wanted: {why}"),
                Told::SignedOut(_) => "signed out".to_owned(),
            });
        });
        Self { logins, told }
    }

    fn at(&self, authority: &Authority) -> Arc<SignIn> {
        self.with(authority, OAuth::default())
    }

    fn with(&self, authority: &Authority, oauth: OAuth) -> Arc<SignIn> {
        let place = Place { server: "srv".to_owned(), url: authority.url(), account: None, oauth };
        self.logins.at(place)
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

/// A browser: goes where it is sent, and says what it was shown last.
async fn browse(address: &Url) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let response = client.get(address.clone()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn sign_in(at: &Arc<SignIn>) -> Result<(), Failure> {
    let pending = at.begin(Back::Listener).await?;
    let ((), done) = tokio::join!(
        async {
            browse(pending.address()).await;
        },
        pending.done()
    );
    done
}

async fn token(at: &SignIn) -> Option<String> {
    let headers = at.authorization().await;
    headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap()["Bearer ".len()..].to_owned())
}

fn challenge(status: u16, scheme: &str, shown: Option<&str>, is_last: bool) -> Challenge {
    Challenge {
        status: StatusCode::from_u16(status).unwrap(),
        schemes: vec![scheme.to_owned()],
        shown: shown.map(|shown| HeaderValue::try_from(format!("Bearer {shown}")).unwrap()),
        is_last,
    }
}

#[tokio::test]
async fn a_person_signs_in_and_the_token_is_shown_from_then_on() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    assert_eq!(at.standing().await, Standing::NotAsked);
    assert_eq!(token(&at).await, None);
    let pending = at.begin(Back::Listener).await.unwrap();
    let (page, done) = tokio::join!(browse(pending.address()), pending.done());
    done.unwrap();
    assert_eq!(page.0, 200);
    assert!(page.1.contains("You are signed in; you can close this window."), "{}", page.1);
    assert_eq!(token(&at).await.as_deref(), Some("access-2"));
    assert_eq!(process.told(), ["signed in"]);

    let seen = authority.seen();
    let asked = &seen.authorizations[0];
    assert_eq!(asked["scope"], "read");
    assert_eq!(asked["resource"], authority.url().as_str());
    assert_eq!(asked["code_challenge_method"], "S256");
    let registered = &seen.registrations[0];
    assert_eq!(registered["client_name"], "MCP Workbench");
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered.get("scope"), None);
    assert_eq!(registered["redirect_uris"], json!([asked["redirect_uri"]]));

    // Another process has it, too, without asking anybody.
    let other = Process::new(folder.path());
    assert_eq!(token(&other.at(&authority)).await.as_deref(), Some("access-2"));
    assert_eq!(authority.seen().tokens.len(), 1);
}

#[tokio::test]
async fn fifty_callers_with_an_expired_token_are_one_renewal() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.lifetime = 0);
    let (one, other) = (Process::new(folder.path()), Process::new(folder.path()));
    sign_in(&one.at(&authority)).await.unwrap();
    authority.set(|switches| switches.lifetime = 3600);
    // Two processes, with 25 callers each.
    let mut callers = tokio::task::JoinSet::new();
    for process in [&one, &other] {
        let at = process.at(&authority);
        for _ in 0..25 {
            let at = Arc::clone(&at);
            callers.spawn(async move { token(&at).await });
        }
    }
    let tokens = callers.join_all().await;
    assert_eq!(tokens, vec![Some("access-3".to_owned()); 50]);
    assert_eq!(authority.asked("refresh_token"), 1);
    assert_eq!(authority.seen().refused, 0);
}

#[tokio::test]
async fn a_token_that_the_server_refuses_is_renewed_once_and_then_a_person_is_wanted() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    let invalid = "Bearer error=\"invalid_token\"";
    let first = token(&at).await.unwrap();
    assert_eq!(at.refused(challenge(401, invalid, Some(&first), false)).await, Again::Once);
    let second = token(&at).await.unwrap();
    assert_ne!(first, second);
    // Whoever comes later with the old one is not worth another.
    assert_eq!(at.refused(challenge(401, invalid, Some(&first), false)).await, Again::Once);
    assert_eq!(authority.asked("refresh_token"), 1);
    assert_eq!(at.refused(challenge(401, invalid, Some(&second), true)).await, Again::SignIn);
    assert_eq!(authority.asked("refresh_token"), 1);
    let why = "the server does not take a token that is new".to_owned();
    assert_eq!(at.standing().await, Standing::Wanted { why });
    for secret in [first, second] {
        assert!(at.secrets().contains(&secret));
    }
    sign_in(&at).await.unwrap();
    assert!(matches!(at.standing().await, Standing::SignedIn { .. }));
}
