//! Limits for what servers and authorization servers send.

use pretty_assertions::assert_eq;

use super::*;
use mcp_workbench_settings::{GrantType, defaults};

#[tokio::test]
async fn discovery_sends_a_limited_number_of_requests() {
    let many = |origin: &str| -> serde_json::Value {
        (0..500).map(|number| format!("{origin}/tenant-{number}")).collect()
    };
    for is_redirected in [false, true] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        let origin = authority.origin.clone();
        authority.set(|switches| {
            let servers = if is_redirected { json!([]) } else { many(&origin) };
            switches.resource = json!({ "authorization_servers": servers });
            switches.redirects = is_redirected;
            switches.is_unknown = true;
        });
        let process = Process::new(folder.path());
        let at = process.at(&authority);
        for _ in 0..2 {
            let before = authority.seen().requests;
            let failure = sign_in(&at).await.unwrap_err();
            let sent = authority.seen().requests - before;
            // One more to provoke the challenge.
            assert!(sent <= defaults::DISCOVERY_REQUESTS + 1, "{sent}");
            assert!(failure.reason.starts_with("OAuth discovery failed"), "{failure}");
        }
        if !is_redirected {
            // Reported once.
            assert_eq!(process.told(), ["limit: DiscoveryRequests"]);
        }
    }
}

#[tokio::test]
async fn limits_of_an_entry_override_the_defaults() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| {
        switches.is_terse = true;
        switches.resource = json!({ "scopes_supported": ["a", "b", "c"] });
    });
    let process = Process::new(folder.path());
    let oauth = OAuthConfig { max_scopes: Some(2), ..OAuthConfig::default() };
    sign_in(&process.with(&authority, oauth)).await.unwrap();
    assert_eq!(authority.seen().authorizations[0]["scope"], "a b");
    assert_eq!(process.told()[0], "limit: Scopes");
    for (most, is_refused) in [(1, true), (20, false)] {
        let oauth = OAuthConfig { max_discovery_requests: Some(most), ..OAuthConfig::default() };
        let folder = tempfile::tempdir().unwrap();
        let process = Process::new(folder.path());
        let outcome = sign_in(&process.with(&authority, oauth)).await;
        assert_eq!(outcome.is_err(), is_refused, "{most} {outcome:?}");
        if let Err(failure) = outcome {
            assert!(
                failure.reason.ends_with("1 requests (oauth.maxDiscoveryRequests)"),
                "{failure}"
            );
        }
    }
}

#[tokio::test]
async fn discovery_ends_after_a_time() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| switches.is_slow = true);
    let at = Process::new(folder.path()).at(&authority);
    // Two URLs, each of which is answered within the time limit of a request.
    let place = format!("{}/.well-known/oauth-protected-resource/mcp", authority.origin);
    at.login.hear(format!("Bearer resource_metadata=\"{place}?\""));
    tokio::time::pause();
    let failure = at.begin(RedirectTarget::Listener).await.err().unwrap();
    assert_eq!(failure.reason, "OAuth discovery took longer than 30 s");
}

#[tokio::test]
async fn long_metadata_is_refused() {
    for (length, is_refused) in [(60 * 1024, false), (64 * 1024, true)] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| switches.metadata = json!({ "padding": "x".repeat(length) }));
        let outcome = sign_in(&Process::new(folder.path()).at(&authority)).await;
        assert_eq!(outcome.is_err(), is_refused, "{length} {outcome:?}");
        if let Err(failure) = outcome {
            assert!(failure.reason.ends_with("returned more than 64 KiB"), "{failure}");
        }
    }
}

#[tokio::test]
async fn demanded_scopes_do_not_accumulate_without_bound() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    let shown = token(&at).await;
    process.told();
    let mut gave_up = 0;
    for call in 0..160 {
        let scopes: Vec<_> =
            (0..400).map(|scope| format!("call-{call}-scope-{scope}-{:x>50}", "")).collect();
        let scopes = scopes.join(" ");
        let scheme = format!("Bearer error=\"insufficient_scope\", scope=\"{scopes}\"");
        let decision = at.on_challenge(challenge(403, &scheme, shown.as_deref(), false)).await;
        gave_up += usize::from(decision == RetryDecision::GiveUp);
    }
    assert!(gave_up >= 157, "{gave_up}");
    let told = process.told();
    assert_eq!(told.iter().filter(|told| *told == "limit: Scopes").count(), 1, "{told:?}");
    assert!(told.iter().map(String::len).sum::<usize>() < 4096, "{told:?}");
    let record = at.login.cached_record().unwrap();
    assert!(record.missing_scopes.iter().map(String::len).sum::<usize>() < 10_000);
    let SignInStatus::SignInRequired { why } = at.status().await else { panic!("signed in") };
    assert!(why.len() < 300, "{why}");
    // A challenge that is too long isn't kept.
    assert!(at.login.challenge().unwrap().len() <= 16 * 1024);
}

