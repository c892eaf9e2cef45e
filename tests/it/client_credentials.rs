//! Client authentication with secrets and with keys.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::sign_in::authority::Authority;
use crate::sign_in::login;
use crate::support::{TestEnvironment, real};

fn bench(authority: &Authority, oauth: Value) -> TestEnvironment {
    let entry = json!({ "url": authority.mcp, "oauth": oauth });
    TestEnvironment::new().server("dev", "hub", entry).set("toolMode", json!("proxy"))
}

fn call(bench: &TestEnvironment) -> String {
    let called = bench.run(["call", "dev", "hub", "read"]);
    assert_eq!(called.code, Some(0), "{called}");
    called.stdout
}

#[test]
fn registered_client_is_reused_by_every_process() {
    for method in ["client_secret_basic", "client_secret_post", "none"] {
        let mut command = real::authority();
        command.env("AUTH_METHODS", method);
        let authority = Authority::of(command);
        let bench = bench(&authority, json!({}));
        // The token expires immediately, so each process has to renew it.
        authority.set("ttl=1");
        let signed_in = authority.sign_in(&bench, &["hub"]);
        assert_eq!(signed_in.code, Some(0), "{method}: {signed_in}");
        let client = login(&bench)["client"].clone();
        assert_eq!(client["secret"].is_string(), method != "none", "{method}: {client}");
        for renewed in 1..=2 {
            // The token must expire by the authorization server's clock.
            std::thread::sleep(std::time::Duration::from_millis(1200));
            authority.set(if renewed == 1 { "ttl=1" } else { "ttl=3600" });
            let called = call(&bench);
            assert!(called.starts_with("read by ann"), "{method}: {called}");
        }
        let counts = authority.counts();
        assert_eq!((&counts["code"], &counts["refused"]), (&json!(1), &json!(0)), "{method}");
        assert!(counts["refresh"].as_u64() >= Some(2), "{method}: {counts}");
        assert_eq!(login(&bench)["client"], client, "{method}: the client registered again");
    }
}

#[test]
fn client_credentials_work_with_a_secret_or_a_key() {
    let authority = Authority::start();
    let machines = &authority.machines;
    let grant = "client_credentials";
    let mut ways = vec![(
        "machine".to_owned(),
        json!({ "grant": grant, "clientId": "machine", "clientSecret": machines["secret"] }),
    )];
    for algorithm in ["RS256", "ES256"] {
        let id = format!("signs-{algorithm}");
        let key = &machines["keys"][algorithm];
        let oauth = json!({
            "grant": grant, "clientId": id, "privateKey": key, "algorithm": algorithm, "keyId": "k1",
        });
        ways.push((id, oauth));
    }
    for (id, oauth) in ways {
        let called = call(&bench(&authority, oauth));
        assert!(called.contains(&format!("as {id}")), "{called}");
    }
    // A key of one algorithm is rejected for another, and the error doesn't contain it.
    let key = machines["keys"]["RS256"].as_str().unwrap();
    let wrong = json!({ "grant": grant, "clientId": "signs-ES256", "privateKey": key });
    let refused = bench(&authority, wrong).run(["call", "dev", "hub", "read"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    let line = key.lines().nth(1).unwrap();
    assert!(!refused.to_string().contains(line), "{refused}");
    assert!(refused.stderr.contains("is not a key for ES256"), "{refused}");
    assert!(refused.stderr.contains("fix `oauth` in the server's entry"), "{refused}");
}
