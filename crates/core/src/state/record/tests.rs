use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::state::Activation;
use crate::toolbox;
use mcp_workbench_names::ServerName;

/// A session without any default value.
fn session() -> SessionRecord {
    let mut chosen = SessionChoices { is_told: true, ..SessionChoices::default() };
    chosen.opened.insert(ToolboxName::new("box \"1\""));
    let switch = |kind, name: &str, is_on| Activation { kind, name: name.to_owned(), is_on };
    chosen.switch(vec![
        switch(toolbox::PrimitiveKind::Tool, "a", true),
        switch(toolbox::PrimitiveKind::Resource, "b", false),
    ]);
    SessionRecord {
        agent: Some(AgentName::new("ann")),
        toolbox: Some(ToolboxName::new("box")),
        subject: Some("digest".into()),
        mode: "activate".to_owned(),
        introduction: Some(ClientIntroduction {
            // Raw JSON, which must survive unchanged.
            capabilities: RawJson::encode(&json!({ "roots": {}, "x": 1.50 })),
            client: ClientInfo { name: "client".to_owned(), version: "1".to_owned() },
            protocol: "2025-11-25".to_owned(),
        }),
        chosen,
        lists: ListState {
            is_given: true,
            is_current: true,
            is_ignored: true,
            digests: ListDigests { tools: Some("0f".to_owned()), ..ListDigests::default() },
        },
        subscriptions: BTreeSet::from(["file:///a".into()]),
        log_level: Some("error".to_owned()),
        isolated: BTreeSet::from([ServerRef {
            toolbox: ToolboxName::new("box"),
            server: ServerName::new("srv"),
        }]),
        configuration: "c0ffee".to_owned(),
        moves: Takeovers::default().and(7),
        tenure: SessionLease { owner: "a7".to_owned(), epoch: 3 },
    }
}

fn records() -> [StateRecord; 5] {
    let agent = Some(AgentName::new("ann"));
    let server = ServerRef { toolbox: ToolboxName::new("box"), server: ServerName::new("srv") };
    [
        StateRecord::Session(Arc::new(session())),
        StateRecord::Session(Arc::default()),
        StateRecord::Remainder(ResultRemainder {
            agent: agent.clone(),
            subject: None,
            session: Some(SessionKey::of_id("id")),
            owner: Some("agent `ann`".to_owned()),
            text: "the\nrest".into(),
            piece: 7,
        }),
        StateRecord::Task { agent: agent.clone(), server },
        StateRecord::Suspended(Suspended {
            agent,
            method: "tools/call".to_owned(),
            expires_at: Some(7),
        }),
    ]
}

#[test]
fn record_round_trips() {
    for record in records() {
        let text = record.encode().unwrap();
        assert_eq!(StateRecord::decode(&text), Some(record), "{text}");
    }
}

#[test]
fn other_versions_are_rejected_and_unknown_members_ignored() {
    for record in records() {
        let mut text: Value = serde_json::from_str(&record.encode().unwrap()).unwrap();
        for (_, inner) in text["record"].as_object_mut().unwrap() {
            inner["later"] = json!([1]);
        }
        text["later"] = json!({});
        assert_eq!(StateRecord::decode(&text.to_string()), Some(record));
        text["version"] = json!(VERSION + 1);
        assert_eq!(StateRecord::decode(&text.to_string()), None);
    }
    assert_eq!(StateRecord::decode("{}"), None);
}

#[test]
fn session_key_does_not_contain_the_session_id() {
    let key = SessionKey::of_id("the id");
    assert_eq!(key, SessionKey::of_id("the id"));
    assert!(key != SessionKey::of_id("the ID") && !format!("{key:?}").contains("the id"));
    assert_ne!(SessionKey::random(), SessionKey::random());
}

#[test]
fn takeover_fails_when_the_epoch_overflows() {
    let tenure = SessionLease { owner: "a".to_owned(), epoch: u64::MAX - 1 };
    let last = tenure.taken_over_by("b").unwrap();
    assert!(last.supersedes(&tenure) && !tenure.supersedes(&last));
    assert_eq!((last.taken_over_by("c"), SessionRecord::ended(&last)), (None, None));
    let ended = SessionRecord::ended(&tenure).unwrap();
    assert!(!tenure.supersedes(&ended.tenure) && ended.introduction.is_none());
}

#[test]
fn more_than_three_takeovers_in_a_minute_are_flapping() {
    let moved =
        |times: &[u64]| times.iter().fold(Takeovers::default(), |moves, now| moves.and(*now));
    assert!(moved(&[10, 20, 30, 40]).is_flapping(69));
    assert!(!moved(&[10, 20, 30, 40]).is_flapping(70));
    assert!(!moved(&[20, 30, 40]).is_flapping(41));
    assert!(moved(&[1, 2, 3, 4, 5, 60, 61, 62, 63]).is_flapping(63));
    // The clock of another machine is ahead.
    assert!(moved(&[100, 100, 100, 100]).is_flapping(90));
    assert!(moved(&[u64::MAX; 9]).is_flapping(0));
    assert_eq!(moved(&[1, 2, 3, 4, 5]), moved(&[2, 3, 4, 5]));
}

#[test]
fn list_digest_depends_on_entries_and_order() {
    let list = |names: &[&str]| names.iter().map(RawJson::encode).collect::<Vec<_>>();
    let digest = |names: &[&str]| ListDigests::digest(&list(names));
    assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
    assert_eq!(digest(&[]).len(), 16);
    for other in [&["b", "a"][..], &["a"], &["ab"], &[]] {
        assert_ne!(digest(&["a", "b"]), digest(other));
    }
}

#[test]
fn a_record_is_small() {
    let text = StateRecord::Session(Arc::new(session())).encode().unwrap();
    assert!(text.len() < 1024, "{text}");
}
