//! The definitions of `tools/list`.

use serde_json::{Value, json};

use crate::change::Lists;

/// Tools without arguments. The suite calls the first listed tool without arguments, so keep it
/// first.
const PLAIN: [(&str, &str); 27] = [
    ("test_simple_text", "Returns a text"),
    ("test_image_content", "Returns an image"),
    ("test_audio_content", "Returns audio"),
    ("test_embedded_resource", "Returns a resource"),
    ("test_multiple_content_types", "Returns a text, an image and a resource"),
    ("test_tool_with_logging", "Logs three messages"),
    ("test_error_handling", "Fails"),
    ("test_tool_with_progress", "Reports its progress three times"),
    ("test_elicitation_sep1034_defaults", "Shows a form with defaults"),
    ("test_elicitation_sep1330_enums", "Shows a form with choices"),
    ("test_list_roots", "Requests the client's roots"),
    ("test_reconnection", "Takes a moment"),
    ("test_missing_capability", "Needs a client that can sample"),
    ("test_logging_tool", "Logs a message"),
    ("test_streaming_elicitation", "Asks for a name"),
    ("test_trigger_tool_change", "Changes the tool list"),
    ("test_trigger_prompt_change", "Changes the prompt list"),
    ("test_trigger_resource_change", "Changes the watched resource"),
    ("test_input_required_result_elicitation", "Asks for a name"),
    ("test_input_required_result_sampling", "Asks a model for a capital"),
    ("test_input_required_result_list_roots", "Requests the client's roots"),
    ("test_input_required_result_request_state", "Requests input with a request state"),
    ("test_input_required_result_multiple_inputs", "Makes three requests together"),
    ("test_input_required_result_multi_round", "Requests input twice"),
    ("test_input_required_result_tampered_state", "Requests input and checks the state"),
    ("test_input_required_result_capabilities", "Requests only input that the client supports"),
    ("test_tool_with_task", "Asks for a name, then continues as a task"),
];

pub(crate) fn list(lists: &Lists) -> Vec<Value> {
    let plain = PLAIN.iter().map(|(name, description)| tool(name, description, &json!({}), &[]));
    let mut tools: Vec<Value> = plain.collect();
    tools.extend([
        tool(
            "test_sampling",
            "Asks a model",
            &json!({ "prompt": { "type": "string" } }),
            &["prompt"],
        ),
        tool(
            "test_elicitation",
            "Asks the user",
            &json!({ "message": { "type": "string" } }),
            &["message"],
        ),
        tool("greet", "Greets; never a task", &json!({ "name": { "type": "string" } }), &["name"]),
        tool(
            "slow_compute",
            "Runs for some seconds, as a task if allowed",
            &json!({
                "seconds": { "type": "number", "minimum": 0 },
                "label": { "type": "string" },
            }),
            &["seconds"],
        ),
        tool("failing_job", "Fails; always a task", &json!({}), &[]),
        tool(
            "protocol_error_job",
            "Fails with a protocol error, as a task if allowed",
            &json!({}),
            &[],
        ),
        tool(
            "confirm_delete",
            "Asks for confirmation, then pretends to delete",
            &json!({ "filename": { "type": "string" } }),
            &["filename"],
        ),
        tool("multi_input", "Asks for two names together", &json!({}), &[]),
        tool(
            "test_custom_headers",
            "Has an argument that is also sent as a header",
            &json!({
                "region": { "type": "string", "x-mcp-header": "Region" },
                "query": { "type": "string" },
            }),
            &[],
        ),
        json_schema_tool(),
    ]);
    if lists.has_dynamic_tool {
        tools.push(tool("test_dynamic_tool", "Appears and disappears", &json!({}), &[]));
    }
    tools
}

fn tool(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    json!({ "name": name, "description": description, "inputSchema": schema })
}

fn json_schema_tool() -> Value {
    json!({
        "name": "json_schema_2020_12_tool",
        "description": "Has a schema with many keywords",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {
                        "street": { "type": "string" },
                        "city": { "type": "string" },
                    },
                },
            },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" },
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": {
                "properties": { "contactMethod": { "const": "phone" } },
                "required": ["contactMethod"],
            },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        },
    })
}
