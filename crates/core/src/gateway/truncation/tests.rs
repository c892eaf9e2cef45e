use pretty_assertions::assert_eq;

use super::*;
use crate::gateway::{AgentHandle, Caller};
use crate::state::{self, SessionKey, SessionLease};
use mcp_workbench_names::AgentName;

/// A reader in a session, or one identified only by name.
struct Reader {
    agent: AgentHandle,
    caller: Caller,
    session: Option<SessionKey>,
}

impl Reader {
    fn new(name: &str, session: Option<&str>) -> Self {
        let caller = Caller { agent: Some(AgentName::new(name)), ..Caller::default() };
        Self { agent: AgentHandle::new(None), caller, session: session.map(SessionKey::of_id) }
    }

    fn context(&self) -> RequestContext<'_> {
        let Self { agent, caller, session } = self;
        let is_modern = session.is_none();
        RequestContext {
            caller,
            is_modern,
            session: session.as_ref(),
            ..RequestContext::detached(agent)
        }
    }
}

#[tokio::test]
async fn remainder_is_readable_by_its_session_or_its_agent_only() {
    let results = TruncatedResults::new(state::new_store(), Arc::default());
    let [ann, again] = ["1", "2"].map(|session| Reader::new("ann", Some(session)));
    let (id, _) = results.keep("rest", 10, &ann.context()).await.unwrap();
    let reads =
        async |reader: &Reader, id: &str| results.find(id, &reader.context()).await.is_some();
    assert!(id.len() == 32 && reads(&ann, &id).await && !reads(&again, &id).await);
    assert!(!reads(&Reader::new("bob", Some("1")), &id).await, "another agent cannot read it");
    let [modern, other] = [(); 2].map(|()| Reader::new("ann", None));
    let stored = results.keep("rest", 10, &modern.context()).await;
    let (by_name, _) = stored.unwrap();
    assert!(reads(&other, &by_name).await && reads(&ann, &by_name).await);
    assert!(!reads(&modern, &id).await);
    assert!(!reads(&Reader::new("bob", None), &by_name).await && !reads(&other, "00").await);
    results.store.end(&SessionKey::of_id("1"), &SessionLease::default());
    assert!(!reads(&ann, &id).await && reads(&other, &by_name).await);
}

#[test]
fn server_uris_are_not_remainder_uris() {
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
