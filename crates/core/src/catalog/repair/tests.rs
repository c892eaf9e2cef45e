use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::catalog::{Definition, Prompt, Resource, ResourceTemplate, ToolDefinition};

/// Returns the repaired entry and what was repaired, or why it is left out.
fn repaired<T: Definition>(entry: &str) -> Result<(String, String), String> {
    let entry: RawJson = serde_json::from_str(entry).unwrap();
    let mut notes = RepairNotes::default();
    let repaired = T::repair(&entry, &mut notes)?;
    let repaired = T::check(repaired, &mut notes);
    Ok((repaired.as_str().into_owned(), notes.describe().unwrap_or_default()))
}

#[track_caller]
fn assert_repaired<T: Definition>(entry: &str, expected: &str, note: &str) {
    let (expected, note) = (expected.to_owned(), note.to_owned());
    assert_eq!(repaired::<T>(entry), Ok((expected.clone(), note)), "{entry}");
    assert_eq!(repaired::<T>(&expected), Ok((expected, String::new())), "a repair is final");
}

#[track_caller]
fn assert_skipped<T: Definition>(entry: &str, why: &str) {
    assert_eq!(repaired::<T>(entry), Err(why.to_owned()), "{entry}");
}

#[test]
fn valid_entries_keep_their_bytes() {
    fn assert_same<T: Definition>(entry: &str) {
        assert_repaired::<T>(entry, entry, "");
    }
    assert_same::<ToolDefinition>(
        r#"{ "name":"a", "inputSchema" : {"type":"object","properties":{"x":{"const":1e1,"default":null}},"required":["x"],"additionalProperties":false,"anyOf":[{}]}, "later": null, "annotations":{"readOnlyHint": true, "own":null}, "title":"T", "description":"", "outputSchema":{"type":"object", "$schema":"https://json-schema.org/draft/2020-12/schema"}, "execution":{"taskSupport":"optional"}, "icons":[{"src":"x","sizes":["48x48"],"theme":"dark"}], "_meta":{"a":null} }"#,
    );
    // Output schemas of other values are valid since MCP 2026-07-28.
    for output in [r#"{"type":"array"}"#, r#"{"anyOf":[{"type":"object"}]}"#] {
        assert_same::<ToolDefinition>(&format!(
            r#"{{"name":"a","inputSchema":{{"type":"object"}},"outputSchema":{output}}}"#
        ));
    }
    assert_same::<Resource>(
        r#"{"uri":"x:y","name":"n","size":1.0e3,"annotations":{"audience":["user"],"priority":0.50,"lastModified":"2026-01-02T03:04:05.678+01:00"}}"#,
    );
    assert_same::<ResourceTemplate>(r#"{"uriTemplate":"x:{y}","name":"n","mimeType":"a/b"}"#);
    assert_same::<Prompt>(r#"{"name":"p","arguments":[{"name":"a","required":true}]}"#);
}

#[test]
fn nulls_in_optional_members_are_removed() {
    assert_repaired::<ToolDefinition>(
        r#"{"name":"a","title":null,"inputSchema":{"type":"object","properties":null,"required":null},"description":null}"#,
        r#"{"name":"a","inputSchema":{"type":"object"}}"#,
        "removed `title`, which is null; removed `description`, which is null; removed \
         `inputSchema.properties`, which is null; removed `inputSchema.required`, which is null",
    );
    assert_repaired::<ToolDefinition>(
        r#"{"name":"a","inputSchema":{"type":"object"},"outputSchema":null,"annotations":{"title":null,"readOnlyHint":true,"destructiveHint":"no"},"_meta":null,"icons":null,"execution":{"taskSupport":null}}"#,
        r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"execution":{}}"#,
        "removed `outputSchema`, which is null; removed `annotations.title`, which is null; removed \
         `annotations.destructiveHint`, which is not a boolean; removed `execution.taskSupport`, \
         which is null; removed `icons`, which is null; …",
    );
    assert_repaired::<Prompt>(
        r#"{"name":"p","description":null,"arguments":[{"name":"a","description":null},null,{"required":true},{"name":"b","required":"yes"}]}"#,
        r#"{"name":"p","arguments":[{"name":"a"},{"name":"b"}]}"#,
        "removed `description`, which is null; removed `arguments.description`, which is null; \
         removed an item of `arguments`, which is null; removed an item of `arguments`, which has \
         no `name`; removed `arguments.required`, which is not a boolean",
    );
    assert_repaired::<Resource>(
        r#"{"uri":"x:y","name":"n","size":null,"mimeType":null,"annotations":null}"#,
        r#"{"uri":"x:y","name":"n"}"#,
        "removed `mimeType`, which is null; removed `size`, which is null; removed `annotations`, \
         which is null",
    );
}

#[test]
fn input_schemas_become_schemas_of_objects() {
    let added = "added `inputSchema`, which was missing";
    let bare = r#"{"inputSchema":{"type":"object"},"name":"a"}"#;
    assert_repaired::<ToolDefinition>(r#"{"name":"a"}"#, bare, added);
    let own = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
    assert_repaired::<ToolDefinition>(r#"{"name":"a","inputSchema":null}"#, own, added);
    for (schema, expected, note) in [
        ("{}", r#"{"type":"object"}"#, "added `type: object` to `inputSchema`"),
        (
            r#"{"type":null,"x":1}"#,
            r#"{"type":"object","x":1}"#,
            "added `type: object` to `inputSchema`",
        ),
        (
            r#"{"anyOf":[{}]}"#,
            r#"{"type":"object","anyOf":[{}]}"#,
            "added `type: object` to `inputSchema`",
        ),
        (
            r#"{"type":["null","object"]}"#,
            r#"{"type":"object"}"#,
            "set `type` of `inputSchema` to `object`",
        ),
        (r#"{"type":"OBJECT"}"#, r#"{"type":"object"}"#, "set `type` of `inputSchema` to `object`"),
        (
            r#"{"type":"string","type":"object"}"#,
            r#"{"type":"object"}"#,
            "set `type` of `inputSchema` to `object`",
        ),
        (
            r#"{"type":"object","properties":[]}"#,
            r#"{"type":"object"}"#,
            "removed `inputSchema.properties`, which is not an object",
        ),
        (
            r#"{"type":"object","properties":{"any":true,"no":false,"x":{"a":1.0},"odd":null}}"#,
            r#"{"type":"object","properties":{"any":{},"no":{"not":{}},"x":{"a":1.0},"odd":{}}}"#,
            "replaced 3 of `inputSchema.properties`, which are not objects",
        ),
        (
            r#"{"type":"object","required":true,"$schema":7}"#,
            r#"{"type":"object"}"#,
            "removed `inputSchema.$schema`, which is not a string; removed `inputSchema.required`, \
             which is not an array",
        ),
        (
            r#"{"type":"object","required":["a",null]}"#,
            r#"{"type":"object","required":["a"]}"#,
            "removed an item of `inputSchema.required`, which is null",
        ),
    ] {
        assert_repaired::<ToolDefinition>(
            &format!(r#"{{"name":"a","inputSchema":{schema}}}"#),
            &format!(r#"{{"name":"a","inputSchema":{expected}}}"#),
            note,
        );
    }
    for (schema, why) in [
        ("true", "`inputSchema` is not an object"),
        ("[]", "`inputSchema` is not an object"),
        (r#""none""#, "`inputSchema` is not an object"),
        (r#"{"type":"string"}"#, "`inputSchema` is not the schema of an object"),
        (r#"{"type":"object","type":"array"}"#, "`inputSchema` is not the schema of an object"),
    ] {
        assert_skipped::<ToolDefinition>(&format!(r#"{{"name":"a","inputSchema":{schema}}}"#), why);
    }
}

#[test]
fn output_schemas_that_do_not_compile_are_removed() {
    let tool = |output: &str| {
        format!(r#"{{"name":"a","inputSchema":{{"type":"object"}},"outputSchema":{output}}}"#)
    };
    let bare = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
    assert_repaired::<ToolDefinition>(
        &tool(r##"{"type":"object","properties":{"x":{"$ref":"#/$defs/Gone"}}}"##),
        bare,
        "removed `outputSchema`, which does not compile",
    );
    assert_repaired::<ToolDefinition>(
        &tool("[]"),
        bare,
        "removed `outputSchema`, which is not an object",
    );
    assert_repaired::<ToolDefinition>(
        &tool(r#"{"properties":{}}"#),
        &tool(r#"{"type":"object","properties":{}}"#),
        "added `type: object` to `outputSchema`",
    );
}

#[test]
fn resources_without_a_name_are_named_by_their_uri() {
    assert_repaired::<Resource>(
        r#"{"uri":"x:y"}"#,
        r#"{"name":"x:y","uri":"x:y"}"#,
        "set `name` to `uri`",
    );
    assert_repaired::<ResourceTemplate>(
        r#"{"uriTemplate":"x:{y}","name":null}"#,
        r#"{"uriTemplate":"x:{y}","name":"x:{y}"}"#,
        "set `name` to `uriTemplate`",
    );
    assert_skipped::<Resource>(r#"{"name":"n"}"#, "has no `uri`");
    assert_skipped::<Resource>(r#"{"uri":null,"name":"n"}"#, "`uri` is null");
    assert_skipped::<Prompt>(r#"{"description":"d"}"#, "has no `name`");
    assert_skipped::<Prompt>(r#"{"name":5}"#, "`name` is not a string");
    for entry in ["null", "[]", "5", r#""x""#] {
        assert!(repaired::<ToolDefinition>(entry).is_err(), "{entry}");
        assert!(repaired::<Resource>(entry).is_err(), "{entry}");
    }
}

#[test]
fn annotations_that_strict_clients_reject_are_removed() {
    let resource = |annotations: &str| {
        format!(r#"{{"uri":"x:y","name":"n","annotations":{{{annotations}}}}}"#)
    };
    for (annotation, key, why) in [
        (r#""lastModified":"2026-01-02""#, "lastModified", "is not a time"),
        (r#""lastModified":"2026-01-02T03:04:05""#, "lastModified", "is not a time"),
        (r#""lastModified":"2016-12-31T23:59:60Z""#, "lastModified", "is not a time"),
        (r#""lastModified":"2026-01-02 03:04:05Z""#, "lastModified", "is not a time"),
        (r#""lastModified":1767322000"#, "lastModified", "is not a time"),
        (r#""priority":5"#, "priority", "is not from 0 to 1"),
        (r#""priority":"high""#, "priority", "is not from 0 to 1"),
        (r#""audience":"user""#, "audience", "is not an array"),
    ] {
        let note = format!("removed `annotations.{key}`, which {why}");
        assert_repaired::<Resource>(&resource(annotation), &resource(""), &note);
    }
    assert_repaired::<Resource>(
        &resource(r#""audience":["user","robot"]"#),
        &resource(r#""audience":["user"]"#),
        "removed an item of `annotations.audience`, which is not a known value",
    );
    for size in [r#""12""#, "1.5", "1e400"] {
        let (entry, _) =
            repaired::<Resource>(&format!(r#"{{"uri":"x:y","name":"n","size":{size}}}"#)).unwrap();
        assert_eq!(entry, r#"{"uri":"x:y","name":"n"}"#);
    }
}

#[test]
fn text_that_parsers_of_clients_reject_is_replaced() {
    assert_repaired::<Prompt>(
        r#"{"name":"p","description":"half \ud83d of one","x":["\ude00"]}"#,
        r#"{"name":"p","description":"half \ufffd of one","x":["\ufffd"]}"#,
        "replaced unpaired surrogates",
    );
    assert_skipped::<Prompt>(r#"{"name":"p\ud83d"}"#, "`name` is not valid Unicode");
    let nested = |depth: usize| {
        format!(
            r#"{{"name":"p","x":{}{}}}"#,
            r#"[{"]":"#.repeat(depth / 2) + "1",
            "}]".repeat(depth / 2)
        )
    };
    assert!(repaired::<Prompt>(&nested(MAX_DEPTH - 2)).is_ok());
    assert_skipped::<Prompt>(&nested(MAX_DEPTH + 2), "it is nested deeper than 150 levels");
}

#[test]
fn hostile_entries_are_repaired_in_linear_time() {
    let many: serde_json::Map<String, Value> =
        (0..200_000).map(|index| (format!("p{index}"), json!(null))).collect();
    let entry = json!({"name": "a", "inputSchema": {"type": "object", "properties": many}});
    let (_, note) = repaired::<ToolDefinition>(&entry.to_string()).unwrap();
    assert_eq!(note, "replaced 200000 of `inputSchema.properties`, which are not objects");
    let nulls = vec![Value::Null; 200_000];
    let entry = json!({"name": "a", "arguments": nulls});
    let (prompt, note) = repaired::<Prompt>(&entry.to_string()).unwrap();
    assert_eq!(prompt, r#"{"name":"a","arguments":[]}"#);
    assert!(note.ends_with('…') && note.len() < 1000, "{note}");
}
