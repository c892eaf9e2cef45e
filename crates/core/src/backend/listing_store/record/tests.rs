use pretty_assertions::assert_eq;
use proptest::prelude::{Strategy, any, prop, proptest};
use serde_json::json;

use super::*;
use crate::catalog::{Prompt, Resource, ResourceTemplate, ToolDefinition};

fn definitions<T: Definition>(texts: &[&str]) -> Vec<Arc<T>> {
    let raw = texts.iter().map(|text| serde_json::from_str::<RawJson>(text).unwrap());
    let (read, bad) = T::read_all(raw);
    assert_eq!(bad, []);
    read
}

fn record(tools: &[&str]) -> ListingRecord {
    let abilities = json!({ "tools": { "listChanged": true }, "extensions": { "x/y": {} } });
    ListingRecord {
        server: "calc".to_owned(),
        era: Era::Modern,
        is_old: true,
        listing: Arc::new(Listing {
            tools: definitions::<ToolDefinition>(tools),
            resources: definitions::<Resource>(&[r#"{"uri":"a://b","name":"n","x":1e2}"#]),
            templates: definitions::<ResourceTemplate>(&[
                r#"{"uriTemplate":"a://{b}","name":"n"}"#,
            ]),
            prompts: definitions::<Prompt>(&[r#"{"name":"p","arguments":[]}"#]),
            capabilities: serde_json::from_value(abilities).unwrap(),
            instructions: Some("Use it.\n\"Well\" \u{0}\u{2028}.".to_owned()),
            violations: BTreeMap::new(),
        }),
    }
}

fn parts(
    record: &ListingRecord,
) -> (String, (Era, bool), Vec<RawJson>, ServerCapabilities, Option<String>) {
    let Listing {
        tools,
        resources,
        templates,
        prompts,
        capabilities: abilities,
        instructions,
        violations: _,
    } = &*record.listing;
    let tools = tools.iter().map(|tool| &tool.raw);
    let resources = resources.iter().map(|resource| &resource.raw);
    let templates = templates.iter().map(|template| &template.raw);
    let prompts = prompts.iter().map(|prompt| &prompt.raw);
    let raw = tools.chain(resources).chain(templates).chain(prompts).cloned();
    let abilities = abilities.clone();
    (
        record.server.clone(),
        (record.era, record.is_old),
        raw.collect(),
        abilities,
        instructions.clone(),
    )
}

#[track_caller]
fn comes_back(record: &ListingRecord) {
    let read = ListingRecord::decode(&record.encode().unwrap()).unwrap();
    assert_eq!(parts(&read), parts(record));
}

#[test]
fn record_round_trips_byte_for_byte() {
    comes_back(&record(&[
        r#"{"name":"add","inputSchema":{"type":"object"},"x-own":1.50,"big":123456789012345678901}"#,
        "{ \"name\" : \"s\u{e4}ge\",\n\t\"inputSchema\" : { \"type\" :\"object\" } ,\r\n \"name2\":\"\\u0073\\/\" }",
        // A duplicate key, and a number outside the range of every type.
        r#"{"name":"odd","inputSchema":{"type":"object"},"y":1,"y":2,"z":1e999}"#,
    ]));
    comes_back(&record(&[]));
}

/// Earlier releases stored malformed entries.
#[test]
fn malformed_entries_of_a_record_are_repaired() {
    let text = String::from_utf8(record(&[]).encode().unwrap()).unwrap();
    let body = text.split_once('\n').unwrap().1;
    let own = r#"{"name":"a","inputSchema":{},"description":null}"#;
    let body = body.replacen(r#""tools":[]"#, &format!(r#""tools":[{own}]"#), 1);
    let earlier = format!("{MAGIC} {VERSION} {}\n{body}", checksum(body.as_bytes()));
    let read = ListingRecord::decode(earlier.as_bytes()).unwrap();
    let tool = read.listing.tools[0].raw.as_str().into_owned();
    assert_eq!(tool, r#"{"name":"a","inputSchema":{"type":"object"}}"#);
}

#[test]
fn record_without_is_old_is_decoded() {
    let text = String::from_utf8(record(&[]).encode().unwrap()).unwrap();
    let body = text.split_once('\n').unwrap().1.replacen(r#""is_old":true,"#, "", 1);
    let earlier = format!("{MAGIC} {VERSION} {}\n{body}", checksum(body.as_bytes()));
    assert_ne!(earlier, text);
    let read = ListingRecord::decode(earlier.as_bytes()).unwrap();
    assert_eq!((read.era, read.is_old), (Era::Modern, false));
}

#[test]
fn deeply_nested_definition_round_trips() {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let schema = format!(r#"{{"name":"deep","inputSchema":{{"type":"object","default":{deep}}}}}"#);
    comes_back(&record(&[&schema]));
}

proptest! {
    #[test]
    fn arbitrary_definition_text_round_trips(
        name in "\\PC{1,20}",
        description in any::<String>(),
        space in prop::collection::vec(prop::sample::select(vec![" ", "\n", "\t", "\r"]), 0..5)
            .prop_map(|space| space.concat()),
    ) {
        let name = serde_json::to_string(&name).unwrap();
        let description = serde_json::to_string(&description).unwrap();
        let tool = format!(
            "{{{space}\"name\":{name},{space}\"description\":{description}{space},\"inputSchema\":{{\"type\":\"object\"}}}}"
        );
        comes_back(&record(&[&tool]));
    }
}

#[test]
fn record_truncated_anywhere_is_damaged() {
    let text = record(&[r#"{"name":"add","inputSchema":{"type":"object"}}"#]).encode().unwrap();
    for end in 0..text.len() {
        assert_eq!(
            ListingRecord::decode(&text[..end]).unwrap_err(),
            ListingRecordError::Damaged,
            "{end}"
        );
    }
}

#[test]
fn record_with_any_byte_changed_is_rejected() {
    let text = record(&[r#"{"name":"add","inputSchema":{"type":"object"}}"#]).encode().unwrap();
    for at in 0..text.len() {
        for change in [0x01, 0x20, 0x80] {
            let mut text = text.clone();
            text[at] ^= change;
            assert!(ListingRecord::decode(&text).is_err(), "{at}");
        }
    }
}

#[test]
fn malformed_record_is_reported_as_damaged() {
    let with_sum = |body: &str| format!("{MAGIC} {VERSION} {}\n{body}", checksum(body.as_bytes()));
    let text = String::from_utf8(record(&[]).encode().unwrap()).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    let mut long = text.clone();
    long.push('x');
    let others = [
        String::new(),
        "\n".to_owned(),
        "{}".to_owned(),
        "\0".repeat(4096),
        long,
        with_sum(""),
        with_sum("{}"),
        with_sum("[]"),
        // Well-formed, but never written.
        with_sum(&body.replace("modern", "future")),
        with_sum(&body.replace(r#""tools":["#, r#""tools":[{"name":""},"#)),
        with_sum(&body.replace(r#""name":"p""#, r#""name":7"#)),
    ];
    for other in others {
        assert_eq!(
            ListingRecord::decode(other.as_bytes()).unwrap_err(),
            ListingRecordError::Damaged,
            "{other}"
        );
    }
}

#[test]
fn record_of_another_version_is_not_damaged() {
    let text = String::from_utf8(record(&[]).encode().unwrap()).unwrap();
    for version in ["0", "2", "17"] {
        let other = text.replacen(&format!("{MAGIC} {VERSION}"), &format!("{MAGIC} {version}"), 1);
        assert_eq!(
            ListingRecord::decode(other.as_bytes()).unwrap_err(),
            ListingRecordError::OtherVersion
        );
    }
    assert_eq!(
        ListingRecord::decode(format!("{MAGIC} 2 in another form\n\u{0}").as_bytes()).unwrap_err(),
        ListingRecordError::OtherVersion
    );
}
