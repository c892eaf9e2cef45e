use std::collections::BTreeMap;
use std::path::Path;

use tokio::time::advance;

use super::*;
use crate::state;

#[tokio::test(start_paused = true)]
async fn idle_limiters_are_swept() {
    let text =
        r#"{"limits": {"perAgent": {"callsPerMinute": 1}}, "mcpServers": {"a": {"command": "a"}}}"#;
    let env = BTreeMap::new();
    let loaded = mcp_workbench_config::parse(text, Path::new("x.json"), Path::new("/"), &env);
    let config = loaded.unwrap().config;
    let limiters = Limiters::new(state::new_store());
    let named =
        |name: usize| limiters.of_agent(Some(&AgentName::new(name.to_string())), &config).unwrap();
    let known = || limiters.known.lock().limiters.len();
    advance(Rate::PERIOD * 2).await;
    for name in 0..FIRST_SWEEP {
        named(name).count().await.unwrap();
    }
    for name in [0, FIRST_SWEEP - 1] {
        assert!(named(name).count().await.is_err());
    }
    let kept = named(1);
    advance(Rate::PERIOD + Duration::from_secs(1)).await;
    for name in FIRST_SWEEP..=2 * FIRST_SWEEP {
        named(name).count().await.unwrap();
    }
    assert_eq!(known(), 1 + FIRST_SWEEP + 1, "limiters in use and new ones remain");
    drop(kept);
    for name in 0..MAX_LIMITERS + 2 * FIRST_SWEEP {
        named(name).count().await.ok();
    }
    assert!(known() <= MAX_LIMITERS + 1, "{}", known());
    for name in [2 * FIRST_SWEEP + 1, MAX_LIMITERS + 1] {
        assert_eq!(named(name).subject_label, format!("by agent `{name}`"));
        assert!(named(name).count().await.is_err(), "a dropped limiter keeps its count");
    }
    assert!(named(MAX_LIMITERS + 2 * FIRST_SWEEP).count().await.is_ok());
}

#[test]
fn counter_keys_have_a_fixed_encoding() {
    let text = r#"{"mcpServers": {
        "a": {"command": "run", "args": ["-v"], "env": {"KEY": "s3cret"}, "cwd": "/srv"},
        "b": {"url": "https://example.com/mcp", "headers": {"X-Key": "s3cret"}}
    }}"#;
    let loaded =
        mcp_workbench_config::parse(text, Path::new("x.json"), Path::new("/"), &BTreeMap::new());
    let config = loaded.unwrap().config;
    let server = |name: &str| {
        let (_, server) =
            config.servers().find(|(_, server)| server.name.as_str() == name).unwrap();
        LimitSubject::Server(server.name.clone(), Box::new(server.launch.clone()))
    };
    let encoded = |subject: &LimitSubject| {
        encode_counter(subject, RateLimits::new(Some(9), None)).to_string()
    };
    assert_eq!(encoded(&LimitSubject::All), r#"[2,["all"],9,null]"#);
    let agent = LimitSubject::Agent(Some(AgentName::new("dev")));
    assert_eq!(encoded(&agent), r#"[2,["agent","dev"],9,null]"#);
    assert_eq!(
        encoded(&server("a")),
        r#"[2,["server","a",["stdio","run",["-v"],["KEY"],"/srv",false,null]],9,null]"#
    );
    assert_eq!(
        encoded(&server("b")),
        r#"[2,["server","b",["http","https://example.com/mcp","auto",["x-key"],null,"auto"]],9,null]"#
    );
}
