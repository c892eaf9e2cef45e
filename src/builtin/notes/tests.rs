use pretty_assertions::assert_eq;
use serde_json::json;

use crate::builtin::Notes;
use crate::builtin::tests::Client;

async fn with_two_notes() -> Client {
    let client = Client::connect(Notes::default()).await;
    let milk = json!({ "title": "shopping", "text": "bread\nMilk, two liters" });
    client.structured("add_note", milk).await;
    let plan = json!({ "title": "plan", "text": "write tests" });
    client.structured("add_note", plan).await;
    client
}

#[tokio::test]
async fn notes_are_listed_and_read_by_title() {
    let client = with_two_notes().await;
    assert_eq!(
        client.structured("list_notes", json!({})).await,
        json!({ "titles": ["plan", "shopping"] })
    );
    assert_eq!(
        client.structured("read_note", json!({ "title": "plan" })).await,
        json!({ "title": "plan", "text": "write tests" })
    );
}

#[tokio::test]
async fn notes_are_found_by_phrase() {
    let client = with_two_notes().await;
    assert_eq!(
        client.structured("search_notes", json!({ "query": "milk" })).await,
        json!({ "matches": [{ "title": "shopping", "line": "Milk, two liters" }] })
    );
    assert_eq!(
        client.structured("search_notes", json!({ "query": "PLAN" })).await,
        json!({ "matches": [{ "title": "plan" }] })
    );
}

#[tokio::test]
async fn a_deleted_note_is_gone() {
    let client = with_two_notes().await;
    assert_eq!(
        client.structured("delete_note", json!({ "title": "plan" })).await,
        json!({ "titles": ["shopping"] })
    );
    for tool in ["read_note", "delete_note"] {
        assert_eq!(
            client.failure(tool, json!({ "title": "plan" })).await,
            "no note `plan`; `list_notes` returns all titles"
        );
    }
}

#[tokio::test]
async fn add_note_rejects_duplicates_and_oversized_notes() {
    let client = with_two_notes().await;
    assert_eq!(
        client.failure("add_note", json!({ "title": "plan", "text": "" })).await,
        "note `plan` already exists"
    );
    assert_eq!(
        client.failure("add_note", json!({ "title": "", "text": "" })).await,
        "`title` must have 1 to 200 bytes"
    );
    let long = "x".repeat(100_001);
    assert_eq!(
        client.failure("add_note", json!({ "title": "long", "text": long })).await,
        "`text` must have at most 100000 bytes"
    );
}
