use pretty_assertions::assert_eq;

use super::*;

pub(crate) mod signing;

#[test]
fn a_token_identifies_its_agent() {
    let entry = |agent: &str, token: &str| TokenConfig {
        agent: AgentName::new(agent),
        digest: token_digest(token),
        variable: None,
        referred: None,
    };
    let tokens = [entry("a", "token-a"), entry("b", "token-b")];
    let of = |token: &str| find_token(&tokens, token).map(|(_, agent)| agent.as_str());
    assert_eq!(of("token-a"), Some("a"));
    assert_eq!(of("token-b"), Some("b"));
    for wrong in ["", "token-", "token-c", "TOKEN-A", "token-a "] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
}
