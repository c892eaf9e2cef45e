use pretty_assertions::assert_eq;

use super::*;
use crate::gateway::{Caller, Presence};
use crate::name::AgentName;
use crate::state::{self, SessionKey, Tenure};

/// Somebody who reads, in a session of their own or by their name alone.
struct Reader {
    presence: Presence,
    caller: Caller,
    session: Option<SessionKey>,
}

impl Reader {
    fn new(name: &str, session: Option<&str>) -> Self {
        let caller = Caller { agent: Some(AgentName::new(name)), toolbox: None };
        Self { presence: Presence::new(None), caller, session: session.map(SessionKey::of_id) }
    }

    fn context(&self) -> RequestContext<'_> {
        let Self { presence, caller, session } = self;
        let is_modern = session.is_none();
        RequestContext {
            caller,
            is_modern,
            session: session.as_ref(),
            ..RequestContext::nobody(presence)
        }
    }
}

#[tokio::test]
async fn what_is_left_is_for_the_session_that_got_the_result_and_else_for_its_agent() {
    let results = Results(state::store());
    let [ann, again] = ["1", "2"].map(|session| Reader::new("ann", Some(session)));
    let id = results.keep("rest", 10, Room::ENDLESS, &ann.context()).await.unwrap();
    let reads =
        async |reader: &Reader, id: &str| results.find(id, &reader.context()).await.is_some();
    assert!(id.len() == 32 && reads(&ann, &id).await && !reads(&again, &id).await);
    assert!(!reads(&Reader::new("bob", Some("1")), &id).await, "it is not that agent's");
    let [modern, other] = [(); 2].map(|()| Reader::new("ann", None));
    let by_name = results.keep("rest", 10, Room::ENDLESS, &modern.context()).await.unwrap();
    assert!(reads(&other, &by_name).await && reads(&ann, &by_name).await);
    assert!(!reads(&modern, &id).await);
    assert!(!reads(&Reader::new("bob", None), &by_name).await && !reads(&other, "00").await);
    results.0.end(&SessionKey::of_id("1"), &Tenure::default());
    assert!(!reads(&ann, &id).await && reads(&other, &by_name).await);
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
