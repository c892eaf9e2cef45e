use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::name::ServerName;
use crate::state::Switch;
use crate::toolbox;

/// A session that has done everything that is remembered.
fn session() -> Session {
    let mut chosen = Chosen { is_told: true, ..Chosen::default() };
    chosen.opened.insert(ToolboxName::new("box \"1\""));
    let switch = |kind, name: &str, is_on| Switch { kind, name: name.to_owned(), is_on };
    chosen.switch(vec![
        switch(toolbox::Kind::Tool, "a", true),
        switch(toolbox::Kind::Resource, "b", false),
    ]);
    Session {
        agent: Some(AgentName::new("ann")),
        toolbox: Some(ToolboxName::new("box")),
        mode: "activate".to_owned(),
        introduction: Some(Introduction {
            // As it is written, whatever a parser would make of it.
            capabilities: Raw::encode(&json!({ "roots": {}, "x": 1.50 })),
            client: Program { name: "client".to_owned(), version: "1".to_owned() },
            protocol: "2025-11-25".to_owned(),
        }),
        chosen,
        lists: Lists {
            is_given: true,
            is_current: true,
            is_ignored: true,
            given: Listings { tools: Some("0f".to_owned()), ..Listings::default() },
        },
        subscriptions: BTreeSet::from(["file:///a".to_owned()]),
        log_level: Some("error".to_owned()),
        isolated: BTreeSet::from([ServerRef {
            toolbox: ToolboxName::new("box"),
            server: ServerName::new("srv"),
        }]),
        configuration: "c0ffee".to_owned(),
        moves: Moves::default().and(7),
        tenure: Tenure { owner: "a7".to_owned(), epoch: 3 },
    }
}

fn records() -> [Record; 5] {
    let agent = Some(AgentName::new("ann"));
    let server = ServerRef { toolbox: ToolboxName::new("box"), server: ServerName::new("srv") };
    [
        Record::Session(Arc::new(session())),
        Record::Session(Arc::default()),
        Record::Rest(Rest {
            agent: agent.clone(),
            session: Some(SessionKey::of_id("id")),
            payer: Some("agent `ann`".to_owned()),
            text: "the\nrest".into(),
            piece: 7,
        }),
        Record::Task { agent: agent.clone(), server },
        Record::Suspended(Suspended { agent, method: "tools/call".to_owned() }),
    ]
}

#[test]
fn a_record_is_the_same_once_it_was_written_and_read() {
    for record in records() {
        let text = record.encode().unwrap();
        assert_eq!(Record::decode(&text), Some(record), "{text}");
    }
}

#[test]
fn a_record_of_another_version_is_not_there_and_members_that_nobody_knows_are_passed_over() {
    for record in records() {
        let mut text: Value = serde_json::from_str(&record.encode().unwrap()).unwrap();
        for (_, inner) in text["record"].as_object_mut().unwrap() {
            inner["later"] = json!([1]);
        }
        text["later"] = json!({});
        assert_eq!(Record::decode(&text.to_string()), Some(record));
        text["version"] = json!(VERSION + 1);
        assert_eq!(Record::decode(&text.to_string()), None);
    }
    assert_eq!(Record::decode("{}"), None);
}

#[test]
fn no_session_is_led_to_by_the_text_of_its_id() {
    let key = SessionKey::of_id("the id");
    assert_eq!(key, SessionKey::of_id("the id"));
    assert!(key != SessionKey::of_id("the ID") && !format!("{key:?}").contains("the id"));
    assert_ne!(SessionKey::random(), SessionKey::random());
}

#[test]
fn a_session_is_taken_over_as_often_as_can_be_counted() {
    let tenure = Tenure { owner: "a".to_owned(), epoch: u64::MAX - 1 };
    let last = tenure.next("b").unwrap();
    assert!(last.follows(&tenure) && !tenure.follows(&last));
    assert_eq!((last.next("c"), Session::ended(&last)), (None, None));
    let ended = Session::ended(&tenure).unwrap();
    assert!(!tenure.follows(&ended.tenure) && ended.introduction.is_none());
}

#[test]
fn more_than_three_moves_in_a_minute_are_many() {
    let moved = |times: &[u64]| times.iter().fold(Moves::default(), |moves, now| moves.and(*now));
    assert!(moved(&[10, 20, 30, 40]).are_many(69));
    assert!(!moved(&[10, 20, 30, 40]).are_many(70));
    assert!(!moved(&[20, 30, 40]).are_many(41));
    assert!(moved(&[1, 2, 3, 4, 5, 60, 61, 62, 63]).are_many(63));
    // The clock of another machine is ahead.
    assert!(moved(&[100, 100, 100, 100]).are_many(90));
    assert!(moved(&[u64::MAX; 9]).are_many(0));
    assert_eq!(moved(&[1, 2, 3, 4, 5]), moved(&[2, 3, 4, 5]));
}

#[test]
fn lists_are_told_apart_by_their_digests() {
    let list = |names: &[&str]| names.iter().map(Raw::encode).collect::<Vec<_>>();
    let digest = |names: &[&str]| Listings::digest(&list(names));
    assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
    assert_eq!(digest(&[]).len(), 16);
    for other in [&["b", "a"][..], &["a"], &["ab"], &[]] {
        assert_ne!(digest(&["a", "b"]), digest(other));
    }
}

#[test]
fn a_record_is_small() {
    let text = Record::Session(Arc::new(session())).encode().unwrap();
    assert!(text.len() < 1024, "{text}");
}
