use pretty_assertions::assert_eq;
use tokio::time::advance;

use super::*;
use crate::gateway::{Caller, Presence};

/// Somebody who reads, in a session of their own or by their name alone.
struct Reader {
    presence: Presence,
    caller: Caller,
    is_modern: bool,
}

impl Reader {
    fn new(name: &str, is_modern: bool) -> Self {
        let caller = Caller { agent: Some(AgentName::new(name)), toolbox: None };
        Self { presence: Presence::new(None), caller, is_modern }
    }

    fn origin(&self) -> Origin<'_> {
        let Self { presence, caller, is_modern } = self;
        Origin { caller, is_modern: *is_modern, ..Origin::nobody(presence) }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_for_the_session_that_got_the_result_and_else_for_its_agent() {
    let results = Results::default();
    let [ann, again] = [(); 2].map(|()| Reader::new("ann", false));
    let id = results.keep("rest", 10, ann.origin()).unwrap();
    let reads = |reader: &Reader, id: &str| results.find(id, reader.origin()).is_some();
    assert!(id.len() == 32 && reads(&ann, &id) && !reads(&again, &id));
    assert!(!reads(&Reader { presence: ann.presence.clone(), ..Reader::new("bob", false) }, &id));
    let [modern, other] = [(); 2].map(|()| Reader::new("ann", true));
    let by_name = results.keep("rest", 10, modern.origin()).unwrap();
    assert!(reads(&other, &by_name) && reads(&ann, &by_name));
    assert!(!reads(&Reader::new("bob", true), &by_name) && !reads(&other, "00"));
    results.leave(ann.presence.id);
    assert!(!reads(&ann, &id) && reads(&other, &by_name));
    advance(LIFETIME).await;
    assert!(!reads(&other, &by_name));
    results.keep("new", 10, ann.origin()).unwrap();
    assert_eq!(results.state(|state| (state.kept.len(), state.order.len())), (1, 1));
}

#[tokio::test]
async fn what_is_left_is_bounded_for_each_agent_and_in_all() {
    let results = Results::default();
    let count = || results.state(|state| (state.kept.len(), state.order.len()));
    let ann = Reader::new("ann", false);
    let first = results.keep("other", 10, Reader::new("bob", false).origin()).unwrap();
    for _ in 0..PER_AGENT.count + 10 {
        results.keep("rest", 10, ann.origin()).unwrap();
    }
    assert_eq!(count(), (PER_AGENT.count + 1, PER_AGENT.count + 1));
    let long = "x".repeat(PER_AGENT.bytes);
    results.keep(&long, 10, ann.origin()).unwrap();
    assert_eq!(count(), (2, 2), "it takes all that there is for its agent");
    assert!(results.state(|state| state.kept.contains_key(&first)));
    for n in 0..2 * IN_ALL.bytes / PER_AGENT.bytes {
        results.keep(&long, 10, Reader::new(&n.to_string(), false).origin()).unwrap();
    }
    let bytes =
        results.state(|state| state.kept.values().map(|kept| kept.text.len()).sum::<usize>());
    assert_eq!(bytes, IN_ALL.bytes);
    for n in 0..2 * IN_ALL.count {
        results.keep("rest", 10, Reader::new(&n.to_string(), false).origin()).unwrap();
    }
    assert!(count().0 <= IN_ALL.count);
}

#[test]
fn addresses_of_servers_are_told_from_ours() {
    let id = "0123456789abcdef0123456789abcdef";
    assert_eq!(address(&format!("mcp-workbench://results/{id}")), Some((id, 0)));
    assert_eq!(address(&format!("mcp-workbench://results/{id}?offset=12")), Some((id, 12)));
    for other in [
        format!("mcp-workbench://results/{id}?offset=x"),
        format!("mcp-workbench://results/{id}/file:///a"),
        format!("mcp-workbench://results/{id}#next"),
        "mcp-workbench://results/".to_owned(),
        "file:///a".to_owned(),
    ] {
        assert_eq!(address(&other), None, "{other}");
    }
}
