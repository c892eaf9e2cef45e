//! Resource lists, templates and `resources/read`.

use serde_json::{Value, json};

use crate::content::PNG;
use crate::request::Request;
use crate::server::Server;
use crate::skills;
use crate::wire::{Answer, Fault};

pub(crate) const WATCHED: &str = "test://watched-resource";

/// Skills are listed only for modern clients.
pub(crate) fn list(modern: bool) -> Vec<Value> {
    let mut resources = vec![
        json!({
            "uri": "test://static-text",
            "name": "Static text",
            "description": "A text that never changes",
            "mimeType": "text/plain",
        }),
        json!({
            "uri": "test://static-binary",
            "name": "Static image",
            "description": "An image that never changes",
            "mimeType": "image/png",
        }),
        json!({
            "uri": WATCHED,
            "name": "Watched text",
            "description": "A text that changes when test_trigger_resource_change is called",
            "mimeType": "text/plain",
        }),
    ];
    if modern {
        resources.extend(skills::resources());
    }
    resources
}

pub(crate) fn templates() -> Value {
    json!([{
        "uriTemplate": "test://template/{id}/data",
        "name": "Data by id",
        "description": "Data for an ID",
        "mimeType": "application/json",
    }])
}

pub(crate) fn read(server: &Server, request: &Request) -> Answer {
    let uri = request.text("uri")?;
    let content = match uri {
        "test://static-text" => {
            let text = "This is the content of the static text resource.";
            json!({ "uri": uri, "mimeType": "text/plain", "text": text })
        }
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": PNG }),
        WATCHED => {
            let text = format!("Revision {}", server.lists.lock().unwrap().revision);
            json!({ "uri": uri, "mimeType": "text/plain", "text": text })
        }
        _ => templated(uri)
            .or_else(|| skills::file(uri).filter(|_| request.modern))
            .ok_or_else(|| Fault::no_resource(uri, request.modern))?,
    };
    Ok(json!({ "contents": [content] }))
}

fn templated(uri: &str) -> Option<Value> {
    let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
    if id.is_empty() || id.contains('/') {
        return None;
    }
    let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
    Some(json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() }))
}
