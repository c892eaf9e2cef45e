use std::collections::BTreeMap;
use std::path::Path;

use tokio::time::advance;

use super::*;
use crate::{config, state};

#[tokio::test(start_paused = true)]
async fn agents_that_have_gone_are_forgotten_once_it_makes_no_difference() {
    let text =
        r#"{"limits": {"perAgent": {"callsPerMinute": 1}}, "mcpServers": {"a": {"command": "a"}}}"#;
    let env = BTreeMap::new();
    let loaded = config::parse(text, Path::new("x.json"), Path::new("/"), &env);
    let config = loaded.unwrap().config;
    let limiters = Limiters::new(state::store());
    let agent =
        |name: usize| Caller { agent: Some(AgentName::new(name.to_string())), toolbox: None };
    let named = |name: usize| limiters.of(&agent(name), &config).agent.unwrap();
    let known = || limiters.known.lock().unwrap().limiters.len();
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
    assert_eq!(known(), 1 + FIRST_SWEEP + 1, "the one that is in use, and the new ones");
    drop(kept);
    for name in 0..MAX_LIMITERS + 2 * FIRST_SWEEP {
        named(name).count().await.ok();
    }
    assert!(known() <= MAX_LIMITERS + 1, "{}", known());
}
