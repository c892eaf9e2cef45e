//! Notifications of servers: within responses and unsolicited.

use serde_json::{Value, json};

use crate::one_policy::world::Catalog;

/// Marks every unsolicited notification; those can come at any time.
pub(crate) const BY_ITSELF: &str = "byItself";

fn notice(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
}

fn about(path: &str, message: &Value) -> String {
    let params = &message["params"];
    let what = [&params["name"], &params["uri"], &params["arguments"]];
    format!("{path} received {} {what:?}", message["method"])
}

/// Notifications that precede the response on its stream.
pub(crate) fn before_the_answer(path: &str, catalog: &Catalog, message: &Value) -> Vec<Value> {
    let method = message["method"].as_str().unwrap_or_default();
    let mut about = about(path, message);
    let is_agents = ["tools/call", "resources/read", "prompts/get", "completion/complete"];
    if !is_agents.contains(&method) {
        // The gateway's client sends the other requests at any time, possibly twice.
        about = format!("{BY_ITSELF} {about}");
    }
    let progress = |token: &Value| {
        let said = json!({"progressToken": token, "progress": 1, "message": about});
        notice("progress", &said)
    };
    let is_call = method == "tools/call";
    let own = &message["params"]["_meta"]["progressToken"];
    let mut said = vec![
        notice("message", &json!({"level": "info", "logger": "talk", "data": about})),
        progress(&json!("of nobody")),
        progress(&json!(1_000_000)),
    ];
    said.extend((!own.is_null()).then(|| progress(own)));
    if is_call {
        said.extend(
            ["tools", "resources", "prompts"]
                .map(|list| notice(&format!("{list}/list_changed"), &json!({}))),
        );
        let updated = |uri: &String| notice("resources/updated", &json!({"uri": uri}));
        said.extend(catalog.resources.iter().map(updated));
    }
    said.push(notice("unheard/of", &json!({"about": about})));
    said.push(notice("tasks/status", &json!({"taskId": "1", "statusMessage": about})));
    // Not notifications of MCP.
    said.push(json!({"jsonrpc": "2.0", "method": "unheard", "params": {"about": about}}));
    said.push(notice("unheard", &json!([about])));
    said
}

/// Unsolicited notifications that a request triggers.
pub(crate) fn by_itself(path: &str, catalog: &Catalog, message: &Value) -> Vec<Value> {
    if message["method"] != "tools/call" {
        return Vec::new();
    }
    let about = about(path, message);
    let mut said = vec![
        notice("message", &json!({"level": "warning", "data": about, BY_ITSELF: true})),
        notice("unheard/of", &json!({"about": about, BY_ITSELF: true})),
        notice("progress", &json!({"progressToken": 1, "progress": 1, BY_ITSELF: about})),
    ];
    let updated = |uri: &String| notice("resources/updated", &json!({"uri": uri, BY_ITSELF: true}));
    said.extend(catalog.resources.iter().map(updated));
    said
}