#[tokio::test]
async fn different_scopes_are_demanded_only_so_often() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    let shown = token(&at).await;
    let demand = |number: usize| {
        let (at, shown) = (Arc::clone(&at), shown.clone());
        async move {
            let scheme = format!("Bearer error=\"insufficient_scope\", scope=\"scope-{number}\"");
            at.on_challenge(challenge(403, &scheme, shown.as_deref(), false)).await
        }
    };
    for number in 0..64 {
        assert_eq!(demand(number).await, RetryDecision::AwaitSignIn, "{number}");
    }
    assert!(!at.demands_too_many_scopes());
    assert_eq!(demand(64).await, RetryDecision::GiveUp);
    assert!(at.demands_too_many_scopes(), "the hint depends on it");
    // A new sign-in starts anew.
    sign_in(&at).await.unwrap();
    assert!(!at.demands_too_many_scopes());
    let shown = token(&at).await;
    let more = "Bearer error=\"insufficient_scope\", scope=\"one-more\"";
    let decision = at.on_challenge(challenge(403, more, shown.as_deref(), false)).await;
    assert_eq!(decision, RetryDecision::AwaitSignIn);
}

#[tokio::test]
async fn announced_and_granted_scopes_are_limited() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let many: Vec<_> = (0..1000).map(|number| format!("scope-{number}")).collect();
    authority.set(|switches| {
        switches.is_terse = true;
        switches.resource = json!({ "scopes_supported": many });
        switches.granted = json!({ "scope": many.join(" ") });
    });
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    sign_in(&at).await.unwrap();
    let asked = authority.seen().authorizations.remove(0);
    assert_eq!(asked["scope"].split(' ').count(), 256);
    assert_eq!(process.told()[0], "limit: Scopes");
    let SignInStatus::SignedIn { scopes, .. } = at.status().await else { panic!("not signed in") };
    assert_eq!(scopes.len(), 256);
}

#[tokio::test]
async fn hostile_lifetimes_are_clamped() {
    for expires_in in [
        json!(u64::MAX),
        json!(1_u64 << 63),
        json!(1e300),
        json!("99999999999999999999"),
        json!(-5),
    ] {
        let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
        authority.set(|switches| switches.granted = json!({ "expires_in": expires_in }));
        let at = Process::new(folder.path()).at(&authority);
        sign_in(&at).await.unwrap();
        let SignInStatus::SignedIn { expires, .. } = at.status().await else {
            panic!("{expires_in}")
        };
        let latest = std::time::UNIX_EPOCH + std::time::Duration::from_secs(253_402_300_799);
        assert!(expires.is_none_or(|expires| expires <= latest), "{expires_in} {expires:?}");
        assert!(token(&at).await.is_some(), "{expires_in}");
    }
}

#[tokio::test]
async fn stored_record_with_a_hostile_time_is_usable() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    let at = Process::new(folder.path()).at(&authority);
    sign_in(&at).await.unwrap();
    let mut record = at.login.cached_record().unwrap().as_ref().clone();
    record.token.as_mut().unwrap().expires = Some(u64::MAX);
    at.login.save(record).await;
    let SignInStatus::SignedIn { expires, .. } = at.status().await else { panic!("not signed in") };
    let year_9999 = std::time::Duration::from_secs(253_402_300_799);
    assert_eq!(expires, Some(std::time::UNIX_EPOCH + year_9999));
    assert!(token(&at).await.is_some());
}

#[tokio::test]
async fn secrets_of_a_login_are_reported_before_use() {
    let (authority, folder) = (Authority::start().await, tempfile::tempdir().unwrap());
    authority.set(|switches| {
        switches.method = "client_secret_basic";
        switches.lifetime = 60;
        switches.granted = json!({ "id_token": "of-the-user" });
    });
    let process = Process::new(folder.path());
    let at = process.at(&authority);
    let learned = || process.learned.lock().clone();
    let pending = at.begin(RedirectTarget::Listener).await.unwrap();
    assert_eq!(learned().last().unwrap(), "secret of client-1/+%");
    browse(pending.address()).await;
    pending.done().await.unwrap();
    for secret in ["access-2", "refresh-2", "of-the-user"] {
        assert!(learned().iter().any(|learned| learned == secret), "{secret}");
    }
    expire(&at).await;
    assert_eq!(token(&at).await.as_deref(), Some("access-3"));
    for secret in ["access-3", "refresh-3"] {
        assert!(learned().iter().any(|learned| learned == secret), "{secret}");
    }
    // Another process reads them from the store.
    let other = Process::new(folder.path());
    assert_eq!(token(&other.at(&authority)).await.as_deref(), Some("access-3"));
    let mut of_store = other.learned.lock().clone();
    of_store.sort();
    of_store.dedup();
    assert_eq!(of_store, ["access-3", "refresh-3", "secret of client-1/+%"]);
    // Device codes are secret, too.
    let oauth = OAuthConfig { grant: GrantType::DeviceCode, ..OAuthConfig::default() };
    let pending = process.with(&authority, oauth).begin(RedirectTarget::Listener).await.unwrap();
    assert!(learned().iter().any(|learned| learned == "device-code"));
    drop(pending);
}
