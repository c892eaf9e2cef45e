use pretty_assertions::assert_eq;
use proptest::prelude::{Strategy, any, prop, proptest};
use serde_json::json;

use super::*;
use crate::catalog::{Prompt, Resource, Template, ToolDefinition};

fn definitions<T: Definition>(texts: &[&str]) -> Vec<Arc<T>> {
    let raw = texts.iter().map(|text| serde_json::from_str::<Raw>(text).unwrap());
    let (read, bad) = T::read_all(raw);
    assert_eq!(bad, []);
    read
}

fn record(tools: &[&str]) -> Record {
    let abilities = json!({ "tools": { "listChanged": true }, "extensions": { "x/y": {} } });
    Record {
        server: "calc".to_owned(),
        era: Era::Modern,
        is_old: true,
        listing: Arc::new(Listing {
            tools: definitions::<ToolDefinition>(tools),
            resources: definitions::<Resource>(&[r#"{"uri":"a://b","name":"n","x":1e2}"#]),
            templates: definitions::<Template>(&[r#"{"uriTemplate":"a://{b}"}"#]),
            prompts: definitions::<Prompt>(&[r#"{"name":"p","arguments":[]}"#]),
            abilities: serde_json::from_value(abilities).unwrap(),
            instructions: Some("Use it.\n\"Well\" \u{0}\u{2028}.".to_owned()),
        }),
    }
}

/// The parts of a record that can be compared.
fn parts(record: &Record) -> (String, (Era, bool), Vec<Raw>, Abilities, Option<String>) {
    let Listing { tools, resources, templates, prompts, abilities, instructions } =
        &*record.listing;
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
fn comes_back(record: &Record) {
    let read = Record::decode(&record.encode().unwrap()).unwrap();
    assert_eq!(parts(&read), parts(record));
}

#[test]
fn a_record_comes_back_byte_for_byte() {
    comes_back(&record(&[
        r#"{"name":"add","inputSchema":{"type":"object"},"x-own":1.50,"big":123456789012345678901}"#,
        "{ \"name\" : \"s\u{e4}ge\",\n\t\"inputSchema\" : { } ,\r\n \"name2\":\"\\u0073\\/\" }",
        // Half of a character, keys twice, and a number that no type holds.
        r#"{"name":"odd","inputSchema":{},"x":"\ud800","y":1,"y":2,"z":1e999}"#,
    ]));
    comes_back(&record(&[]));
}

#[test]
fn a_record_that_says_nothing_of_the_transport_is_read() {
    let text = String::from_utf8(record(&[]).encode().unwrap()).unwrap();
    let body = text.split_once('\n').unwrap().1.replacen(r#""is_old":true,"#, "", 1);
    let earlier = format!("{MAGIC} {VERSION} {}\n{body}", checksum(body.as_bytes()));
    assert_ne!(earlier, text);
    let read = Record::decode(earlier.as_bytes()).unwrap();
    assert_eq!((read.era, read.is_old), (Era::Modern, false));
}

#[test]
fn what_is_nested_deeply_comes_back() {
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let schema = format!(r#"{{"name":"deep","inputSchema":{{"default":{deep}}}}}"#);
    comes_back(&record(&[&schema]));
}

proptest! {
    #[test]
    fn any_text_in_a_definition_comes_back(
        name in "\\PC{1,20}",
        description in any::<String>(),
        space in prop::collection::vec(prop::sample::select(vec![" ", "\n", "\t", "\r"]), 0..5)
            .prop_map(|space| space.concat()),
    ) {
        let name = serde_json::to_string(&name).unwrap();
        let description = serde_json::to_string(&description).unwrap();
        let tool = format!(
            "{{{space}\"name\":{name},{space}\"description\":{description}{space},\"inputSchema\":{{}}}}"
        );
        comes_back(&record(&[&tool]));
    }
}

#[test]
fn a_record_that_is_cut_anywhere_is_damaged() {
    let text = record(&[r#"{"name":"add","inputSchema":{}}"#]).encode().unwrap();
    for end in 0..text.len() {
        assert_eq!(Record::decode(&text[..end]).unwrap_err(), Unusable::Damaged, "{end}");
    }
}

#[test]
fn a_record_with_any_byte_changed_is_not_used() {
    let text = record(&[r#"{"name":"add","inputSchema":{}}"#]).encode().unwrap();
    for at in 0..text.len() {
        for change in [0x01, 0x20, 0x80] {
            let mut text = text.clone();
            text[at] ^= change;
            assert!(Record::decode(&text).is_err(), "{at}");
        }
    }
}

#[test]
fn what_is_no_record_is_damaged() {
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
        // Well-formed, and yet nothing that is ever written.
        with_sum(&body.replace("modern", "future")),
        with_sum(&body.replace(r#""tools":["#, r#""tools":[{"name":""},"#)),
        with_sum(&body.replace(r#""name":"p""#, r#""name":7"#)),
    ];
    for other in others {
        assert_eq!(Record::decode(other.as_bytes()).unwrap_err(), Unusable::Damaged, "{other}");
    }
}

#[test]
fn a_record_of_another_version_is_told_from_a_damaged_one() {
    let text = String::from_utf8(record(&[]).encode().unwrap()).unwrap();
    for version in ["0", "2", "17"] {
        let other = text.replacen(&format!("{MAGIC} {VERSION}"), &format!("{MAGIC} {version}"), 1);
        assert_eq!(Record::decode(other.as_bytes()).unwrap_err(), Unusable::OtherVersion);
    }
    assert_eq!(
        Record::decode(format!("{MAGIC} 2 in another form\n\u{0}").as_bytes()).unwrap_err(),
        Unusable::OtherVersion
    );
}
